// From the explanation of a URL to a change that is in force: the change is tried on recent requests, its figures are shown, and after
// Apply the same URL is a hit.
import assert from 'node:assert/strict';
import { audit, confirm, isWithin, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, until } from './larder.mjs';

testPage({
  prepare: async () => {
    // Without it, pages without a lifetime are not stored.
    larder.configure(larder.configuration().replace('cache = { default_ttl = "60s" }\n', ''));
  },
});

const percent = (text, name) => Number(new RegExp(`${name}\\s+([\\d.]+) %`).exec(text)?.[1]);

it('explains a page that is not cached, by Ctrl-K from the overview', async () => {
  // Of another page each time: one that the configuration before it stored is a hit for a minute.
  let tries = 0;
  await until('the file is in force', async () => {
    tries += 1;
    await ask(`${larder.site}/silent/try-${tries}`);
    return !(await ask(`${larder.site}/silent/try-${tries}`)).cache.includes('hit');
  });
  for (let times = 0; times < 12; times += 1) await ask(`${larder.site}/silent/menu`);
  await page.keyboard.press('Control+k');
  await page.locator('dialog').waitFor();
  // The field had the 108 pixels of a method.
  const [field, button] = [await page.locator('dialog .ask input').boundingBox(), await page.locator('dialog .ask .primary').boundingBox()];
  assert.ok(field.width > 2 * button.width, `the field has ${field.width} pixels, the button ${button.width}`);
  await page.keyboard.type('/silent/menu');
  await page.keyboard.press('Enter');
  await page.locator('[data-verdict]', { hasText: /^Not cached/ }).waitFor();
  const change = page.locator('.changes li').first();
  assert.match(await change.locator('.diff .new').first().innerText(), /default_ttl/);
  // The proposal is long, and is read before it is reviewed.
  for (const width of [390, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    assert.equal(await change.locator('.diff').first().evaluate((of) => of.scrollWidth > of.clientWidth), false, `cut at ${width}`);
  }
  assert.deepEqual(await audit(page), []);
});

it('shows no answer about another URL while the next one is awaited', async () => {
  let release;
  const held = new Promise((resolve) => (release = resolve));
  await page.route('**/api/v1/explain', async (route) => (await held, route.continue()));
  const field = page.getByRole('textbox', { name: 'URL, path, tag or request id' });
  await field.fill('/silent/other');
  await field.press('Enter');
  await page.locator('.told-all').waitFor({ state: 'detached' });
  release();
  await page.locator('.told-all', { hasText: '/silent/other' }).waitFor();
  await page.unroute('**/api/v1/explain');
  await field.fill('/silent/menu');
  await field.press('Enter');
  await page.locator('.told-all', { hasText: '/silent/menu' }).waitFor();
});

it('tries the change on recent requests, and shows what it would do, before Apply', async () => {
  await page.locator('.changes li').first().getByRole('button', { name: 'Review this change' }).click();
  const trial = page.locator('dialog .trial');
  await trial.waitFor();
  const text = await trial.innerText();
  assert.match(text, /On the last [\d,]+ requests/);
  assert.ok(percent(text, 'Predicted') > percent(text, 'Hit ratio now'), text);
  assert.match(text, /\+[\d.]+ points/);
  assert.equal(await trial.locator('.trial-danger').count(), 0, 'a page for all clients');
  for (const width of [390, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    assert.ok(await isWithin(), `${width}`);
  }
  assert.deepEqual(await audit(page), []);
});

it('puts the change in force, and the same URL is a hit', async () => {
  await confirm(page.locator('dialog'), 'Apply');
  await page.locator('dialog').waitFor({ state: 'detached' });
  assert.match(larder.configuration(), /default_ttl/);
  await until('it is a hit', async () => (await ask(`${larder.site}/silent/menu`)).cache.includes('hit'));
  await page.keyboard.press('Control+k');
  await page.locator('dialog').waitFor();
  await page.keyboard.type('/silent/menu');
  await page.keyboard.press('Enter');
  await page.locator('[data-verdict=hit]').waitFor();
  assert.deepEqual([seen.console, seen.elsewhere], [[], []]);
});

it('says of a change that is in the file already that it waits for the restart', async () => {
  const text = larder.configuration();
  larder.configure(text.replace('size = "64MiB" # what', 'size = "128MiB" # what'));
  await page.locator('.pending').waitFor();
  // The server proposes such a change after evictions only: it is added to its answer.
  await page.route('**/api/v1/explain', async (route) => {
    const answer = await route.fetch();
    const json = await answer.json();
    json.summary.changes = [{ by: 'configuration', sentence: 'RAM is too small.', settings: ['cache.ram.size = "128MiB"'], restart: true, edits: [], diff: [] }];
    await route.fulfill({ response: answer, json });
  });
  await page.goto(`${larder.admin}/#/explain?url=${encodeURIComponent(`${larder.site}/pages/pending`)}`);
  const change = page.locator('.changes li');
  await change.getByText('It is saved, and waits for the restart.').waitFor();
  await change.getByRole('link', { name: 'the restart' }).click();
  await page.locator('main h1', { hasText: 'Configuration' }).waitFor();
  await page.unroute('**/api/v1/explain');
  larder.configure(text);
  await page.locator('.pending').waitFor({ state: 'detached' });
});

it('names the rule that refuses a client, and explains the request of another client', async () => {
  const route = `[[site.route]]\nname = "office"\npath = "/office"\nproxy = { to = ["http://127.0.0.1:9"] }\naccess.allow = ["10.0.0.0/8"]\n\n[[site.route]]\nname = "api"`;
  larder.configure(larder.configuration().replace('[[site.route]]\nname = "api"', route));
  await until('the route is in force', async () => (await fetch(`${larder.site}/office`)).status === 403);
  await page.goto(`${larder.admin}/#/explain?url=${encodeURIComponent(`${larder.site}/office`)}`);
  const because = page.locator('.because.by-rule');
  await because.waitFor();
  assert.match(await because.innerText(), /site\.route\.access\.allow at .*larder\.toml:\d+ decides, before the cache\. It admits clients in 10\.0\.0\.0\/8\. The explained client is 127\.0\.0\.1/);
  assert.match(await because.locator('a.link').getAttribute('href'), /#\/config\?part=text&file=.*&line=\d+/);
  await page.locator('.ask-fields summary').click();
  const client = page.getByLabel('Client address');
  for (const width of [390, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    assert.ok(await isWithin(), `${width}`);
  }
  await client.fill('nonsense');
  await client.press('Enter');
  await page.locator('.failed', { hasText: 'use the IP address of a client' }).waitFor();
  await client.fill('10.1.2.3');
  await client.press('Enter');
  await page.locator('[data-verdict]:not([data-verdict=refused])').waitFor();
  assert.match(page.url(), /client=10\.1\.2\.3/);
  assert.deepEqual(await audit(page), []);
  assert.deepEqual([seen.console, seen.elsewhere], [[], []]);
});

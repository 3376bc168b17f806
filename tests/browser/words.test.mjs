// The words of the views: terms of Cache-Status are words, sums have a noun, figures a unit and a time, and on a phone the path of a URL is seen.
import assert from 'node:assert/strict';
import { go, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, until } from './larder.mjs';

testPage({
  opened: async () => {
    await page.goto(`${larder.admin}/#/traces`);
    for (const route of ['pages', 'api']) await page.getByLabel(`Sampling of ${route}`).selectOption({ label: 'Every request' });
    await page.locator('.toast', { hasText: 'Sampling of api: every request.' }).waitFor();
    for (let times = 0; times < 3; times += 1) {
      for (const path of ['/pages/one', '/private/basket', '/broken/oven', '/api/items']) await ask(larder.site + path);
    }
  },
});

const sub = () => page.locator('.head-sub').innerText();

it('has words for what the cache did, in lists and in the details of a request', async () => {
  for (const view of ['traces', 'live']) {
    await go(view);
    await until('the requests are there', async () => (await page.locator(`.${view} tbody tr`).count()) >= 3);
    assert.doesNotMatch(await page.locator(`.${view} tbody`).innerText(), /uri-miss/, view);
    await page.locator(`.${view} tbody tr`, { hasText: '/private/basket' }).first().locator('[data-row]').click();
    const cache = page.locator('dialog dl div', { has: page.locator('dt:text-is("Cache")') }).locator('dd');
    assert.equal(await cache.innerText(), 'miss', view);
    await page.keyboard.press('Escape');
  }
});

it('names what a sum counts, and the time that it is of', async () => {
  await go('live');
  await until('the stream is open', async () => /^[\d.]+ requests per second, \d+ seen/.test(await sub()));
  for (const [by, form] of [['requests', /^[\d,]+ requests since \d{4}-/], ['misses', /^[\d,]+ misses since \d{4}-/], ['bytes', /^[\d.,]+ [KMG]?i?B sent since \d{4}-/], ['origin_time', /^[\d.]+ \S+ of origin time since \d{4}-/]]) {
    await go(`top?by=${by}`);
    await until(`the sum of ${by} is there`, async () => form.test(await sub()));
  }
});

it('leads from each view to a text about it, and to the reference of a key', async () => {
  for (const [view, name] of [['overview', 'Overview'], ['objects', 'Objects'], ['explain', 'Explain'], ['why', 'Why'], ['live', 'Live'], ['top', 'Top'], ['traces', 'Traces'], ['config', 'Configuration'], ['access', 'Access']]) {
    await go(view);
    await page.locator('main .help-link').click();
    await page.locator('section.help h2', { hasText: name }).first().waitFor();
    assert.ok((await page.locator('section.help p').first().innerText()).length > 40, `${view} has a text`);
  }
  const first = page.locator('[data-key]').first();
  await page.getByLabel('Search keys').fill('key.sort');
  await until('the key is found by a part of its name', async () => (await first.locator('h3').innerText()).endsWith('key.sort'));
  await page.getByLabel('Search keys').fill('no-such-key');
  await page.getByText('No key has this name or word.').waitFor();
});

it('shows the path of each URL on a phone, and what is asked of Explain', async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  await go('top');
  const row = page.locator('.top tbody [data-row]', { hasText: '/pages/one' });
  await row.waitFor();
  assert.equal(await row.locator('.host').isVisible(), false, 'the host would leave no room for it');
  assert.equal(await row.evaluate((of) => of.scrollWidth > of.clientWidth), false, 'nothing of it is cut');
  await go(`explain?url=${encodeURIComponent(`${larder.site}/private/basket`)}`);
  const { width } = await page.getByLabel('URL, path, tag or request id').boundingBox();
  assert.ok(width > 250, `the field is ${width} pixels wide`);
});

it('shows the hosts in Top on a phone, where the URLs have several', async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  // More than any other URL, so that it is in the list.
  for (let times = 0; times < 40; times += 1) await ask(`${larder.site}/pages/two`, { Host: 'second.example' });
  await go('top');
  const row = page.locator('.top tbody [data-row]', { hasText: 'second.example' });
  await row.waitFor();
  assert.equal(await row.locator('.host').isVisible(), true, 'the host is shown');
  assert.equal(await row.locator('.path').innerText(), '/pages/two');
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth), true, 'nothing is wider than the window');
});

it('begins each line of tiers where the view begins', async () => {
  await go('overview');
  await page.locator('.tiers:not(.loading) .tier').first().waitFor();
  for (const width of [390, 820, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    const view = (await page.locator('main h1').boundingBox()).x;
    const lines = new Map();
    for (const it of await page.locator('.tier b').all()) {
      const { x, y } = await it.boundingBox();
      lines.set(Math.round(y), Math.min(x, lines.get(Math.round(y)) ?? Infinity));
    }
    for (const x of lines.values()) assert.ok(Math.abs(x - view) < 1.5, `at ${width}: ${x}, the view at ${view}`);
  }
});

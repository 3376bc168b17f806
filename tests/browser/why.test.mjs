// The view Why: each reason of a real larder with its words, its numbers, its example in Explain, and the change that may help.
import assert from 'node:assert/strict';
import { audit, go, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, until } from './larder.mjs';

testPage();

const row = (words) => page.locator('.why tbody tr', { has: page.locator(`b:text-is("${words}")`) });

it('has nothing to tell before a request', async () => {
  await go('why');
  await page.locator('.empty').waitFor();
});

it('shows the reasons of requests, their class, and what helps', async () => {
  for (let times = 0; times < 3; times += 1) {
    await ask(`${larder.site}/page/one`);
    await ask(`${larder.site}/private/one`);
    await ask(`${larder.site}/api/silent`);
  }
  await ask(`${larder.site}/silent/one`);
  await row('no store').waitFor();
  await until('three requests had no-store', async () => (await row('no store').locator('td.num').first().innerText()) === '3');
  assert.match(await row('no store').innerText(), /not cached because of the response/);
  assert.equal(await row('no store').locator('.why-change').count(), 0, 'what is private has no remedy');
  const first = row('first request').filter({ hasText: /\/(page|silent)\/one/ });
  assert.match(await first.innerText(), /needed once/);
  const whole = await page.locator('.why-whole').boundingBox();
  const parts = await page.locator('.why-whole span').evaluateAll((all) => all.reduce((sum, it) => sum + it.getBoundingClientRect().width, 0));
  assert.ok(parts > whole.width * 0.95, 'the parts are the whole');
  assert.match(await page.locator('.why-whole').getAttribute('aria-label'), /Hits \d.*By the response \d/);
});

it('names the most frequent reasons in Top, each a link to its class', async () => {
  await go('top?by=requests');
  await page.locator('.top tbody tr').first().waitFor();
  assert.equal(await page.locator('.top-reasons').count(), 0, 'hits have none');
  await page.getByRole('button', { name: 'Misses' }).click();
  const reasons = page.locator('.top-reasons a');
  await reasons.first().waitFor();
  assert.match((await reasons.allInnerTexts()).join(', '), /no store \d+.*%/);
  assert.deepEqual(await audit(page), []);
  await reasons.filter({ hasText: 'no store' }).click();
  await page.waitForURL(/#\/why\?class=by-response/);
  await until('one class is shown', async () => (await page.locator('.why tbody tr').count()) === 1);
  await go('why');
  await row('first request').first().waitFor();
});

it('shows one class, and one route', async () => {
  await page.getByRole('button', { name: /^By the response/ }).click();
  assert.equal(await page.locator('.why tbody tr').count(), 1);
  await page.getByRole('button', { name: /^By the response/ }).click();
  await page.getByLabel('Route').selectOption('api');
  assert.equal(await row('no store').count(), 0);
  await page.getByLabel('Route').selectOption('Every route');
});

it('is usable at every width, light and dark', async () => {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const width of [390, 820, 1440]) {
      await page.setViewportSize({ width, height: 900 });
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, `${width}`);
      if (process.env.PICTURES) await page.screenshot({ path: `${process.env.PICTURES}/why-${width}-${colorScheme}.png` });
    }
    assert.deepEqual(await audit(page), [], colorScheme);
  }
});

it('gives advice with its difference, and two clicks put it in force', async () => {
  await page.setViewportSize({ width: 1440, height: 900 });
  for (let times = 0; times < 14; times += 1) await ask(`${larder.site}/page/many?utm_source=${times}`);
  await go('why');
  const finding = page.locator('.findings details', { hasText: 'parameters of analytics' });
  assert.notEqual(await finding.getAttribute('open'), null, 'the finding with the most requests is open');
  assert.match(await finding.innerText(), /14 requests within the last [\d.]+ \S+, [\d.]+ \S+ of origin time: first requests/);
  assert.match(await finding.locator('.diff .new').first().innerText(), /utm_\*/);
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    for (const width of [390, 1440]) {
      await page.setViewportSize({ width, height: 900 });
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, `${width}`);
      if (process.env.PICTURES) await page.screenshot({ path: `${process.env.PICTURES}/advice-${width}-${colorScheme}.png` });
    }
    assert.deepEqual(await audit(page), [], colorScheme);
  }
  await finding.getByRole('button', { name: 'Review this change' }).click();
  const dialog = page.locator('dialog');
  await dialog.waitFor();
  assert.match(await dialog.innerText(), /utm_\*/);
  // The pages here have the time in them: the trial cannot know that the parameter does not matter, and asks.
  await dialog.locator('.trial-danger', { hasText: 'differed between requests' }).waitFor();
  assert.equal(await dialog.locator('button.primary').isEnabled(), false);
  await dialog.getByRole('checkbox').check();
  await dialog.locator('button.primary').click();
  await dialog.waitFor({ state: 'detached' });
  await ask(`${larder.site}/page/many?utm_source=a`);
  assert.match((await ask(`${larder.site}/page/many?utm_source=b`)).cache, /; hit/);
});

it('answers a path from every view by Ctrl-K', async () => {
  await go('top');
  await page.keyboard.press('Control+k');
  const dialog = page.locator('dialog');
  await dialog.waitFor();
  assert.deepEqual(await audit(page), []);
  await page.keyboard.type('/private/one');
  await page.keyboard.press('Enter');
  await page.locator('[data-verdict]', { hasText: 'Not cached: the response has no-store.' }).waitFor();
  assert.match(await page.locator('.because').innerText(), /^That is right/);
  assert.equal(await page.locator('.changes').count(), 0, 'nothing is proposed for what is private');
  assert.equal(await page.locator('.rules').first().isVisible(), false, 'the rules are folded');
  await page.locator('.how summary').click();
  assert.equal(await page.locator('.rules').first().isVisible(), true);
  for (const width of [390, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false, `${width}`);
    if (process.env.PICTURES) await page.screenshot({ path: `${process.env.PICTURES}/explain-${width}.png` });
  }
  assert.deepEqual(await audit(page), []);
  // The line of a setting, marked in the text.
  await page.locator('.rule-where a, .parts a').first().click();
  await until('the line is marked', async () =>
    page.evaluate(() => {
      const box = document.activeElement;
      return box?.tagName === 'TEXTAREA' && box.selectionEnd > box.selectionStart;
    }),
  );
});

it('leads to the explanation of an example, counted since the change of its route', async () => {
  await ask(`${larder.site}/private/one`);
  await go('why');
  await page.getByText(/Counted since their settings of the cache changed: pages \(/).waitFor();
  await row('no store').locator('.why-example button').click();
  await page.waitForURL(/#\/explain\?url=.*private/);
  await page.locator('.verdict').waitFor();
});

it('has the words in the live stream as well', async () => {
  await go('live');
  await until('the stream is open', async () => /per second/.test(await page.locator('.head-sub').innerText()));
  await until('a request is shown', async () => {
    await ask(`${larder.site}/private/two`);
    return (await page.locator('.live .cache:text-is("no store")').count()) > 0;
  });
});

it('has logged no error, and asked no other server', () => {
  assert.deepEqual([seen.console, seen.elsewhere], [[], []]);
});

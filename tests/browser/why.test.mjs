// The view Why: each reason of a real larder with its words, its numbers, its example in Explain, and the change that may help.
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { audit, open } from './browser.mjs';
import { ask, start, until } from './larder.mjs';

let larder, browser, page, seen;

before(async () => {
  larder = await start();
  ({ browser, page, seen } = await open(larder.admin));
  await page.goto(larder.link);
  await page.locator('main h1').waitFor();
});

after(async () => {
  await browser?.close();
  await larder?.stop();
});

const it = (what, run) => test(what, { timeout: 600_000 }, run);
const go = async (view) => {
  await page.goto(`${larder.admin}/#/${view}`);
  await page.locator('main h1').waitFor();
};
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
  assert.match(await row('no store').innerText(), /rightly not cached/);
  assert.equal(await row('no store').locator('.why-change').count(), 0, 'what is private has no remedy');
  const first = row('first request').filter({ hasText: '/page/one' });
  assert.match(await first.innerText(), /needed once/);
  const whole = await page.locator('.why-whole').boundingBox();
  const parts = await page.locator('.why-whole span').evaluateAll((all) => all.reduce((sum, it) => sum + it.getBoundingClientRect().width, 0));
  assert.ok(parts > whole.width * 0.95, 'the parts are the whole');
  assert.match(await page.locator('.why-whole').getAttribute('aria-label'), /Hits \d.*Rightly not cached \d/);
});

it('shows one class, and one route', async () => {
  await page.getByRole('button', { name: /^Rightly not cached/ }).click();
  assert.equal(await page.locator('.why tbody tr').count(), 1);
  await page.getByRole('button', { name: /^Rightly not cached/ }).click();
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

it('leads to the explanation of an example', async () => {
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

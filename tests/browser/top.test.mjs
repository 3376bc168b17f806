// The heaviest URLs and clients: each leads to what it is about.
import assert from 'node:assert/strict';
import { audit, go, it, larder, page, testPage } from './browser.mjs';
import { load, until } from './larder.mjs';

let clients;

testPage({
  prepare: async () => {
    clients = load(larder.site);
  },
  ends: async () => {
    await clients?.stop();
  },
});

it('lists the clients, each with the way to its requests', async () => {
  await go('top');
  await page.getByRole('button', { name: 'Clients' }).click();
  const row = page.locator('tbody tr', { hasText: '127.0.0.1' });
  for (const order of ['Bytes', 'Misses', 'Requests']) {
    await page.getByRole('group', { name: 'By' }).getByRole('button', { name: order }).click();
    await page.getByRole('columnheader', { name: order }).waitFor();
    await row.waitFor();
  }
  assert.deepEqual(await page.getByRole('columnheader').allInnerTexts(), ['#', 'Client', 'Requests', 'Share', 'Maximum error']);
  assert.deepEqual(await audit(page), []);
  for (const [width, height] of [[390, 844], [820, 1180], [1440, 900]]) {
    await page.setViewportSize({ width, height });
    await until(`nothing is wider than ${width}`, () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    if (process.env.PICTURES) await page.screenshot({ path: `${process.env.PICTURES}/top-clients-${width}.png` });
  }
  await page.reload();
  await row.waitFor();
  await row.getByRole('button').click();
  await page.waitForURL(/#\/live/);
  assert.equal(new URLSearchParams(new URL(page.url()).hash.split('?')[1]).get('filter'), 'client == "127.0.0.1"');
  await page.locator('tbody tr').first().waitFor();
});

// The dialog of purges: it counts by tier before, confirms everything with its size, and shows the counts afterwards.
import assert from 'node:assert/strict';
import { audit, dialog, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, until } from './larder.mjs';

testPage();

const send = () => dialog().locator('.form-end button').last();
const tier = (name) => dialog().locator('.receipts tr', { has: page.locator(`th:text-is("${name}")`) });
const fill = (paths) => Promise.all(paths.map((path) => ask(`${larder.site}${path}`)));
const stats = async () => JSON.parse((await ask(`${larder.admin}/cache/stats`, { Authorization: `Bearer ${larder.token()}` })).body);
const onDisk = (count) => until(`${count} are on disk`, async () => (await stats()).counters.disk_writes >= count);
const openDialog = async () => {
  await page.goto(`${larder.admin}/#/overview`);
  await page.goto(`${larder.admin}/#/objects`);
  await page.getByRole('button', { name: 'Purge …' }).click();
};

it('counts before a purge, and shows the receipts of each tier after it', async () => {
  await fill(['/tagged/1', '/tagged/2', '/tagged/3', '/page/1']);
  await onDisk(4);
  await openDialog();
  await dialog().getByRole('button', { name: 'Tag', exact: true }).click();
  await dialog().getByLabel('Tag').fill('kitchen');
  assert.equal(await send().innerText(), 'Preview');
  await send().click();
  await dialog().locator('.receipts', { hasText: 'before the purge' }).waitFor();
  assert.match(await tier('ram').innerText(), /3 responses, 2\.\d+ KiB/);
  assert.match(await tier('disk').innerText(), /3 responses/);
  assert.equal(await send().innerText(), 'Purge 3 in RAM, 3 on disk');
  assert.match((await ask(`${larder.site}/tagged/1`)).cache, /hit/, 'a preview purges nothing');
  // Counts are of what was entered: after a change there are none.
  await dialog().getByLabel('Tag').fill('kitchens');
  assert.equal(await send().innerText(), 'Preview');
  await dialog().getByLabel('Tag').fill('kitchen');
  assert.equal(await send().innerText(), 'Purge 3 in RAM, 3 on disk');
  await send().click();
  await dialog().locator('.receipts', { hasText: 'Purged tag' }).waitFor();
  assert.match(await tier('ram').innerText(), /3 responses removed/);
  assert.match(await tier('disk').innerText(), /3 responses removed/);
  assert.doesNotMatch((await ask(`${larder.site}/tagged/1`)).cache, /; hit/);
});

it('says that nothing matches, and why', async () => {
  await openDialog();
  await dialog().getByLabel('URL').fill('http://elsewhere.example/page/1');
  await page.keyboard.press('Enter');
  await dialog().locator('[data-hint]').waitFor();
  assert.match(await tier('ram').innerText(), /0 responses/);
  assert.match(await dialog().locator('[data-hint]').innerText(), /The cache has http:\/\/127\.0\.0\.1:\d+\/page\/1, which is another URL/);
  assert.equal(await send().innerText(), 'Purge 0 in RAM, 0 on disk');
  assert.deepEqual(await audit(page), []);
});

it('confirms everything with its size, and two clicks in a row confirm nothing', async () => {
  await fill(['/page/1', '/page/2']);
  await openDialog();
  await dialog().getByRole('button', { name: 'Everything' }).click();
  let purges = 0;
  page.on('request', (request) => (purges += request.url().endsWith('/api/v1/purge') ? 1 : 0));
  await send().dblclick();
  await dialog().locator('.receipts', { hasText: 'before the purge' }).waitFor();
  const held = Number(/(\d+) responses/.exec(await tier('ram').innerText())[1]);
  assert.ok(held >= 2, `${held}`);
  assert.match(await send().innerText(), new RegExp(`^Purge everything: ${held} in RAM, \\d+ on disk$`));
  assert.match(await send().getAttribute('class'), /danger/);
  assert.equal(purges, 0);
  assert.deepEqual(await audit(page), []);
  await send().click();
  await dialog().locator('.receipts', { hasText: 'Purged everything' }).waitFor();
  assert.equal(purges, 1);
  await send().click();
  await dialog().locator('.receipts', { hasText: 'before the purge' }).waitFor();
  assert.match(await tier('ram').innerText(), /0 responses/);
  assert.match(await tier('disk').innerText(), /0 responses/, 'records of purged responses are not counted');
  assert.match(await dialog().locator('[data-hint]').innerText(), /Nothing is stored/);
});

for (const colorScheme of ['dark', 'light']) {
  for (const [width, height] of [[390, 844], [1440, 900]]) {
    it(`is without findings, ${colorScheme} and ${width} pixels wide`, async () => {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height });
      await fill(['/page/1', '/page/2', '/tagged/1']);
      await openDialog();
      await dialog().getByRole('button', { name: 'Everything' }).click();
      await send().click();
      await dialog().locator('.receipts').waitFor();
      const box = await send().boundingBox();
      assert.ok(box.x >= 0 && box.x + box.width <= width && box.height >= 24, JSON.stringify(box));
      assert.deepEqual(await audit(page), []);
      if (process.env.PICTURES) await page.screenshot({ path: `${process.env.PICTURES}/purge-${width}-${colorScheme}.png` });
    });
  }
}

it('kept the rules of the page', () => {
  assert.deepEqual(seen.console, []);
  assert.deepEqual(seen.elsewhere, []);
});

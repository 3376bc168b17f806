// The live stream: it begins with the latest requests, stands still while a row is aimed at or read, and its filter takes words.
import assert from 'node:assert/strict';
import { audit, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, load, until } from './larder.mjs';

testPage();

const rows = () => page.locator('.live tbody tr');
const urls = () => page.locator('.live tbody .url').allInnerTexts();
const search = () => page.locator('[data-search]');
const fresh = () => page.locator('.fresh button');
const frees = async () => page.mouse.move(300, 5);
const go = async (view) => {
  await frees();
  await page.goto(`${larder.admin}/#/overview`);
  await page.locator('.tiles').waitFor();
  await page.goto(`${larder.admin}/#/${view}`);
  await page.locator('h1:text-is("Live")').waitFor();
};
const opened = () => until('the stream is open', async () => /per second/.test(await page.locator('.head-sub').innerText()));

it('begins with the latest requests, although no page was open', async () => {
  // Fewer than larder keeps in a tick, so that each is kept.
  for (let at = 0; at < 12; at += 1) await ask(`${larder.site}/page/${at % 4}?before=${at}`);
  await ask(`${larder.site}/broken/before`);
  await go('live');
  await until('they are shown', async () => (await rows().count()) >= 13);
  assert.match((await urls())[0], /\/broken\/before/, 'the newest is first');
  assert.equal(await page.locator('[data-seen]').getAttribute('data-seen'), '0', 'they are not counted as new');
  await rows().first().locator('[data-row]').click();
  await page.locator('dialog', { hasText: '/broken/before' }).waitFor();
  await page.getByRole('button', { name: 'Explain this request' }).click();
  await page.locator('[data-verdict]').waitFor();
});

it('says why a request was rejected before its URL was known, with the limit and the client', async () => {
  assert.equal((await ask(`${larder.site}/large`, { 'X-Large': 'w'.repeat(70_000) })).status, 431);
  await go('live');
  const row = rows().filter({ hasText: 'limits.head_size' });
  await row.first().waitFor();
  assert.match(await row.first().innerText(), /431\s+rejected The request head is too large.* \(limits\.head_size\) from 127\.0\.0\.1/);
  await row.first().locator('[data-row]').click();
  await page.locator('dialog', { hasText: 'Rejected request' }).waitFor();
  await page.keyboard.press('Escape');
});

it('explains the URL of a request that larder keeps no more, and says so', async () => {
  // Of an earlier process.
  const gone = { id: '0000000a', of: `${larder.site}/page/1`, method: 'GET' };
  await page.goto(`${larder.admin}/#/explain?${new URLSearchParams(gone)}`);
  await page.locator('.hint', { hasText: 'keeps this request no more' }).waitFor();
  await page.locator('[data-verdict]').waitFor();
  await page.goto(`${larder.admin}/#/explain?id=0000000b`);
  await page.locator('.failed', { hasText: 'no longer recorded' }).waitFor();
});

it('stands still under the pointer, and lets the new ones in afterwards', async () => {
  await go('live');
  await opened();
  await until('rows are there', async () => (await rows().count()) > 3);
  const target = rows().nth(2);
  const aimed = await target.locator('.url').innerText();
  const { x, y } = await target.boundingBox();
  await page.mouse.move(x + 60, y + 8);
  await page.locator('[data-still=true]').waitFor();
  for (let at = 0; at < 7; at += 1) await ask(`${larder.site}/page/new-${at}`);
  await until('they wait', async () => /^7 new$/.test((await fresh().innerText().catch(() => '')).trim()));
  assert.equal(await target.locator('.url').innerText(), aimed, 'no row has moved');
  // The line of the state may have become higher meanwhile.
  const now = await target.boundingBox();
  await page.mouse.click(now.x + 60, now.y + 8);
  await until('the row that was aimed at is open', async () => (await page.locator('dialog h2').allInnerTexts()).some((it) => aimed.endsWith(it.trim())));
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await frees();
  await until('the new ones are there', async () => (await urls())[0].includes('/page/new-6'));
  assert.equal(await fresh().count(), 0);
});

it('stands still while it is scrolled, and while a row has the focus', async () => {
  for (let at = 0; at < 60; at += 1) await ask(`${larder.site}/page/fill-${at}`);
  await go('live');
  await opened();
  await until('the list is long', async () => (await rows().count()) > 50);
  await page.mouse.wheel(0, 600);
  await page.locator('[data-still=true]').waitFor();
  const before = (await urls())[0];
  await ask(`${larder.site}/page/while-scrolled`);
  await fresh().waitFor();
  assert.equal((await urls())[0], before);
  assert.ok((await fresh().boundingBox()).y < 200, 'the button is seen');
  await page.keyboard.press('n');
  await until('the new one is first', async () => (await urls())[0].includes('/page/while-scrolled'));
  await until('it follows again', async () => (await page.locator('[data-still=false]').count()) === 1);
  await page.keyboard.press('ArrowDown');
  await page.locator('[data-still=true]').waitFor();
  await ask(`${larder.site}/page/while-focused`);
  await fresh().waitFor();
  await fresh().focus();
  await page.keyboard.press('Enter');
  await until('the new one is first', async () => (await urls())[0].includes('/page/while-focused'));
});

it('takes words of the URL, and expressions', async () => {
  await go('live');
  await search().fill('before page');
  await page.keyboard.press('Enter');
  await until('those with both words', async () => {
    const all = await urls();
    return all.length === 12 && all.every((it) => it.includes('/page/') && it.includes('before='));
  });
  const group = page.getByRole('group', { name: 'Conditions' });
  assert.equal(await group.locator('[aria-pressed=true]').count(), 2, 'each word is a condition');
  // A condition is added to the words, and removed.
  await group.getByRole('button', { name: 'cache != "hit"' }).click();
  await until('it is an expression', async () => (await search().inputValue()) === 'url contains "before" && url contains "page" && cache != "hit"');
  await until('only misses', async () => (await urls()).length === 12 - (await page.locator('.live .cache.hit').count()) || (await urls()).length > 0);
  for (const name of ['url contains "before"', 'url contains "page"', 'cache != "hit"']) await group.getByRole('button', { name, exact: true }).click();
  await until('there is no filter', async () => (await search().inputValue()) === '');
  await search().fill('status >= 500');
  await page.keyboard.press('Enter');
  await until('those that failed', async () => {
    const all = await page.locator('.live tbody .status').allInnerTexts();
    return all.length > 0 && all.every((it) => it === '503');
  });
  await search().fill('status = 500');
  await page.keyboard.press('Enter');
  await page.locator('.bad-filter').waitFor();
});

it('offers the conditions of a request', async () => {
  await go('live?filter=');
  await until('rows are there', async () => (await rows().count()) > 3);
  await page.locator('.live tbody tr', { hasText: '/broken/before' }).first().locator('[data-row]').click();
  await page.locator('dialog').getByRole('button', { name: 'path == "/broken/before"' }).click();
  await until('it is the filter', async () => (await search().inputValue()) === 'path == "/broken/before"');
  await until('only these', async () => {
    const all = await urls();
    return all.length > 0 && all.every((it) => it.includes('/broken/before'));
  });
});

it('holds no more than 300 requests, however many come', async () => {
  const clients = load(larder.site);
  try {
    await go('live');
    await until('the list is full', async () => (await rows().count()) === 300);
    // Rows move; the table does not.
    const { x, y } = await page.locator('table.live').boundingBox();
    await page.mouse.move(x + 60, y + 100);
    await until('more wait than are kept', async () => Number((await fresh().innerText().catch(() => '0')).replace(/\D/g, '')) > 320);
    await frees();
    await until('they are merged', async () => (await fresh().count()) === 0);
    assert.equal(await rows().count(), 300);
  } finally {
    await clients.stop();
  }
});

for (const colorScheme of ['dark', 'light']) {
  for (const [width, height] of [[390, 844], [1440, 900]]) {
    it(`is without findings, ${colorScheme} and ${width} pixels wide`, async () => {
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await page.setViewportSize({ width, height });
      await go('live');
      await opened();
      await until('rows are there', async () => (await rows().count()) > 20);
      const { x, y } = await page.locator('table.live').boundingBox();
      await page.mouse.move(x + 60, y + 100);
      await ask(`${larder.site}/broken/while-looking`);
      await fresh().waitFor();
      assert.equal(await page.evaluate(() => document.documentElement.scrollWidth > innerWidth), false);
      assert.deepEqual(await audit(page), []);
      if (process.env.PICTURES) await page.screenshot({ path: `${process.env.PICTURES}/live-${width}-${colorScheme}.png` });
    });
  }
}

it('names the hosts on a telephone where the requests are of several', async () => {
  await go('live');
  await opened();
  await search().fill('on-a-phone');
  await page.keyboard.press('Enter');
  await until('nothing is like that', async () => (await rows().count()) === 0);
  await page.setViewportSize({ width: 390, height: 844 });
  const hosts = page.locator('.live .host:visible');
  for (let times = 0; times < 2; times += 1) await ask(`${larder.site}/on-a-phone/${times}`);
  await until('both requests are shown', async () => (await rows().count()) === 2);
  assert.equal(await hosts.count(), 0, 'one host is no news');
  await ask(`${larder.site}/on-a-phone/3`, { Host: 'other.example' });
  await until('the third is shown', async () => (await rows().count()) === 3);
  await until('each has its host', async () => (await hosts.count()) === 3);
  assert.match((await urls())[0], /http:\/\/other\.example/);
  assert.equal(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), true);
  await page.setViewportSize({ width: 1440, height: 900 });
});

it('kept the rules of the page', () => {
  assert.deepEqual(seen.console, []);
  assert.deepEqual(seen.elsewhere, []);
});

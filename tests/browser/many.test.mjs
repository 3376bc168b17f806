// The page of a server with 200 routes: the overview is on one screen with an advice, the worst routes are first, and lists begin with a few rows.
import assert from 'node:assert/strict';
import { audit, go, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, until } from './larder.mjs';

const SITES = 200;
const CLOSED = `
[[site]]
hosts = ["closed.example"]

[[site.route]]
name = "closed"
path = "/*"
access = { deny = ["127.0.0.0/8"] }
proxy = { to = ["http://127.0.0.1:1"] }
`;

testPage({
  sites: SITES,
  prepare: async () => {
    larder.configure(larder.configuration() + CLOSED);
    for (let site = 0; site < SITES; site += 1) await ask(`${larder.site}/silent/page`, { Host: `shop-${site}.example` });
    // Advice is about ten requests at least.
    for (let times = 0; times < 15; times += 1) await ask(`${larder.site}/api/silent/?utm_source=${times}`);
  },
});

const routes = () => page.locator('section:has(> .block-head h2:text("Routes")) tbody tr');

it('has the overview with an advice on one screen', async () => {
  await page.locator('.advice').waitFor();
  for (const [width, height] of [[1440, 900], [2560, 1300]]) {
    await page.setViewportSize({ width, height });
    await until(`the overview is ${height} pixels high`, () => page.evaluate(() => document.querySelector('.tiers').getBoundingClientRect().bottom <= innerHeight));
    assert.ok((await routes().count()) >= 4, `${width}: the worst routes are there`);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
});

it('has a route that refuses most of its requests among the worst', async () => {
  await until('the closed site refuses', async () => (await ask(`${larder.site}/a`, { Host: 'closed.example' })).status === 403);
  for (let times = 0; times < 5; times += 1) await ask(`${larder.site}/a`, { Host: 'closed.example' });
  await until('it is the first', async () => /^closed/.test(await routes().first().innerText()));
  await routes().first().getByRole('link').click();
  await page.waitForURL(/#\/live\?filter=.*closed.*400/);
});

it('begins Why with a few findings and reasons, and shows all on demand', async () => {
  await go('why');
  await page.locator('.why tbody tr').first().waitFor();
  const rows = page.locator('.why tbody tr');
  assert.equal(await rows.count(), 12);
  const height = await page.evaluate(() => document.documentElement.scrollHeight);
  assert.ok(height < 3000, `the view is ${height} pixels high`);
  await page.getByRole('button', { name: /^Show all \d+ reasons$/ }).click();
  assert.ok((await rows.count()) > SITES, `${await rows.count()} reasons`);
});

it('opens the findings of the state over the view, which the whole sentence alone moves', async () => {
  const text = larder.configuration();
  larder.configure(text.replace('workers = 1', 'workers = 0'));
  await until('the state has a finding', async () => /refused since/.test(await page.locator('.state').innerText()));
  for (const [width, height] of [[390, 844], [1440, 900]]) {
    await page.setViewportSize({ width, height });
    await go('overview');
    await page.locator('.tiles:not(.loading)').waitFor();
    await page.evaluate(() => scrollTo(0, 0));
    const top = async () => (await page.locator('main h1').boundingBox()).y - (await page.locator('.state-line').boundingBox()).height;
    const before = await top();
    await page.locator('.state-line button').click();
    const list = await page.locator('.state .findings').boundingBox();
    assert.ok(Math.abs((await top()) - before) < 2, `${width}: the view is at ${await top()} and was at ${before}`);
    assert.ok(list.x >= 0 && list.x + list.width <= width && list.height <= height * 0.61, JSON.stringify(list));
    assert.deepEqual(await audit(page), [], `${width}`);
    await page.locator('.state-line button').click();
  }
  larder.configure(text);
});

it('has logged no error, and asked no other server', () => {
  assert.deepEqual([seen.console, seen.elsewhere], [[], []]);
});

// What the page loads: the first view at once, every other view when it is opened; a file that is slow, that fails, or that a newer
// larder has no more; and the bytes that an open overview of many routes takes.
import assert from 'node:assert/strict';
import { it, larder, open, page, seen, testPage } from './browser.mjs';
import { start, until } from './larder.mjs';

const loads = [];

testPage({
  onPage: async () => {
    page.on('response', (response) => loads.push(response));
  },
});

const KIB = 1024;
const isFile = (response) => !new URL(response.url()).pathname.startsWith('/api/');
/** Bytes of heads and bodies, as they were sent. */
const sizeOf = async (responses) => {
  const all = await Promise.all(responses.map(async (response) => (await response.finished(), response.request().sizes())));
  return all.reduce((sum, it) => sum + it.responseBodySize, 0);
};
const scripts = () => loads.filter((it) => it.url().endsWith('.js')).map((it) => it.url());

it('takes at most 60 KiB for the first view, and another script for another view, once', async () => {
  const first = loads.filter(isFile);
  const size = await sizeOf(first);
  console.log(`first view: ${(size / KIB).toFixed(1)} KiB in ${first.length} files`);
  assert.ok(size > 0 && size <= 60 * KIB, `the first view takes ${size} bytes`);
  assert.equal(scripts().length, 1);
  await page.goto(`${larder.admin}/#/top`);
  await page.locator('main h1', { hasText: 'Top' }).waitFor();
  await until('its script is loaded', () => scripts().length > 1);
  const count = scripts().length;
  await page.goto(`${larder.admin}/#/overview`);
  await page.locator('.tiles:not(.loading)').waitFor();
  await page.goto(`${larder.admin}/#/top`);
  await page.locator('main .head-tools').waitFor();
  assert.equal(scripts().length, count, 'nothing is loaded twice');
});

it('takes at most 20 KiB a second with 200 routes', async () => {
  const many = await start({ sites: 198 });
  const watched = await open(many.admin);
  try {
    const taken = [];
    await watched.page.goto(many.link);
    await watched.page.locator('.worst tbody tr').first().waitFor();
    watched.page.on('response', (response) => taken.push(response));
    const began = Date.now();
    // Three readings of routes are in it, wherever it begins.
    await until('15 readings', () => taken.length >= 15);
    const seconds = (Date.now() - began) / 1000;
    const size = await sizeOf(taken.slice(0, 15));
    console.log(`open overview: ${(size / seconds / KIB).toFixed(1)} KiB a second`);
    for (const detail of ['routes', 'totals']) assert.ok(taken.some((it) => it.url().endsWith(`detail=${detail}`)), detail);
    assert.ok(size / seconds <= 20 * KIB, `${size} bytes in ${seconds} s`);
    await finds(watched.page);
  } finally {
    await watched.browser.close();
    await many.stop();
  }
});

/** Routes are found by words of their name and site; the address of the page keeps these. */
async function finds(page) {
  const rows = page.locator('section:has(> .block-head h2:text("Routes")) tbody tr');
  const whole = await rows.count();
  const find = page.getByLabel('Find routes');
  const name = await rows.nth(2).locator('a').getAttribute('title');
  await find.fill(name.toUpperCase());
  await until('one is found', async () => (await rows.count()) === 1);
  assert.equal(await rows.locator('a').getAttribute('title'), name);
  assert.equal(new URLSearchParams(new URL(page.url()).hash.split('?')[1]).get('route'), name.toUpperCase());
  await page.reload();
  await until('it is found again', async () => (await rows.count()) === 1);
  await find.fill('no such route');
  await until('none is found', async () => (await rows.count()) === 0);
  await find.fill('');
  await until('all are back', async () => (await rows.count()) === whole);
}

it('shows that a view is being loaded', async () => {
  let release;
  const held = new Promise((then) => (release = then));
  await page.route('**/assets/why-*.js', async (route) => (await held, route.continue()));
  await page.goto(`${larder.admin}/#/why`);
  await page.locator('main h1', { hasText: 'Why' }).waitFor();
  await page.locator('main [role=status][aria-label=Loading]').waitFor();
  release();
  await page.locator('main .head-tools, main .empty').first().waitFor();
  await page.unroute('**/assets/why-*.js');
});

it('names a view that could not be loaded, and loads it on Retry', async () => {
  await page.route('**/assets/traces-*.js', (route) => route.fulfill({ status: 404, body: '' }));
  await page.goto(`${larder.admin}/#/traces`);
  const alert = page.locator('main [role=alert]', { hasText: 'This view was not loaded' });
  await alert.waitFor();
  assert.match(await alert.innerText(), /Its file could not be loaded\./);
  await page.unroute('**/assets/traces-*.js');
  await page.getByRole('button', { name: 'Retry' }).click();
  await page.locator('main .head-tools').waitFor();
  assert.equal(await alert.count(), 0);
});

/** The page as a newer larder has it: its script has another name, and the files of views are not there. */
const upgrade = async () => {
  await page.route(`${larder.admin}/`, async (route) => {
    const response = await route.fetch();
    const text = await response.text();
    return route.fulfill({ response, body: text.replace(/(assets\/index-)[\w-]+\.js/, '$1newer.js') });
  });
  await page.route('**/assets/index-newer.js', (route) => route.fulfill({ status: 200, contentType: 'text/javascript', body: 'document.title = "newer"' }));
};

it('with a draft, leaves the reload after an upgrade to its user', async () => {
  await page.goto(`${larder.admin}/#/config?part=text`);
  const editor = page.getByLabel('The text of the configuration');
  await until('the text is there', async () => (await editor.inputValue()) === larder.configuration());
  await editor.fill(`# A draft.\n${larder.configuration()}`);
  await upgrade();
  await page.route('**/assets/live-*.js', (route) => route.fulfill({ status: 404, body: '' }));
  await page.goto(`${larder.admin}/#/live`);
  await page.locator('main [role=alert]', { hasText: 'larder was upgraded' }).waitFor();
  await page.goto(`${larder.admin}/#/config?part=text`);
  await until('the draft is there', async () => (await editor.inputValue()).startsWith('# A draft.'));
  await page.click('text=Discard');
});

it('without a draft, reloads the page once after an upgrade', async () => {
  await page.goto(`${larder.admin}/#/live`);
  await until('the newer page is there', async () => (await page.title()) === 'newer');
});

it('said nothing in the console, and loaded nothing from elsewhere', () => {
  assert.deepEqual(seen.console.filter((line) => !line.includes('/assets/')), []);
  assert.deepEqual(seen.elsewhere, []);
});

// The state of the server: over every view, in the title and the icon of the tab, with a link to the view that shows the part.
import assert from 'node:assert/strict';
import { audit, go, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, until } from './larder.mjs';

testPage();

const VIEWS = ['overview', 'objects', 'explain', 'why', 'live', 'top', 'traces', 'config'];
const word = () => page.locator('.state strong').innerText();
const icon = () => page.evaluate(() => document.querySelector('link[rel="icon"]').href);
const waits = (for_) => until(`the state is ${for_}`, async () => (await page.locator('.state strong').count()) === 1 && (await word()) === for_);

/** The state in every view: its word, the title, and nothing wider than the window, at a desk and on a telephone; light in one view. */
async function everywhere(expect, prefix) {
  for (const scheme of ['dark', 'light']) {
    await page.emulateMedia({ colorScheme: scheme });
    for (const view of scheme === 'dark' ? VIEWS : ['overview']) {
      await go(view);
      assert.equal(await word(), expect, view);
      assert.ok((await page.title()).startsWith(prefix), await page.title());
      assert.equal(await page.locator('.state svg').count(), 1, 'a symbol, so that the colour is not the only sign');
      for (const width of [390, 1440]) {
        await page.setViewportSize({ width, height: 900 });
        // Both are drawn again, the state with each reading and the heading once the view has its data.
        const { y } = await until('the state has a place', () => page.locator('.state').boundingBox());
        const head = await until('the heading has a place', () => page.locator('main h1').first().boundingBox());
        assert.ok(y < head.y, `${view}: the state is above the heading`);
        assert.equal(await page.evaluate(() => document.querySelector('.state').scrollWidth > document.querySelector('.state').clientWidth), false, `${view} at ${width}`);
      }
    }
    assert.deepEqual(await audit(page), [], scheme);
  }
}

it('is healthy in every view, and the tab is as it always was', async () => {
  await waits('Healthy');
  await everywhere('Healthy', '');
  await go('objects');
  assert.equal(await page.title(), 'Objects · larder');
});

it('names a refused configuration in every view and tab, until it is corrected', async () => {
  const [text, well] = [larder.configuration(), await icon()];
  larder.configure(text.replace('workers = 1', 'workers = 0'));
  await waits('Degraded');
  await everywhere('Degraded', 'Degraded · ');
  const now = await icon();
  assert.notEqual(now, well);
  assert.equal((await ask(now)).status, 200, 'the icon is a file of the page');
  const sentence = await page.locator('.state p').innerText();
  assert.match(sentence, /^Degraded: the configuration in the file is refused since (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d \(.*workers.*\); the previous one stays in force\./);
  await go('overview');
  await page.getByRole('button', { name: 'Remedy …' }).click();
  // The page names its own view in place of the command, and the place in the reason leads to its line.
  assert.match(await page.locator('.findings').innerText(), /Correct the file; Configuration, Text lists every error\./);
  assert.equal(await page.locator('.findings').getByRole('link', { name: 'Configuration, Text' }).getAttribute('href'), '#/config?part=text');
  assert.deepEqual(await audit(page), []);
  // The list lies over the view: Escape closes it, and so does the way to another view.
  await page.keyboard.press('Escape');
  await page.locator('.state .findings').waitFor({ state: 'detached' });
  await page.getByRole('button', { name: 'Remedy …' }).click();
  await page.locator('nav').getByRole('link', { name: 'Objects' }).click();
  await page.locator('.state .findings').waitFor({ state: 'detached' });
  await go('overview');
  await page.getByRole('button', { name: 'Remedy …' }).click();
  const line = text.split('\n').findIndex((it) => it.startsWith('workers = ')) + 1;
  await page.locator('.state').getByRole('link', { name: new RegExp(`larder\\.toml:${line}$`) }).first().click();
  await page.waitForURL(new RegExp(`#/config\\?part=text&file=.*&line=${line}$`));
  await go('overview');
  await page.locator('.state-line a').first().click();
  await page.waitForURL(/#\/config/);
  await page.locator('.state .findings').waitFor({ state: 'detached' });
  larder.configure(text);
  await waits('Healthy');
  await until('the icon is that of before', async () => (await icon()) === well);
});

it('says that a changed file waits for its reload, and that it was rejected only where the state says so', async () => {
  const text = larder.configuration();
  await waits('Healthy');
  // A reading between the write of the file and its reload.
  const between = (route) => route.fetch().then(async (response) => route.fulfill({ response, json: { ...(await response.json()), running_hash: 'of the previous text' } }));
  await page.route('**/api/v1/config', between);
  await go('config');
  const note = page.locator('.waits, .banner', { hasText: 'The file differs from the running configuration' });
  await note.waitFor();
  assert.match(await note.innerText(), /running configuration: it waits for the reload\./);
  assert.equal(await note.getAttribute('role'), 'status', 'no alert');
  await page.unroute('**/api/v1/config', between);
  await note.waitFor({ state: 'detached' });
  larder.configure(text.replace('workers = 1', 'workers = 0'));
  await waits('Degraded');
  await go('config?part=text');
  await page.locator('.banner', { hasText: 'its last reload was rejected' }).waitFor();
  larder.configure(text);
  await waits('Healthy');
  await note.waitFor({ state: 'detached' });
});

it('leads from a URL under maintenance to the line that ends it', async () => {
  const text = larder.configuration();
  larder.configure(text.replace('path = "/api/*"', 'path = "/api/*"\nmaintenance = { enabled = true }'));
  await until('it is in force', async () => (await ask(`${larder.site}/api/under-maintenance`)).status === 503);
  await go(`explain?url=${encodeURIComponent(`${larder.site}/api/under-maintenance`)}`);
  const line = larder.configuration().split('\n').findIndex((it) => it.startsWith('maintenance')) + 1;
  await page.locator('[data-ends]', { hasText: /Since \d+:\d+:\d+\. / }).waitFor();
  await page.locator('[data-ends]').getByRole('link', { name: `larder.toml:${line}` }).click();
  await page.waitForURL(new RegExp(`#/config\\?part=text&file=.*&line=${line}$`));
  larder.configure(text);
  await waits('Healthy');
});

it('moves no row of Live that is aimed at when its sentence becomes longer', async () => {
  const text = larder.configuration();
  await waits('Healthy');
  for (const width of [390, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    await go('live');
    for (let times = 0; times < 8; times += 1) await ask(`${larder.site}/pages/${times}`);
    const row = page.locator('.live tbody tr').nth(5);
    await row.hover();
    await page.locator('[data-still=true]').waitFor();
    const before = (await row.boundingBox()).y;
    // The window is scrolled by whole pixels.
    const moved = async () => Math.abs((await row.boundingBox()).y - before);
    larder.configure(text.replace('workers = 1', 'workers = 0'));
    await waits('Degraded');
    assert.ok((await moved()) < 1, `longer at ${width}: by ${await moved()}`);
    larder.configure(text);
    await waits('Healthy');
    assert.ok((await moved()) < 1, `shorter at ${width}: by ${await moved()}`);
    await page.mouse.move(0, 0);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
});

it('names a share of errors, and leads to the requests', async () => {
  for (let times = 0; times < 30; times += 1) await ask(`${larder.site}/broken/${times}`);
  await waits('Failing');
  await everywhere('Failing', 'Failing · ');
  assert.match(await page.locator('.state p').innerText(), /; by route: pages \d+(, \S+ \d+)?\.$/);
  await page.locator('.state-line a').click();
  await page.waitForURL(/#\/live/);
  await until('the filter is set', async () => (await page.locator('[data-search]').inputValue()) === 'status >= 500');
});

it('says of a URL without a site which status the client gets, how many such requests come, and what admits them', async () => {
  const text = larder.configuration();
  larder.configure(text.replace('hosts = ["*"]', 'hosts = ["127.0.0.1", "shop.test"]'));
  await until('the host is unknown', async () => (await ask(`${larder.site}/pages/1`, { Host: 'gone.test' })).status === 404);
  for (let times = 0; times < 3; times += 1) await ask(`${larder.site}/pages/${times}`, { Host: 'gone.test' });
  await go('explain?url=http%3A%2F%2Fgone.test%2Fpages%2F1');
  await page.locator('[data-verdict=refused]', { hasText: 'Rejected: 404: No site has the host gone.test.' }).waitFor();
  // The requests are in the records a moment later.
  await until('they are counted', async () => {
    await page.getByRole('button', { name: 'Explain', exact: true }).click();
    return /\d requests for this host were recorded within the last minute/.test(await page.locator('.because').innerText());
  });
  await page.locator('.because').getByRole('link', { name: 'site.hosts' }).click();
  await page.locator('[data-key="site.hosts"]').waitFor();
  larder.configure(text);
});

it('says why a request failed, and bridges a URL whose every request fails by an overlay in two clicks', async () => {
  const text = larder.configuration();
  const gone = '[[site.route]]\nname = "gone"\npath = "/gone/*"\nproxy = { to = ["http://127.0.0.1:9"], eject_after = 100 }\n\n';
  larder.configure(text.replace('[[site.route]]\nname = "api"', `${gone}[[site.route]]\nname = "api"`));
  const url = `${larder.site}/gone/1`;
  // Of another page each time: one that was stored before is a hit.
  let tries = 0;
  await until('it fails', async () => (await ask(`${url}${(tries += 1)}`)).status === 502);
  for (let times = 0; times < 3; times += 1) await ask(url);
  await go('traces');
  const block = page.locator('section', { hasText: 'The worst requests' }).last();
  await block.getByRole('button', { name: /^Failed/ }).click();
  await block.locator('tbody tr', { hasText: '/gone/1' }).first().getByRole('button').click();
  await page.locator('dialog [data-failure]', { hasText: /The origin cannot be reached: .*refused/ }).waitFor();
  await page.getByRole('button', { name: 'Explain its URL now' }).click();
  await page.locator('[data-bridge]').getByRole('button', { name: 'Overlay …' }).click();
  const overlay = page.locator('dialog', { hasText: 'New overlay' });
  assert.equal(await overlay.getByLabel('URL').inputValue(), url);
  await overlay.getByLabel('Page').fill('Back at ten.');
  await overlay.getByRole('button', { name: 'Activate' }).click();
  await until('it answers', async () => (await ask(url)).status === 200);
  await page.getByRole('button', { name: /^Remove the overlay of / }).first().click();
  await until('the origin is asked again', async () => (await ask(url)).status === 502);
  larder.configure(text);
});

it('says that larder does not answer in the tab as well', async () => {
  await larder.end();
  await page.waitForFunction(() => document.title.startsWith('No answer · '));
  assert.equal(await page.locator('.state').count(), 0, 'the banner has the place of a state that is not known');
});

it('has logged no error, and asked no other server', () => {
  const own = seen.console.filter((text) => !text.includes('ERR_CONNECTION_REFUSED'));
  assert.deepEqual([own, seen.elsewhere], [[], []]);
});

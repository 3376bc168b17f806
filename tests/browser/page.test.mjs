// The page, as a person uses it, in a real browser over a real larder under load. Each test leaves behind what the next may find.
import assert from 'node:assert/strict';
import { audit, confirm, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, load, until } from './larder.mjs';

let clients;

testPage({
  prepare: async () => {
    clients = load(larder.site);
  },
  ends: async () => {
    await clients?.stop();
  },
  logsIn: false,
});

const go = async (view) => {
  // What a test that failed left open.
  if (await page.locator('dialog').count()) await page.reload();
  await page.goto(`${larder.admin}/#/${view}`);
  await page.locator('main').waitFor();
};
const title = () => page.locator('main h1').innerText();
const text = (of) => page.locator(of).first().innerText();
/** Numbers of a text such as `1,234` or `98.2 %`. */
const number = (of) => Number(of.replace(/[^\d.]/g, ''));

it('without a session tells how to get one, and refuses a wrong token', async () => {
  await page.goto(`${larder.admin}/`);
  assert.match(await text('main'), /larder login/);
  await page.fill('input', 'a-token-of-somebody-else-entirely');
  await page.getByRole('button', { name: 'Open' }).click();
  await page.locator('[role=alert]', { hasText: 'The token is wrong' }).waitFor();
});

it('opens by the link of the start, which leaves the address', async () => {
  await page.goto(larder.link);
  await page.locator('h1', { hasText: 'Overview' }).waitFor();
  assert.ok(!page.url().includes('login'), 'the code is not kept in the history');
});

it('has charts and tiles that move under load', async () => {
  await go('overview');
  const tile = (name) => page.locator('.tile', { hasText: name }).locator('[data-figure]').innerText();
  await until('requests are counted', async () => number(await tile('Requests / s')) > 5);
  await until('hits are counted', async () => number(await tile('Hit ratio')) > 10);
  const saved = page.locator('.tile', { hasText: 'Hit ratio' }).locator('.tile-sub').first();
  await until('time that was saved is counted', async () => number(await saved.innerText()) > 0);
  const picture = () => page.locator('.chart canvas').first().evaluate((it) => it.toDataURL());
  for (const window of ['1 h', '5 min']) {
    await page.getByRole('button', { name: window, exact: true }).click();
    const drawn = await picture();
    await until(`the chart of ${window} is drawn anew`, async () => (await picture()) !== drawn);
  }
  await page.locator('.chart-bar').getByRole('button', { name: 'Latency' }).click();
  const legend = page.locator('.legend [data-value]').first();
  await until('latencies are told', async () => number(await legend.innerText()) > 0);
});

it('tells routes, tiers, origins and memory', async () => {
  for (const name of ['pages', 'api']) await page.locator('section tbody th', { hasText: name }).first().waitFor();
  assert.match(await text('.tiers'), /RAM/);
  assert.match(await text('section:has(> .block-head h2:text("Origins"))'), /127\.0\.0\.1/);
  await page.locator('.tiers').getByRole('button', { name: /Memory/ }).click();
  const memory = await text('section:has(> h2:text("Memory"))');
  assert.match(memory, /resident/);
  assert.match(memory, /responses/);
  await page.keyboard.press('Escape');
});

it('tells which origins are not asked, and why', async () => {
  await go('overview');
  const origins = page.locator('section:has(> .block-head h2:text("Origins"))');
  await origins.locator('tbody tr', { hasText: 'up' }).first().waitFor();
  const before = larder.configuration();
  const site = `
[[site]]
hosts = ["several.example"]

[[site.route]]
name = "several"
path = "/*"
proxy = { to = ["http://127.0.0.1:1", "http://127.0.0.1:2 drain"], health = { path = "/", interval = "20ms", fall = 1 } }
`;
  larder.configure(before + site);
  const row = (name) => origins.locator('tbody tr', { hasText: name });
  await row('127.0.0.1:1').filter({ hasText: 'unhealthy' }).waitFor();
  await row('127.0.0.1:2').filter({ hasText: 'drained' }).waitFor();
  assert.deepEqual(await audit(page), []);
  if (process.env.LARDER_PICTURE) await page.screenshot({ path: process.env.LARDER_PICTURE, fullPage: true });
  larder.configure(before);
  await row('127.0.0.1:2').waitFor({ state: 'detached' });
});

it('finds what is stored, looks into it, and purges it', async () => {
  const url = `${larder.site}/tagged/to-be-purged`;
  await ask(url);
  assert.match((await ask(url)).cache, /hit/);
  await go('objects');
  await page.fill('[data-search]', 'to-be-purged');
  await until('it alone is found', async () => (await page.locator('.objects tbody tr').count()) === 1);
  await page.click('.objects tbody [data-row]');
  const drawer = page.locator('dialog');
  await drawer.locator('text=max-age=600').waitFor();
  await drawer.locator('text=kitchen').first().waitFor();
  await drawer.getByRole('button', { name: 'Purge', exact: true }).click();
  await drawer.locator('.receipts', { hasText: 'ram' }).waitFor();
  assert.equal(await drawer.locator('.facts').count(), 0, 'the figures of the removed response are gone');
  assert.doesNotMatch((await ask(url)).cache, /; hit/);
  await page.keyboard.press('Escape');
  await drawer.waitFor({ state: 'detached' });
});

it('asks again for a listing while others are in progress', async () => {
  await ask(`${larder.site}/tagged/listed-later`);
  let refused = 0;
  const refuse = (route) => {
    if (refused === 2) return route.continue();
    refused += 1;
    return route.fulfill({ status: 503, contentType: 'application/problem+json', body: '{"detail":"Too many listings of stored objects are in progress; retry."}' });
  };
  await go('overview');
  await page.route('**/api/v1/objects?*', refuse);
  await go('objects?search=listed-later');
  await page.locator('.failed', { hasText: 'Too many listings' }).waitFor();
  await page.locator('.objects tbody tr').waitFor();
  assert.equal(refused, 2);
  await page.locator('.failed').waitFor({ state: 'detached' });
  await page.unroute('**/api/v1/objects?*', refuse);
  // Of a refusal that the test makes, Chromium says so.
  seen.console.length = 0;
});

it('lists what is on disk, by size where it has no order of names', async () => {
  await go('objects?sort=key&order=asc');
  const rows = page.locator('.rows tbody tr');
  await rows.first().waitFor();
  const asked = page.waitForResponse((it) => it.url().includes('tier=disk'));
  await page.getByLabel('Tier').selectOption('On disk');
  const answer = await asked;
  assert.equal(answer.status(), 200, answer.url());
  assert.match(answer.url(), /sort=size&order=desc/);
  await page.locator('.found', { hasText: 'on disk' }).waitFor();
  await until('there are some', async () => {
    await page.getByRole('button', { name: 'Refresh' }).click();
    return (await rows.count()) > 1;
  });
  assert.equal(await rows.filter({ has: page.locator('.chip', { hasText: 'disk' }) }).count(), await rows.count(), 'each of them is on disk');
  assert.equal(await page.locator('th[aria-sort]').innerText(), 'Size');
  assert.equal(await page.getByRole('button', { name: 'Expires in' }).count(), 0, 'nothing on disk is sorted by its end');
  await page.getByLabel('Tier').selectOption('In RAM');
  await page.locator('.found', { hasText: 'in RAM' }).waitFor();
  assert.doesNotMatch(await text('.found'), /disk/);
  assert.equal(await page.locator('th[aria-sort]').innerText(), 'URL', 'it is sorted as it was before');
});

it('purges by tag, and says what is wrong with a purge', async () => {
  const url = `${larder.site}/tagged/by-its-tag`;
  await ask(url);
  assert.match((await ask(url)).cache, /hit/);
  await go('objects');
  await page.click('text=Purge …');
  const dialog = page.locator('dialog');
  await dialog.locator('input').fill('/no-host-here');
  await dialog.locator('button.primary').click();
  await dialog.locator('[role=alert]').waitFor();
  let purges = 0;
  page.on('request', (request) => (purges += request.url().endsWith('/api/v1/purge') ? 1 : 0));
  // What is chosen on the way sends nothing, and Enter sends what was chosen.
  for (const scope of ['Prefix', 'Everything', 'Tag']) await dialog.locator('button', { hasText: scope }).click();
  await dialog.locator('input').fill('kitchen');
  assert.equal(purges, 0, 'nothing was purged yet');
  await page.keyboard.press('Enter');
  await dialog.locator('.receipts', { hasText: 'before the purge' }).waitFor();
  assert.equal(purges, 0, 'a preview purges nothing');
  await page.keyboard.press('Enter');
  await dialog.locator('.receipts', { hasText: 'Purged tag' }).waitFor();
  assert.equal(purges, 1);
  assert.doesNotMatch((await ask(url)).cache, /; hit/);
  await page.keyboard.press('Escape');
});

it('lays an overlay over a page, and takes it away', async () => {
  const url = `${larder.site}/pages/covered`;
  assert.match((await ask(url)).body, /The page at/);
  await go('objects?show=overlays');
  await page.click('text=Overlay …');
  const dialog = page.locator('dialog');
  await dialog.locator('[data-first]').fill(url.replace('http://', ''));
  await dialog.locator('button.primary').click();
  await dialog.locator('[role=alert]', { hasText: 'http://HOST/PATH' }).waitFor();
  await dialog.locator('[data-first]').fill(url);
  await dialog.locator('textarea').fill('<h1>Closed for stocktaking</h1>');
  await dialog.locator('button.primary').click();
  await dialog.waitFor({ state: 'detached' });
  assert.match((await ask(url)).body, /stocktaking/);
  await page.getByRole('button', { name: `Remove the overlay of ${url.replace('http:', '*:')}` }).click();
  await page.locator('text=No overlays').waitFor();
  assert.match((await ask(url)).body, /The page at/);
});

it('explains what the next request then does', async () => {
  const url = (path) => `${larder.site}${path}`;
  await ask(url('/pages/explained'));
  // What the page says, and what Cache-Status has then.
  const cases = [
    ['/pages/explained', /hit/, /; hit/],
    ['/pages/never-asked-for', /miss/, /fwd=uri-miss/],
    ['/private/explained', /miss/, /fwd=uri-miss/],
  ];
  await go('explain');
  for (const [path, says, does] of cases) {
    await page.fill('[data-search]', url(path));
    await page.keyboard.press('Enter');
    const verdict = page.locator('[data-verdict]');
    await until(`the verdict on ${path}`, async () => (await text('.code-line').catch(() => '')).includes(path));
    assert.match(await verdict.getAttribute('data-verdict'), says, path);
    assert.ok((await page.locator('.rules li').count()) > 0 || path !== cases[0][0], 'rules are told');
    assert.match((await ask(url(path))).cache, does, path);
  }
});

it('says what is wrong with a question', async () => {
  await go('explain');
  await page.fill('[data-search]', 'ftp://elsewhere/');
  await page.keyboard.press('Enter');
  await page.locator('[role=alert]', { hasText: 'ftp' }).waitFor();
});

it('streams the requests that a filter lets through, and stops', async () => {
  await go('live');
  await until('requests come', async () => (await page.locator('.live tbody tr').count()) > 5);
  await page.fill('[data-search]', 'status == 503');
  await page.keyboard.press('Enter');
  const statuses = () => page.locator('.live tbody .status').allInnerTexts();
  await page.getByRole('button', { name: 'Show all' }).waitFor();
  await until('only what fits comes', async () => {
    const all = await statuses();
    return all.length > 2 && all.every((it) => it === '503');
  });
  await page.getByRole('button', { name: 'Pause' }).click();
  await page.locator('.head-sub', { hasText: 'Paused' }).waitFor();
  const seen = await page.locator('[data-seen]').getAttribute('data-seen');
  const more = await ask(`${larder.site}/broken/oven`);
  assert.equal(more.status, 503);
  assert.equal(await page.locator('[data-seen]').getAttribute('data-seen'), seen, 'nothing comes while it is stopped');
});

it('explains a request of the stream', async () => {
  // Of a request that 4,096 others have followed meanwhile, larder says that it is no longer recorded.
  await until('a request that is still recorded', async () => {
    await go('live?filter=status%20%3D%3D%20503');
    await page.locator('.live tbody [data-row]').first().click();
    await page.locator('dialog', { hasText: '/broken/oven' }).waitFor();
    await page.getByRole('button', { name: 'Explain this request' }).click();
    await page.locator('.then, .failed:has-text("no longer recorded")').first().waitFor();
    return (await page.locator('.then', { hasText: '/broken/oven' }).count()) === 1;
  });
  await page.locator('.then', { hasText: '503' }).waitFor();
  await page.locator('[data-verdict]').waitFor();
});

it('says at which column a filter is wrong', async () => {
  await go('live');
  await page.fill('[data-search]', 'status >= 500 && ');
  await page.keyboard.press('Enter');
  const told = page.locator('.bad-filter');
  await told.waitFor();
  assert.match(await told.innerText(), /column 1\d/);
  const [line, caret] = (await told.locator('pre').textContent()).split('\n');
  assert.ok(caret.trim() === '^' && caret.indexOf('^') >= line.lastIndexOf('&'), `the mark is beneath the place: ${line}|${caret}`);
});

it('lists the URLs that are asked for most, and anew', async () => {
  for (const by of ['requests', 'misses', 'bytes', 'origin_time']) {
    await go(`top?by=${by}`);
    await until(`the list by ${by}`, async () => (await page.locator('.top tbody tr').count()) > 3);
  }
  await go('top?by=requests');
  const first = () => page.locator('.top tbody tr').first();
  await first().waitFor();
  const share = number(await first().locator('td').nth(3).innerText());
  assert.ok(share > 0 && share <= 100, `${share} %`);
  await page.click('text=Reset');
  await page.locator('.toast', { hasText: 'reset' }).waitFor();
});

it('switches sampling on, and draws where time went', async () => {
  await go('traces');
  await page.getByLabel('Sampling of pages').selectOption({ label: 'Every request' });
  await page.locator('.toast', { hasText: 'every request' }).first().waitFor();
  await until('traces come', async () => (await page.locator('.traces tbody tr').count()) > 3);
  const parts = page.locator('.traces tbody tr').first().locator('.stage-bar-whole > span');
  await until('a bar has stages', async () => (await parts.count()) > 1);
  await page.locator('.clickable canvas').waitFor();
  await page.locator('.traces tbody [data-row]').first().click();
  const drawer = page.locator('dialog');
  assert.match(await drawer.innerText(), /Write/);
  const figure = (it) => ({ s: 1e6, ms: 1e3, µs: 1 })[it.split(' ')[1]] * Number(it.split(' ')[0].replace(',', ''));
  const total = figure(await drawer.locator('dd').first().innerText());
  const sum = (await drawer.locator('.stage-table td:nth-child(2)').allInnerTexts()).map(figure).reduce((a, b) => a + b, 0);
  assert.ok(Math.abs(total - sum) <= Math.max(20, total * 0.03), `the stages sum up: ${sum} of ${total}`);
  await page.keyboard.press('Escape');
  await page.getByLabel('Sampling of pages').selectOption({ label: 'Off' });
  await page.locator('.toast', { hasText: 'off' }).waitFor();
});

it('tells what is set from what is recorded meanwhile', async () => {
  const record = (seconds) =>
    fetch(`${larder.admin}/api/v1/traces/sampling`, {
      method: 'PUT',
      headers: { Authorization: `Bearer ${larder.token()}` },
      body: JSON.stringify({ route: 'pages', every: 10, for: seconds, owner: 'somebody' }),
    });
  assert.equal((await record(600)).status, 200);
  await go('traces');
  await page.reload();
  const row = page.locator('.sampling tr', { hasText: 'pages' });
  await row.locator('text=1 in 10 while it is recorded').waitFor();
  assert.equal(await row.locator('select').inputValue(), '0');
  await row.locator('select').selectOption({ label: '1 in 1,000' });
  await page.locator('.toast', { hasText: '1 in 1,000' }).first().waitFor();
  await until('it is set', async () => (await row.locator('select').inputValue()) === '1000');
  assert.match(await row.innerText(), /1 in 10 while it is recorded/);
  assert.equal((await record(0)).status, 200);
  await page.reload();
  await row.locator('select').waitFor();
  assert.equal(await row.locator('select').inputValue(), '1000');
  assert.equal(await row.locator('text=recorded').count(), 0);
  await row.locator('select').selectOption({ label: 'Off' });
});

it('hears traces from the stream, and asks for no list again', async () => {
  const asked = [];
  const heard = (request) => asked.push(new URL(request.url()).pathname);
  page.on('request', heard);
  await go('traces');
  await page.reload();
  await page.getByLabel('Sampling of api').selectOption({ label: 'Every request' });
  const latest = async () => {
    await page.getByRole('button', { name: 'Latest' }).click();
    return text('.traces tbody tr');
  };
  await until('traces come', async () => (await page.locator('.traces tbody tr').count()) > 3);
  const first = await latest();
  await until('newer ones come', async () => (await latest()) !== first);
  const before = asked.length;
  const second = await latest();
  await until('and newer ones', async () => (await latest()) !== second);
  page.off('request', heard);
  assert.ok(asked.includes('/api/v1/traces/stream'));
  assert.deepEqual(asked.slice(before).filter((it) => it.startsWith('/api/v1/traces')), [], 'nothing is polled');
  await page.getByRole('button', { name: 'Pause' }).click();
  const stopped = await latest();
  const total = await page.locator('.head-sub').innerText();
  assert.match(total, /^Paused/);
  await ask(`${larder.site}/api/items/1`);
  assert.equal(await latest(), stopped, 'nothing comes while it is stopped');
  await page.getByLabel('Sampling of api').selectOption({ label: 'Off' });
  await page.locator('.toast', { hasText: 'off' }).first().waitFor();
});

it('refuses a bad configuration in place, at its line', async () => {
  const before = larder.configuration();
  await go('config?part=text');
  const editor = page.getByLabel('The text of the configuration');
  await until('the text is there', async () => (await editor.inputValue()) === before);
  await editor.fill(before.replace('default_ttl', 'defualt_ttl'));
  const line = before.split('\n').findIndex((it) => it.includes('default_ttl')) + 1;
  await page.locator('.mark-line').waitFor();
  assert.match(await page.locator('.problems').innerText(), new RegExp(`Line ${line}.*default_ttl`, 's'));
  assert.equal(await page.locator('.gutter .wrong').innerText(), String(line));
  assert.ok(await page.locator('text=Review and apply').isDisabled());
  assert.equal(larder.configuration(), before, 'the file is as it was');
  await page.click('text=Discard');
  await until('the text is as it was', async () => (await editor.inputValue()) === before);
});

it('applies a change of the form, keeps the comments, and rolls it back', async () => {
  const before = larder.configuration();
  const ttl = async () => /ttl=(\d+)/.exec((await ask(`${larder.site}/silent/${Math.random()}`)).cache)?.[1];
  await go('config?part=form');
  await page.locator('.section.below', { hasText: '/*' }).last().click();
  const field = page.getByRole('textbox', { name: 'cache.default_ttl' });
  await field.fill('77s');
  await field.press('Enter');
  await page.locator('.apply', { hasText: 'valid' }).waitFor();
  await page.click('text=Review and apply');
  const dialog = page.locator('dialog');
  assert.match(await dialog.locator('.diff .new').innerText(), /77s/);
  assert.match(await dialog.locator('.diff .old').innerText(), /60s/);
  await confirm(dialog, 'Apply');
  await page.locator('.toast', { hasText: 'in force' }).waitFor();
  assert.equal(larder.configuration(), before.replace('"60s"', '"77s"'), 'nothing else of the file is another');
  const lives = async (seconds) => {
    const url = `${larder.site}/silent/${Math.random()}`;
    await ask(url);
    return new RegExp(`ttl=(${seconds}|${seconds - 1})\\b`).test((await ask(url)).cache);
  };
  await until('the new value holds', () => lives(77));
  await page.click('text=History');
  await page.locator('tbody tr').first().locator('td', { hasText: /^1 key: .*default_ttl$/ }).waitFor();
  const size = page.viewportSize();
  await page.setViewportSize({ width: 390, height: 844 });
  assert.ok((await page.evaluate(() => document.documentElement.scrollWidth)) <= 390, 'the history fits a phone');
  await page.setViewportSize(size);
  await page.locator('button', { hasText: 'Roll back' }).first().click();
  await dialog.locator('.diff .old', { hasText: '77s' }).waitFor();
  await dialog.locator('.diff .new', { hasText: '60s' }).waitFor();
  assert.notEqual(larder.configuration(), before, 'it is shown before it is done');
  await confirm(page.locator('dialog'), 'Roll back');
  await page.locator('.toast', { hasText: 'again' }).waitFor();
  assert.equal(larder.configuration(), before);
  await until('the old value holds', () => lives(60));
});

it('adds a site and a route by the form, in their order, and removes them; comments stay', async () => {
  const before = larder.configuration();
  await go('config?part=form');
  const dialog = page.locator('dialog');
  await page.getByRole('button', { name: 'New route of *' }).click();
  await dialog.getByRole('textbox', { name: /^Path/ }).fill('/shop/*');
  await dialog.getByRole('textbox', { name: /^Origin/ }).fill('a name with spaces');
  await dialog.getByRole('button', { name: 'Add' }).click();
  await dialog.locator('[role=alert]', { hasText: 'proxy.to' }).waitFor();
  assert.equal(await dialog.getByRole('combobox', { name: /^Position/ }).innerText().then((it) => it.includes('before /*')), true);
  await dialog.getByRole('textbox', { name: /^Origin/ }).fill(/to = \["(.*?)"\]/.exec(before)[1]);
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'detached' });
  const routes = () => page.locator('.section.below:not(.add) .mono').allInnerTexts();
  // It stands before the route that would take all of it.
  await until('the route is there', async () => (await routes()).join(' ') === '/api/* /shop/* /*');
  await page.getByRole('button', { name: 'Move this route up' }).click();
  await until('it moved', async () => (await routes()).join(' ') === '/shop/* /api/* /*');
  await page.getByRole('button', { name: 'New site' }).click();
  await dialog.getByRole('textbox', { name: /^Hosts/ }).fill('one.test, two.test');
  await dialog.getByRole('button', { name: 'Files' }).click();
  await dialog.getByRole('textbox', { name: /^Directory/ }).fill('/');
  await dialog.getByRole('button', { name: 'Add' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.locator('.apply', { hasText: 'valid' }).waitFor();
  await page.click('text=Review and apply');
  await confirm(dialog, 'Apply');
  await dialog.waitFor({ state: 'detached' });
  const now = larder.configuration();
  for (const part of ['# A minute is long enough for the cook.', "# The kitchen's larder.", '# what this machine can spare', 'hosts = ["one.test", "two.test"]', 'path = "/shop/*"']) {
    assert.ok(now.includes(part), `${part} is not in\n${now}`);
  }
  assert.ok(now.indexOf('/shop/*') < now.indexOf('/api/*'), now);
  assert.match((await ask(`${larder.site}/shop/1`)).body, /The page at \/shop\/1/);
  await page.locator('.section:not(.below)', { hasText: 'one.test' }).first().click();
  const confirmed = () => dialog.getByRole('button', { name: 'Remove', exact: true }).click();
  await page.getByRole('button', { name: 'Remove this site' }).click();
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  assert.match((await page.locator('.form-title h2').innerText()), /one\.test/, 'nothing is removed without a confirmation');
  await page.getByRole('button', { name: 'Remove this site' }).click();
  await confirmed();
  await page.locator('.section.below:not(.add)', { hasText: '/shop/*' }).click();
  await page.getByRole('button', { name: 'Remove this route' }).click();
  await confirmed();
  await until('both are gone', async () => (await routes()).join(' ') === '/api/* /*');
  await page.locator('.apply', { hasText: 'valid' }).waitFor();
  await page.click('text=Review and apply');
  await confirm(dialog, 'Apply');
  await dialog.waitFor({ state: 'detached' });
  const lines = (it) => it.split('\n').filter((line) => line.trim() !== '');
  assert.deepEqual(lines(larder.configuration()), lines(before), 'every line is there again');
});

it('marks what is wrong in the route that has it, and in no other', async () => {
  await go('config?part=form');
  await page.locator('.section.below:not(.add)', { hasText: '/*' }).last().click();
  const field = page.getByRole('textbox', { name: 'cache.default_ttl' });
  await field.fill('a while');
  await field.press('Enter');
  await page.locator('.setting .bad', { hasText: 'a while' }).waitFor();
  const marked = await page.locator('.section:has(.icon):not(.add)').allInnerTexts();
  assert.deepEqual(marked.map((it) => it.trim()), ['/*']);
  await page.click('text=Discard');
});

it('says which keys wait for a restart, and goes back', async () => {
  const before = larder.configuration();
  await go('config?part=form');
  await page.locator('.section', { hasText: 'Server' }).click();
  const field = page.getByRole('textbox', { name: /^workers/ });
  await field.fill('2');
  await field.press('Enter');
  await page.locator('.apply', { hasText: 'valid' }).waitFor();
  await page.click('text=Review and apply');
  const dialog = page.locator('dialog');
  await dialog.locator('.waits', { hasText: 'workers takes effect at the next restart' }).waitFor();
  await confirm(dialog, 'Apply');
  await page.locator('.toast', { hasText: 'in force. workers takes effect at the next restart.' }).waitFor();
  await page.locator('.waits', { hasText: /workers 1 → 2/ }).waitFor();
  assert.equal(larder.configuration(), before.replace('workers = 1', 'workers = 2'));
  await page.locator('.waits').getByRole('button', { name: 'Undo' }).click();
  await page.locator('button', { hasText: 'Roll back' }).first().click();
  await confirm(page.locator('dialog'), 'Roll back');
  await page.locator('.toast', { hasText: 'in force again' }).waitFor();
  await page.locator('.waits').waitFor({ state: 'detached' });
  assert.equal(larder.configuration(), before);
});

it('remembers its charts when it is loaded anew', async () => {
  await go('overview');
  await page.locator('.tiles:not(.loading)').waitFor();
  const kept = () => page.evaluate(() => dispatchEvent(new Event('pagehide')) && JSON.parse(sessionStorage.getItem('larder.points')).length);
  await until('some seconds are known', async () => (await kept()) > 5);
  const before = await kept();
  await page.reload();
  await page.locator('.tiles:not(.loading)').waitFor();
  assert.ok((await kept()) >= before, 'what was seen is still there');
});

it('draws a reading that stands alone as a point', async () => {
  const sparse = await page.context().newPage();
  // A minute as it was seen, with one answer in it.
  await sparse.addInitScript(() => {
    const now = Date.now() / 1000;
    const names = ['requests', 'hitsRam', 'hitsDisk', 'hitsFleet', 'misses', 'passes', 'ratio', 'hitP50', 'hitP99', 'missP50', 'missP99', 'sent', 'received', 'errors4', 'errors5', 'saved'];
    const nothing = Object.fromEntries(names.map((it) => [it, null]));
    const points = Array.from({ length: 60 }, (_, at) => ({ ...nothing, at: now - 60 + at, ...(at === 20 ? { missP50: 900, missP99: 900 } : {}) }));
    sessionStorage.setItem('larder.points', JSON.stringify(points));
  });
  // What larder kept is not drawn: the point is to stand alone.
  await sparse.route('**/api/v1/history*', (route) => route.abort());
  await sparse.goto(`${larder.admin}/#/overview`);
  await sparse.getByRole('button', { name: '5 min', exact: true }).click();
  await sparse.locator('.chart-bar').getByRole('button', { name: 'Latency' }).click();
  const canvas = sparse.locator('.chart canvas').first();
  await canvas.waitFor();
  const coloured = () =>
    canvas.evaluate((it) => {
      const { data } = it.getContext('2d').getImageData(0, 0, it.width / 2, it.height);
      let found = 0;
      for (let at = 0; at < data.length; at += 4) if (data[at + 3] > 99 && Math.max(...data.slice(at, at + 3)) - Math.min(...data.slice(at, at + 3)) > 50) found += 1;
      return found;
    });
  await until('one sees the point', async () => (await coloured()) > 8);
  await sparse.close();
});

it('can be walked through with the keyboard alone', async () => {
  await go('overview');
  for (const [key, name] of [['b', 'Objects'], ['e', 'Explain'], ['w', 'Why'], ['l', 'Live'], ['t', 'Top'], ['r', 'Traces'], ['h', 'Help'], ['c', 'Configuration'], ['o', 'Overview']]) {
    // At once, and again: a busy machine may take longer than a pair of keys may.
    await until(`g ${key} opens ${name}`, async () => {
      if ((await title()) === name) return true;
      await Promise.all([page.keyboard.press('g'), page.keyboard.press(key)]);
      return (await title()) === name;
    });
  }
  await page.keyboard.press('?');
  await page.locator('dialog', { hasText: 'Keys' }).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.keyboard.press('g');
  await page.keyboard.press('b');
  // The overview has rows, too.
  await page.locator('main h1', { hasText: 'Objects' }).waitFor();
  await page.locator('.rows tbody [data-row]').first().waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('/pages/');
  const found = page.locator('.rows tbody [data-row]');
  await until('what was typed is found', async () => (await found.count()) > 1 && (await found.first().innerText()).includes('/pages/'));
  // By Tab into the rows, by arrows through them, by Enter into one, and back where one was.
  const focused = () => page.evaluate(() => document.activeElement?.hasAttribute('data-row') ?? false);
  for (let at = 0; at < 20 && !(await focused()); at += 1) await page.keyboard.press('Tab');
  assert.ok(await focused(), 'Tab comes to the rows');
  const ring = await page.evaluate(() => getComputedStyle(document.activeElement).outlineStyle);
  assert.equal(ring, 'solid', 'one sees where one is');
  await page.keyboard.press('ArrowDown');
  const row = await page.evaluate(() => document.activeElement.textContent);
  await page.keyboard.press('Enter');
  await page.locator('dialog', { hasText: row.trim() }).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  assert.equal(await page.evaluate(() => document.activeElement.textContent), row);
});

for (const [key, view, opens] of [['b', 'Objects', 'dialog'], ['l', 'Live', 'dialog'], ['t', 'Top', '[data-verdict]']]) {
  it(`goes into the rows of ${view} by an arrow, and opens one`, async () => {
    await go('overview');
    await page.locator('.tiles:not(.loading)').waitFor();
    await page.keyboard.press('g');
    await page.keyboard.press(key);
    await page.locator('main h1', { hasText: view }).waitFor();
    await page.locator('.rows tbody [data-row]').nth(3).waitFor();
    // So that no row goes away under the keys.
    if (view === 'Live') await page.keyboard.press('Space');
    assert.equal(await page.evaluate(() => document.activeElement.tagName), 'MAIN');
    const at = () => page.evaluate(() => [...document.querySelectorAll('[data-row]')].indexOf(document.activeElement));
    const steps = [];
    for (const arrow of ['ArrowDown', 'ArrowDown', 'ArrowDown', 'ArrowUp']) {
      await page.keyboard.press(arrow);
      steps.push(await at());
    }
    assert.deepEqual(steps, [0, 1, 2, 1]);
    await page.keyboard.press('Enter');
    await page.locator(opens).waitFor();
    await page.keyboard.press('Escape');
  });
}

const VIEWS = ['overview', 'objects', 'objects?show=overlays', 'explain', 'live', 'top', 'traces', 'config?part=form', 'config?part=text', 'config?part=history', 'help', 'help?view=why&key=cache.max_object'];

/** Writes the configuration's text anew, and applies nothing. */
const write = async (how) => {
  await go('config?part=text');
  const editor = page.getByLabel('The text of the configuration');
  await until('the text is there', async () => (await editor.inputValue()) === larder.configuration());
  await editor.fill(how(larder.configuration()));
};

const openRoute = async () => {
  await page.getByRole('button', { name: 'Form', exact: true }).click();
  await page.locator('.section.below:not(.add)', { hasText: '/*' }).last().click();
};

/** What else is looked at: its name, the view it is in, and what opens it. */
const OPENS = [
  ['the dialog of purges', 'objects', () => page.getByRole('button', { name: 'Purge …' }).click()],
  ['the dialog of overlays', 'objects', () => page.getByRole('button', { name: 'Overlay …' }).click()],
  ['an object', 'objects', () => page.locator('.rows tbody [data-row]').first().click().then(() => page.locator('dialog .fields').waitFor())],
  ['a request', 'live?filter=status%20%3D%3D%20503', () => page.locator('.live tbody [data-row]').first().click()],
  ['a trace', 'traces', () => page.locator('.traces tbody [data-row]').first().click()],
  ['the settings of a route', 'config?part=form', () => openRoute().then(() => page.getByRole('button', { name: 'Add setting …' }).click())],
  ['the removal of a route', 'config?part=form', () => openRoute().then(() => page.getByRole('button', { name: 'Remove this route' }).click())],
  ['the dialog of sites', 'config?part=form', () => page.getByRole('button', { name: 'New site …' }).click()],
  ['the keys', 'overview', () => page.keyboard.press('?').then(() => page.locator('dialog').waitFor())],
  ['the difference', 'config?part=text', () => write((it) => `${it}# One line more.\n`).then(() => page.click('text=Review and apply')).then(() => page.locator('dialog').waitFor())],
  ['a bad text', 'config?part=text', () => write((it) => it.replace('default_ttl', 'defualt_ttl')).then(() => page.locator('.mark-line').waitFor())],
];

const LOOKS = ['dark', 'light'].flatMap((colorScheme) => [1440, 820].map((width) => ({ colorScheme, width, height: width === 820 ? 1180 : 900 })));

for (const { colorScheme, ...size } of LOOKS) {
  const named = `${colorScheme}, ${size.width} pixels wide`;
  const look = async () => {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    await page.setViewportSize(size);
  };

  for (const view of [...VIEWS, 'nowhere', 'live?filter=status%20%3E%3D']) {
    it(`has no serious finding of axe in ${view}, ${named}`, async () => {
      await look();
      await go(view === 'explain' ? `explain?url=${encodeURIComponent(`${larder.site}/pages/explained`)}` : view);
      await page.locator('.tiles:not(.loading), .table, .empty, .told-all, .setting, .editor, .hint, .bad-filter, [data-key]').first().waitFor();
      assert.deepEqual(await audit(page), []);
    });
  }

  for (const [what, view, opens] of OPENS) {
    it(`has none in ${what}, ${named}`, async () => {
      await look();
      await go(view);
      await opens();
      assert.deepEqual(await audit(page), []);
      await page.keyboard.press('Escape');
      await page.locator('dialog').waitFor({ state: 'detached' });
      const discard = page.getByRole('button', { name: 'Discard' });
      if ((await discard.count()) && (await discard.isEnabled())) await discard.click();
    });
  }
}

it('fits on a tablet', async () => {
  await page.setViewportSize({ width: 820, height: 1180 });
  for (const view of VIEWS) {
    await go(view);
    await page.locator('.tiles:not(.loading), .table, .empty, .setting, .editor, .hint, [data-key]').first().waitFor();
    const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    assert.ok(wider <= 0, `${view} is ${wider} pixels too wide`);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
});

it('says that larder does not answer, and goes on when it does', async () => {
  await go('overview');
  await page.locator('.standing.live').waitFor();
  larder.pause();
  try {
    await page.locator('.standing.lost').waitFor();
  } finally {
    larder.goOn();
  }
  await page.locator('.standing.live').waitFor();
});

it('ends the session at a log out', async () => {
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.locator('text=larder login').waitFor();
  assert.equal(await page.evaluate(() => localStorage.getItem('larder.token')), null);
});

it('has asked nobody else, and has said nothing on the console', () => {
  assert.deepEqual(seen.elsewhere, []);
  assert.deepEqual(seen.console, []);
});

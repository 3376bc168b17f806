// The first view: whether it is well, against an hour ago; the worst routes and origins first; an origin is drained and restored.
import assert from 'node:assert/strict';
import { audit, go, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, load, until } from './larder.mjs';

let clients;

const SEVERAL = (origin) => `
[[site]]
hosts = ["several.example"]

[[site.route]]
name = "several"
path = "/*"
proxy = { to = ["${origin}", "http://127.0.0.1:1"], health = { path = "/", interval = "1s", fall = 1 } }

[[site]]
hosts = ["alone-under-a-long-name.of-a-host.example"]

[[site.route]]
name = "alone"
path = "/*"
proxy = { to = ["http://127.0.0.1:2"] }
`;

testPage({
  prepare: async () => {
    const to = /to = \["(http:[^"]+)"/.exec(larder.configuration())[1];
    larder.configure(larder.configuration() + SEVERAL(to));
    clients = load(larder.site);
  },
  ends: async () => {
    await clients?.stop();
  },
});

const block = (name) => page.locator(`section:has(> .block-head h2:text("${name}"))`);
const row = (name, of) => block(name).locator('tbody tr', { hasText: of });
const hash = () => new URL(page.url()).hash;

it('names the one time of its figures, and each tile leads to what explains it', async () => {
  await until('the base is known', async () => Number(await page.locator('[data-base]').getAttribute('data-base')) > 1);
  assert.match(await page.locator('.head-sub').innerText(), /^Figures of the last (\d+ s|minute)$/);
  const tiles = page.locator('.tile');
  assert.equal(await tiles.count(), 4);
  const places = [/#\/top\?by=requests/, /#\/live\?filter=status\+?(%20|\+)/, /#\/why/, /#\/traces/];
  for (const [at, place] of places.entries()) {
    await go('overview');
    await tiles.nth(at).click();
    await page.waitForURL(place);
  }
  await go('overview');
  for (const text of await tiles.allInnerTexts()) assert.match(text, /an hour ago/);
});

// The state judges the last minute. A page that is opened in it shows the same minute, and not the seconds since it was opened.
it('begins with the minute that the state is of', async () => {
  for (let at = 0; at < 60; at += 1) await ask(`${larder.site}/broken/oven-${at}`);
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 900 });
    await page.reload();
    await page.locator('.tile').first().waitFor();
    const first = await page.evaluate(() => ({
      tile: [...document.querySelectorAll('.tile')].find((it) => it.textContent.includes('Server errors')).textContent,
      routes: [...document.querySelectorAll('section.block')].some((it) => it.textContent.includes('the worst first')),
    }));
    assert.ok(first.routes, `${width}: routes are there with the tiles`);
    const failed = Number(/([\d,]+) with 5xx/.exec(first.tile)?.[1].replace(',', ''));
    assert.ok(failed >= 60, `${width}: ${first.tile}`);
    const shares = await page.locator('section:has(> .block-head h2:text("Routes")) tbody tr td:nth-child(3)').allInnerTexts();
    assert.ok(shares.some((it) => /[1-9]/.test(it)), `${width}: a route has the errors of the tile: ${shares}`);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
});

it('says what the hit ratio could be', async () => {
  const tile = page.locator('.tile', { hasText: 'Hit ratio' });
  await until('a request that could have been a hit is counted', async () => {
    await ask(`${larder.site}/silent/page`, { Host: 'several.example' });
    return /could be \d/.test(await tile.innerText());
  });
  const figure = (pattern, text) => Number(pattern.exec(text)[1]);
  const text = (await tile.innerText()).replaceAll('\n', ' ');
  assert.ok(figure(/could be ([\d.]+) ?%/, text) >= figure(/([\d.]+) ?%/, text), text);
});

it('shows responses that came from the cache after a 304 apart from hits', async () => {
  const tile = page.locator('.tile', { hasText: 'Hit ratio' });
  await until('a validated response is counted', async () => {
    await ask(`${larder.site}/validated/page`);
    return /[1-9][\d.]*\s*% more from the cache after a 304; /.test(await tile.innerText());
  });
});

it('compares with an hour ago once larder has run for so long', async () => {
  const now = Math.floor(Date.now() / 1000);
  const columns = ['at', 'millis', 'requests', 'hits', 'hits_disk', 'hits_fleet', 'misses', 'passes', 'bytes_sent', 'bytes_received', 'evictions', 'errors_4xx', 'errors_5xx', 'saved_us', 'ram_bytes', 'hit_p50_us', 'hit_p99_us', 'miss_p50_us', 'miss_p99_us'];
  const sample = (at) => [at, 10_000, 40, 30, 0, 0, 10, 0, 9000, 900, 0, 0, 2, 1_000_000, 5000, 100, 200, 3000, 4000];
  const samples = Array.from({ length: 720 }, (_, at) => sample(now - 10 * (719 - at)));
  const marks = [{ at: now - 600, kind: 'reload', what: 'configuration reloaded' }, ...[4, 3, 2, 1].map((it) => ({ at: now - it * 60, kind: 'reload', what: `${it} minutes ago` }))];
  await page.route('**/api/v1/history*', (route) => route.fulfill({ json: { now, step: 10, columns, samples, marks, kept: { in: 'file', path: '/history', bytes: 1 } } }));
  try {
    await page.reload();
    const then = (name) => page.locator('.tile', { hasText: name }).locator('[data-then]').innerText();
    await until('the rate of then', async () => /^an hour ago 4\.0 /.test(await then('Requests')));
    assert.match(await then('Server errors'), /^an hour ago 5\.0 %/);
    assert.match(await then('Hit ratio'), /^an hour ago 75\.0 %/);
    assert.match(await then('Latency'), /^an hour ago 4(\.00)? ms/);
    const marks = page.locator('.marks');
    assert.match(await marks.innerText(), /1 minutes ago\s.*2 minutes ago\s.*3 minutes ago\s.*2 earlier/s);
    await marks.getByRole('button', { name: '2 earlier …' }).click();
    await marks.getByText('configuration reloaded').waitFor();
    // A mark that is pointed at alone, and a time that is dragged over.
    const plot = page.locator('.plot .u-over');
    const { x, y, width } = await plot.boundingBox();
    await page.mouse.move(x + width * 0.4, y + 60);
    await page.mouse.down();
    await page.mouse.move(x + width * 0.6, y + 60, { steps: 8 });
    await page.mouse.up();
    await page.locator('.zoomed').waitFor();
    assert.doesNotMatch(await page.locator('.marks').innerText(), /reloaded/, 'its time is not shown');
    await page.locator('.zoomed').getByRole('button', { name: 'Show all' }).click();
    await page.locator('.zoomed').waitFor({ state: 'detached' });
    await page.locator('.marks', { hasText: 'reloaded' }).waitFor();
  } finally {
    await page.unroute('**/api/v1/history*');
    await page.reload();
  }
});

it('marks events of larder itself', async () => {
  await go('overview');
  const marks = async () => {
    const answer = await fetch(`${larder.admin}/api/v1/history`, { headers: { Authorization: `Bearer ${larder.token()}` } });
    return (await answer.json()).marks.map((it) => it.what);
  };
  await until('it is marked', async () => (await marks()).includes('http://127.0.0.1:1 is down'));
  // On a busy machine later events may have taken its place in the line.
  await page.locator('.marks', { hasText: /127\.0\.0\.1:1 is down|earlier/ }).waitFor();
});

it('draws the same rates in each time', async () => {
  await until('steps are kept', async () => (await (await fetch(`${larder.admin}/api/v1/history`, { headers: { Authorization: `Bearer ${larder.token()}` } })).json()).samples.length > 3);
  await page.reload();
  await page.locator('.legend [data-value]').first().waitFor();
  const rates = async () => (await page.locator('.legend [data-value]').allInnerTexts()).map((it) => Number(it.replace(/[^\d.]/g, '')) || 0);
  // A step is of ten seconds, and its rate is of one: clients send no tenfold of what they sent.
  await until('hits are drawn', async () => (await rates())[0] > 5);
  const [ram, , , miss] = await rates();
  assert.ok(miss < ram, `most requests are hits, as the tile says: ${ram} and ${miss}`);
});

it('shows each measure over each time, and axe finds nothing', async () => {
  for (const measure of ['Errors', 'Hit ratio', 'Latency', 'Bytes', 'Time saved', 'Requests']) {
    await page.locator('.chart-bar').getByRole('button', { name: measure, exact: true }).click();
    await page.locator('.legend [data-value]').first().waitFor();
  }
  for (const time of ['5 min', '15 min', '6 h', '1 d', '7 d', '1 h']) await page.getByRole('button', { name: time, exact: true }).click();
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    assert.deepEqual(await audit(page), [], colorScheme);
  }
});

it('has the worst route first, sorts by a column, and keeps that in the address', async () => {
  await ask(`${larder.site}/x`, { Host: 'alone-under-a-long-name.of-a-host.example' });
  await until('what fails is first', async () => {
    await ask(`${larder.site}/x`, { Host: 'alone-under-a-long-name.of-a-host.example' });
    return (await block('Routes').locator('tbody tr').first().innerText()).startsWith('alone');
  });
  await block('Routes').getByRole('button', { name: 'Req / s' }).click();
  await until('the busiest is first', async () => (await block('Routes').locator('tbody tr').first().innerText()).startsWith('pages'));
  assert.match(hash(), /sort=requests/);
  await page.reload();
  await block('Routes').locator('[aria-sort="descending"]', { hasText: 'Req / s' }).waitFor();
  await block('Routes').getByRole('button', { name: 'Req / s' }).click();
  await block('Routes').locator('[aria-sort="ascending"]').waitFor();
  await block('Routes').getByRole('button', { name: 'Req / s' }).click();
  assert.equal(await block('Routes').locator('[aria-sort]').count(), 0, 'it is as it was');
});

it('leads from a row to its requests', async () => {
  // Anywhere in the row, whose link is as large as it is.
  const press = async (of) => {
    const { x, y } = await of.locator('td').nth(1).boundingBox();
    await page.mouse.click(x + 5, y + 5);
  };
  await press(row('Routes', 'pages'));
  await page.waitForURL(/#\/live/);
  await until('the route is the filter', async () => (await page.locator('[data-search]').inputValue()).startsWith('route == "pages"'));
  await go('overview');
  await block('Origins').waitFor();
  await press(row('Origins', '127.0.0.1:2'));
  await page.waitForURL(/#\/live/);
  await until('it is the filter', async () => (await page.locator('[data-search]').inputValue()) === 'origin == "http://127.0.0.1:2"');
});

it('drains an origin after it has said what that does, and restores it', async () => {
  await go('overview');
  await row('Origins', '127.0.0.1:2').getByRole('button', { name: /^Drain/ }).click();
  const dialog = page.locator('dialog');
  await dialog.waitFor();
  const told = await dialog.innerText();
  assert.match(told, /The route alone has no other origin that is up/);
  assert.match(told, /until Restore or a restart of larder; a reload keeps it/);
  assert.deepEqual(await audit(page), []);
  await dialog.getByRole('button', { name: 'Cancel' }).click();
  await dialog.waitFor({ state: 'detached' });
  assert.equal(await row('Origins', '127.0.0.1:2').getByRole('button', { name: /^Restore/ }).count(), 0, 'nothing is done yet');
  await row('Origins', '127.0.0.1:2').getByRole('button', { name: /^Drain/ }).click();
  await dialog.getByRole('button', { name: 'Drain', exact: true }).click();
  await row('Origins', '127.0.0.1:2').locator('.chip', { hasText: 'drained' }).waitFor();
  assert.equal((await ask(`${larder.site}/y`, { Host: 'alone-under-a-long-name.of-a-host.example' })).status, 503);
  await page.locator('.marks', { hasText: /127\.0\.0\.1:2 drained|earlier/ }).waitFor();
  await row('Origins', '127.0.0.1:2').getByRole('button', { name: /^Restore/ }).click();
  await row('Origins', '127.0.0.1:2').getByRole('button', { name: /^Drain/ }).waitFor();
});

it('marks the row of an origin that the state names, again and again', async () => {
  // So low that the list of origins lies below.
  await page.setViewportSize({ width: 1440, height: 500 });
  await go('overview');
  const down = page.locator('.state').getByRole('link', { name: 'origin http://127.0.0.1:1 is down' });
  const list = page.locator('.state').getByRole('button', { name: /more …|Remedy …/ });
  const marked = block('Origins').locator('tr[aria-current]');
  const isInView = () => marked.evaluate((it) => it.getBoundingClientRect().top >= 0 && it.getBoundingClientRect().bottom <= innerHeight);
  for (let times = 0; times < 2; times += 1) {
    await list.click();
    await down.click();
    await until('the row is in sight', async () => (await marked.count()) === 1 && (await isInView()));
    assert.match(await marked.innerText(), /^127\.0\.0\.1:1\b/);
    await page.evaluate(() => scrollTo({ top: 0, behavior: 'instant' }));
    await page.locator('.state .findings').waitFor({ state: 'detached' });
  }
  assert.deepEqual(await audit(page), []);
  await page.setViewportSize({ width: 1440, height: 900 });
  await go('overview?show=memory');
  await page.locator('dialog', { hasText: 'accounted for' }).waitFor();
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await go('overview');
});

it('has the tiers in a line, and memory in a drawer', async () => {
  assert.match(await page.locator('.tiers').innerText(), /RAM.* of .*objects.*evicted \/ s.*Disk.*Fleet.*off/s);
  await page.locator('.tiers').getByRole('button', { name: /Memory/ }).click();
  await page.locator('dialog', { hasText: 'accounted for' }).waitFor();
  assert.deepEqual(await audit(page), []);
  await page.keyboard.press('Escape');
  await page.locator('.tiers a', { hasText: 'Disk' }).click();
  await page.waitForURL(/#\/objects\?tier=disk/);
});

// On a busy machine the event of a new address comes after the view that is left has drawn: that view noted itself in the address, and
// the navigation was lost.
it('is opened while another view is still drawing', async () => {
  await go('top');
  await page.evaluate(() => {
    const late = (event) => {
      if (!location.hash.startsWith('#/overview')) return;
      removeEventListener('hashchange', late, true);
      event.stopImmediatePropagation();
      setTimeout(() => dispatchEvent(new HashChangeEvent('hashchange')), 1000);
    };
    addEventListener('hashchange', late, true);
    const main = document.querySelector('main');
    const drawn = new MutationObserver(() => {
      if (main.querySelector('h1')?.textContent !== 'Objects' || !main.querySelector('[data-search]')) return;
      drawn.disconnect();
      location.hash = '#/overview';
    });
    drawn.observe(main, { childList: true, subtree: true });
    location.hash = '#/objects?tier=disk';
  });
  await block('Routes').waitFor({ timeout: 20_000 });
  assert.equal(hash(), '#/overview');
});

it('is on one screen of a desk, and in one column on a phone', async () => {
  for (const [width, height] of [[1400, 900], [1440, 900], [2560, 1300], [820, 1180], [390, 844]]) {
    await page.setViewportSize({ width, height });
    await go('overview');
    await block('Routes').waitFor();
    // The chart follows the width once the page has drawn again.
    await until(`nothing is wider than ${width}`, () => page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    if (width >= 1440) await until(`${width}: the tiers are on the screen`, () => page.evaluate(() => document.querySelector('.tiers').getBoundingClientRect().bottom <= innerHeight));
    if (width >= 1400) await until(`${width}: the last column of the routes is not cut`, () => block('Routes').getByRole('region').evaluate((it) => it.scrollWidth <= it.clientWidth));
    await until(`${width}: the chart covers nothing beneath it`, async () => {
      const [plot, next] = [await page.locator('.uplot').first().boundingBox(), await block('Routes').boundingBox()];
      return plot && next && plot.y + plot.height <= next.y;
    });
    const left = await page.evaluate(() => [...document.querySelectorAll('.tile')].map((it) => it.getBoundingClientRect().left));
    if (width === 390) assert.equal(new Set(left).size, 1, 'one column');
    // The columns follow the width once the page has drawn again.
    await until('an origin is drained without scrolling sideways', async () => {
      const [box, region] = [await block('Origins').getByRole('button').last().boundingBox(), await block('Origins').getByRole('region').boundingBox()];
      return box && region && box.x + box.width <= region.x + region.width;
    });
    if (process.env.LARDER_PICTURES) {
      for (const colorScheme of ['light', 'dark']) {
        await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
        await page.screenshot({ path: `${process.env.LARDER_PICTURES}/overview-${width}-${colorScheme}.png`, fullPage: width < 900 });
      }
    }
  }
});

it('has asked nobody else, and has said nothing on the console', () => {
  assert.deepEqual(seen.elsewhere, []);
  assert.deepEqual(seen.console, []);
});

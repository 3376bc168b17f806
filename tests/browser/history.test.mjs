// After an incident: the spike of an hour ago is in the chart, and dragging over it, or entering its time, shows the faulty route first.
import assert from 'node:assert/strict';
import { audit, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, until } from './larder.mjs';

let spike;

/** Seconds of the story: it ends about now, so that the clocks of larder and the browser agree. */
const STORY = 540;
const BEGUN = Math.floor(Date.now() / 1000) - STORY;
const env = { LARDER_TEST_CLOCK: String(BEGUN) };

const api = async (path, method = 'GET') => {
  const answer = await fetch(larder.admin + path, { method, headers: { Authorization: `Bearer ${larder.token()}` } });
  assert.equal(answer.status, 200, path);
  return answer.json();
};

/** Lets a minute pass, in steps of ten seconds, with requests in each. */
async function minute(...paths) {
  for (let step = 0; step < 6; step += 1) {
    for (const path of paths) await ask(`${larder.site}${path}`, { Host: 'shop.example' });
    await api('/test/clock?advance=10&uptime=10000', 'POST');
    await api('/api/v1/history?since=0');
  }
}

testPage({
  env,
  prepare: async () => {
    // The time of a busy machine does not count, and the minutes of larder begin with those of the story.
    await api('/test/clock?advance=60&uptime=60000&hold=1', 'POST');
    await api('/api/v1/history?since=0');
    const usual = ['/pages/a', '/pages/b', '/api/items/1'];
    for (let at = 0; at < 4; at += 1) await minute(...usual);
    spike = (await api('/api/v1/history')).now;
    await minute(...usual, '/api/broken/1', '/api/broken/2');
    for (let at = 0; at < 3; at += 1) await minute(...usual);
    await api('/test/clock?advance=0&hold=0', 'POST');
  },
});

/** Waits until the chart shows the errors that larder kept: before, it shows what the page read itself, which is of another time. */
const drawn = () => until('the errors of then are drawn', async () => /max 0\.[1-9]/.test((await page.locator('.legend', { hasText: '5xx' }).innerText()).replaceAll('\n', ' ')));

const panel = () => page.locator('.difference');
const firstRoute = () => panel().locator('[data-difference] tbody tr').first();

async function expectFaultyRoute() {
  // Until the answer for a time is there, the panel shows the difference of the time before. Two of three requests failed.
  await firstRoute().filter({ hasText: '66.7 %' }).waitFor();
  const text = (await firstRoute().innerText()).replace(/\s+/g, ' ');
  assert.match(text, /^api /, text);
  assert.match(text, /66\.7 %\s*before 0 %/, text);
  const failed = panel().getByRole('region', { name: 'Failed requests' });
  assert.match(await failed.innerText(), /\/api\/broken\/[12]/);
  assert.match(await failed.innerText(), /503/);
  assert.match(await panel().getByRole('region', { name: 'URLs that differ' }).innerText(), /\/api\/broken\//);
}

it('shows the faulty route first where one drags over the spike', async () => {
  await page.locator('.chart-bar').getByRole('button', { name: 'Errors', exact: true }).click();
  await drawn();
  const { samples } = await api('/api/v1/history');
  const [first, last] = [samples[0][0], samples.at(-1)[0]];
  const { x, y, width } = await page.locator('.plot .u-over').boundingBox();
  const place = (time) => x + ((time - first) / (last - first)) * width;
  await page.mouse.move(place(spike + 12), y + 60);
  await page.mouse.down();
  await page.mouse.move(place(spike + 48), y + 60, { steps: 8 });
  await page.mouse.up();
  await page.locator('.zoomed').waitFor();
  await expectFaultyRoute();
  // What is compared are whole minutes: the chart shows these.
  const times = async (of) => (await of.innerText()).match(/\d+:\d+:\d+/g)?.slice(0, 2).join();
  const compared = await times(panel().locator('h2'));
  await until('the chart shows the range that is compared', async () => (await times(page.locator('.zoomed'))) === compared);
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
    assert.deepEqual(await audit(page), [], colorScheme);
  }
  await panel().getByRole('button', { name: 'Close' }).click();
  await panel().waitFor({ state: 'detached' });
  assert.equal(await page.locator('.zoomed').count(), 0, 'the whole time is shown again');
});

it('shows the same by keyboard', async () => {
  const summary = page.locator('.compare summary');
  await summary.focus();
  await page.keyboard.press('Enter');
  const local = await page.evaluate((times) => {
    const two = (value) => String(value).padStart(2, '0');
    return times.map((unix) => {
      const it = new Date(unix * 1000);
      return `${it.getFullYear()}-${two(it.getMonth() + 1)}-${two(it.getDate())}T${two(it.getHours())}:${two(it.getMinutes())}:${two(it.getSeconds())}`;
    });
  }, [spike + 12, spike + 48]);
  const from = page.getByLabel('From');
  const to = page.getByLabel('To', { exact: true });
  // It offers the latest five minutes.
  await until('a time is offered', async () => (await to.inputValue()) !== '');
  await from.fill(local[1]);
  await to.fill(local[0]);
  await to.press('Enter');
  await page.getByRole('alert').filter({ hasText: 'not after' }).waitFor();
  await from.fill(local[0]);
  await to.fill(local[1]);
  await to.press('Enter');
  await expectFaultyRoute();
  assert.deepEqual(await audit(page), []);
});

it('keeps the history over a restart, and marks it', async () => {
  env.LARDER_TEST_CLOCK = String((await api('/api/v1/history')).now + 42);
  await larder.end();
  const link = await larder.again();
  // The clock of a larder that is tested stands still.
  await minute('/pages/a');
  await page.goto(link);
  await page.locator('.tiles:not(.loading)').waitFor();
  await page.reload();
  await page.locator('.marks', { hasText: /started, 42 s after its stop|earlier/ }).waitFor();
  await page.locator('.chart-bar').getByRole('button', { name: 'Errors', exact: true }).click();
  await drawn();
});

it('lists the worst requests in Traces, opens one, and explains its URL', async () => {
  await page.goto(`${larder.admin}/#/traces`);
  const block = page.locator('section', { hasText: 'The worst requests' }).last();
  await block.getByRole('button', { name: /^Failed \(12\)/ }).click();
  const row = block.locator('tbody tr').first();
  await row.waitFor();
  assert.match(await row.innerText(), /\/api\/broken\/2[\s\S]*503/);
  assert.deepEqual(await audit(page), []);
  await row.getByRole('button').click();
  const drawer = page.locator('dialog.drawer');
  await drawer.locator('[data-failure]', { hasText: 'The origin answered 503.' }).waitFor();
  assert.match((await drawer.innerText()).replaceAll(/\s+/g, ' '), /Status 503 Ended .* Route api Origin http:\/\/127\.0\.0\.1:\d+, .* Reason /);
  assert.deepEqual(await audit(page), []);
  await drawer.getByRole('button', { name: 'Explain its URL now' }).click();
  await page.waitForURL(/#\/explain\?url=/);
});

it('is usable at 390 pixels', async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  await page.goto(`${larder.admin}/#/overview`);
  await page.locator('.compare summary').waitFor();
  const wide = await page.evaluate(() => document.documentElement.scrollWidth);
  assert.ok(wide <= 390, `${wide} pixels`);
  // While it is restarted, larder answers nothing.
  const said = seen.console.filter((it) => !it.includes('ERR_CONNECTION_REFUSED'));
  assert.deepEqual([said, seen.elsewhere], [[], []]);
});

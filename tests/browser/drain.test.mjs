// An origin that is slow, failing or named by the state is drained in two clicks from the overview, whatever the number of origins.
import assert from 'node:assert/strict';
import http from 'node:http';
import { audit, dialog, go, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, until } from './larder.mjs';

/** Milliseconds of the slow origin: above the least mean time of the finding. */
const SLOW = 300;

/** More than the rows that a list has at first. */
const DOWN = [1, 2, 3, 4, 5].map((port) => `http://127.0.0.1:${port}`);

let slow, busy;

const SITE = (fast, slow) => `
[[site]]
hosts = ["paced.example"]

[[site.route]]
name = "paced"
path = "/*"
proxy = { to = ["${fast}", "${slow}"], balance = "round_robin" }

[[site]]
hosts = ["down.example"]

[[site.route]]
name = "down"
path = "/*"
proxy = { to = ["${fast}", ${DOWN.map((it) => `"${it}"`).join(', ')}], health = { path = "/", interval = "1s", fall = 1 } }
`;

testPage({
  prepare: async () => {
    const server = http.createServer((_, response) => setTimeout(() => response.writeHead(200, { 'Cache-Control': 'no-store' }).end('late'), SLOW));
    await new Promise((then) => server.listen(0, '127.0.0.1', then));
    slow = { server, name: `http://127.0.0.1:${server.address().port}` };
    const fast = /to = \["(http:[^"]+)"/.exec(larder.configuration())[1];
    larder.configure(larder.configuration() + SITE(fast, slow.name));
    let ends = false;
    const client = async () => {
      while (!ends) {
        await ask(`${larder.site}/private/${Math.random()}`, { Host: 'paced.example' }).catch(() => null);
        await new Promise((then) => setTimeout(then, 100));
      }
    };
    const clients = [client(), client(), client()];
    busy = async () => {
      ends = true;
      await Promise.all(clients);
    };
  },
  ends: async () => {
    await busy?.();
    slow?.server.closeAllConnections();
    slow?.server.close();
  },
});

const rows = () => page.locator('section:has(> .block-head h2:text("Origins")) tbody tr');
const row = (name) => rows().filter({ has: page.locator(`button[aria-label$=" ${name}"]`) });
const sentence = () => page.locator('.findings li', { hasText: `origin ${slow.name} is slower` });
const listed = () => page.locator('.state').getByRole('button', { name: /more …/ }).click();

it('shows every origin that the state names in the first rows, in the order of the state, with its word', async () => {
  await until('the state names the slow origin', async () => {
    const state = await (await fetch(`${larder.admin}/api/v1/health`, { headers: { Authorization: `Bearer ${larder.token()}` } })).json();
    return state.findings.filter((it) => it.name === 'origin-down').length >= DOWN.length && state.findings.some((it) => it.name === 'origin-slow');
  });
  for (const [width, height] of [[1440, 900], [390, 844]]) {
    await page.setViewportSize({ width, height });
    await go('overview');
    await until(`${width}: the slow origin has a row`, async () => (await row(slow.name).count()) === 1 && /slow/.test(await row(slow.name).innerText()));
    await row(slow.name).locator('.chip', { hasText: 'slow' }).waitFor();
    const names = await rows().getByRole('button', { name: /^Drain/ }).evaluateAll((all) => all.map((it) => it.getAttribute('aria-label').replace('Drain ', '')));
    for (const name of DOWN) assert.ok(names.includes(name) && names.indexOf(name) < names.indexOf(slow.name), `${width}: ${name} is before the slow one, of which the state has a notice: ${names}`);
    assert.deepEqual(await audit(page), []);
  }
  await page.setViewportSize({ width: 1440, height: 900 });
});

it('drains an origin from its sentence in the state of any view, in one click and a confirmation', async () => {
  await go('top');
  await listed();
  assert.deepEqual(await audit(page), []);
  await sentence().getByRole('link', { name: /^Drain/ }).click();
  await dialog().locator('h2', { hasText: `Drain ${slow.name}?` }).waitFor();
  assert.equal(await page.locator('.findings').count(), 0, 'the list is closed');
  assert.match(new URL(page.url()).hash, /^#\/overview\?/);
  await dialog().getByRole('button', { name: 'Cancel' }).click();
  await dialog().waitFor({ state: 'detached' });
  await page.reload();
  await row(slow.name).waitFor();
  assert.equal(await dialog().count(), 0, 'a dialog that was closed is not opened by a reload');
  await listed();
  await sentence().getByRole('link', { name: /^Drain/ }).click();
  await dialog().getByRole('button', { name: 'Drain', exact: true }).click();
  await row(slow.name).locator('.chip', { hasText: 'drained' }).waitFor();
  await dialog().waitFor({ state: 'detached' });
  // The sentence holds for the rest of its minute.
  await listed();
  if (await sentence().count()) {
    await sentence().getByRole('link', { name: /^Drain/ }).click();
    await row(slow.name).getByRole('button', { name: /^Restore/ }).waitFor();
    assert.equal(await dialog().count(), 0, 'it is drained already');
  }
});

it('drains the origin of the first sentence from the line of the state', async () => {
  for (const width of [1440, 390]) {
    await page.setViewportSize({ width, height: 900 });
    await go('objects');
    await page.locator('.state-line').getByRole('link', { name: /^Drain/ }).click();
    await dialog().locator('h2', { hasText: /^Drain http:.*\?$/ }).waitFor();
    await dialog().getByRole('button', { name: 'Cancel' }).click();
    await dialog().waitFor({ state: 'detached' });
  }
});

it('had no error in its console', () => assert.deepEqual(seen, { console: [], elsewhere: [] }));

// A single-page application that Vite built of React, served as docs/guide/single-page-application.md says, and its next release.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { open } from './browser.mjs';
import { run } from './larder.mjs';

const top = join(dirname(fileURLToPath(import.meta.url)), '../..');

const DISHES = ['soup', 'bread', 'quince'];

let folder, application, larder, browser, page, seen;

/** Builds the application as a developer does, and puts it where larder serves it. */
function release(name) {
  const source = join(folder, 'source');
  execFileSync(process.execPath, [join(source, 'node_modules/vite/bin/vite.js'), 'build'], {
    cwd: source,
    env: { ...process.env, VITE_RELEASE: name, NODE_ENV: 'production' },
  });
  rmSync(join(folder, 'app'), { recursive: true, force: true });
  cpSync(join(source, 'dist'), join(folder, 'app'), { recursive: true });
}

/** The configuration of the guide, for these addresses and this directory. */
function configuration(origin) {
  const guide = readFileSync(join(top, 'docs/guide/single-page-application.md'), 'utf8');
  const [, text] = /```toml\n(.*?)```/s.exec(guide);
  const own = text
    .replaceAll('/srv/app', join(folder, 'app'))
    .replace('[::]:80', '127.0.0.1:0')
    .replace('http://127.0.0.1:8000', origin)
    .replace('"example.com"', '"127.0.0.1"');
  return own.replace('[[site]]', `[admin]\nlisten = "127.0.0.1:0"\ntoken_file = "${folder}/token"\n\n[[site]]`);
}

before(async () => {
  folder = mkdtempSync(join(tmpdir(), 'larder-spa-'));
  cpSync(join(top, 'tests/apps/spa'), join(folder, 'source'), { recursive: true });
  symlinkSync(join(top, 'target/tools/spa/node_modules'), join(folder, 'source/node_modules'));
  release('one');
  application = http.createServer((request, response) => {
    const number = Number(request.url.split('/').at(-1));
    response.setHeader('Content-Type', 'application/json');
    response.setHeader('Cache-Control', 'no-store');
    response.end(JSON.stringify({ number, dish: DISHES[number % DISHES.length] }));
  });
  await new Promise((then) => application.listen(0, '127.0.0.1', then));
  const file = join(folder, 'larder.toml');
  writeFileSync(file, configuration(`http://127.0.0.1:${application.address().port}`));
  larder = await run(folder, file);
  ({ browser, page, seen } = await open(larder.site));
});

after(async () => {
  await browser?.close();
  await larder?.stop();
  application?.closeAllConnections();
  application?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** The files of the page that the browser has, and whether each came over the network. */
const assets = () =>
  page.evaluate(() =>
    performance
      .getEntriesByType('resource')
      .filter((it) => new URL(it.name).pathname.startsWith('/assets/'))
      .map((it) => ({ path: new URL(it.name).pathname, status: it.responseStatus, sent: it.transferSize > 0, compressed: it.encodedBodySize < it.decodedBodySize })),
  );

const color = () => page.locator('h1').evaluate((it) => getComputedStyle(it).color);

test('a link into the application opens it', async () => {
  const answer = await page.goto(`${larder.site}/orders/7`);
  assert.equal(answer.status(), 200);
  assert.equal(answer.headers()['cache-control'], 'no-cache');
  await page.getByText('Order 7: bread').waitFor();
  assert.equal(await color(), 'rgb(0, 90, 60)');
  const loaded = await assets();
  assert.ok(loaded.length >= 2, JSON.stringify(loaded));
  assert.ok(loaded.every((it) => it.status === 200), JSON.stringify(loaded));
  assert.ok(loaded.some((it) => it.path.endsWith('.js') && it.compressed), JSON.stringify(loaded));
});

test('navigation in the application, a chunk of its own, and back', async () => {
  await page.getByText('The next order').click();
  await page.getByText('Order 8: quince').waitFor();
  await page.getByText('About').click();
  await page.getByText('All orders are imaginary, release one.').waitFor();
  await page.goBack();
  await page.getByText('Order 8: quince').waitFor();
});

test('a reload validates the page alone', async () => {
  await page.reload();
  await page.getByText('Order 8: quince').waitFor();
  // Of a reload, too, Chromium takes files from its own cache that are immutable.
  const loaded = await assets();
  assert.ok(loaded.length >= 2 && loaded.every((it) => !it.sent), JSON.stringify(loaded));
});

test('the next release is there at the next visit, and what it no longer has is 404', async () => {
  const before = await assets();
  release('two');
  await page.reload();
  await page.getByText('Release two').waitFor();
  const loaded = await assets();
  const script = (of) => of.find((it) => it.path.endsWith('.js')).path;
  assert.notEqual(script(before), script(loaded));
  const old = await page.request.get(larder.site + script(before), { headers: { Accept: '*/*' } });
  assert.equal(old.status(), 404);
  await page.getByText('About').click();
  await page.getByText('All orders are imaginary, release two.').waitFor();
  assert.deepEqual(seen.console, []);
  assert.deepEqual(seen.elsewhere, []);
});

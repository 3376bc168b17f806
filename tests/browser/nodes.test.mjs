// The nodes of a fleet: two larders with one memcached; without a fleet one sentence; a silent node; and a name that would like to be more
// than text.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { audit, isWithin, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, start, until } from './larder.mjs';

let other, memcached;
const folder = mkdtempSync(join(tmpdir(), 'larder-nodes-'));
const socket = join(folder, 'memcached');

testPage({
  prepare: async () => {
    memcached = spawn('memcached', ['-s', socket, '-u', 'root'], { stdio: 'ignore' });
    await until('memcached listens', () => existsSync(socket));
    other = await start();
  },
  ends: async () => {
    other?.goOn();
    await other?.stop();
    memcached?.kill();
    rmSync(folder, { recursive: true, force: true });
  },
});

const show = async () => {
  await page.goto(`${larder.admin}/#/overview`);
  await page.goto(`${larder.admin}/#/nodes`);
  await page.locator('main h1:text-is("Nodes")').waitFor();
};
const row = (name) => page.locator('.nodes tbody tr', { hasText: name });
const text = async (name) => ((await row(name).count()) === 1 ? row(name).innerText() : '');

/** The answer of memcached to a command with a one-line answer. */
const command = (bytes) =>
  new Promise((then, fail) => {
    const stream = net.connect(socket, () => stream.write(bytes));
    stream.once('data', (answer) => (stream.end(), then(answer.toString())));
    stream.once('error', fail);
  });

it('says in one sentence how to get the list where there is no fleet', async () => {
  await page.goto(`${larder.admin}/#/overview`);
  await page.locator('.tiles:not(.loading)').waitFor();
  assert.equal(await page.locator('nav a[href="#/nodes"]').count(), 0);
  await show();
  assert.match(await page.locator('.empty').innerText(), /cache\.fleet\.servers is not set: nodes with the same memcached servers/);
  assert.equal(await page.locator('.nodes').count(), 0);
  assert.deepEqual(await audit(page), []);
});

it('shows each node with its state, and the receipt of a purge says when all were past it', async () => {
  for (const one of [larder, other]) {
    await one.end();
    one.configure(`${one.configuration()}\n[cache.fleet]\nservers = ["unix:${socket}"]\npoll = "50ms"\n`);
  }
  const [link] = await Promise.all([larder.again(), other.again()]);
  await page.goto(link);
  await page.locator('nav a[href="#/nodes"]').waitFor();
  await show();
  const name = new URL(other.site).host;
  await until('both are healthy', async () => /healthy/.test(await text(name)) && /this node[\s\S]*healthy/.test(await text(new URL(larder.site).host)));
  for (let at = 0; at < 30; at += 1) await ask(`${other.site}/page/${at % 3}`);
  await until('its hit ratio is there', async () => /\d\d\.\d %/.test(await text(name)));
  assert.match(await page.locator('main .node-servers').innerText(), /its purge log is followed/);
  for (const colorScheme of ['dark', 'light']) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await audit(page), [], colorScheme);
  }
  for (const width of [390, 820, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    assert.ok(await isWithin(), `${width}`);
  }
  await page.goto(`${larder.admin}/#/objects`);
  await page.getByRole('button', { name: 'Purge …' }).click();
  const dialog = page.locator('dialog');
  const send = dialog.locator('.form-end button').last();
  await dialog.getByRole('button', { name: 'Everything' }).click();
  await send.click();
  await dialog.locator('.receipts', { hasText: 'before the purge' }).waitFor();
  await send.click();
  await dialog.locator('.receipts', { hasText: 'Purged everything' }).waitFor();
  const receipt = await dialog.locator('.receipts').innerText();
  assert.match(receipt, /fleet\s+applied\s+all 2 nodes past it after \d+\.\d s/);
  assert.equal(receipt.match(/node .*\s+applied after \d+\.\d s/g)?.length, 2, receipt);
  assert.match(receipt, /disk\s+\d+ responses? removed/);
  await dialog.locator('.form-end').getByRole('button', { name: 'Close' }).click();
});

it('shows a name that another program wrote as text, and a node without a status as one', async () => {
  await show();
  const value = BigInt(/\d+/.exec(await command('incr !log:nodes 1\r\n'))[0]);
  const key = `!node:${(value >> 24n).toString(16)}:${value & 0xffffffn}`;
  const name = Buffer.from('<img src=x onerror="document.title = 1">');
  const record = (wall) => {
    const numbers = Buffer.alloc(24);
    [77n, 1n, BigInt(wall)].forEach((it, at) => numbers.writeBigUInt64LE(it, at * 8));
    return Buffer.concat([Buffer.from('lpn1'), numbers, Buffer.from([0, name.length, 0]), name]);
  };
  let wall = Math.floor(Date.now() / 1000);
  await until('it is an older version', async () => {
    const bytes = record((wall += 1));
    await command(Buffer.concat([Buffer.from(`set ${key} 0 0 ${bytes.length}\r\n`), bytes, Buffer.from('\r\n')]));
    return /no status \(older version\)/.test(await text('<img src=x'));
  });
  assert.doesNotMatch(await page.title(), /^1/);
  assert.deepEqual(await audit(page), []);
});

it('names a node that does not report, and what it does then', async () => {
  await show();
  other.pause();
  const name = new URL(other.site).host;
  await until('it is silent', async () => /silent/.test(await text(name)));
  assert.match(await text(name), /no report since (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d: a purge that waits takes a lease, and the node validates every stored response/);
  await page.locator('.state', { hasText: 'does not report' }).waitFor();
  await page.locator('.state-line a', { hasText: 'does not report' }).first().click();
  await page.waitForURL(/#\/nodes/);
  assert.deepEqual(await audit(page), []);
  other.goOn();
  await until('it is healthy again', async () => /healthy/.test(await text(name)));
  // Of the restart.
  const refused = (line) => line.includes('ERR_CONNECTION_REFUSED');
  assert.deepEqual({ ...seen, console: seen.console.filter((line) => !refused(line)) }, { console: [], elsewhere: [] });
});

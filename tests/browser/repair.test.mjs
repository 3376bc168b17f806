// Faults around larder are found and mended from the page, as by an operator who sees the server for the first time: the
// state names the fault, its link leads to the place, the change is made there, and the state is Healthy again.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { audit, confirm, isWithin, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, until } from './larder.mjs';

const folder = mkdtempSync(join(tmpdir(), 'larder-repair-'));
const socket = (name) => join(folder, name);
const memcached = {};

/** Starts a memcached server; `name` is that of its socket. */
async function serve(name) {
  rmSync(socket(name), { force: true });
  memcached[name] = spawn('memcached', ['-s', socket(name), '-u', 'root'], { stdio: 'ignore' });
  await until('memcached listens', () => existsSync(socket(name)));
}

/** Ends a memcached server as the kernel does when memory is short. */
async function kill(name) {
  const ended = new Promise((then) => memcached[name].on('close', then));
  memcached[name].kill('SIGKILL');
  await ended;
}

/** Puts a certificate that is valid for this number of days in the place of the one before, key and certificate together. */
function certify(days) {
  const of = (name) => join(folder, name);
  execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', String(days), '-subj', '/CN=shop.example', '-addext', 'subjectAltName=DNS:shop.example', '-keyout', of('new.key'), '-out', of('new.pem')], { stdio: 'ignore' });
  execFileSync('mv', [of('new.key'), of('site.key')]);
  execFileSync('mv', [of('new.pem'), of('site.pem')]);
}

testPage({
  prepare: async () => {
    await Promise.all(['a', 'b', 'c'].map(serve));
    certify(90);
    await larder.end();
    const fleet = `[cache.fleet]\nservers = [${['a', 'b', 'c'].map((name) => `"unix:${socket(name)}"`).join(', ')}]\npoll = "50ms"\nretry = "200ms"\n`;
    const tls = `[[tls.certificates]]\ncert = "${folder}/site.pem"\nkey = "${folder}/site.key"\n`;
    const listens = larder.configuration().replace('listen = ["127.0.0.1:0"]', 'listen = ["127.0.0.1:0", "https://127.0.0.2:0"]');
    larder.configure(`${listens}\n${fleet}\n${tls}`);
    return larder.again();
  },
  ends: async () => {
    for (const it of Object.values(memcached)) it.kill();
    rmSync(folder, { recursive: true, force: true });
  },
});

const sentence = async () => ((await page.locator('.state p').count()) === 1 ? page.locator('.state p').innerText() : '');
const isHealthy = () => until('the state is Healthy', async () => (await sentence()) === 'Healthy');

/** The page at a desk and on a telephone, in the dark and by day. */
async function everywhere() {
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await audit(page), [], colorScheme);
  }
  for (const width of [390, 1440]) {
    await page.setViewportSize({ width, height: 900 });
    assert.ok(await isWithin(), `${width}`);
  }
}

it('names a memcached server that has ended, leads to it, and uses it again once it is started', async () => {
  await isHealthy();
  await kill('b');
  await until('the server is named', async () => /^Degraded: memcached server unix:\S+\/b is not used since (\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d/.test(await sentence()));
  await page.locator('.state-line a').click();
  await page.waitForURL(/#\/nodes/);
  const row = page.locator('.node-servers tr', { hasText: `${folder}/b` });
  await until('its row says so', async () => /not used after failures/.test(await row.innerText()));
  await everywhere();
  await serve('b');
  await isHealthy();
  await until('its row says so', async () => !/not /.test(await row.innerText()));
});

it('removes a memcached server that stays away, and puts that in force without a shell', async () => {
  await kill('b');
  await until('the server is named', async () => /memcached server unix:\S+\/b is not used/.test(await sentence()));
  await page.locator('.state-line a').click();
  await page.getByRole('link', { name: 'cache.fleet.servers' }).click();
  await page.waitForURL(/#\/config/);
  const field = page.getByRole('textbox', { name: /^servers/ });
  const members = (await field.inputValue()).split(', ');
  assert.equal(members.length, 3, 'the link opens the section of the servers');
  await field.fill(members.filter((one) => !one.endsWith('/b')).join(', '));
  await field.press('Enter');
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  await page.click('text=Review and apply');
  const dialog = page.locator('dialog');
  await dialog.locator('.waits', { hasText: 'cache.fleet.servers takes effect at the next restart' }).waitFor();
  await confirm(dialog, 'Apply');
  await dialog.waitFor({ state: 'detached' });
  const pending = page.locator('main .waits');
  assert.match(await pending.innerText(), /cache\.fleet\.servers unix:\S+\/a, unix:\S+\/b, unix:\S+\/c → unix:\S+\/a, unix:\S+\/c\s/);
  await page.getByRole('button', { name: 'Restart …' }).click();
  await dialog.locator('.effects', { hasText: 'cache.fleet.servers' }).waitFor();
  await everywhere();
  await dialog.getByRole('button', { name: 'Restart', exact: true }).click();
  await dialog.waitFor({ state: 'detached' });
  await isHealthy();
  await page.locator('.waits').waitFor({ state: 'detached' });
  await page.locator('nav a[href="#/nodes"]').click();
  await until('the list is without it', async () => (await page.locator('.node-servers tbody tr').count()) === 2);
  assert.equal((await ask(`${larder.site}/pages/after`)).status, 200);
});

it('names a certificate that ends within days, leads to its file, and is Healthy once that is replaced', async () => {
  await isHealthy();
  certify(6);
  await until('it is named', async () => /^Degraded: the certificate of shop\.example expires in [56] days \(\d\d [A-Z][a-z]+ \d{4}\)/.test(await sentence()));
  await page.locator('.state-line a').click();
  await page.waitForURL(/#\/config/);
  const row = page.locator('.certificates tbody tr', { hasText: 'shop.example' });
  await until('the table has it', async () => /expires in [56] days/.test(await row.innerText()));
  assert.match(await row.innerText(), /site\.pem/, 'the file that is to be replaced');
  await everywhere();
  certify(90);
  await isHealthy();
  await until('the table has the new one', async () => /(89|90) days/.test(await row.innerText()));
});

it('lists the certificates outside of findings, from the overview, with issuer and end, sorted by a column', async () => {
  await page.goto(`${larder.admin}/#/overview`);
  const line = page.locator('.tiers a', { hasText: 'Certificates' });
  await line.waitFor();
  assert.match(await line.innerText(), /1, the first ends \d/);
  await line.click();
  await page.waitForURL(/#\/config\?part=certificates/);
  const row = page.locator('.certificates tbody tr', { hasText: 'shop.example' });
  await row.waitFor();
  const text = await row.innerText();
  assert.match(text, /expires in (89|90) days/);
  assert.equal((text.match(/shop\.example/g) ?? []).length, 2, `name and issuer: ${text}`);
  assert.match(text, /not by larder[\s\S]*site\.pem/);
  const ends = page.locator('.certificates thead th', { hasText: 'Ends' });
  for (const order of ['ascending', 'descending', null]) {
    await ends.getByRole('button').click();
    assert.equal(await ends.getAttribute('aria-sort'), order);
  }
  await everywhere();
});

it('has asked no other server, and logged no error', () => {
  // Of the restart.
  const own = seen.console.filter((line) => !line.includes('ERR_CONNECTION_REFUSED'));
  assert.deepEqual([own, seen.elsewhere], [[], []]);
});

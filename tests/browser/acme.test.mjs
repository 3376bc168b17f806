// Certificates of `tls.acme` on the page, from Pebble: the CA, the next renewal, and the failures of a name that the CA refuses.
import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import net from 'node:net';
import { tmpdir } from 'node:os';
import { delimiter, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { audit, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, until } from './larder.mjs';

const TOOLS = join(dirname(fileURLToPath(import.meta.url)), '../../target/tools');
const PEBBLE = [TOOLS, ...(process.env.PATH ?? '').split(delimiter)].map((it) => join(it, 'pebble')).find((it) => existsSync(it));
const folder = mkdtempSync(join(tmpdir(), 'larder-acme-'));
const file = (name) => join(folder, name);
let pebble, resolver;

/** The root of Pebble's own certificate, and that certificate. */
function certify() {
  const openssl = (...more) => execFileSync('openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '2', ...more], { stdio: 'ignore' });
  openssl('-subj', '/CN=root', '-keyout', file('root.key'), '-out', file('root.pem'));
  openssl('-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost', '-addext', 'basicConstraints=critical,CA:FALSE', '-CA', file('root.pem'), '-CAkey', file('root.key'), '-keyout', file('own.key'), '-out', file('own.pem'));
}

/** The answer to a DNS query of one name (RFC 1035 section 4): 127.0.0.1 for type A, nothing for other types. */
function resolved(query) {
  const end = query.indexOf(0, 12) + 5;
  const isA = query.readUInt16BE(end - 4) === 1;
  const head = Buffer.from([query[0], query[1], 0x81, 0x80, 0, 1, 0, isA ? 1 : 0, 0, 0, 0, 0]);
  const address = Buffer.from(isA ? [0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1] : []);
  return Buffer.concat([head, query.subarray(12, end), address]);
}

/** A DNS server over TCP, as Pebble uses it. */
async function resolve() {
  resolver = net.createServer((client) => {
    let left = Buffer.alloc(0);
    client.on('error', () => {});
    client.on('data', (bytes) => {
      left = Buffer.concat([left, bytes]);
      while (left.length > 2 && left.length >= 2 + left.readUInt16BE(0)) {
        const answer = resolved(left.subarray(2, 2 + left.readUInt16BE(0)));
        left = left.subarray(2 + left.readUInt16BE(0));
        client.write(Buffer.concat([Buffer.from([answer.length >> 8, answer.length & 255]), answer]));
      }
    });
  });
  await new Promise((then) => resolver.listen(0, '127.0.0.1', then));
  return `127.0.0.1:${resolver.address().port}`;
}

/** A port that is free now. Pebble takes no port 0. */
function free() {
  return new Promise((then) => {
    const server = net.createServer().listen(0, '127.0.0.1', () => {
      const { port } = server.address();
      server.close(() => then(port));
    });
  });
}

const listens = (port) =>
  new Promise((then) => {
    const client = net.connect(port, '127.0.0.1', () => then(client.destroy()));
    client.on('error', () => then(null));
  });

/** Starts Pebble, which validates at these ports; its directory. It ends where another program has taken its port, and gets another one. */
async function issue(http, tls) {
  const dns = await resolve();
  for (;;) {
    const port = await free();
    const settings = {
      listenAddress: `127.0.0.1:${port}`,
      managementListenAddress: '',
      certificate: file('own.pem'),
      privateKey: file('own.key'),
      httpPort: http,
      tlsPort: tls,
      domainBlocklist: ['blocked.test'],
      keyAlgorithm: 'ecdsa',
      profiles: { default: { description: '90 days', validityPeriod: 7_776_000 } },
    };
    writeFileSync(file('pebble.json'), JSON.stringify({ pebble: settings }));
    const env = { ...process.env, PEBBLE_WFE_NONCEREJECT: '0', PEBBLE_VA_NOSLEEP: '1' };
    pebble = spawn(PEBBLE, ['-config', file('pebble.json'), '-dnsserver', dns], { env, stdio: 'ignore' });
    await until('Pebble listens or ends', async () => pebble.exitCode !== null || (await listens(port)));
    if (pebble.exitCode === null) return `https://localhost:${port}/dir`;
  }
}

testPage({
  prepare: async () => {
    assert.ok(PEBBLE, `there is no pebble in ${TOOLS} and in PATH: tests/install installs it`);
    certify();
    await larder.end();
    const tls = await free();
    const directory = await issue(Number(new URL(larder.site).port), tls);
    const site = (name) => `\n[[site]]\nhosts = ["${name}"]\n\n[[site.route]]\npath = "/*"\nrespond = { status = 200, body = "here" }\n`;
    const acme = `\n[tls.acme]\nfolder = "${folder}/acme"\n\n[[tls.acme.ca]]\ndirectory = "${directory}"\nroot = "${file('root.pem')}"\n`;
    const both = larder.configuration().replace('listen = ["127.0.0.1:0"]', `listen = ["127.0.0.1:0", "https://127.0.0.1:${tls}"]`);
    larder.configure(both + site('kitchen.test') + site('blocked.test') + acme);
    return larder.again();
  },
  ends: async () => {
    pebble?.kill();
    resolver?.close();
    rmSync(folder, { recursive: true, force: true });
  },
});

const row = (name) => page.locator('.certificates tbody tr', { hasText: name });
const text = async (name) => ((await row(name).count()) === 1 ? row(name).innerText() : '');
const ofApi = async (name) => {
  const { body } = await ask(`${larder.admin}/api/v1/certificates`, { Authorization: `Bearer ${larder.token()}` });
  return JSON.parse(body).certificates.find((it) => it.names.includes(name));
};

it('shows the CA of a certificate, its end, and the time of its renewal', async () => {
  await page.goto(`${larder.admin}/#/config?section=tls.`);
  await until('it is issued', async () => /expires in (89|90) days/.test(await text('kitchen.test')));
  assert.match(await text('kitchen.test'), /tls\.acme, localhost:\d+/);
  const { renews } = await ofApi('kitchen.test');
  const days = (renews - Date.now() / 1000) / 86_400;
  assert.ok(days > 55 && days < 65, `two thirds of the lifetime: ${days}`);
  const moment = await page.evaluate((at) => new Date(at * 1000).getDate(), renews);
  assert.match(await text('kitchen.test'), new RegExp(`-0?${moment} \\d\\d:\\d\\d:\\d\\d\\ttls\\.acme`));
  assert.doesNotMatch(await text('kitchen.test'), /failure/);
});

it('shows the reason of a failure, the number of failures, and the time of the next attempt', async () => {
  await until('it has failed', async () => /[1-9]\d* failures?\b/.test(await text('blocked.test')));
  const shown = await text('blocked.test');
  assert.match(shown, /no certificate/);
  assert.match(shown, /forbidden by policy/, 'the words of the CA');
  const { next_attempt: next, failures } = await ofApi('blocked.test');
  assert.ok(next > Date.now() / 1000 && failures > 0);
  assert.match(shown, /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\n[1-9]\d* failure/, 'in the column of the next renewal');
  await until('the state names it', async () => (await page.locator('.state p').innerText()).includes('blocked.test has no certificate'));
  const [first] = await page.locator('.certificates tbody th').allInnerTexts();
  assert.equal(first.trim(), 'blocked.test', 'the certificate that needs an operator comes first');
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await audit(page), [], colorScheme);
  }
});

it('has asked no other server, and logged no error', () => {
  assert.deepEqual([seen.console, seen.elsewhere], [[], []]);
});

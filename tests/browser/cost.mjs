// Measures the cost of an open page: CPU of larder and bytes on the wire a second, while the overview is open and no client sends requests, and without a page.
// With all requests that larder records, as on a server in use. Then the cost of one request for each part of the page's readings.
//   LARDER=target/release/larder node tests/browser/cost.mjs [SECONDS] [SITES,SITES] [SETTLING]
// It takes for each number of sites about five minutes with the 60 and 130 seconds that SECONDS and SETTLING are without a value, and says on standard error where it is.
// No test: a processor has no bound that holds on every machine. The figures are in docs/benchmarks.md.
import { readFileSync, readdirSync } from 'node:fs';
import { open } from './browser.mjs';
import { ask, start } from './larder.mjs';

const seconds = Number(process.argv[2] ?? 60);
/** Seconds without requests before the first figure: the first judgements of recent requests follow one another sooner. */
const settling = Number(process.argv[4] ?? 130);

const begun = Date.now();
const say = (what) => console.error(`[${Math.round((Date.now() - begun) / 1000)} s] ${what}`);

/** Waits, and says so every 20 seconds. */
async function wait(duration, what) {
  const end = Date.now() + duration * 1000;
  for (let left = duration; left > 0; left = (end - Date.now()) / 1000) {
    say(`${what}: ${Math.ceil(left)} s left`);
    await new Promise((then) => setTimeout(then, Math.min(20, left) * 1000));
  }
}

/** A step that does not end has failed. */
async function within(bound, what, step) {
  say(what);
  let timer;
  const late = new Promise((_, fails) => (timer = setTimeout(() => fails(new Error(`${what}: not done in ${bound} s`)), bound * 1000)));
  return Promise.race([step(), late]).finally(() => clearTimeout(timer));
}

/** Milliseconds of processor time of all threads. */
function spent(pid) {
  const of = (thread) => Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  return readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + of(thread), 0);
}

async function measure(what, larder, bytes = () => 0) {
  const [before, sent] = [spent(larder.pid()), bytes()];
  await wait(seconds, what);
  const cpu = (spent(larder.pid()) - before) / seconds;
  console.log(`${what}: ${cpu.toFixed(2)} ms of CPU a second, ${((bytes() - sent) / seconds / 1024).toFixed(1)} KiB a second`);
}

/** What an open overview reads, and how often a minute; the rest is read by other views, once. */
const PARTS = [
  ['stats?detail=totals', 60],
  ['stats?detail=routes', 12],
  ['health', 0],
  ['advice', 1],
  ['why', 0],
  ['config', 0],
];

/** Requests that fill the recorder. */
const RECORDED = 13_000;

/** As many requests as fill the recorder, of clients that differ in a parameter. */
async function fill(larder, sites) {
  let sent = 0;
  const timer = setInterval(() => say(`${sent} of ${RECORDED} requests`), 10_000);
  const client = async () => {
    while (sent < RECORDED) {
      sent += 1;
      const host = sites > 0 && sent % 2 ? { Host: `shop-${sent % sites}.example` } : {};
      await ask(`${larder.site}/pages/${sent % 400}?utm_source=${sent}`, host);
    }
  };
  await Promise.all(Array.from({ length: 20 }, client)).finally(() => clearInterval(timer));
}

async function parts(larder) {
  const headers = { Authorization: `Bearer ${larder.token()}`, 'Accept-Encoding': 'gzip' };
  for (const [part, times] of PARTS) {
    const read = async () => (await fetch(`${larder.admin}/api/v1/${part}`, { headers })).text();
    await read();
    const before = spent(larder.pid());
    for (let count = 0; count < 10; count += 1) await read();
    const one = (spent(larder.pid()) - before) / 10;
    const share = times ? `, ${((one * times) / 60).toFixed(2)} ms a second of an overview` : '';
    console.log(`  ${part}: ${one.toFixed(2)} ms a request${share}`);
  }
}

for (const sites of (process.argv[3] ?? '0,200').split(',').map(Number)) {
  const larder = await within(120, `larder starts with ${sites + 2} routes`, () => start({ sites }));
  let browser;
  try {
    await within(600, 'requests fill the recorder', () => fill(larder, sites));
    await wait(settling, 'settling');
    await measure(`${sites + 2} routes, no page`, larder);
    let bytes = 0;
    const opened = await within(120, 'the page opens', async () => {
      const it = await open(larder.admin);
      browser = it.browser;
      const client = await it.page.context().newCDPSession(it.page);
      await client.send('Network.enable');
      client.on('Network.loadingFinished', (one) => (bytes += one.encodedDataLength));
      await it.page.goto(larder.link);
      await it.page.locator('.tiles:not(.loading)').waitFor();
      return it;
    });
    const { page } = opened;
    // The first seconds load the page and the history.
    await page.waitForTimeout(10_000);
    await measure(`${sites + 2} routes, overview`, larder, () => bytes);
    await page.goto(`${larder.admin}/#/objects`);
    await page.locator('main h1').waitFor();
    await page.waitForTimeout(5000);
    await measure(`${sites + 2} routes, objects`, larder, () => bytes);
    await browser.close();
    await within(300, 'single requests', () => parts(larder));
  } finally {
    await browser?.close();
    await larder.stop();
  }
}

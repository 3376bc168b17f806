// Measures the cost of an open page: CPU of larder and bytes on the wire a second, while the overview is open and no client sends requests, and without a page.
//   LARDER=target/release/larder node tests/browser/cost.mjs [SECONDS]
// No test: a processor has no bound that holds on every machine. The figures are in docs/decisions/0211-parts-of-the-page-and-merge.md.
import { readFileSync, readdirSync } from 'node:fs';
import { open } from './browser.mjs';
import { ask, start } from './larder.mjs';

const seconds = Number(process.argv[2] ?? 60);

/** Milliseconds of processor time of all threads. */
function spent(pid) {
  const of = (thread) => Number(readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  return readdirSync(`/proc/${pid}/task`).reduce((sum, thread) => sum + of(thread), 0);
}

async function measure(what, larder, bytes = () => 0) {
  const [before, sent] = [spent(larder.pid()), bytes()];
  await new Promise((then) => setTimeout(then, seconds * 1000));
  const cpu = (spent(larder.pid()) - before) / seconds;
  console.log(`${what}: ${cpu.toFixed(2)} ms of CPU a second, ${((bytes() - sent) / seconds / 1024).toFixed(1)} KiB a second`);
}

for (const sites of [0, 200]) {
  const larder = await start({ sites });
  try {
    for (let times = 0; times < 200; times += 1) await ask(`${larder.site}/pages/${times % 20}`);
    await measure(`${sites + 2} routes, no page`, larder);
    const { browser, page } = await open(larder.admin);
    const client = await page.context().newCDPSession(page);
    await client.send('Network.enable');
    let bytes = 0;
    client.on('Network.loadingFinished', (it) => (bytes += it.encodedDataLength));
    await page.goto(larder.link);
    await page.locator('.tiles:not(.loading)').waitFor();
    // The first seconds load the page and the history.
    await page.waitForTimeout(10_000);
    await measure(`${sites + 2} routes, overview`, larder, () => bytes);
    await page.goto(`${larder.admin}/#/objects`);
    await page.locator('main h1').waitFor();
    await page.waitForTimeout(5000);
    await measure(`${sites + 2} routes, objects`, larder, () => bytes);
    await browser.close();
  } finally {
    await larder.stop();
  }
}

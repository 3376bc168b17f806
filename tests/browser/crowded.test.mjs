// A server with many faults at once: the list of the state, the tiers, texts with names in them, and a file that is not in force.
import assert from 'node:assert/strict';
import { audit, dialog, go, isWithin, it, larder, page, seen, testPage } from './browser.mjs';
import { until } from './larder.mjs';

testPage({ opened: () => page.route('**/api/v1/stats*', spoil) });

const NAMES = ['route-fails', 'memcached-down', 'origin-down', 'disk-device-full', 'certificate-expiring', 'certificate-other-names', 'memory-withheld', 'fresh-pages-evicted', 'route-limited', 'origin-slow', 'runs-as-root'];

/** Twice as many findings as names, in the order in which larder sends them. */
const FINDINGS = Array.from({ length: 22 }, (_, at) => ({
  name: NAMES[Math.floor(at / 2)],
  severity: at < 2 ? 'failing' : at < 14 ? 'degraded' : 'notice',
  what: `fault ${at} of a part that \`the.key\` names`,
  since: at < 14 ? 1_790_000_000 : null,
  times: 1,
  first: null,
  evidence: `${at} of 105 within the last minute`,
  effect: 'its requests go to the origin',
  remedy: `Remedy ${Math.floor(at / 2)}: raise \`cache.ram.size\`, or add a tier below it; this state ends below half of that.`,
  view: 'overview',
}));

let findings = FINDINGS;

/** The statistics with these findings, and with a device that is full. */
async function spoil(route) {
  const response = await route.fetch();
  const all = await response.json();
  all.health = { word: 'failing', findings, left_out: 0 };
  const disk = all.tiers.find((it) => it.name === 'disk');
  Object.assign(disk, { used_bytes: 20 << 20, device_full: true });
  await route.fulfill({ response, json: all });
}

const list = () => page.locator('.state .findings');
const shows = async () => {
  await page.locator('.state', { hasText: 'fault 0' }).waitFor();
  await page.locator('.state-line button').click();
  await list().waitFor();
};

it('lists 22 findings on a desk without scrolling, by the part of the server and with the worst first', async () => {
  await page.setViewportSize({ width: 1440, height: 900 });
  await go('overview');
  await shows();
  const { scrolls, bottom } = await list().evaluate((it) => ({ scrolls: it.scrollHeight > it.clientHeight, bottom: it.getBoundingClientRect().bottom }));
  assert.ok(!scrolls && bottom <= 900, `the list scrolls: ${scrolls}, and ends at ${bottom}`);
  const lines = (await list().locator('li').allInnerTexts()).map((it) => it.split('\n')[0]);
  const parts = lines.filter((it) => it !== '' && !it.includes('fault'));
  assert.deepEqual(parts, ['Requests and limits', 'Fleet', 'Origins', 'Cache', 'Certificates', 'Configuration']);
  const faults = lines.map((it) => Number(/fault (\d+)/.exec(it)?.[1])).filter((it) => !Number.isNaN(it));
  assert.deepEqual([...faults].sort((a, b) => a - b), FINDINGS.map((_, at) => at).slice(1), 'all but that of the line');
  assert.deepEqual(faults.slice(0, 7), [1, 16, 17, 2, 3, 4, 5]);
  for (const colorScheme of ['light', 'dark']) {
    await page.emulateMedia({ colorScheme });
    assert.deepEqual(await audit(page), [], colorScheme);
  }
  // A remedy is that of all findings with it.
  assert.equal(await list().locator('.remedy').count(), 0);
  await list().locator('li', { hasText: 'fault 7 ' }).getByRole('button', { name: 'Remedy' }).click();
  await list().locator('.remedy', { hasText: 'Remedy 3' }).waitFor();
  await page.keyboard.press('Escape');
});

it('lists them on a phone within its width, and opens the remedies of a few at once', async () => {
  await page.setViewportSize({ width: 390, height: 844 });
  await shows();
  assert.ok(await isWithin());
  assert.ok(await list().evaluate((it) => it.scrollWidth <= it.clientWidth), 'no line is cut');
  await page.keyboard.press('Escape');
  findings = FINDINGS.slice(0, 4);
  await page.getByRole('button', { name: '3 more …' }).click();
  await until('both remedies are open', async () => (await list().locator('.remedy').count()) === 2);
  await page.keyboard.press('Escape');
  findings = FINDINGS;
  await page.setViewportSize({ width: 1440, height: 900 });
});

it('shows that a device is full, of which the tier can use no more', async () => {
  await go('overview');
  const disk = page.locator('.tier', { hasText: 'Disk' });
  await disk.getByText(/^20\sMiB of 20\sMiB usable$/).waitFor();
  assert.match(await disk.innerText(), /device full/);
  assert.match(await disk.locator('.chip').getAttribute('title'), /before cache\.disk\.size \(64(\.0)?\sMiB\) is reached/);
  const [rail, filled] = await disk.locator('.meter-rail, .meter-rail span').evaluateAll((all) => all.map((it) => it.getBoundingClientRect().width));
  assert.equal(filled, rail, 'the bar is full');
});

it('shows a name in a mistake as code', async () => {
  const text = larder.configuration();
  await go('config?part=text');
  await page.locator('.editor textarea').fill(text.replace('default_ttl', 'default_tll'));
  await page.locator('.problems code', { hasText: /^site\.route\.cache\.default_ttl$/ }).waitFor();
  assert.doesNotMatch(await page.locator('.problems').innerText(), /`/);
  assert.deepEqual(await audit(page), []);
  await page.click('text=Discard');
});

it('says of a difference that it is one to a file that is not in force', async () => {
  const text = larder.configuration();
  larder.configure(text.replace('workers = 1', 'workers = 0'));
  await until('it is refused', async () => {
    const state = await (await fetch(`${larder.admin}/api/v1/health`, { headers: { Authorization: `Bearer ${larder.token()}` } })).json();
    return state.findings.some((it) => it.name === 'configuration-refused');
  });
  await page.reload();
  await go('config?part=text');
  await page.locator('.editor textarea').fill(text);
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  await page.getByRole('button', { name: 'Review and apply' }).click();
  await dialog().getByText('The file is not in force').waitFor();
  await page.keyboard.press('Escape');
  await page.click('text=Discard');
  larder.configure(text);
});

it('has no large empty block over the worst requests, as long as no request is traced', async () => {
  await go('traces');
  const block = page.locator('.block', { hasText: 'The worst requests' });
  await block.waitFor();
  assert.ok((await block.boundingBox()).y < 300, 'the worst requests begin high in the window');
});

it('had no error in its console', async () => {
  await page.unrouteAll({ behavior: 'ignoreErrors' });
  assert.deepEqual(seen, { console: [], elsewhere: [] });
});

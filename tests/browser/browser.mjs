// A real Chromium with one page in it, and what is watched of it all the time: its console, and where it sends requests.
import { existsSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { after, before, test } from 'node:test';
import { fileURLToPath } from 'node:url';
import { start } from './larder.mjs';

const ui = join(dirname(fileURLToPath(import.meta.url)), '../../ui');
const require = createRequire(join(ui, 'package.json'));
const { chromium } = require('playwright-core');
const axe = require('axe-core');

const NAMES = ['/usr/bin/chromium', '/usr/bin/chromium-browser', '/usr/bin/google-chrome'];

/** Milliseconds that the page may take to do what it is told. */
const TIMEOUT = 120_000;

/** `more` goes to the browser's context: a tablet that is touched, for one. */
export async function open(home, more = {}) {
  const executablePath = process.env.CHROMIUM ?? NAMES.find(existsSync);
  if (!executablePath) throw new Error('the page is tested in Chromium: install the Debian package chromium (`make test` does)');
  const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage'] });
  const context = await browser.newContext({ viewport: { width: 1440, height: 900 }, colorScheme: 'dark', reducedMotion: 'reduce', ...more });
  if (process.env.LARDER_PAGE) await lay(context, home);
  const page = await context.newPage();
  page.setDefaultTimeout(TIMEOUT);
  const seen = { console: [], elsewhere: [] };
  page.on('pageerror', (error) => seen.console.push(error.message));
  page.on('console', (message) => {
    // Of a refusal that a test asks for, Chromium itself says this; the page shows it.
    const isRefusal = message.text().startsWith('Failed to load resource: the server responded with a status of 4');
    if (message.type() === 'error' && !isRefusal) seen.console.push(`${message.text()} (${message.location().url})`);
  });
  page.on('request', (request) => {
    if (new URL(request.url()).origin !== home) seen.elsewhere.push(request.url());
  });
  return { browser, page, seen };
}

/** A test, with time enough for a busy machine. */
export const it = (what, run) => test(what, { timeout: 600_000 }, run);

/** The larder and the page of `testPage`, from the first test of a file to its last. */
export let larder, browser, page, seen;

/**
 * Gives the tests of a file a real larder, and its page, which is logged in and shows the overview. `prepare` runs once larder has started,
 * and may return another link than that of the start; `onPage` before the page is loaded, `opened` afterwards, `ends` once all
 * has ended. With `logsIn: false` the page stays empty. Other options are those of `start`.
 */
export function testPage({ prepare, onPage, opened, ends, logsIn = true, ...options } = {}) {
  before(async () => {
    larder = await start(options);
    const link = (await prepare?.()) ?? larder.link;
    ({ browser, page, seen } = await open(larder.admin));
    await onPage?.();
    if (!logsIn) return;
    await page.goto(link);
    await page.locator('.tiles:not(.loading)').waitFor();
    await opened?.();
  });
  after(async () => {
    await browser?.close();
    await larder?.stop();
    await ends?.();
  });
}

/** Opens a view of the page. */
export async function go(view) {
  await page.goto(`${larder.admin}/#/${view}`);
  await page.locator('main h1').waitFor();
}

/** The open dialog. */
export const dialog = () => page.locator('dialog');

/** Whether the page is no wider than its window. */
export const isWithin = () => page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth);

/** Shows the page as `ui/build` made it last, over whatever page is in the binary; without the policy that larder sends. */
const lay = (context, home) =>
  context.route(
    ({ origin, pathname }) => origin === home && (pathname === '/' || pathname.startsWith('/assets/')),
    (route) => {
      const { pathname } = new URL(route.request().url());
      return route.fulfill({ path: join(ui, 'dist', pathname === '/' ? 'index.html' : pathname) });
    },
  );

/** Adds a setting to the section that is open in the form, as one does who knows its name. */
export async function addSetting(page, name) {
  await page.getByRole('button', { name: 'Add setting …' }).click();
  const dialog = page.locator('dialog');
  await dialog.getByLabel('Search settings').fill(name);
  await dialog.locator('.add-key', { has: page.locator(`code:text-is("${name}")`) }).click();
  await dialog.waitFor({ state: 'detached' });
}

/** Presses a button of a dialog that waits for a trial; if it stays disabled, the error has the text of the dialog, with the reason. */
export async function confirm(dialog, name) {
  const button = dialog.getByRole('button', { name, exact: true });
  await button.click().catch(async (error) => {
    throw new Error(`${name} cannot be pressed (${error.message.split('\n')[0]}) in the dialog:\n${await dialog.innerText()}`);
  });
}

/** What axe finds that is more than minor, a line for each. */
export async function audit(page) {
  await page.evaluate(`window.axe || (${wrapped()})`);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ['violations'] }));
  return violations
    .filter((it) => it.impact !== 'minor')
    .map((it) => `${it.id}: ${it.help}: ${it.nodes.slice(0, 3).map((node) => `${node.target.join(' ')} ${node.any[0]?.message ?? ''}`).join('; ')}`);
}

/** axe as an expression: `addScriptTag` is what the page's policy forbids. */
const wrapped = () => `(() => { ${axe.source}; return true; })()`;

// Makes the pictures of the README and the guide: node tests/browser/guide_pictures.mjs
// from the top of the repository takes two minutes.
// The shop here is asked by a host of its own, so that its URLs are those of a site and not of a test.
import { mkdirSync, statSync } from 'node:fs';
import http from 'node:http';
import { join } from 'node:path';
import { open } from './browser.mjs';
import { start } from './larder.mjs';

const FOLDER = 'docs/pictures';
/** Bytes that a picture has at most. */
const MOST = 150_000;
mkdirSync(FOLDER, { recursive: true });

const larder = await start();
larder.configure(
  larder
    .configuration()
    .replace('hosts = ["*"]', 'hosts = ["www.example.com"]')
    .replace('name = "pages"', 'name = "shop"')
    .replace('# A minute is long enough for the cook.\ncache = { default_ttl = "60s" }\n', ''),
);
const { browser, page } = await open(larder.admin);

/** One request of a visitor of the shop. */
const visit = (path) =>
  new Promise((then) => {
    const request = http.get(larder.site + path, { agent: false, headers: { Host: 'www.example.com' } }, (response) => response.resume().on('close', then));
    request.on('error', then);
  });

/** Popular products, campaigns with parameters of analytics, carts, pages without a lifetime, and a few errors. */
function path(sent) {
  const dice = Math.random();
  if (dice < 0.62) return `/products/${Math.floor(Math.random() ** 3 * 60)}`;
  if (dice < 0.78) return `/tagged/kitchen/${Math.floor(Math.random() * 20)}`;
  if (dice < 0.86) return `/api/stock/${Math.floor(Math.random() * 30)}`;
  if (dice < 0.92) return `/products/offer?utm_source=newsletter-${sent}`;
  if (dice < 0.96) return `/private/cart`;
  return dice < 0.993 ? `/silent/story/${Math.floor(Math.random() * 5)}` : '/broken/checkout';
}

let ends = false;
let sent = 0;
const visitors = Array.from({ length: 4 }, async () => {
  while (!ends) {
    await visit(path((sent += 1)));
    await new Promise((then) => setTimeout(then, 10 + Math.random() * 30));
  }
});

const DESK = { width: 1440, height: 900 };
const PHONE = { width: 390, height: 844 };

/** `of` is a part of the page. */
async function take(name, { size = DESK, scheme = 'light', of = null } = {}) {
  await page.setViewportSize(size);
  await page.emulateMedia({ colorScheme: scheme, reducedMotion: 'reduce' });
  // The chart is drawn for the new size.
  await page.waitForTimeout(2500);
  const file = join(FOLDER, `${name}.png`);
  await (of === null ? page : page.locator(of)).screenshot({ path: file });
  const { size: bytes } = statSync(file);
  console.log(`${file}: ${bytes} bytes`);
  if (bytes > MOST) process.exitCode = 1;
}

const go = async (view) => {
  await page.goto(`${larder.admin}/#/${view}`);
  await page.locator('main h1').waitFor();
};

try {
  await page.goto(larder.link);
  await page.locator('.tiles:not(.loading)').waitFor();
  await page.waitForTimeout(75_000);
  await take('overview-dark', { scheme: 'dark' });
  await take('overview-light');
  await take('overview-phone', { size: PHONE });
  await go('why');
  await page.locator('.findings details').first().waitFor();
  await take('why');
  await page.getByRole('button', { name: 'Review this change' }).first().click();
  await page.locator('dialog .trial').waitFor();
  await take('trial', { of: 'dialog .dialog-box' });
  await page.keyboard.press('Escape');
  await go('explain?url=http%3A%2F%2Fwww.example.com%2Fsilent%2Fstory%2F1');
  await page.locator('[data-verdict]').waitFor();
  await take('explain');
} finally {
  ends = true;
  await Promise.all(visitors);
  await browser.close();
  await larder.stop();
}

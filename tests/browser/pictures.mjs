// Takes a picture of every view and dialog, at the widths of a large and a small desk, a tablet and a phone, dark and light, for a person to look at:
//   node tests/browser/pictures.mjs FOLDER [PART OF A NAME [WIDTH]]
// No test: it judges nothing.
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { confirm, open } from './browser.mjs';
import { ask, load, start, until } from './larder.mjs';

const [folder = 'pictures', only = '', width = ''] = process.argv.slice(2);
mkdirSync(folder, { recursive: true });

const SIZES = [
  { name: '2560', width: 2560, height: 1440 },
  { name: '1440', width: 1440, height: 900 },
  { name: '820', width: 820, height: 1180 },
  { name: '390', width: 390, height: 844 },
].filter((it) => width === '' || it.name === width);

const larder = await start();
const clients = load(larder.site);
const { browser, page, seen } = await open(larder.admin);
page.setDefaultTimeout(6000);

const go = async (view) => {
  await page.goto(`${larder.admin}/#/${view}`);
  // A view that is open already, and what was written in it, begin anew.
  await page.reload();
  await page.locator('main h1').waitFor();
};
const type = async (text) => {
  await page.fill('[data-search]', text);
  await page.keyboard.press('Enter');
};
const pause = (ms) => page.waitForTimeout(ms);

/** What is photographed: a name, and the way there. */
const SCENES = {
  overview: async () => {
    await go('overview');
    await page.locator('.tiles:not(.loading)').waitFor();
    await pause(4000);
  },
  'overview-below': async () => {
    await SCENES.overview();
    await page.evaluate(() => scrollTo(0, document.body.scrollHeight) ?? document.querySelector('main').scrollTo(0, 1e6));
  },
  trial: async () => {
    for (const path of ['/session/a', '/pages/1']) await ask(larder.site + path);
    const text = larder.configuration();
    await go('config?part=text');
    const editor = page.getByLabel('The text of the configuration');
    await until('the text is there', async () => (await editor.inputValue()) === text);
    await editor.fill(text.replace('path = "/api/*"', 'path = "/pages/*"').replace('"60s"', '"20s", store_set_cookie = true'));
    await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
    await page.click('text=Review and apply');
    await page.locator('dialog .trial').waitFor();
    for (const it of await page.locator('dialog .trial summary').all()) await it.click();
  },
  help: async () => {
    await go('help?view=why');
    await page.locator('[data-key]').first().waitFor();
  },
  'help-key': async () => {
    await go('help?key=cache.max_object');
    await page.locator('[data-key]').first().waitFor();
  },
  failed: async () => {
    await ask(`${larder.site}/broken/oven`);
    await go('traces');
    const block = page.locator('section', { hasText: 'The worst requests' }).last();
    await block.getByRole('button', { name: /^Failed/ }).click();
    await block.locator('tbody [data-row]').first().click();
    await page.locator('dialog [data-failure]').waitFor();
  },
  'explain-failed': async () => {
    for (let times = 0; times < 3; times += 1) await ask(`${larder.site}/broken/oven`);
    await go(`explain?url=${encodeURIComponent(`${larder.site}/broken/oven`)}`);
    await page.locator('[data-bridge]').waitFor();
  },
  objects: async () => {
    await go('objects');
    await page.locator('.rows tbody tr').first().waitFor();
  },
  'objects-none': async () => {
    await go('objects');
    await type('nothing-has-this-name');
    await page.locator('.empty').waitFor();
  },
  inspect: async () => {
    await SCENES.objects();
    await type('/tagged/');
    await pause(600);
    await page.locator('.rows tbody [data-row]').first().click();
    await page.locator('dialog .fields').waitFor();
  },
  purge: async () => {
    await go('objects');
    await page.click('text=Purge …');
    await page.locator('dialog input').fill('/no-host-here');
    await page.locator('dialog button.primary').click();
    await page.locator('dialog [role=alert]').waitFor();
  },
  'overlays-none': async () => {
    await go('objects?show=overlays');
    await page.locator('.empty').waitFor();
  },
  overlay: async () => {
    await go('objects?show=overlays');
    await page.click('text=Overlay …');
    await page.locator('dialog [data-first]').fill(`${larder.site}/pages/covered`);
    await page.locator('dialog textarea').fill('<h1>Closed for stocktaking</h1>');
  },
  overlays: async () => {
    await SCENES.overlay();
    await page.locator('dialog button.primary').click();
    await page.locator('dialog').waitFor({ state: 'detached' });
    await page.locator('tr', { hasText: 'covered' }).waitFor();
    await page.evaluate(() => 0);
  },
  'overlay-open': async () => {
    await SCENES.overlays();
    await page.locator('tr', { hasText: 'covered' }).locator('[data-row]').click();
    await page.locator('dialog').waitFor();
  },
  nowhere: async () => {
    await go('no-such-view');
  },
  explain: async () => {
    await go('explain');
    await page.locator('main').waitFor();
  },
  'explain-hit': async () => {
    await ask(`${larder.site}/tagged/explained`);
    await go(`explain?url=${encodeURIComponent(`${larder.site}/tagged/explained`)}`);
    await page.locator('[data-verdict]').waitFor();
  },
  'explain-miss': async () => {
    await ask(`${larder.site}/private/explained`);
    await go(`explain?url=${encodeURIComponent(`${larder.site}/private/explained`)}`);
    await page.locator('[data-verdict]').waitFor();
  },
  'explain-wrong': async () => {
    await go('explain');
    await type('ftp://elsewhere/');
    await page.locator('[role=alert]').waitFor();
  },
  live: async () => {
    await go('live');
    await until('requests come', async () => (await page.locator('.live tbody tr').count()) > 10);
  },
  'live-filter': async () => {
    await go('live?filter=status%20%3D%3D%20503');
    await until('requests come', async () => (await page.locator('.live tbody tr').count()) > 3);
  },
  'live-wrong': async () => {
    await go('live');
    await type('status >= 500 && ');
    await page.locator('.bad-filter').waitFor();
  },
  'live-drawer': async () => {
    await SCENES.live();
    await page.getByRole('button', { name: 'Pause' }).click();
    await page.locator('.live tbody [data-row]').first().click();
    await page.locator('dialog').waitFor();
  },
  'top-misses': async () => {
    await go('top?by=misses');
    await page.locator('.top-reasons').waitFor();
  },
  top: async () => {
    await go('top?by=requests');
    await page.locator('.top tbody tr').first().waitFor();
  },
  why: async () => {
    await go('why');
    await page.locator('.why tbody tr').first().waitFor();
  },
  access: async () => {
    await go('access');
    await page.locator('.table').first().waitFor();
  },
  'traces-none': async () => {
    await go('traces');
    await page.locator('.sampling').waitFor();
  },
  traces: async () => {
    await go('traces');
    await page.getByLabel('Sampling of pages').selectOption({ label: 'Every request' });
    await page.getByLabel('Sampling of api').selectOption({ label: 'Every request' });
    await until('traces come', async () => (await page.locator('.traces tbody tr').count()) > 20);
    await pause(4500);
  },
  'traces-drawer': async () => {
    await go('traces');
    await page.locator('.traces tbody [data-row]').first().click();
    await page.locator('dialog').waitFor();
  },
  config: async () => {
    await go('config?part=form');
    await page.locator('.setting').first().waitFor();
  },
  'config-route': async () => {
    await SCENES.config();
    await page.locator('.section.below:not(.add)').last().click();
    await page.locator('.setting').first().waitFor();
  },
  'config-new-route': async () => {
    await SCENES.config();
    await page.getByRole('button', { name: /New route/ }).first().click();
    await page.locator('dialog').waitFor();
  },
  'config-new-site': async () => {
    await SCENES.config();
    await page.getByRole('button', { name: /New site/ }).click();
    await page.locator('dialog').waitFor();
  },
  'config-bad': async () => {
    await SCENES['config-route']();
    const field = page.getByRole('textbox', { name: 'cache.default_ttl' });
    await field.fill('a while');
    await field.press('Enter');
    await page.locator('.problems').waitFor();
  },
  'config-text': async () => {
    await go('config?part=text');
    await page.locator('.editor').waitFor();
  },
  'config-text-bad': async () => {
    await SCENES['config-text']();
    const editor = page.getByLabel('The text of the configuration');
    await editor.fill((await editor.inputValue()).replace('default_ttl', 'defualt_ttl'));
    await page.locator('.mark-line').waitFor();
  },
  'config-diff': async () => {
    await SCENES['config-route']();
    const field = page.getByRole('textbox', { name: 'cache.default_ttl' });
    await field.fill('77s');
    await field.press('Enter');
    await page.locator('.apply', { hasText: 'valid' }).waitFor();
    await page.click('text=Review and apply');
    await page.locator('dialog .diff').waitFor();
  },
  'config-restart': async () => {
    await SCENES.config();
    const field = page.getByRole('textbox', { name: /^workers/ });
    await field.fill('2');
    await field.press('Enter');
    await page.locator('.apply', { hasText: 'valid' }).waitFor();
    await page.click('text=Review and apply');
    await page.locator('dialog .diff').waitFor();
  },
  'config-pending': async () => {
    await SCENES['config-restart']();
    await page.locator('dialog button.primary').click();
    await page.locator('dialog').waitFor({ state: 'detached' });
    await pause(800);
  },
  pending: async () => {
    await SCENES['config-pending']();
    await go('top?by=bytes');
    await page.locator('.pending').waitFor();
    await page.locator('.top tbody tr').first().waitFor();
  },
  'config-restart-dialog': async () => {
    await SCENES['config-pending']();
    await page.getByRole('button', { name: 'Restart …' }).click();
    await page.locator('dialog .effects').waitFor();
  },
  'config-history': async () => {
    await go('config?part=history');
    await page.locator('main .table, main .hint').first().waitFor();
  },
  keys: async () => {
    await go('overview');
    await page.keyboard.press('?');
    await page.locator('dialog').waitFor();
  },
  'lost-objects': async () => {
    await SCENES.objects();
    larder.pause();
    await page.locator('.lost-banner').waitFor({ timeout: 30_000 });
  },
  lost: async () => {
    await go('overview');
    await page.locator('.standing.live').waitFor();
    await pause(1500);
    larder.pause();
    await page.locator('.standing.lost').waitFor({ timeout: 30_000 });
    await pause(500);
  },
};

/** The picture of a scene, and what it leaves behind put away. */
async function take(name, file) {
  try {
    await SCENES[name]();
  } catch (error) {
    console.log(`${file}: ${String(error).split('\n')[0]}`);
  }
  // Nothing moves while it is taken.
  await pause(150);
  await page.screenshot({ path: join(folder, `${file}.png`) });
  if (name.startsWith('lost')) larder.goOn();
  if (name === 'overlay-open') await page.keyboard.press('Escape');
  if (name === 'overlays' || name === 'overlay-open') await page.getByRole('button', { name: /^Remove the overlay/ }).click();
  if (name === 'config-pending' || name === 'config-restart-dialog' || name === 'pending') await back();
}

/** The file is as it was before the last change. */
async function back() {
  await go('config?part=history');
  await page.locator('button', { hasText: 'Roll back' }).first().click();
  await confirm(page.locator('dialog'), 'Roll back');
  // It is checked and tried before.
  await page.locator('dialog').waitFor({ state: 'detached', timeout: 60_000 });
}

try {
  if ('login'.includes(only)) {
    for (const size of SIZES) {
      for (const colorScheme of ['dark', 'light']) {
        await page.setViewportSize(size);
        await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
        await page.goto(`${larder.admin}/`);
        await page.locator('main').waitFor();
        await page.screenshot({ path: join(folder, `login-${size.name}-${colorScheme}.png`) });
      }
    }
  }
  await page.goto(larder.link);
  await page.locator('h1', { hasText: 'Overview' }).waitFor();
  // The charts have a minute to show.
  await pause(only ? 3000 : 40_000);
  for (const name of Object.keys(SCENES).filter((it) => it.includes(only))) {
    for (const size of SIZES) {
      for (const colorScheme of ['dark', 'light']) {
        await page.setViewportSize(size);
        await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
        await take(name, `${name}-${size.name}-${colorScheme}`);
      }
    }
  }
  for (const line of seen.console) console.log(line);
} finally {
  await browser.close();
  await clients.stop();
  await larder.stop();
}

// The form of the configuration: that every key has a control, tables and lists, what a route inherits and from where, the order of
// routes, and files that are included. What becomes of a draft otherwise is in draft.test.mjs.
import assert from 'node:assert/strict';
import { beforeEach } from 'node:test';
import { addSetting, audit, confirm, go, it, larder, page, seen, testPage } from './browser.mjs';
import { until } from './larder.mjs';

let keys;

const HEAD = () => 'include = ["conf.d/*.toml"]\n\n';
const FILES = (origin) => ({
  'conf.d/shop.toml': `# The shop.
[block.shared]
csp = "default-src 'self'" # for all of them

[block.shared.cache]
default_ttl = "3m"

[[block.shared.cache.rule]]
when = 'status == 404'
ttl = "5s"

[[site]]
hosts = ["shop.test"]
client_ttl = "5m" # browsers
response_headers = { set = { "X-Shop" = "yes" } }
request_headers = { set = { "X-Site-Key" = "correct horse", "X-Site" = "fr" } }

[[site.route]]
path = "/app/*"
proxy = { to = ["fastcgi://127.0.0.1:9"], env = { APP_ENV = "correct horse" } }

[[site.route]]
path = "/basket/*"
use = ["shared"]
proxy = { to = ["${origin}"] }
request_headers = { set = { "X-Key" = "correct horse", "Accept-Language" = "de" } }

[[site.route]]
path = "/*"
proxy = { to = ["${origin}"] }
`,
});

testPage({
  head: HEAD,
  files: FILES,
  opened: async () => {
    // Read as soon as it is there: a body is lost with the page that asked for it.
    const asked = page.waitForResponse((it) => it.url().endsWith('/api/v1/config') && it.ok()).then((it) => it.json());
    await go('config?part=form');
    ({ keys } = await asked);
  },
});


// What a test that failed left open is not in the way of the next one.
beforeEach(async () => {
  if (await page.locator('dialog').count()) await page.keyboard.press('Escape');
  const discard = page.getByRole('button', { name: 'Discard' });
  if ((await discard.count()) && (await discard.isEnabled())) await discard.click();
});
const SHOP = 'conf.d/shop.toml';
/** Opens a site or a route by its name in the list; of several the one at `at`. */
const choose = async (name, at = -1) => {
  const found = page.locator('.section:not(.add)', { has: page.locator(`span:text-is("${name}")`) });
  await found.nth(at < 0 ? (await found.count()) + at : at).click();
  await page.locator('.form-title h2', { hasText: name }).waitFor();
  await page.locator('.form-main .setting').first().waitFor();
};
const setting = (name) => page.locator(`.phase > [data-setting="${name}"]`);
const valid = () => page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
const discard = async () => {
  await page.getByRole('button', { name: 'Discard' }).click();
  await page.locator('.apply', { hasText: 'Same as the file' }).waitFor();
};
/** The text of the draft of a file. */
const drafted = async (file) => {
  await page.getByRole('button', { name: 'Text', exact: true }).click();
  const name = file ?? 'larder.toml';
  const labels = await page.getByLabel('File').locator('option').allInnerTexts();
  // By its place: the label may change between the two calls.
  await page.getByLabel('File').selectOption({ index: labels.findIndex((it) => it === name || it === `${name} (changed)`) });
  const text = await page.getByLabel('The text of the configuration').inputValue();
  await page.getByRole('button', { name: 'Form', exact: true }).click();
  // The page never gets the only secret of these files: what stands in its place is put back when the draft is saved.
  return text.replaceAll(/hidden:[0-9a-f]{16}/g, 'correct horse');
};

/** What a control of each kind is made of. */
const CONTROLS = {
  bool: 'select', 'one-of': 'select', pairs: '.pairs .pair', 'status-ttls': '.pairs .pair',
};

it('has a control for every key of the configuration', async () => {
  assert.ok(keys.length > 150, 'larder tells its keys');
  const found = new Map();
  // The rows of pairs are made once the form is painted.
  const look = () => until('pairs have their rows', async () => {
    const shown = await page.evaluate(
      () => [...document.querySelectorAll('.form-main .setting')].map((it) => ({
        of: it.querySelector('label').htmlFor,
        controls: ['select', '.pairs .pair', 'input, textarea, .pairs, .secret', '.inherited'].filter((one) => it.querySelector(one)),
      })),
    );
    let isWhole = true;
    for (const { of, controls } of shown) {
      const key = keys.find((it) => it.key === of.replace('setting ', '').replaceAll(/\.\d+/g, '').replace(/^block\.shared\./, 'site.route.'));
      const right = CONTROLS[key?.kind] ?? 'input, textarea, .pairs, .secret';
      if (key && controls.some((one) => one === right || one === '.inherited')) found.set(key.key, key.kind);
      else if (key && right === '.pairs .pair') isWhole = false;
    }
    return isWhole;
  });
  // A certificate for the keys of one; the rest is found by its name, a part of the table at a time.
  await page.getByRole('button', { name: 'New certificate' }).click();
  await page.getByRole('heading', { name: /^Certificate 1/ }).waitFor();
  await look();
  // A list at the top level has its keys once it has a member.
  for (const [section, list] of [['Databases', 'database'], ['Admin', 'tokens']]) {
    await page.locator('.section:not(.add)', { has: page.locator(`span:text-is("${section}")`) }).first().click();
    await page.getByRole('button', { name: new RegExp(` to ${list}$`) }).click();
    await page.locator('.member .setting').first().waitFor();
    await look();
  }
  const parts = new Set(keys.filter(({ key }) => !key.startsWith('database.')).map(({ key }) => key.split('.').slice(0, key.startsWith('site.route.') ? 3 : key.startsWith('site.') ? 2 : 1).join('.')));
  for (const part of parts) {
    await page.getByLabel('Search keys').fill(part);
    const first = keys.find(({ key }) => key.startsWith(part) && !key.startsWith('site.route.cache.rule'));
    await until(`${part} is found`, () => page.evaluate((of) => [...document.querySelectorAll('.form-main .setting label')].some((it) => it.htmlFor.replace('setting ', '').replaceAll(/\.\d+/g, '') === of), first.key));
    await look();
  }
  // A letter finds more than one can look at.
  await page.getByLabel('Search keys').fill('e');
  await page.locator('.form-more', { hasText: /\d+ more keys match/ }).waitFor();
  assert.equal(await page.locator('.form-main .setting').count(), 100);
  // In a site and a route, what is not shown is listed; of each phase one is chosen.
  for (const name of ['shop.test', '/basket/*']) {
    await choose(name, 0);
    for (const add of name === 'shop.test' ? ['limit to access.limits'] : ['limit to access.limits', 'rule to cache.rule']) {
      await page.getByRole('button', { name: `Add ${add}` }).click();
      await page.locator(`[aria-label="${add.split(' ').at(-1)}"] .member .setting`).first().waitFor();
      await look();
    }
    const of = name === 'shop.test' ? /^site\[\]\.(?!route\[\])([^[]*)$/ : /^site\[\]\.route\[\]\.([^[]*)$/;
    const own = keys.flatMap((it) => (of.exec(it.pattern) ? [{ name: of.exec(it.pattern)[1], kind: it.kind, phase: it.phase }] : []));
    const shown = await page.locator('.phase > .setting').evaluateAll((all) => all.map((it) => it.dataset.setting));
    await page.getByRole('button', { name: 'Add setting …' }).click();
    const listed = await page.locator('dialog .add-key code').allInnerTexts();
    await page.keyboard.press('Escape');
    assert.deepEqual(own.map((it) => it.name).filter((it) => !shown.includes(it) && !listed.includes(it)), [], `keys that ${name} cannot get`);
    // One of each phase, with as many kinds as there are.
    const chosen = new Map();
    for (const one of own.filter((it) => listed.includes(it.name))) {
      if (!chosen.has(one.phase) || ![...chosen.values()].some((it) => it.kind === one.kind)) chosen.set(one.phase, one);
    }
    for (const [what, one] of chosen) {
      await addSetting(page, one.name);
      const phase = page.locator(`.phase:has(> [data-setting="${one.name}"])`);
      assert.equal((await phase.getAttribute('aria-label')).toLowerCase(), one.phase, what);
      await until('it has the focus', () => setting(one.name).evaluate((it) => it.contains(document.activeElement)));
    }
  }
  assert.deepEqual(keys.map((it) => it.key).filter((it) => !found.has(it)), ['include'].filter((it) => !found.has(it)), 'keys without a control');
  await discard();
});

it('shows of a long section what is set, and adds the rest by name', async () => {
  await go('config?part=form');
  await page.locator('.section:not(.add)', { has: page.locator('span:text-is("Cache, for all routes")') }).first().click();
  await page.locator('.form-title h2', { hasText: 'Cache' }).waitFor();
  await page.getByText('Nothing is set here').waitFor();
  assert.equal(await page.locator('.form-main .setting').count(), 0);
  await page.getByRole('button', { name: 'Add setting …' }).click();
  const dialog = page.locator('dialog');
  assert.ok((await dialog.locator('.add-key').count()) > 40, 'all of them are offered');
  assert.deepEqual(await audit(page), []);
  await dialog.getByLabel('Search settings').fill('default_ttl');
  await dialog.locator('.add-key').first().click();
  await dialog.waitFor({ state: 'detached' });
  const field = page.getByRole('textbox', { name: /default_ttl/ });
  await field.fill('61s');
  await field.press('Enter');
  await valid();
  assert.match(await drafted(), /default_ttl = "61s"/);
  await discard();
});

it('searches the settings by name and effect, by phase, with the keyboard alone', async () => {
  await choose('/basket/*');
  await page.getByRole('button', { name: 'Add setting …' }).click();
  const dialog = page.locator('dialog');
  await dialog.locator('.add-key').first().waitFor();
  const headings = await dialog.locator('h3').allInnerTexts();
  assert.deepEqual(headings.map((it) => it.split(/\s/)[0]), ['Match', 'Admit', 'Rewrite', 'Answer', 'Cache', 'Finish']);
  await page.keyboard.type('encoded again');
  await until('the help is searched', async () => (await dialog.locator('.add-key code').allInnerTexts()).join() === 'rewrite');
  await dialog.getByLabel('Search settings').fill('hsts');
  await until('few are left', async () => (await dialog.locator('.add-key').count()) < 8);
  await page.keyboard.press('ArrowDown');
  const name = await page.evaluate(() => document.activeElement.querySelector('code').textContent);
  assert.match(name, /^hsts\./);
  await page.keyboard.press('Enter');
  await dialog.waitFor({ state: 'detached' });
  await until('the control has the focus', () => setting(name).evaluate((it) => it.contains(document.activeElement)));
  await page.getByRole('button', { name: 'Add setting …' }).click();
  await dialog.getByLabel('Search settings').fill('no such words');
  await dialog.locator('text=No setting has these words').waitFor();
  // Enter takes the key of the name, wherever it is in the list.
  const last = page.getByLabel('Search settings');
  await last.fill('forwarded');
  await until('another key is before it', async () => (await dialog.locator('.add-key code').first().innerText()) === 'access.forward.to');
  await last.press('Enter');
  await dialog.waitFor({ state: 'detached' });
  await until('the control of the key', () => setting('forwarded').evaluate((it) => it.contains(document.activeElement)));
});

it('edits a table with free names row by row, with each problem beside its row', async () => {
  const before = larder.included(SHOP);
  await choose('shop.test');
  const table = setting('response_headers.set');
  await until('the row is there', async () => (await table.getByLabel('Value of X-Shop').inputValue()) === 'yes');
  await table.getByRole('button', { name: 'Add row' }).click();
  await table.getByLabel(/^Name, row 2/).fill('X Bad');
  // The label follows the name.
  await table.getByLabel('Value of row 2').or(table.getByLabel('Value of X Bad')).fill('1');
  await page.getByLabel('Search keys').focus();
  const wrong = table.locator('.pair', { has: page.locator('.bad') });
  await wrong.waitFor();
  assert.equal(await wrong.count(), 1, 'one row is marked');
  assert.match(await wrong.locator('.bad').innerText(), /X Bad/);
  assert.equal(await wrong.locator('input').first().inputValue(), 'X Bad');
  await wrong.locator('input').first().fill('X-Good');
  await wrong.locator('input').first().press('Tab');
  await valid();
  assert.equal(await drafted(SHOP), before.replace('{ "X-Shop" = "yes" }', '{ "X-Shop" = "yes", X-Good = "1" }'));
  await choose('shop.test');
  // A name twice is told before anything is lost.
  await table.getByRole('button', { name: 'Add row' }).click();
  await table.locator('.pair').last().locator('input').first().fill('X-Shop');
  await table.locator('.pair').last().locator('input').nth(1).fill('no');
  await table.locator('.bad', { hasText: 'used twice' }).first().waitFor();
  await table.locator('.pair').last().getByRole('button').click();
  for (const name of ['X-Shop', 'X-Good']) await table.getByRole('button', { name: `Remove ${name} of` }).click();
  await valid();
  await until('the table is gone', async () => !(await drafted(SHOP)).includes('response_headers = { set'));
  await discard();
});

it('shows that a secret is set, and replaces it without a look at it', async () => {
  const before = larder.included(SHOP);
  await choose('/basket/*');
  const table = setting('request_headers.set');
  await table.locator('.chip', { hasText: 'set' }).first().waitFor();
  const html = await page.locator('.form-main').evaluate((it) => it.innerHTML + [...it.querySelectorAll('input')].map((one) => one.value).join());
  assert.ok(!html.includes('correct horse'), 'the secret is not in the page');
  await table.getByRole('button', { name: 'Replace Value of X-Key' }).click();
  const field = table.getByLabel('Value of X-Key');
  assert.equal(await field.inputValue(), '');
  await field.fill('battery');
  assert.equal(await field.getAttribute('type'), 'password');
  await field.press('Enter');
  await valid();
  assert.equal(await drafted(SHOP), before.replace('"X-Key" = "correct horse"', '"X-Key" = "battery"'));
  await discard();
});

it('shows the values of ordinary fields and variables, where they are set and where they are inherited', async () => {
  const before = larder.included(SHOP);
  await choose('/basket/*');
  const field = setting('request_headers.set').getByLabel('Value of Accept-Language');
  assert.equal(await field.inputValue(), 'de');
  assert.equal(await field.getAttribute('type'), null, 'it is readable');
  await field.fill('en');
  await field.press('Enter');
  await valid();
  assert.equal(await drafted(SHOP), before.replace('"Accept-Language" = "de"', '"Accept-Language" = "en"'));
  // What comes into force is reviewed, and the secret next to it is still hidden.
  await page.click('text=Review and apply');
  const changed = page.locator('dialog .diff', { hasText: '"Accept-Language" = "en"' });
  await changed.waitFor();
  assert.match(await changed.innerText(), /"X-Key" = "hidden:/);
  await page.keyboard.press('Escape');
  await discard();
  await choose('/*');
  const inherited = setting('request_headers.set').locator('output');
  await inherited.getByText('X-Site-Key').waitFor();
  assert.match((await inherited.innerText()).replaceAll(/\s+/g, ' '), /X-Site-Key set X-Site fr/);
});

it('sets variables of an application, with the reason where one cannot be set', async () => {
  const before = larder.included(SHOP);
  await choose('/app/*');
  const table = setting('proxy.env');
  await table.locator('.chip', { hasText: 'set' }).first().waitFor();
  const add = async (row, name, value) => {
    await table.getByRole('button', { name: 'Add row to proxy.env' }).click();
    await table.getByLabel(new RegExp(`^Name, row ${row}`)).fill(name);
    await table.getByLabel(new RegExp(`^Name, ${name}|^Name, row ${row}`)).press('Tab');
    const field = table.locator('.pair').nth(row - 1).locator('input').nth(1);
    await field.fill(value);
    await field.press('Enter');
  };
  await add(2, 'SCRIPT_NAME', '{path}');
  await valid();
  const set = (more) => before.replace('{ APP_ENV = "correct horse" }', `{ APP_ENV = "correct horse", ${more} }`);
  assert.equal(await drafted(SHOP), set('SCRIPT_NAME = "{path}"'));
  await choose('/app/*');
  for (const [name, value, why] of [
    ['REMOTE_ADDR', '{header.x-real-ip}', 'REMOTE_ADDR cannot be set'],
    ['SCRIPT_FILENAME', '{path}', 'SCRIPT_FILENAME begins with a variable'],
    ['A-B', 'a', 'a name of letters'],
  ]) {
    await add(3, name, value);
    await page.locator('.bad', { hasText: why }).first().waitFor();
    await table.getByRole('button', { name: `Remove ${name} of proxy.env` }).click();
    await valid();
  }
  await table.getByRole('button', { name: 'Remove SCRIPT_NAME of proxy.env' }).click();
  await until('the file is as it was', async () => (await drafted(SHOP)) === before);
});

it('tells what a route inherits and from where, overrides it, and resets it', async () => {
  const before = larder.included(SHOP);
  const line = (text) => before.split('\n').findIndex((it) => it.includes(text)) + 1;
  await choose('/basket/*');
  const csp = setting('csp');
  const from = (of) => of.locator('.from').innerText().then((it) => it.replaceAll(/\s+/g, ' ').trim());
  await csp.waitFor();
  assert.equal(await csp.locator('.inherited').innerText(), "default-src 'self'");
  assert.equal(await from(csp), `block shared conf.d/shop.toml:${line('csp =')}`);
  const ttl = setting('client_ttl');
  assert.equal(await from(ttl), `site conf.d/shop.toml:${line('client_ttl')}`);
  assert.match(await from(setting('path')), new RegExp(`^set here conf\\.d/shop\\.toml:${line('/basket/')}$`));
  // Fields of responses add to those of the site.
  const fields = setting('response_headers.set');
  await page.getByRole('button', { name: 'Add here response_headers.set' }).click();
  await fields.getByLabel(/^Name, row 1/).fill('X-Basket');
  await fields.locator('.pair input').nth(1).fill('yes');
  await fields.locator('.pair input').nth(1).press('Enter');
  await until('the site adds', async () => /set here conf\.d\/shop\.toml:\d+ adds to site conf\.d\/shop\.toml:\d+ X-Shop yes/.test(await from(fields)));
  await page.getByRole('button', { name: 'Reset response_headers.set' }).click();
  await fields.locator('.inherited').waitFor();
  await page.getByRole('button', { name: 'Override client_ttl' }).click();
  const field = page.getByRole('textbox', { name: 'client_ttl' });
  await until('it starts with the value', async () => (await field.inputValue().catch(() => '')) === '5m');
  await field.fill('7m');
  await field.press('Enter');
  await valid();
  await until('both are told', async () => /^set here conf\.d\/shop\.toml:\d+ overrides site conf\.d\/shop\.toml:\d+ 5m$/.test(await from(ttl)));
  assert.match(await drafted(SHOP), /path = "\/basket\/\*"\n(?:[^[\n].*\n)*client_ttl = "7m"\n/);
  await choose('/basket/*');
  await page.getByRole('button', { name: 'Reset client_ttl' }).click();
  await until('the value of the site is there again', async () => (await ttl.locator('.inherited').innerText().catch(() => '')) === '5m');
  await until('the file is as it was', async () => (await drafted(SHOP)) === before);
});

it('keeps a name that is written as soon as its row is drawn', async () => {
  await choose('/*');
  const fields = setting('response_headers.set');
  const written = page.evaluate(
    () =>
      new Promise((then) => {
        const seen = new MutationObserver(() => {
          const box = document.querySelector('[data-setting="response_headers.set"] .pair input');
          if (!box) return;
          seen.disconnect();
          box.focus();
          document.execCommand('insertText', false, 'X-Quick');
          // After two frames whatever follows the drawing has run.
          requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(then, 100)));
        });
        seen.observe(document.body, { childList: true, subtree: true });
      }),
  );
  await page.getByRole('button', { name: 'Add here response_headers.set' }).click();
  await written;
  assert.equal(await fields.getByLabel(/^Name, row 1/).inputValue(), 'X-Quick');
  await fields.locator('.pair input').nth(1).fill('yes');
  await fields.locator('.pair input').nth(1).press('Enter');
  await until('the row is in the draft', async () => (await drafted(SHOP)).includes('X-Quick = "yes"'));
  await discard();
});

it('keeps a name that is being written while an answer of larder draws the section again', async () => {
  const before = larder.included(SHOP);
  await choose('/*');
  const fields = setting('response_headers.set');
  await page.getByRole('button', { name: 'Add here response_headers.set' }).click();
  let release;
  const held = new Promise((then) => (release = then));
  await page.route('**/api/v1/config/layers', async (route) => (await held, route.continue()));
  const ttl = setting('client_ttl');
  await page.getByRole('button', { name: 'Override client_ttl' }).click();
  const field = page.getByRole('textbox', { name: 'client_ttl' });
  await until('it starts with the value', async () => (await field.inputValue().catch(() => '')) === '5m');
  await field.fill('8m');
  await field.press('Enter');
  await valid();
  const name = fields.getByLabel(/^Name, row 1/);
  await name.pressSequentially('X-Slow');
  release();
  await ttl.locator('.from', { hasText: 'set here' }).waitFor();
  assert.equal(await name.inputValue(), 'X-Slow');
  await fields.locator('.pair input').nth(1).fill('yes');
  await fields.locator('.pair input').nth(1).press('Enter');
  await until('the row is in the draft', async () => (await drafted(SHOP)).includes('X-Slow = "yes"'));
  await page.unroute('**/api/v1/config/layers');
  await discard();
  assert.equal(await drafted(SHOP), before);
});

it('adds, orders and removes cache rules', async () => {
  const before = larder.included(SHOP);
  await choose('/*');
  const rules = page.getByRole('group', { name: 'cache.rule' });
  const rule = (at) => rules.locator(`[data-member="${at}"]`);
  const add = page.getByRole('button', { name: 'Add rule to cache.rule' });
  await add.click();
  await rule(0).waitFor();
  await until('the empty condition is marked', async () => (await rule(0).locator('.bad').count()) > 0);
  for (const [at, when, ttl] of [[0, 'status == 404', '5s'], [1, 'path ~ "^/shop/"', '1h']]) {
    if (at) await add.click();
    await rule(at).getByRole('textbox', { name: 'when' }).fill(when);
    await rule(at).getByRole('textbox', { name: 'ttl', exact: true }).fill(ttl);
    await rule(at).getByRole('textbox', { name: 'ttl', exact: true }).press('Enter');
  }
  await valid();
  const conditions = async () => (await drafted(SHOP)).split('path = "/*"')[1].match(/when = .*/g);
  assert.deepEqual(await conditions(), ['when = "status == 404"', 'when = "path ~ \\"^/shop/\\""']);
  await choose('/*');
  const up = rules.getByRole('button', { name: 'Move rule 2 up' });
  await up.focus();
  await page.keyboard.press('Enter');
  await until('the order is another', async () => (await rule(0).getByRole('textbox', { name: 'when' }).inputValue()).startsWith('path'));
  await until('the focus went along', () => rules.getByRole('button', { name: 'Move rule 1 up' }).evaluate((it) => it === document.activeElement));
  await rules.getByRole('button', { name: 'Remove rule 1' }).click();
  await page.locator('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
  await until('one is left', async () => (await rules.locator('[data-member]').count()) === 1);
  await valid();
  assert.deepEqual(await conditions(), ['when = "status == 404"']);
  // Those of a block are shown, and can be copied.
  await choose('/basket/*');
  await rules.locator('text=status == 404').waitFor();
  assert.match(await rules.innerText(), /block shared\s+conf\.d\/shop\.toml:\d+/);
  await rules.getByRole('button', { name: 'Override cache.rule' }).click();
  await until('the rule is its own', async () => (await rule(0).getByRole('textbox', { name: 'when' }).inputValue().catch(() => '')) === 'status == 404');
  await valid();
  await discard();
  assert.equal(larder.included(SHOP), before);
});

it('edits further limits of a route', async () => {
  await choose('/*');
  const limits = page.getByRole('group', { name: 'access.limits' });
  const field = (name) => limits.locator('[data-member="0"]').getByRole('textbox', { name, exact: true });
  await page.getByRole('button', { name: 'Add limit to access.limits' }).click();
  await until('the empty rate is marked', async () => (await limits.locator('.bad').count()) > 0);
  for (const [name, value] of [['rate', '100/h'], ['burst', '99'], ['by', 'header:X-Api-Key']]) {
    await field(name).fill(value);
    await field(name).press('Enter');
  }
  await valid();
  assert.match((await drafted(SHOP)).split('path = "/*"')[1], /access.limits.*rate = "100\/h".*burst = 99.*by = "header:X-Api-Key"/s);
  await discard();
});

it('shows the heading of what is chosen below the bar, and stays near what was removed', async () => {
  await page.setViewportSize({ width: 1440, height: 600 });
  await choose('/basket/*');
  await page.evaluate(() => scrollTo(0, document.body.scrollHeight));
  await choose('/app/*');
  const [title, bar] = [await page.locator('.form-title h2').boundingBox(), await page.locator('.apply').boundingBox()];
  assert.ok(title.y >= bar.y + bar.height && title.y < 300, `the heading is at ${title.y}, the bar ends at ${bar.y + bar.height}`);
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.getByRole('button', { name: 'Remove this route' }).click();
  await page.locator('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
  await page.locator('.toast', { hasText: 'Route /app/* was removed from the draft.' }).waitFor();
  await page.locator('.form-title h2', { hasText: '/basket/*' }).waitFor();
  await discard();
});

it('moves routes with the keyboard, and takes sites over no border of files', async () => {
  await choose('/basket/*');
  const listed = async () => (await page.locator('.section.below:not(.add) .mono').allInnerTexts()).slice(-2);
  await page.locator('.section[aria-current]').focus();
  await page.keyboard.press('Alt+ArrowDown');
  await until('it moved', async () => (await listed()).join(' ') === '/* /basket/*');
  await until('the focus went along', async () => (await page.evaluate(() => document.activeElement.textContent)).startsWith('/basket/*'));
  await page.locator('.hint', { hasText: 'receives no requests' }).waitFor();
  await page.keyboard.press('Alt+ArrowUp');
  await until('it is back', async () => (await listed()).join(' ') === '/basket/* /*');
  await choose('shop.test');
  for (const way of ['up', 'down']) assert.equal(await page.getByRole('button', { name: `Move this site ${way}` }).getAttribute('aria-disabled'), 'true');
  await page.locator('.apply', { hasText: 'Same as the file' }).waitFor();
});

it('writes each edit to its file, shows the difference of each, and applies and rolls back both', async () => {
  const [main, shop] = [larder.configuration(), larder.included(SHOP)];
  const dialog = page.locator('dialog');
  await choose('shop.test');
  await setting('client_ttl').getByRole('textbox').fill('9m');
  await page.locator('.section', { hasText: 'RAM tier' }).click();
  await page.getByRole('textbox', { name: 'idle' }).fill('10m');
  await page.getByRole('textbox', { name: 'idle' }).press('Enter');
  await page.getByRole('button', { name: 'New site' }).click();
  await dialog.getByRole('textbox', { name: /^Hosts/ }).fill('books.test');
  await dialog.getByRole('textbox', { name: /^Origin/ }).fill(/to = \["(.*?)"\]/.exec(main)[1]);
  await dialog.getByLabel('File').selectOption({ label: SHOP });
  await dialog.getByRole('button', { name: 'Add' }).click();
  await dialog.waitFor({ state: 'detached' });
  await page.locator('.form-title', { hasText: `books.test Site 3, ${SHOP}` }).waitFor();
  await valid();
  assert.deepEqual([larder.configuration(), larder.included(SHOP)], [main, shop], 'nothing is written yet');
  await page.click('text=Review and apply');
  await dialog.locator('.diff-file').nth(1).waitFor();
  assert.deepEqual(await dialog.locator('.diff-file').allInnerTexts().then((it) => it.map((one) => one.split('/').at(-1))), ['larder.toml', 'shop.toml']);
  assert.match((await dialog.locator('.diff .new').allInnerTexts()).join(''), /idle = "10m"[^]*client_ttl = "9m" # browsers[^]*books\.test/);
  await confirm(dialog, 'Apply');
  await page.locator('.toast', { hasText: 'in force' }).waitFor();
  assert.match(larder.configuration(), /idle = "10m"/);
  assert.ok(larder.included(SHOP).startsWith(shop.replace('"5m" # browsers', '"9m" # browsers')), larder.included(SHOP));
  assert.match(larder.included(SHOP), /hosts = \["books\.test"\]/);
  await page.click('text=History');
  await page.locator('button', { hasText: 'Roll back' }).first().click();
  await dialog.locator('.diff-file').nth(1).waitFor();
  await confirm(dialog, 'Roll back');
  await page.locator('.toast', { hasText: 'again' }).waitFor();
  assert.deepEqual([larder.configuration(), larder.included(SHOP)], [main, shop]);
});

it('marks what is wrong in an included file where it is, in the form and in the text', async () => {
  await go('config?part=form');
  await choose('shop.test');
  await setting('client_ttl').getByRole('textbox').fill('soon');
  await setting('client_ttl').getByRole('textbox').press('Enter');
  await setting('client_ttl').locator('.bad', { hasText: 'soon' }).waitFor();
  assert.match(await page.locator('.problems').innerText(), /conf\.d\/shop\.toml, line \d+/);
  await page.getByRole('button', { name: 'Text', exact: true }).click();
  assert.equal(await page.locator('.mark-line').count(), 0, 'the main file is right');
  await page.getByLabel('File').selectOption({ label: `${SHOP} (changed)` });
  await page.locator('.mark-line').waitFor();
  await discard();
});

for (const [name, size] of [['1440', { width: 1440, height: 900 }], ['390', { width: 390, height: 844 }]]) {
  for (const colorScheme of ['dark', 'light']) {
    it(`has no serious finding of axe in a route that inherits, ${name}, ${colorScheme}, and fits`, async () => {
      await page.setViewportSize(size);
      await page.emulateMedia({ colorScheme, reducedMotion: 'reduce' });
      await go('config?part=form');
      await choose('/basket/*');
      await setting('csp').locator('.inherited').waitFor();
      assert.deepEqual(await audit(page), []);
      const wider = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wider <= 0, `it is ${wider} pixels too wide`);
      await page.getByRole('button', { name: 'Add setting …' }).click();
      await page.locator('dialog .add-key').first().waitFor();
      assert.deepEqual(await audit(page), []);
      await page.keyboard.press('Escape');
    });
  }
}

it('has asked nobody else, and has said nothing on the console', () => {
  assert.deepEqual(seen.elsewhere, []);
  assert.deepEqual(seen.console, []);
});

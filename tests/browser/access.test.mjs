// Roles on the page: what a viewer and an operator are offered, and the view of sessions, tokens and the audit log.
import assert from 'node:assert/strict';
import { after, before } from 'node:test';
import { audit, it, open } from './browser.mjs';
import { ask, start, until } from './larder.mjs';

const VIEWER = 'viewer-0123456789abcdefghijklmnopqrstuv';
const OPERATOR = 'operator-0123456789abcdefghijklmnopqrst';

let larder;
const browsers = [];

before(async () => {
  larder = await start();
  const text = larder.configuration();
  const section = (name, role, token) => `[[admin.tokens]]\nname = "${name}"\nrole = "${role}"\ntoken = "${token}"\n\n`;
  larder.configure(text.replace('[cache.ram]', `${section('grafana', 'viewer', VIEWER)}${section('night-shift', 'operator', OPERATOR)}[cache.ram]`));
  await until('the tokens are in force', async () => (await ask(`${larder.admin}/api/v1/whoami`, { Authorization: `Bearer ${OPERATOR}` })).status === 200);
});

after(async () => {
  for (const it of browsers) await it.close();
  await larder?.stop();
});


/** A browser of its own, logged in with a token. */
async function loggedIn(token) {
  const { browser, page, seen } = await open(larder.admin);
  browsers.push(browser);
  await page.goto(larder.admin);
  await page.getByLabel('Or paste a login link or a token').fill(token);
  await page.getByRole('button', { name: 'Open' }).click();
  // The form has such a heading, too.
  await page.locator('main:not(.login) h1').waitFor();
  return { page, seen };
}

const view = async (page, name) => {
  await page.goto(`${larder.admin}/#/${name}`);
  await page.locator('main h1').waitFor();
};
const offered = (page, name) => page.getByRole('button', { name }).first().isEnabled();

it('returns by a login link to the view where the session ended', async () => {
  const { browser, page, seen } = await open(larder.admin);
  browsers.push(browser);
  // Without a session, the form is in front of the view; the link opens another tab.
  await page.goto(`${larder.admin}/#/why`);
  await page.getByLabel('Or paste a login link or a token').waitFor();
  const other = await page.context().newPage();
  await other.goto(larder.link);
  await other.locator('main:not(.login) h1').waitFor();
  assert.equal(new URL(other.url()).hash, '#/why');
  assert.equal(await other.evaluate(() => localStorage.getItem('larder.view')), null, 'once');
  assert.deepEqual(seen.console, []);
});

it('keeps no token in the browser, and shows name and role', async () => {
  const { page, seen } = await loggedIn(VIEWER);
  const kept = await page.evaluate(() => JSON.stringify({ ...localStorage }));
  assert.ok(!kept.includes(VIEWER), 'a session took its place');
  await page.getByRole('button', { name: 'grafana viewer, logged in' }).waitFor();
  await page.getByRole('button', { name: 'grafana viewer, logged in' }).click();
  await page.locator('dialog', { hasText: 'A viewer reads, and changes nothing.' }).waitFor();
  await page.getByRole('button', { name: 'Log out everywhere' }).click();
  await page.getByLabel('Or paste a login link or a token').waitFor();
  assert.deepEqual(seen.console, []);
});

it('offers a viewer no change, and says which role it needs', async () => {
  const { page, seen } = await loggedIn(VIEWER);
  await ask(`${larder.site}/pages/1`);
  assert.equal(await page.getByRole('link', { name: 'Access' }).count(), 0, 'the view is of admins');
  await page.getByRole('button', { name: /^Drain / }).first().waitFor();
  assert.equal(await offered(page, /^Drain /), false);
  assert.equal(await page.getByRole('button', { name: /^Drain / }).first().getAttribute('title'), 'Requires the role operator');
  await view(page, 'objects');
  for (const name of ['Overlay …', 'Purge …']) assert.equal(await offered(page, name), false, name);
  await page.keyboard.press('p');
  assert.equal(await page.locator('dialog').count(), 0, 'nor by its key');
  await view(page, 'top');
  assert.equal(await offered(page, 'Reset'), false);
  await view(page, 'traces');
  await page.getByLabel('Sampling of pages').waitFor();
  assert.equal(await page.getByLabel('Sampling of pages').isEnabled(), false);
  for (const name of ['All off', 'All 1 in 100']) {
    assert.equal(await offered(page, name), false, name);
    assert.equal(await page.getByRole('button', { name }).getAttribute('title'), 'Requires the role operator');
  }
  await view(page, 'config');
  await page.getByText('Requires the role admin to change it.').waitFor();
  const text = page.getByLabel('The text of the configuration');
  assert.equal(await text.getAttribute('readonly') !== null, true);
  assert.doesNotMatch(await text.inputValue(), /kitchen|cook|viewer-0123/, 'comments and secrets are hidden');
  assert.equal(await page.getByRole('button', { name: 'Review and apply …' }).count(), 0);
  // What is not offered is not permitted either.
  await page.goto(`${larder.admin}/#/access`);
  await page.getByText('Access requires the role admin').waitFor();
  assert.deepEqual(await audit(page), []);
  assert.deepEqual(seen.console, []);
});

it('offers an operator daily work, and not the configuration', async () => {
  const { page, seen } = await loggedIn(OPERATOR);
  await page.getByRole('button', { name: 'night-shift operator, logged in' }).waitFor();
  await view(page, 'objects');
  await page.getByRole('button', { name: 'Purge …' }).click();
  await page.locator('dialog').waitFor();
  await page.keyboard.press('Escape');
  await view(page, 'top');
  await page.getByRole('button', { name: 'Reset' }).click();
  await page.getByText('The counts were reset.').waitFor();
  await view(page, 'config');
  await page.getByText('Requires the role admin to change it.').waitFor();
  assert.equal(await page.getByRole('button', { name: 'Form' }).count(), 0);
  assert.deepEqual(seen.console, []);
});

it('shows an admin sessions, tokens and the audit log, and ends a session', async () => {
  const viewer = await loggedIn(VIEWER);
  const { page, seen } = await loggedIn(larder.token());
  await page.getByRole('link', { name: 'Access' }).waitFor();
  await view(page, 'access');
  const sessions = page.getByRole('region', { name: 'Sessions' });
  await sessions.getByRole('row', { name: /admin this browser/ }).waitFor();
  const tokens = page.getByRole('region', { name: 'Tokens' });
  assert.match(await tokens.getByRole('row', { name: /grafana/ }).innerText(), /viewer/);
  const log = page.getByRole('region', { name: 'Entries of the audit log' });
  await log.getByText('POST /api/v1/top/reset').waitFor();
  assert.deepEqual(await audit(page), []);
  // The filter.
  await page.getByLabel('Token', { exact: true }).selectOption('night-shift');
  await until('only those of one token are shown', async () => {
    const rows = await log.locator('tbody tr').allInnerTexts();
    return rows.length > 0 && rows.every((row) => row.includes('night-shift'));
  });
  await page.getByLabel('Request', { exact: true }).fill('/top/');
  await until('only those requests are shown', async () => (await log.locator('tbody tr').count()) === 1);
  await page.getByLabel('Status', { exact: true }).fill('403');
  await page.getByText('No entries').waitFor();
  // The viewer's session ends, and its page says so.
  const ends = sessions.getByRole('button', { name: /^End session \d+ of grafana/ });
  await ends.first().waitFor();
  for (let left = await ends.count(); left > 0; left -= 1) {
    await ends.first().click();
    await until('the ended session leaves the list', async () => (await ends.count()) < left);
  }
  await viewer.page.getByText('The session has ended').waitFor();
  await page.getByRole('button', { name: 'End all …' }).click();
  await page.locator('dialog').getByRole('button', { name: 'End all', exact: true }).click();
  await page.getByLabel('Or paste a login link or a token').waitFor();
  assert.deepEqual(seen.console, []);
});

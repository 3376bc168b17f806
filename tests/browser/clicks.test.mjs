// Counts the clicks of the tasks of an operator, each from the overview: those of the table in docs/decisions/0110-admin-page.md.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { confirm, dialog, it, larder, page, testPage } from './browser.mjs';
import { ask, until } from './larder.mjs';

const table = new Map(
  readFileSync(new URL('../../docs/decisions/0110-admin-page.md', import.meta.url), 'utf8')
    .split('\n')
    .map((line) => /^\| ([^|]+?) \| (?:\d+|–) \| (\d+) \|/.exec(line))
    .filter((it) => it !== null)
    .map(([, task, clicks]) => [task, Number(clicks)]),
);

testPage({
  onPage: async () => {
    // A key that presses a button is no click: it has no detail.
    await page.addInitScript(() => {
      window.clicks = 0;
      addEventListener('click', (event) => event.isTrusted && event.detail > 0 && (window.clicks += 1), true);
    });
  },
  opened: async () => {
    for (let times = 0; times < 14; times += 1) await ask(`${larder.site}/pages/many?utm_source=${times}`);
    for (let times = 0; times < 25; times += 1) await ask(`${larder.site}/broken/oven`);
  },
});

const done = new Set();

/** A task of the table, from the overview. */
const task = (name, run) =>
  it(name, async () => {
    await page.goto(`${larder.admin}/#/overview`);
    await page.reload();
    await page.locator('.tiles:not(.loading)').waitFor();
    await run();
    done.add(name);
    assert.equal(await page.evaluate(() => window.clicks), table.get(name));
  });
const view = (name) => page.locator(`nav a[href="#/${name}"]`).click();

/** Finds an object from the overview; what is typed goes to the search by its key. */
async function find() {
  await view('objects');
  // Not the overview's rows: until the view has arrived, the key finds no search.
  await page.locator('.objects tbody tr').first().waitFor();
  await page.keyboard.press('/');
  await page.keyboard.type('utm_source=3');
  await until('it is found', async () => (await page.locator('.objects tbody tr').count()) === 1);
}

task('find a stored page', find);

task('inspect it', async () => {
  await find();
  await page.locator('.objects tbody [data-row]').click();
  await dialog().locator('.fields').waitFor();
});

task('purge it', async () => {
  await find();
  await page.locator('.objects tbody [data-row]').click();
  await dialog().getByRole('button', { name: 'Purge', exact: true }).click();
  await until('it is gone', async () => (await page.locator('.objects tbody tr').count()) === 0);
});

task('drain an origin', async () => {
  await page.getByRole('button', { name: /^Drain/ }).click();
  await dialog().getByRole('button', { name: 'Drain', exact: true }).click();
  await page.getByRole('button', { name: /^Restore/ }).waitFor();
});

task('let a drained origin serve again', async () => {
  await page.getByRole('button', { name: /^Restore/ }).click();
  await page.getByRole('button', { name: /^Drain/ }).waitFor();
});

task('see which URLs give these 5xx', async () => {
  await page.locator('.tile', { hasText: 'Server errors' }).click();
  await page.locator('.live tbody tr', { hasText: '/broken/oven' }).first().waitFor();
});

task('see what is wrong, and open its place', async () => {
  for (let times = 0; times < 25; times += 1) await ask(`${larder.site}/broken/oven`);
  await page.locator('.state', { hasText: 'server errors' }).waitFor();
  await page.locator('.state-line a').click();
  await page.locator('h1:text-is("Live")').waitFor();
});

task('see why the hit ratio is low', async () => {
  await page.locator('.tile', { hasText: 'Hit ratio' }).click();
  await page.locator('.why tbody tr').first().waitFor();
});

task('explain a URL', async () => {
  await page.keyboard.press('Control+k');
  await dialog().waitFor();
  await page.keyboard.type('/broken/oven');
  await page.keyboard.press('Enter');
  await page.locator('[data-verdict]').waitFor();
});

task('follow an advice', async () => {
  await page.locator('.advice', { hasText: 'parameters of analytics' }).getByRole('button', { name: 'Review this change' }).click();
  const trial = dialog().locator('.trial');
  await trial.waitFor();
  // The pages here have the time in them, which needs a confirmation by a key: it is no part of the task.
  if (await trial.locator('.trial-danger').count()) await trial.getByRole('checkbox').press('Space');
  await confirm(dialog(), 'Apply');
  await dialog().waitFor({ state: 'detached' });
});

task('undo the latest change of the configuration', async () => {
  await view('config');
  await page.getByRole('button', { name: 'History' }).click();
  await page.getByRole('button', { name: /^Roll back …/ }).first().click();
  await confirm(dialog(), 'Roll back');
  await dialog().waitFor({ state: 'detached' });
});

test('each task of the table was done', () => assert.deepEqual([...done], [...table.keys()]));

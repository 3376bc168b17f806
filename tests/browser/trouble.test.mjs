// The page where things are not as they should be: data that means harm, a larder without requests or with a hundred sites, one
// that goes and comes back, other tabs, another token, an address that leads nowhere; and fingers in place of a mouse.
import assert from 'node:assert/strict';
import { audit, confirm, it, larder, open, page, seen, testPage } from './browser.mjs';
import { ask, until } from './larder.mjs';

testPage({ sites: 100 });

const go = async (view, on = page) => {
  if (await on.locator('dialog').count()) await on.reload();
  await on.goto(`${larder.admin}/#/${view}`);
  await on.locator('main h1').waitFor();
};
const VIEWS = ['overview', 'objects', 'objects?show=overlays', 'explain', 'live', 'top', 'traces', 'config?part=form', 'config?part=text', 'config?part=history'];
const drawn = (on) => on.locator('.tiles:not(.loading), .table, .empty, .told-all, .setting, .editor, .hint').first().waitFor();
const focused = (on = page) => on.evaluate(() => document.activeElement?.textContent);

it('shows a larder that nobody asks as zeros and dashes', async () => {
  for (const view of VIEWS) {
    await go(view);
    await drawn(page);
    if (view === 'overview') await until('rates are known', async () => (await page.locator('[data-figure]').first().innerText()) === '0');
    assert.doesNotMatch(await page.locator('main').innerText(), /NaN|Infinity|undefined|\bnull\b|\[object/, view);
  }
});

it('shows a few of a hundred routes, all where they are asked for, and one site opened', async () => {
  await go('overview');
  const rows = page.locator('section:has(> .block-head h2:text("Routes")) tbody tr');
  await until('a few', async () => (await rows.count()) === 4);
  await page.getByRole('button', { name: 'Show all 102 routes' }).click();
  await until('all', async () => (await rows.count()) === 102);
  await go('traces');
  await page.getByRole('button', { name: 'Show all 102 routes' }).click();
  await page.getByLabel('Sampling of shop-99').waitFor();
  await go('config?part=form');
  await page.locator('.section', { hasText: 'shop-77.example' }).click();
  assert.deepEqual(await page.locator('.section.below:not(.add)').allInnerTexts().then((all) => all.length), 1, 'of the others, no route is shown');
  const field = page.getByRole('textbox', { name: 'hosts' });
  assert.equal(await field.inputValue(), 'shop-77.example');
  const { y } = await field.boundingBox();
  assert.ok(y > 0 && y < 900, `what one chose far down is opened in sight, at ${y}`);
});

/** URLs that mean harm, as a client sends them. */
const URLS = [
  `/hostile/${'long'.repeat(1000)}`,
  '/hostile/%3Cscript%3Edocument.title%3D%22taken%22%3C/script%3E',
  '/hostile/%D7%A9%D7%9C%D7%95%D7%9D/%E2%80%AE/%F0%9F%98%80%F0%9F%8E%89',
  "/hostile/it's-quoted?a=%22b%22&c=%27d%27",
];

const inSight = async (of) => {
  const { y, height } = await page.locator(of).last().boundingBox();
  assert.ok(y >= 0 && y + height <= 900, `${of} is at ${y}`);
};

it('shows requests that mean harm as text, and what stands below them in sight', async () => {
  const fields = { 'User-Agent': '<script>document.title = "taken"</script> "', Referer: 'http://x/"><b>' };
  await go('live');
  await page.locator('.head-sub', { hasText: 'per second' }).waitFor();
  for (const url of URLS) for (let times = 0; times < 2; times += 1) assert.equal((await ask(larder.site + url, fields)).status, 200);
  await until('they are in the stream', async () => (await page.locator('.live tbody tr').count()) >= 8);
  await page.locator('.live [data-row]').last().click();
  await inSight('dialog .dialog-foot button');
  await page.locator('dialog h2').getByRole('button', { name: /^Show all [\d,]+ characters/ }).click();
  await inSight('dialog .dialog-foot button');
  assert.match(await page.locator('dialog .fields').innerText(), /<script>/);
  await page.getByRole('button', { name: 'Explain this request' }).click();
  await page.locator('[data-verdict]').waitFor();
  await inSight('[data-verdict]');
});

for (const url of URLS) {
  it(`shows what is stored of ${url.slice(0, 30)} as text, and what stands below it in sight`, async () => {
    await go(`objects?search=${encodeURIComponent(url.slice(0, 60))}`);
    await until('it is found', async () => (await page.locator('.objects tbody tr').count()) === 1);
    await page.locator('.objects [data-row]').click();
    await page.locator('dialog .fields').waitFor();
    assert.match(await page.locator('dialog .fields').innerText(), /<script>document.title = "taken"<\/script>[^]*"unfinished, and 'more'/);
    await inSight('dialog .dialog-foot button');
    await page.keyboard.press('Escape');
    await go(`explain?url=${encodeURIComponent(larder.site + url)}`);
    await page.locator('[data-verdict]').waitFor();
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - innerWidth), 0, url);
  });
}

it('purges a URL as long as a page, and has run none of what means harm', async () => {
  await go('objects');
  await page.keyboard.press('p');
  await page.locator('dialog [data-first]').waitFor();
  await page.locator('dialog [data-first]').fill(larder.site + URLS[0]);
  await page.keyboard.press('Enter');
  await page.locator('.receipts').waitFor();
  await inSight('dialog .form-end button');
  await page.keyboard.press('Escape');
  assert.equal(await page.title(), 'Objects · larder');
  assert.equal(await page.locator('main b:text-is("bold"), main script, main img').count(), 0);
});

it('says that there is no such view, and leads to those there are', async () => {
  await page.goto(`${larder.admin}/#/no-such-view?of=this`);
  await page.locator('.empty', { hasText: '“no-such-view”' }).waitFor();
  await page.waitForFunction(() => document.title === 'No such view · larder');
  assert.equal(await page.locator('nav [aria-current]').count(), 0);
  assert.deepEqual(await audit(page), []);
  await page.locator('.ways a', { hasText: 'Top' }).click();
  await page.locator('h1', { hasText: 'Top' }).waitFor();
  await page.goto(`${larder.admin}/#/`);
  await page.locator('h1', { hasText: 'Overview' }).waitFor();
});

it('lays overlays for a while, goes through them by arrows, opens and takes one away by keys alone', async () => {
  await go('objects');
  await page.locator('main').focus();
  for (const path of ['/first', '/second']) {
    await page.keyboard.press('n');
    await page.locator('dialog [data-first]').waitFor();
    await page.keyboard.type(path);
    // Type, status, lifetime, page.
    for (let step = 0; step < 3; step += 1) await page.keyboard.press('Tab');
    await page.keyboard.type(path === '/first' ? 'an hour' : '3600');
    await page.keyboard.press('Tab');
    await page.keyboard.type('Closed');
    await page.keyboard.press('Shift+Tab');
    await page.keyboard.press('Enter');
    if (path === '/first') {
      await page.locator('dialog [role=alert]', { hasText: 'an hour' }).waitFor();
      await page.keyboard.press('ControlOrMeta+a');
      await page.keyboard.type('3600');
      await page.keyboard.press('Enter');
    }
    await page.locator('dialog').waitFor({ state: 'detached' });
    assert.equal((await ask(larder.site + path)).body, 'Closed');
  }
  await page.locator('tbody [data-row]').nth(1).waitFor();
  await page.locator('main').focus();
  await page.keyboard.press('ArrowDown');
  const first = await focused();
  await page.keyboard.press('ArrowDown');
  const second = await focused();
  assert.deepEqual([first, second].sort(), ['/first', '/second']);
  await page.keyboard.press('Enter');
  await page.locator('dialog', { hasText: 'Overlay on every host' }).waitFor();
  const told = await page.locator('dialog').innerText();
  assert.match(told, /Until\s+\d{4}-/);
  // The keys of the view behind are not heard.
  await page.keyboard.press('p');
  assert.equal(await page.locator('dialog').count(), 1);
  for (let step = 0; step < 9 && (await focused()) !== ' Remove'; step += 1) await page.keyboard.press('Tab');
  await page.keyboard.press('Enter');
  await until('one is left', async () => (await page.locator('tbody [data-row]').count()) === 1);
  await page.locator('tbody').getByRole('button', { name: /^Remove/ }).click();
  await page.locator('text=No overlays').waitFor();
});

it('leaves Space to the button that has the focus', async () => {
  await go('live');
  const button = page.getByRole('button', { name: 'Pause' });
  await button.focus();
  await page.keyboard.press('Space');
  await page.getByRole('button', { name: 'Resume' }).waitFor();
  await page.keyboard.press('Space');
  await button.waitFor();
  await page.locator('main').focus();
  await page.keyboard.press('Space');
  await page.getByRole('button', { name: 'Resume' }).waitFor();
});

it('folds warnings of the saved file in the dialog of Apply, and leads from one to its line in the editor', async () => {
  await go('config?part=form');
  await page.locator('.section', { hasText: 'Server' }).click();
  const field = page.getByRole('textbox', { name: /^workers/ });
  await field.fill('2');
  await field.press('Enter');
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  await page.click('text=Review and apply');
  const warning = page.locator('dialog .problems').getByRole('button', { name: /cache\.default_ttl: / });
  const older = page.locator('dialog summary', { hasText: 'Also in the file: 1 older warning' });
  await older.waitFor();
  assert.equal(await warning.isVisible(), false);
  await older.click();
  const line = Number(/line (\d+)/i.exec(await warning.innerText())[1]);
  await warning.click();
  await page.locator('dialog').waitFor({ state: 'detached' });
  const chosen = () => page.locator('.editor textarea').evaluate((box) => box.value.slice(0, box.selectionStart).split('\n').length);
  await until('the cursor is in the line', async () => (await chosen()) === line);
  await page.getByRole('button', { name: 'Discard', exact: true }).click();
  await go('overview');
});

it('shows the warning of a changed line in the dialog of Apply', async () => {
  await go('config?part=text');
  const editor = page.getByLabel('The text of the configuration');
  const text = await editor.inputValue();
  // The same warning as that of the saved file, of a new value.
  await editor.fill(text.replace('default_ttl = "60s"', 'default_ttl = "90s"'));
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  const asked = page.waitForResponse((it) => it.url().endsWith('/config/check') && it.request().postData() === JSON.stringify({ text, included: [] }));
  await page.click('text=Review and apply');
  await asked;
  await page.locator('dialog button.primary:enabled', { hasText: 'Apply' }).waitFor();
  await page.locator('dialog .problems').getByRole('button', { name: /cache\.default_ttl: / }).waitFor();
  assert.equal(await page.locator('dialog summary', { hasText: 'older' }).count(), 0);
  await page.keyboard.press('Escape');
  await page.getByRole('button', { name: 'Discard', exact: true }).click();
  await go('overview');
});

it('tells in every view that a restart is pending, and leads to what waits', async () => {
  const before = larder.configuration();
  const chip = page.locator('.pending');
  await go('config?part=form');
  await page.locator('.section', { hasText: 'Server' }).click();
  assert.equal(await chip.count(), 0);
  const field = page.getByRole('textbox', { name: /^workers/ });
  await field.fill('2');
  await field.press('Enter');
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  await page.click('text=Review and apply');
  await confirm(page.locator('dialog'), 'Apply');
  await chip.waitFor();
  for (const view of VIEWS) {
    await go(view);
    assert.match(await chip.getAttribute('aria-label'), /workers/, view);
  }
  await page.setViewportSize({ width: 820, height: 1180 });
  assert.deepEqual(await audit(page), []);
  await page.setViewportSize({ width: 1440, height: 900 });
  await go('top');
  await page.reload();
  await chip.click();
  await page.locator('.waits', { hasText: 'workers' }).waitFor();
  await page.locator('.waits').getByRole('button', { name: 'Undo' }).click();
  await page.locator('button', { hasText: 'Roll back' }).first().click();
  await confirm(page.locator('dialog'), 'Roll back');
  await chip.waitFor({ state: 'detached' });
  assert.equal(larder.configuration(), before);
});

it('refuses in one tab what another has changed meanwhile', async () => {
  const before = larder.configuration();
  const other = await page.context().newPage();
  const change = async (tab, line) => {
    await go('config?part=text', tab);
    const editor = tab.getByLabel('The text of the configuration');
    await until('the text is there', async () => (await editor.inputValue()) === before);
    await editor.press('ControlOrMeta+Home');
    await tab.keyboard.type(`${line}\n`);
    await tab.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
    await tab.click('text=Review and apply');
  };
  await change(page, '# Of the first tab.');
  await change(other, '# Of the second tab.');
  await other.locator('dialog button.primary').click();
  await other.locator('dialog').waitFor({ state: 'detached' });
  await page.locator('dialog button.primary').click();
  await page.locator('dialog [role=alert]').waitFor();
  assert.match(larder.configuration(), /Of the second tab/);
  assert.doesNotMatch(larder.configuration(), /Of the first tab/);
  await page.getByRole('button', { name: 'Merge with the file' }).click();
  const conflict = page.locator('dialog .merge-piece.conflict');
  await conflict.waitFor();
  assert.match(await conflict.innerText(), /Of the first tab[^]*Of the second tab/, 'both are shown');
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.click('text=Discard');
  await go('config?part=history', other);
  await other.locator('button', { hasText: 'Roll back' }).first().click();
  await confirm(other.locator('dialog'), 'Roll back');
  await until('the file is as it was', () => larder.configuration() === before);
  await other.close();
});

const banner = () => page.locator('.lost-banner');

it('says in every view that larder is gone, and goes on with its session once it is back', async () => {
  await go('objects');
  await larder.end();
  await banner().waitFor();
  for (const view of VIEWS) {
    await go(view);
    await banner().waitFor();
    assert.equal(await page.locator('[role=alert]:visible').count(), 1, `${view} says it once`);
  }
  assert.deepEqual(await audit(page), []);
  await larder.again();
  await banner().waitFor({ state: 'detached' });
  await go('overview');
  await page.locator('.tiles:not(.loading)').waitFor();
});

it('comes back by itself where the token still holds', async () => {
  const leave = async () => {
    await page.getByRole('button', { name: 'Log out' }).click();
    await page.locator('text=larder login').waitFor();
  };
  const enter = async () => {
    await page.fill('input', larder.token());
    await page.getByRole('button', { name: 'Open' }).click();
    await page.locator('nav').first().waitFor();
  };
  await leave();
  await enter();
  await larder.end();
  await go('top');
  await banner().waitFor();
  await larder.again();
  await banner().waitFor({ state: 'detached' });
  await page.locator('.empty, .table').first().waitFor();
  // Another token in the file: this one is nobody's any more.
  await larder.end();
  await larder.again({ token: 'another-token-that-somebody-has-written-down' });
  await page.locator('.told', { hasText: 'session has ended' }).waitFor();
  await enter();
  await page.locator('h1', { hasText: 'Top' }).waitFor();
});

it('has one session for all its tabs', async () => {
  await go('overview');
  const other = await page.context().newPage();
  await go('top', other);
  await page.getByRole('button', { name: 'Log out' }).click();
  await other.locator('text=larder login').waitFor();
  await other.fill('input', larder.token());
  await other.getByRole('button', { name: 'Open' }).click();
  await other.locator('h1', { hasText: 'Top' }).waitFor();
  await page.reload();
  await page.locator('h1').waitFor();
  await page.locator('.standing.live').waitFor();
  await other.close();
});

it('is large enough for fingers', async () => {
  const tablet = await open(larder.admin, { viewport: { width: 820, height: 1180 }, hasTouch: true, isMobile: true });
  try {
    const on = tablet.page;
    const small = () =>
      on.evaluate(() => {
        const targets = [...document.querySelectorAll('a, button, input, select, summary')].filter((it) => {
          // What is under the text of the editor, no finger comes to; the link for the keyboard is out of sight.
          if (it.matches('.mark-line, .skip') || !it.checkVisibility({ visibilityProperty: true })) return false;
          const dialog = document.querySelector('dialog[open]');
          return !dialog || dialog.contains(it);
        });
        return targets
          .map((it) => [it, (it.closest('.rows tr') ?? it).getBoundingClientRect()])
          // A word in a sentence is as wide as it is.
          .filter(([it, { width, height }]) => (width < 40 && !it.matches('.link, .key')) || height < 40)
          .map(([it, { width, height }]) => `${it.tagName} ${it.className} ${it.textContent.slice(0, 20)}: ${Math.round(width)} × ${Math.round(height)}`);
      });
    await on.goto(`${larder.admin}/`);
    await on.locator('main').waitFor();
    assert.ok(await on.evaluate(() => matchMedia('(pointer: coarse)').matches), 'it is touched');
    const found = (await small()).map((it) => `login: ${it}`);
    await on.fill('input', larder.token());
    await on.getByRole('button', { name: 'Open' }).tap();
    await on.locator('.tiles:not(.loading)').waitFor();
    for (const url of URLS) await ask(larder.site + url);
    for (const view of [...VIEWS, 'nowhere', `explain?url=${encodeURIComponent(larder.site + URLS[0])}`]) {
      await go(view, on);
      await drawn(on);
      found.push(...(await small()).map((it) => `${view}: ${it}`));
      const wider = await on.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(wider <= 0, `${view} is ${wider} pixels too wide`);
    }
    for (const [view, what] of [['objects', '[data-row]'], ['objects', 'text=Purge …'], ['objects', 'text=Overlay …'], ['config?part=form', 'text=New site …']]) {
      await go(view, on);
      await on.locator(what).first().tap();
      await on.locator('dialog').waitFor();
      found.push(...(await small()).map((it) => `${what}: ${it}`));
      await on.locator('dialog').getByRole('button', { name: 'Close' }).first().tap();
      await on.locator('dialog').waitFor({ state: 'detached' });
    }
    assert.deepEqual([...new Set(found)], []);
  } finally {
    await tablet.browser.close();
  }
});

it('has asked nobody else, and has said nothing on the console', () => {
  // While larder is gone, Chromium says of each request that nobody answered it.
  const gone = /net::ERR_(CONNECTION|INCOMPLETE|EMPTY)/;
  assert.deepEqual(seen.elsewhere, []);
  assert.deepEqual(seen.console.filter((line) => !gone.test(line)), []);
});

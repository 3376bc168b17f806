// The text of the configuration while one writes it: the list that completes it, its mistakes at their places; and the merge of a
// draft with a file that others changed meanwhile.
import assert from 'node:assert/strict';
import { audit, it, larder, page, seen, testPage } from './browser.mjs';
import { until } from './larder.mjs';

testPage();

const editorOf = (on) => on.getByLabel('The text of the configuration');
const editor = () => editorOf(page);
const openText = async (on = page) => {
  // What a test that failed left open.
  if (await on.locator('dialog').count()) await on.keyboard.press('Escape');
  await on.goto(`${larder.admin}/#/config?part=text`);
  await editorOf(on).waitFor();
  const left = on.getByRole('button', { name: 'Discard', exact: true });
  if (await left.isEnabled()) await left.click();
  await until('the text is there', async () => (await editorOf(on).inputValue()) === larder.configuration());
};
/** Puts the cursor behind a text. */
const cursor = (text) =>
  editor().evaluate((box, text) => {
    box.focus();
    const at = box.value.indexOf(text) + text.length;
    box.setSelectionRange(at, at);
  }, text);
const list = () => page.getByRole('listbox', { name: 'Completions' });
const options = () => list().getByRole('option').locator('code').allInnerTexts();
const active = () => editor().evaluate((box) => document.getElementById(box.getAttribute('aria-activedescendant') ?? '')?.querySelector('code')?.textContent ?? null);
const isFocused = () => editor().evaluate((box) => box === document.activeElement);
const discard = () => page.getByRole('button', { name: 'Discard', exact: true }).click();

it('lists on Ctrl-Space what can stand at the cursor, and takes the chosen by Enter', async () => {
  await openText();
  await cursor('size = "64MiB" # what this machine can spare');
  await page.keyboard.press('Enter');
  await page.keyboard.press('Control+Space');
  await list().waitFor();
  assert.ok((await options()).includes('snapshot') && !(await options()).includes('size'), 'what the section gives is not offered again');
  assert.equal(await active(), (await options())[0]);
  assert.match(await list().innerText(), /snapshot\s+\S+ \S+/, 'with a line about it');
  assert.deepEqual(await audit(page), []);
  await page.keyboard.press('Escape');
  await list().waitFor({ state: 'detached' });
  await cursor('[cache.ram]');
  await page.keyboard.press('Enter');
  await page.keyboard.type('[cache.fleet]\nha');
  await page.keyboard.press('Control+Space');
  await list().waitFor();
  assert.deepEqual((await options()).slice(0, 1), ['hash']);
  await page.keyboard.press('Enter');
  await until('the values follow the key', async () => (await options()).includes('murmur'));
  await page.keyboard.type('"mu');
  await until('those that begin so', async () => (await options()).join(' ') === 'murmur');
  await page.keyboard.press('Tab');
  await list().waitFor({ state: 'detached' });
  assert.match(await editor().inputValue(), /\[cache\.fleet\]\nhash = "murmur"\n/);
  assert.ok(await isFocused());
  // The browser takes back what the list wrote as what was typed.
  await page.keyboard.press('Control+z');
  assert.doesNotMatch(await editor().inputValue(), /"murmur"/);
  await discard();
});

it('offers while one types, and leaves Tab, Enter and the arrows alone until one goes into the list', async () => {
  await openText();
  await cursor('workers = 1');
  await page.keyboard.press('Enter');
  await page.keyboard.type('in');
  await list().waitFor();
  assert.equal(await active(), null, 'none is chosen');
  await page.keyboard.press('Enter');
  await list().waitFor({ state: 'detached' });
  assert.match(await editor().inputValue(), /workers = 1\nin\n/, 'Enter is a line end');
  await page.keyboard.type('in');
  await list().waitFor();
  await page.keyboard.press('Tab');
  assert.ok(!(await isFocused()), 'Tab goes on in the page');
  await list().waitFor({ state: 'detached' });
  await page.keyboard.press('Shift+Tab');
  assert.ok(await isFocused());
  await page.keyboard.type('c');
  await list().waitFor();
  await page.keyboard.press('ArrowDown');
  assert.equal(await active(), 'include');
  const told = page.locator('main [role=status]', { hasText: /^include\. / });
  await told.waitFor({ state: 'attached' });
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('Escape');
  await list().waitFor({ state: 'detached' });
  await page.keyboard.type('l');
  await list().getByRole('option', { name: /^include/ }).click();
  assert.match(await editor().inputValue(), /\ninclude = /, 'the mouse takes one, too');
  assert.ok(await isFocused());
  await page.keyboard.press('Escape');
  await discard();
});

it('marks a mistake at its line and word, and leads there by a click and by Enter', async () => {
  await openText();
  await editor().fill(larder.configuration().replace('default_ttl = "60s"', 'default_ttl = "a while"'));
  await page.locator('.apply', { hasText: '1 problem' }).waitFor();
  const line = larder.configuration().split('\n').findIndex((it) => it.includes('default_ttl')) + 1;
  assert.equal(await page.locator('.gutter .wrong').innerText(), String(line));
  assert.match(await page.locator('.wave span').innerText(), /a while|default_ttl/);
  const listed = page.locator('.problems').getByRole('button', { name: new RegExp(`^Line ${line}`) });
  const place = () => editor().evaluate((box) => [box === document.activeElement, box.value.slice(0, box.selectionStart).split('\n').length]);
  await listed.click();
  assert.deepEqual(await place(), [true, line]);
  await cursor('# The kitchen');
  await listed.focus();
  await page.keyboard.press('Enter');
  assert.deepEqual(await place(), [true, line]);
  // From the form as well.
  await page.getByRole('button', { name: 'Form', exact: true }).click();
  await page.locator('.problems').getByRole('button', { name: new RegExp(`^Line ${line}`) }).click();
  await until('the text is at the line', async () => (await place()).join(' ') === `true ${line}`);
  assert.deepEqual(await audit(page), []);
  await discard();
});

it('leads to a mistake before the browser has drawn', async () => {
  const late = await page.context().newPage();
  // A machine under load draws late: here never.
  await late.addInitScript(() => (window.requestAnimationFrame = () => 0));
  await openText(late);
  await editorOf(late).fill(larder.configuration().replace('default_ttl = "60s"', 'default_ttl = "a while"'));
  await late.locator('.problems').getByRole('button', { name: /^Line/ }).waitFor();
  const isThere = await late.evaluate(async () => {
    const listed = document.querySelector('.problems button');
    listed.focus();
    listed.click();
    for (let at = 0; at < 20; at += 1) await Promise.resolve();
    return document.activeElement === document.querySelector('.editor textarea');
  });
  assert.ok(isThere);
  await late.getByRole('button', { name: 'Discard', exact: true }).click();
  await late.close();
});

it('checks a text once one pauses, and gives up the check of a text that has changed', async () => {
  await openText();
  let [open, most, asked] = [0, 0, 0];
  await page.route('**/api/v1/config/check', async (route) => {
    asked += 1;
    open += 1;
    most = Math.max(most, open);
    await new Promise((then) => setTimeout(then, 500));
    open -= 1;
    await route.continue().catch(() => null);
  });
  const failed = [];
  page.on('requestfailed', (request) => failed.push(request.url()));
  await cursor('# The kitchen');
  await page.keyboard.type(' of somebody', { delay: 20 });
  await until('it is checked', () => asked === 1);
  await page.keyboard.type(' else');
  await until('the first is given up', () => failed.some((it) => it.endsWith('/check')));
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  assert.ok(asked <= 4, `${asked} checks of 17 letters`);
  await page.unroute('**/api/v1/config/check');
  await discard();
});

const apply = (on = page) => on.locator('dialog').getByRole('button', { name: 'Apply', exact: true });
const review = async (on = page) => {
  await on.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  await on.getByRole('button', { name: 'Review and apply' }).click();
};
const applied = async (on = page) => {
  await until('it can be applied', () => apply(on).isEnabled());
  await apply(on).click();
  await on.locator('dialog').waitFor({ state: 'detached' });
};

it('merges the drafts of two tabs that do not touch, shows that, and applies both', async () => {
  const before = larder.configuration();
  const other = await page.context().newPage();
  await openText();
  await openText(other);
  await editor().fill(before.replace('"60s"', '"78s"').replace('# A minute', '# Longer than a minute'));
  await editorOf(other).fill(before.replace("# The kitchen's larder.", '# The larder of another.'));
  await review(other);
  await applied(other);
  await other.close();
  await review();
  await apply().click();
  await page.locator('dialog [role=alert]').waitFor();
  await page.locator('dialog').getByRole('button', { name: 'Merge with the file' }).click();
  const merge = page.getByRole('dialog', { name: 'Merge the draft with the file' });
  await merge.getByRole('status').filter({ hasText: 'No conflict.' }).waitFor();
  assert.match(await merge.getByRole('region', { name: /^Changed in the file/ }).innerText(), /- # The kitchen's larder\.\s+\+ # The larder of another\./);
  assert.match(await merge.getByRole('region', { name: /^Changed in the draft/ }).innerText(), /\+ # Longer than a minute/);
  assert.deepEqual(await audit(page), []);
  await merge.getByRole('button', { name: 'Use the merged text' }).click();
  await page.locator('dialog [role=status]', { hasText: 'merged with the changed file' }).waitFor();
  assert.doesNotMatch((await page.locator('dialog .diff .old').allInnerTexts()).join(''), /another/, 'the difference is to the file as it is now');
  await applied();
  const now = larder.configuration();
  for (const part of ['# The larder of another.', '# Longer than a minute', '"78s"', '# what this machine can spare']) assert.ok(now.includes(part), part);
  assert.equal(now.split('\n').length, before.split('\n').length);
  larder.configure(before);
});

it('shows a conflict with both sides, and applies the choice', async () => {
  const before = larder.configuration();
  for (const [choice, expected] of [
    ['Mine', '"79s"'],
    ['Theirs', '"61s"'],
  ]) {
    await page.goto(`${larder.admin}/#/overview`);
    await openText();
    await editor().fill(before.replace('"60s"', '"79s"').replace("# The kitchen's", '# My'));
    await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
    larder.configure(before.replace('"60s"', '"61s"'));
    // The tab is shown again: it reads the file.
    await page.evaluate(() => dispatchEvent(new Event('focus')));
    await page.locator('main .waits', { hasText: 'The file changed after this draft began' }).waitFor();
    await page.getByRole('button', { name: 'Review and apply' }).click();
    const merge = page.getByRole('dialog', { name: 'Merge the draft with the file' });
    const use = merge.getByRole('button', { name: 'Use the merged text' });
    const conflict = merge.getByRole('region', { name: /^Conflict, line \d+/ });
    assert.match(await conflict.innerText(), /Mine \(the draft\)[^]*"79s"[^]*Theirs \(the file\)[^]*"61s"/);
    assert.ok(await use.isDisabled(), 'a choice is required');
    assert.deepEqual(await audit(page), []);
    await conflict.getByRole('button', { name: 'Both' }).click();
    assert.ok(await use.isEnabled());
    await conflict.getByRole('button', { name: choice }).click();
    await use.click();
    await applied();
    const now = larder.configuration();
    assert.ok(now.includes(expected) && now.includes('# My larder.'), now);
    larder.configure(before);
  }
});

it('said nothing in the console', () => assert.deepEqual(seen.console, []));

// The draft of the configuration while one writes it: what counts when, and that nothing of it is lost; and what keys do in a field
// that one searches by. What the form does otherwise is in page.test.mjs.
import assert from 'node:assert/strict';
import { addSetting, confirm, go, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, until } from './larder.mjs';

testPage();


it('counts what is written in the form at once, and reviews it at the first click', async () => {
  const review = page.getByRole('button', { name: 'Review and apply' });
  await go('config?part=form');
  await page.locator('.section.below:not(.add)', { hasText: '/*' }).last().click();
  const field = page.getByRole('textbox', { name: 'cache.default_ttl' });
  await field.fill('');
  await field.pressSequentially('x');
  await page.locator('.apply', { hasText: '1 problem' }).waitFor();
  assert.equal(await page.locator('.setting .bad').count(), 0, 'half of a value is not found fault with');
  await page.getByLabel('Search keys').focus();
  await page.locator('.setting .bad').waitFor();
  await field.fill('');
  await field.pressSequentially('21s', { delay: 20 });
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  assert.ok(await field.evaluate((it) => it === document.activeElement), 'the field was not left');
  assert.equal(await field.inputValue(), '21s');
  // One click with the mouse on what is checked, and one while larder has not checked it yet.
  for (const value of ['21s', '22s']) {
    await field.fill(value);
    const { x, y, width, height } = await review.boundingBox();
    await page.mouse.click(x + width / 2, y + height / 2);
    const dialog = page.locator('dialog');
    assert.match(await dialog.locator('.diff .new').innerText(), new RegExp(value));
    await dialog.getByRole('button', { name: 'Cancel' }).click();
  }
  await page.click('text=Discard');
});

it('makes what is written in several fields one change, and moves none of them', async () => {
  const before = larder.configuration();
  const review = page.getByRole('button', { name: 'Review and apply' });
  await go('config?part=form');
  await page.locator('.section.below:not(.add)', { hasText: '/*' }).last().click();
  const field = page.getByRole('textbox', { name: 'cache.default_ttl' });
  await until('it is as in the file', async () => (await field.inputValue()) === '60s');
  // All of it is taken out before another is written: the comment stays.
  await field.fill('');
  await field.pressSequentially('22s');
  const other = page.getByRole('textbox', { name: /^name/ });
  await other.fill('');
  await other.pressSequentially('leaves');
  await addSetting(page, 'cache.stale_if_error');
  const fresh = page.getByRole('textbox', { name: 'cache.stale_if_error' });
  await until('the new setting has the focus', () => fresh.evaluate((it) => it === document.activeElement));
  const place = () => page.locator('.setting label').allInnerTexts();
  const places = await place();
  await fresh.pressSequentially('5s', { delay: 20 });
  await until('all three are told', async () => (await page.locator('.setting.given').count()) > 3);
  assert.ok(await fresh.evaluate((it) => it === document.activeElement), 'it kept the focus');
  assert.deepEqual(await place(), places);
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  await review.click();
  const now = async () => (await page.locator('dialog .diff .new').allInnerTexts()).join('');
  await until('all three are in the difference', async () => {
    const shown = await now();
    return ['22s', 'leaves', '5s'].every((part) => shown.includes(part));
  });
  assert.ok(!(await page.locator('dialog .diff .old').allInnerTexts()).join('').includes('#'), 'no comment goes');
  await page.getByRole('button', { name: 'Cancel' }).click();
  await page.click('text=Discard');
  await until('the field is as the file', async () => (await field.inputValue()) === '60s');
  assert.equal(larder.configuration(), before);
});

/** Holds requests for the configuration with a method until `release`; `first` resolves with the first of them. */
async function hold(method) {
  let open, seenOne;
  const held = new Promise((then) => (open = then));
  const first = new Promise((then) => (seenOne = then));
  const handler = async (route) => {
    if (route.request().method() === method) {
      seenOne();
      await held;
    }
    await route.fallback();
  };
  await page.route('**/api/v1/config', handler);
  return { first, release: open };
}

it('has the keys of the new file as soon as the dialog is gone', async () => {
  const before = larder.configuration();
  const routes = () => page.locator('.section.below:not(.add) .mono').allInnerTexts();
  await go('config?part=form');
  for (const [from, to] of [['/api/*', '/apis/*'], ['/apis/*', '/api/*']]) {
    await page.locator('.section.below:not(.add)', { hasText: from }).click();
    await page.getByRole('textbox', { name: /^path/ }).fill(to);
    await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
    await page.getByRole('button', { name: 'Review and apply' }).click();
    const { first, release } = await hold('GET');
    await confirm(page.locator('dialog'), 'Apply');
    await first;
    if ((await page.locator('dialog').count()) === 0) assert.deepEqual(await routes(), [to, '/*']);
    release();
    await page.locator('dialog').waitFor({ state: 'detached' });
    assert.deepEqual(await routes(), [to, '/*']);
  }
  assert.equal(larder.configuration(), before);
});

it('keeps what is written while a change is applied', async () => {
  const before = larder.configuration();
  await go('config?part=form');
  // Without the messages of the test before.
  await page.reload();
  await page.locator('.section.below:not(.add)', { hasText: '/*' }).last().click();
  const field = page.getByRole('textbox', { name: 'cache.default_ttl' });
  await field.fill('24s');
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  await page.getByRole('button', { name: 'Review and apply' }).click();
  const { release } = await hold('PUT');
  await confirm(page.locator('dialog'), 'Apply');
  await page.keyboard.press('Escape');
  await page.locator('dialog').waitFor({ state: 'detached' });
  await page.getByRole('textbox', { name: /^name/ }).fill('leaves');
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  release();
  await page.locator('.toast', { hasText: 'in force' }).waitFor();
  assert.equal(larder.configuration(), before.replace('"60s"', '"24s"'));
  assert.equal(await page.getByRole('textbox', { name: /^name/ }).inputValue(), 'leaves');
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  assert.equal(await page.locator('.waits', { hasText: 'The file changed' }).count(), 0, 'it is a draft of the new file');
  await page.getByRole('button', { name: 'Review and apply' }).click();
  await page.locator('dialog .diff .new', { hasText: 'leaves' }).waitFor();
  assert.equal(await page.locator('dialog .diff .new').count(), 1, 'only what was written since');
  await page.locator('dialog').getByRole('button', { name: 'Cancel' }).click();
  await page.click('text=Discard');
  await until('both fields are as the file', async () => (await field.inputValue()) === '24s' && (await page.getByRole('textbox', { name: /^name/ }).inputValue()) === 'pages');
  larder.configure(before);
  await until('the file is read again', async () => {
    await page.reload();
    await page.locator('.section.below:not(.add)', { hasText: '/*' }).last().click();
    return (await field.inputValue()) === '60s';
  });
});

it('keeps a draft while other views are shown, and asks before the page goes with it', async () => {
  await go('config?part=form');
  await page.locator('.section.below:not(.add)', { hasText: '/*' }).last().click();
  const field = page.getByRole('textbox', { name: 'cache.default_ttl' });
  await field.fill('');
  await field.pressSequentially('23s');
  await go('overview');
  await page.locator('h1', { hasText: 'Overview' }).waitFor();
  const asked = [];
  const answer = (dialog) => (asked.push(dialog.type()), dialog.dismiss());
  page.on('dialog', answer);
  // Refused by whoever is asked, the page stays.
  await page.evaluate(() => location.reload());
  await until('it asks', () => asked.length > 0);
  assert.deepEqual(asked, ['beforeunload']);
  await go('config?part=form');
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  await page.locator('.section.below:not(.add)', { hasText: '/*' }).last().click();
  await until('the draft is there', async () => (await field.inputValue()) === '23s');
  await page.click('text=Discard');
  await until('the file is there', async () => (await field.inputValue()) === '60s');
  await page.reload();
  await page.locator('.apply', { hasText: 'Same as the file' }).waitFor();
  assert.equal(asked.length, 1, 'without a draft nobody is asked');
  page.off('dialog', answer);
});

it('shows each certificate of the file in the form, changes, adds and removes one', async () => {
  const before = larder.configuration();
  const editor = page.getByLabel('The text of the configuration');
  const section = (name) => page.locator('.form-side .section', { hasText: name });
  const field = (name) => page.getByRole('textbox', { name, exact: true });
  const written = async () => {
    await page.getByRole('button', { name: 'Text', exact: true }).click();
    const text = await editor.inputValue();
    await page.getByRole('button', { name: 'Form', exact: true }).click();
    return text;
  };
  await go('config?part=text');
  await until('the text is there', async () => (await editor.inputValue()) === before);
  const certificates = '\n# The shop.\n[[tls.certificates]]\ncert = "shop.pem" # its chain\nkey = "shop.key"\n\n[[tls.certificates]]\ncert = "blog.pem"\nkey = "blog.key"\n';
  await editor.fill(before + certificates);
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  await page.getByRole('button', { name: 'Form', exact: true }).click();
  await section('shop.pem').click();
  assert.deepEqual([await field('cert').inputValue(), await field('key').inputValue()], ['shop.pem', 'shop.key']);
  await section('blog.pem').click();
  assert.deepEqual([await field('cert').inputValue(), await field('key').inputValue()], ['blog.pem', 'blog.key']);
  await field('key').fill('other.key');
  await field('key').press('Enter');
  await until('it is in the draft', async () => (await written()) === before + certificates.replace('blog.key', 'other.key'));
  await page.getByRole('button', { name: 'New certificate' }).click();
  await page.getByRole('heading', { name: /^Certificate 3/ }).waitFor();
  await page.locator('.apply', { hasText: /problem/ }).waitFor();
  await field('cert').fill('new.pem');
  await field('key').fill('new.key');
  await field('key').press('Enter');
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  await section('new.pem').click();
  assert.equal(await field('key').inputValue(), 'new.key');
  await section('shop.pem').click();
  await page.getByRole('button', { name: 'Remove this certificate' }).click();
  await page.locator('dialog').getByRole('button', { name: 'Remove', exact: true }).click();
  await section('shop.pem').waitFor({ state: 'detached' });
  const left = await written();
  assert.doesNotMatch(left, /shop\.(pem|key)/);
  assert.match(left, /blog\.pem[^]*other\.key[^]*new\.pem[^]*new\.key/);
  assert.equal(larder.configuration(), before, 'nothing of it was applied');
  await page.click('text=Discard');
});

it('asks before a rollback takes the draft along', async () => {
  const before = larder.configuration();
  const editor = page.getByLabel('The text of the configuration');
  const dialog = page.locator('dialog');
  const back = async () => {
    await page.getByRole('button', { name: 'History' }).click();
    await page.locator('button', { hasText: 'Roll back' }).first().click();
  };
  await go('config?part=text');
  await until('the text is there', async () => (await editor.inputValue()) === before);
  const applied = `# Applied.\n${before}`;
  await editor.fill(applied);
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  await page.click('text=Review and apply');
  await confirm(dialog, 'Apply');
  await dialog.waitFor({ state: 'detached' });
  const draft = `# A draft.\n${applied}`;
  await until('the text is as it was applied', async () => (await editor.inputValue()) === applied);
  await editor.fill(draft);
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  await back();
  await dialog.getByRole('button', { name: 'Keep the draft' }).click();
  await dialog.waitFor({ state: 'detached' });
  assert.equal(larder.configuration(), applied, 'nothing was rolled back');
  await page.getByRole('button', { name: 'Text', exact: true }).click();
  assert.equal(await editor.inputValue(), draft);
  await back();
  await dialog.getByRole('button', { name: 'Discard and roll back' }).click();
  await page.locator('.toast', { hasText: 'in force again' }).waitFor();
  assert.equal(larder.configuration(), before);
  await page.getByRole('button', { name: 'Text', exact: true }).click();
  await until('the draft is gone', async () => (await editor.inputValue()) === before);
});

it('goes from the search of the objects into their rows by an arrow', async () => {
  await ask(`${larder.site}/pages/1`);
  await go('objects');
  const first = page.locator('.objects tbody [data-row]').first();
  await first.waitFor();
  await page.keyboard.press('/');
  await page.keyboard.press('ArrowDown');
  assert.ok(await first.evaluate((it) => it === document.activeElement), 'the first row has the focus');
});

it('said nothing in the console', () => assert.deepEqual(seen.console, []));

// A change is tried on recent requests before it is applied: what the dialog shows, that Apply waits for its result, and what it
// demands where pages of one client would be shared.
import assert from 'node:assert/strict';
import { audit, dialog, it, larder, page, seen, testPage } from './browser.mjs';
import { ask, until } from './larder.mjs';

testPage({
  opened: async () => {
    for (let number = 0; number < 3; number += 1) {
      for (const path of ['/pages/a', '/pages/b', '/session/a', '/api/a']) await ask(larder.site + path);
    }
  },
});

const apply = () => dialog().getByRole('button', { name: 'Apply', exact: true });

/** Opens the dialog about the file with `from` replaced by `to`; gives the text. */
async function review(from, to) {
  const text = larder.configuration();
  assert.ok(text.includes(from), `${from} is in the file`);
  await page.goto(`${larder.admin}/#/config?part=text`);
  const editor = page.getByLabel('The text of the configuration');
  await until('the text is there', async () => (await editor.inputValue()) === text);
  await editor.fill(text.replace(from, to));
  await page.locator('.apply', { hasText: 'Changed and valid' }).waitFor();
  await page.click('text=Review and apply');
  await apply().waitFor();
  return text.replace(from, to);
}

async function discard() {
  await dialog().getByRole('button', { name: 'Cancel' }).click();
  await page.click('text=Discard');
}

it('shows the hit ratio and the requests that change, with a way to explain each', async () => {
  await review('path = "/api/*"', 'path = "/pages/*"');
  const trial = dialog().locator('.trial');
  await trial.waitFor();
  const text = await trial.innerText();
  assert.match(text, /On the last 12 requests/);
  assert.match(text, /Hit ratio now\s+50.0 %/);
  assert.match(text, /9 requests get another route/);
  assert.equal(await trial.locator('.trial-danger').count(), 0);
  await until('Apply needs no confirmation', () => apply().isEnabled());
  await trial.locator('summary', { hasText: 'another route' }).click();
  const first = trial.locator('details[open] li').first();
  assert.match(await first.innerText(), /GET http:\/\/127\.0\.0\.1:\d+\/pages\/a\s+pages → api/);
  assert.match(await first.locator('.rule-where').innerText(), /larder\.toml:\d+/);
  assert.deepEqual(await audit(page), [], 'accessible');
  await first.locator('a').first().click();
  await page.locator('h1', { hasText: 'Explain' }).waitFor();
  await page.goto(`${larder.admin}/#/config?part=text`);
  await page.click('text=Discard');
});

/** Holds the trials of the page until `release`, and then lets `answer` give their results. */
async function hold(answer) {
  let release;
  const held = new Promise((then) => (release = then));
  await page.route('**/api/v1/config/trial', async (route) => {
    await held;
    await answer(route);
  });
  return async () => {
    release();
    await until('the trial has ended', async () => (await dialog().getByText('Trying the change').count()) === 0);
    await page.unroute('**/api/v1/config/trial');
  };
}

it('is waited for: Apply before its result would put a change in force that needs a confirmation', async () => {
  const release = await hold((route) => route.continue());
  await review('default_ttl = "60s"', 'default_ttl = "60s", store_set_cookie = true');
  await dialog().getByText('Trying the change').waitFor();
  assert.ok(await apply().isDisabled());
  await release();
  await dialog().getByText('3 newly shared responses of route pages: have Set-Cookie').waitFor();
  assert.ok(await apply().isDisabled());
  await discard();
  const again = await hold((route) => route.continue());
  await review('default_ttl = "60s"', 'default_ttl = "61s"');
  await dialog().getByText('Trying the change').waitFor();
  assert.ok(await apply().isDisabled());
  await again();
  await until('Apply needs no confirmation', () => apply().isEnabled());
  await discard();
});

it('needs a choice where it failed or did not try every request', async () => {
  const results = [
    { fulfil: { status: 500, contentType: 'application/json', body: '{"status":500,"detail":"It failed."}' }, said: 'The change was not tried on recent requests: It failed.' },
    { change: (it) => ({ ...it, complete: false }), said: 'The time limit ended the trial' },
  ];
  for (const { fulfil, change, said } of results) {
    const release = await hold(async (route) => {
      if (fulfil) return route.fulfill(fulfil);
      const response = await route.fetch();
      return route.fulfill({ response, json: change(await response.json()) });
    });
    await review('default_ttl = "60s"', 'default_ttl = "61s"');
    await release();
    await dialog().getByText(said).waitFor();
    assert.ok(await apply().isDisabled(), said);
    assert.deepEqual(await audit(page), [], 'accessible');
    const box = dialog().locator('.trial-danger').getByRole('checkbox');
    await box.check();
    assert.ok(await apply().isEnabled(), said);
    await box.uncheck();
    assert.ok(await apply().isDisabled(), said);
    await discard();
  }
});

it('demands a confirmation before pages of one client are shared', async () => {
  const text = await review('default_ttl = "60s"', 'default_ttl = "60s", store_set_cookie = true');
  const danger = dialog().locator('.trial-danger');
  await danger.waitFor();
  assert.match(await danger.innerText(), /3 newly shared responses of route pages: have Set-Cookie/);
  assert.ok(await apply().isDisabled());
  const box = danger.getByRole('checkbox');
  await box.check();
  assert.ok(await apply().isEnabled());
  await box.uncheck();
  assert.ok(await apply().isDisabled());
  await box.check();
  await apply().click();
  await dialog().waitFor({ state: 'detached' });
  assert.equal(larder.configuration(), text);
  assert.deepEqual(seen.elsewhere, []);
});

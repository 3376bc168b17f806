// The three-way merge as a function, without a browser: its laws over random texts, and cases of configurations.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { module } from './module.mjs';

const { merge3, merged, linesOf } = await module('merge.ts');

/** The same numbers in each run. */
function random(seed) {
  let state = seed;
  return (most) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * most);
  };
}

/** Few different lines, so that many are equal; some texts end without a line end. */
const text = (dice, most) => Array.from({ length: dice(most) }, () => `${'abcdef'[dice(6)]}\n`).join('') + (dice(4) === 0 ? 'end' : '');

/** A text with some lines changed, removed and added. */
function changed(dice, of) {
  const lines = linesOf(of);
  for (let times = dice(4); times > 0; times -= 1) lines.splice(dice(lines.length + 1), dice(3), ...linesOf(text(dice, 3)).map((it) => (it.endsWith('\n') ? it : `${it}\n`)));
  return lines.join('');
}

const side = (pieces, name) => pieces.flatMap((it) => it[name]).join('');
const clean = (...texts) => merged(merge3(...texts), []);
/** Lines with their number. */
function counts(of) {
  const all = new Map();
  for (const it of linesOf(of)) all.set(it.trimEnd(), (all.get(it.trimEnd()) ?? 0) + 1);
  return all;
}

test('merges by its laws, and loses no line', () => {
  const dice = random(23);
  let conflicts = 0;
  for (let times = 0; times < 20_000; times += 1) {
    const base = text(dice, 24);
    const [mine, theirs] = [changed(dice, base), changed(dice, base)];
    const told = JSON.stringify([base, mine, theirs]);
    assert.equal(clean(base, base, theirs), theirs, told);
    assert.equal(clean(base, mine, base), mine, told);
    assert.equal(clean(base, mine, mine), mine, told);
    const pieces = merge3(base, mine, theirs);
    for (const [name, whole] of [['base', base], ['mine', mine], ['theirs', theirs]]) assert.equal(side(pieces, name), whole, `${name} of ${told}`);
    const found = pieces.filter((it) => it.kind === 'conflict').length;
    conflicts += found;
    if (found > 0) assert.equal(merged(pieces, []), null, 'no text while a conflict is open');
    // With both of every conflict, every line that either text added is there.
    const both = counts(merged(pieces, Array(found).fill('both')));
    for (const added of [mine, theirs]) {
      const [now, before] = [counts(added), counts(base)];
      for (const [line, count] of now) if (count > (before.get(line) ?? 0)) assert.ok((both.get(line) ?? 0) > 0, `${JSON.stringify(line)} of ${told}`);
    }
    // A choice of one text for all conflicts changes nothing that only the other one changed.
    for (const choice of ['mine', 'theirs']) {
      const expected = pieces.map((it) => (it.kind === 'conflict' ? it[choice] : it.kind === 'theirs' ? it.theirs : it.mine).join('')).join('');
      assert.equal(counts(merged(pieces, Array(found).fill(choice))).size, counts(expected).size, told);
    }
  }
  assert.ok(conflicts > 1000, 'the texts conflict often enough to mean something');
});

test('joins what does not touch, with its comments', () => {
  const base = '# top\nlisten = ["0.0.0.0:80"]\n\n[cache.ram]\nsize = "1GiB" # enough\n\n[[site]]\nhosts = ["*"]\n';
  const mine = base.replace('"1GiB" # enough', '"2GiB" # more');
  const theirs = `${base.replace('# top', '# of another')}# the end\n`;
  const text = clean(base, mine, theirs);
  assert.equal(text, '# of another\nlisten = ["0.0.0.0:80"]\n\n[cache.ram]\nsize = "2GiB" # more\n\n[[site]]\nhosts = ["*"]\n# the end\n');
});

test('makes a conflict of one line that both changed, and of lines that touch', () => {
  const kinds = (...texts) => merge3(...texts).map((it) => it.kind).join(' ');
  assert.equal(kinds('a\nb\nc\n', 'a\nB\nc\n', 'a\nß\nc\n'), 'same conflict same');
  assert.equal(kinds('a\nb\nc\nd\n', 'a\nB\nc\nd\n', 'a\nb\nC\nd\n'), 'same conflict same');
  assert.equal(kinds('a\nb\nc\nd\n', 'A\nb\nc\nd\n', 'a\nb\nC\nd\n'), 'mine same theirs same');
  assert.equal(kinds('a\n', 'a\nx\n', 'a\ny\n'), 'same conflict');
  const pieces = merge3('a\n', 'a\nx', 'a\ny\n');
  assert.equal(merged(pieces, ['both']), 'a\nx\ny\n', 'a line without an end gets one');
});

test('takes bounded time for texts that have nothing in common', () => {
  const of = (word) => Array.from({ length: 20_000 }, (_, at) => `${word} ${at}\n`).join('');
  const began = performance.now();
  assert.deepEqual(merge3(of('a'), of('b'), of('c')).map((it) => it.kind), ['conflict']);
  assert.ok(performance.now() - began < 20_000);
});

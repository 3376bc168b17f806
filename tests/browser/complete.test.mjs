// What the list of the configuration's text offers, as a function, without a browser.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { module } from './module.mjs';

const { complete, oneLine } = await module('views/config_complete.ts');

const key = (pattern, kind, more = {}) => ({ pattern, key: pattern.replaceAll('[]', ''), kind, default: null, help: `About ${pattern}. More of it.`, restart: false, secret: false, lines: false, phase: null, ...more });
const KEYS = [
  key('listen', 'list', { example: '["0.0.0.0:80"]' }),
  key('workers', 'integer', { default: '2', example: '4' }),
  key('cache.ram.size', 'size', { default: '256MiB', example: '"1GiB"', allowed: 'a size' }),
  key('cache.fleet.hash', 'one-of', { words: ['default', 'md5', 'murmur'], default: 'default' }),
  key('log.levels.fleet', 'one-of', { words: ['info', 'warn'] }),
  key('site[].hosts', 'list'),
  key('site[].route[].path', 'text', { example: '"/static/*"' }),
  key('site[].route[].client_cert', 'bool', { default: 'false' }),
  key('site[].route[].cache.default_ttl', 'seconds', { example: '"60s"' }),
  key('site[].route[].cache.rule[].ttl', 'seconds'),
  key('tls.certificates[].cert', 'text'),
];

/** The labels that are offered at the `|` of a text. */
function offered(marked) {
  const cursor = marked.indexOf('|');
  const text = marked.replace('|', '');
  return (complete(KEYS, text, cursor)?.items ?? []).map((it) => it.label).join(' ');
}

/** The text after the first of them is taken. */
function taken(marked) {
  const cursor = marked.indexOf('|');
  const text = marked.replace('|', '');
  const { from, to, items } = complete(KEYS, text, cursor);
  return text.slice(0, from) + items[0].insert + text.slice(to);
}

test('offers the keys of the section, by any part of their name', () => {
  assert.equal(offered('wo|'), 'workers');
  assert.equal(offered('[cache.ram]\nsi|'), 'size');
  assert.equal(offered('[[site]]\n|'), 'hosts');
  assert.equal(offered('[[site]]\n[[site.route]]\n|'), 'path client_cert cache.default_ttl');
  assert.equal(offered('[[site.route]]\nttl|'), 'cache.default_ttl', 'not that of a rule, which has a header of its own');
  assert.equal(offered('[[site.route.cache.rule]]\nt|'), 'ttl');
  assert.equal(offered('[block.shared]\npa|'), 'path');
  assert.equal(offered('cache.fl|'), 'cache.fleet.hash');
  assert.equal(offered('nothing|'), '');
});

test('leaves out what the section gives already', () => {
  assert.equal(offered('[[site.route]]\npath = "/*"\n|\nclient_cert = true\n[cache.ram]\n'), 'cache.default_ttl');
});

test('offers keys within inline tables', () => {
  assert.equal(offered('[[site.route]]\ncache = { d|'), 'default_ttl');
  assert.equal(offered('cache = { ram = { s|'), 'size');
  assert.equal(offered('cache = { ram = { size = "1GiB" }, fl|'), 'fleet.hash');
});

test('offers sections', () => {
  assert.equal(offered('[ca|'), 'cache cache.ram cache.fleet site.route.cache');
  assert.equal(offered('[[si|'), 'site site.route site.route.cache.rule');
  assert.equal(taken('[[site.r|'), '[[site.route]]');
});

test('offers values: words, defaults and examples', () => {
  assert.equal(offered('[cache.fleet]\nhash = |'), 'default md5 murmur');
  assert.equal(offered('cache.fleet.hash = "m|'), 'md5 murmur');
  assert.equal(taken('cache.fleet.hash = "mu|"'), 'cache.fleet.hash = "murmur"');
  assert.equal(offered('[[site.route]]\nclient_cert = t|'), 'true');
  assert.equal(offered('[cache.ram]\nsize = |'), '"256MiB" "1GiB"');
  assert.equal(offered('workers = |'), '2 4');
  assert.equal(taken('lis|'), 'listen = ');
});

test('offers nothing in comments, in other texts, and where all is typed', () => {
  assert.equal(offered('# wo|'), '');
  assert.equal(offered('workers = 2 # li|'), '');
  assert.equal(offered('listen = ["wo|'), '');
  assert.equal(offered('[[site.route]]\nclient_cert = true|'), '');
});

test('shows the first sentence of the manual', () => {
  assert.equal(oneLine('The size, as `1GiB`\nof it. More.'), 'The size, as 1GiB of it.');
});

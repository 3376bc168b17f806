// What can stand at a place of the configuration's text: sections, keys and values from the table of keys. Pure; the list itself is
// in config_text.
import type { Key } from '../types';

export interface Completion {
  /** The text that replaces what is typed. */
  insert: string;
  /** What the list shows, and one line about it. */
  label: string;
  about: string;
}

/** Completions of the text between two places. */
export interface Completions {
  from: number;
  to: number;
  items: Completion[];
}

/** Items that a list has at most. */
const MOST = 60;

/** The name of a key or of a part of it. */
const NAME = /[\w.-]*$/;

/** The first sentence, without the marks of the manual. */
export function oneLine(help: string): string {
  const [first = ''] = help.replace(/\s+/g, ' ').split(/(?<=\.) (?=[A-Z])/, 1);
  return first.replaceAll('`', '');
}

/** A pattern as the text names it: `site[].route[].path` is `site.route.path`. */
const plain = (pattern: string): string => pattern.replaceAll('[]', '');

/** The section of the place: the name of the latest header before it, and the lines from there. */
function sectionOf(lines: string[], line: number): { name: string; from: number } {
  for (let at = line; at >= 0; at -= 1) {
    const found = /^\s*\[\[?\s*([^\]]+?)\s*\]/.exec(lines[at]!);
    if (found && at < line) return { name: found[1]!.replace(/\s*\.\s*/g, '.'), from: at + 1 };
  }
  return { name: '', from: 0 };
}

/** Keys that have the settings of a section; a block has those of a route. */
function keysOf(section: string, keys: Key[]): { key: Key; name: string }[] {
  const path = section.replace(/^block\.("[^"]*"|[\w-]+)/, 'site.route');
  const prefix = path === '' ? '' : `${path}.`;
  return keys.flatMap((key) => {
    const name = plain(key.pattern);
    return name.startsWith(prefix) ? [{ key, name: name.slice(prefix.length) }] : [];
  });
}

/** Whether a name within a section leads through a list, whose members have headers of their own. */
function isInList(section: string, key: Key): boolean {
  const steps = section === '' ? 0 : section.split('.').length;
  return key.pattern.split('.').slice(steps, -1).some((it) => it.endsWith('[]'));
}

/** The place within a line: the names that lead to it through inline tables, and what follows the last of them. */
interface Place {
  path: string[];
  /** The key whose value the place is in; null where a key is expected. */
  value: string | null;
  /** The text of the key or the value before the place. */
  typed: string;
  /** Whether it is within quotes. */
  quote: string;
  /** Whether it is in a comment. */
  comment: boolean;
}

/** Reads a line up to the place. A text of several lines is read as keys and offers what fits by chance: nothing, mostly. */
function placeOf(text: string): Place {
  const path: string[] = [];
  const opened: ('{' | '[')[] = [];
  let [value, typed, quote]: [string | null, string, string] = [null, '', ''];
  const names: (string | null)[] = [];
  for (const it of text) {
    if (quote !== '') {
      if (it === quote) quote = '';
      typed += it;
    } else if (it === '"' || it === "'") {
      quote = it;
      typed += it;
    } else if (it === '#') {
      return { path, value, typed, quote, comment: true };
    } else if (it === '=' && value === null) {
      [value, typed] = [typed.trim(), ''];
    } else if (it === '{' || it === '[') {
      opened.push(it);
      names.push(value);
      if (it === '{' && value !== null) path.push(value);
      if (it === '{') value = null;
      typed = '';
    } else if (it === '}' || it === ']') {
      const was = opened.pop();
      value = names.pop() ?? null;
      if (was === '{') path.pop();
      typed = '';
    } else if (it === ',') {
      if (opened.at(-1) !== '[') value = null;
      typed = '';
    } else {
      typed += it;
    }
  }
  return { path, value, typed, quote, comment: false };
}

/** What can stand at `cursor`; null where nothing is known of the place. */
export function complete(keys: Key[], text: string, cursor: number): Completions | null {
  const start = text.lastIndexOf('\n', cursor - 1) + 1;
  const before = text.slice(start, cursor);
  const lines = text.split('\n');
  const line = text.slice(0, start).split('\n').length - 1;
  const header = /^\s*\[\[?\s*([\w.-]*)$/.exec(before);
  if (header) return of(headers(keys, before.includes('[['), header[1]!), cursor - header[1]!.length, cursor);
  const place = placeOf(before);
  if (place.comment) return null;
  const { name, from } = sectionOf(lines, line);
  const section = [name, ...place.path].filter((it) => it !== '').join('.');
  if (place.value === null) {
    if (place.quote !== '' || (place.typed.trim() !== '' && !/^\s*[\w.-]+$/.test(place.typed))) return null;
    const typed = NAME.exec(before)![0];
    const given = place.path.length === 0 ? names(lines, from, line) : new Set<string>();
    return of(settings(keys, section, typed, given), cursor - typed.length, cursor);
  }
  const key = keysOf(section, keys).find((it) => it.name === place.value)?.key;
  if (!key) return null;
  const typed = place.typed.trimStart();
  const items = values(key).filter((it) => it.insert.toLowerCase().startsWith(typed.toLowerCase()) && it.insert !== typed);
  // A quote behind the place ends the value that is replaced.
  const end = place.quote !== '' && text[cursor] === place.quote ? cursor + 1 : cursor;
  return of(items, cursor - typed.length, end);
}

const of = (items: Completion[], from: number, to: number): Completions | null => (items.length === 0 ? null : { from, to, items: items.slice(0, MOST) });

/** The names that the section of a line gives already. */
function names(lines: string[], from: number, line: number): Set<string> {
  const found = new Set<string>();
  for (let at = from; at < lines.length && !/^\s*\[/.test(lines[at]!); at += 1) {
    const name = at === line ? undefined : /^\s*([\w.-]+)\s*=/.exec(lines[at]!)?.[1];
    if (name) found.add(name);
  }
  return found;
}

/** Those that begin with what was typed, then those with it in them. */
function sorted<T>(all: T[], nameOf: (it: T) => string, typed: string): T[] {
  const word = typed.toLowerCase();
  const rank = (it: T): number => {
    const name = nameOf(it).toLowerCase();
    return name.startsWith(word) ? 0 : name.split('.').some((step) => step.startsWith(word)) ? 1 : name.includes(word) ? 2 : 3;
  };
  return all.map((it, at) => ({ it, at, rank: rank(it) })).filter((it) => it.rank < 3).sort((a, b) => a.rank - b.rank || a.at - b.at).map(({ it }) => it);
}

function headers(keys: Key[], isList: boolean, typed: string): Completion[] {
  const found = new Map<string, string[]>();
  for (const { pattern } of keys) {
    const steps = pattern.split('.');
    for (let length = 1; length < steps.length; length += 1) {
      if (steps[length - 1]!.endsWith('[]') !== isList) continue;
      const name = plain(steps.slice(0, length).join('.'));
      found.set(name, [...(found.get(name) ?? []), plain(steps.slice(length).join('.'))]);
    }
  }
  const close = isList ? ']]' : ']';
  const all = [...found].map(([name, inside]) => ({ insert: name + close, label: name, about: `${inside.length} keys: ${inside.slice(0, 4).join(', ')}${inside.length > 4 ? ' …' : ''}` }));
  return sorted(all, (it) => it.label, typed);
}

function settings(keys: Key[], section: string, typed: string, given: Set<string>): Completion[] {
  const all = keysOf(section, keys).filter(({ key, name }) => !isInList(section, key) && !given.has(name));
  // One name of several patterns, such as that of a site and of its routes, is offered once.
  return sorted(all, (it) => it.name, typed).map(({ key, name }) => ({ insert: `${name} = `, label: name, about: oneLine(key.help) }));
}

/** A default as it stands in a file. */
function asWritten(key: Key): string | null {
  const { default: value, kind, example } = key;
  if (value === null || kind === 'bool' || kind === 'list' || kind === 'pairs') return null;
  if (kind === 'integer') return value;
  // Numbers stand without quotes where the example does.
  return example && !/^["']/.test(example) && /^\d+$/.test(value) ? value : JSON.stringify(value);
}

/** The values that are known of a key: its words, or its default and an example. */
function values(key: Key): Completion[] {
  const detail = (insert: string): string => (insert === asWritten(key) || insert === key.default || insert === JSON.stringify(key.default) ? 'the default' : '');
  if (key.kind === 'bool') return ['true', 'false'].map((it) => ({ insert: it, label: it, about: detail(it) }));
  if (key.words) return key.words.map((it) => ({ insert: JSON.stringify(it), label: it, about: detail(JSON.stringify(it)) }));
  const own = asWritten(key);
  const all: Completion[] = own === null ? [] : [{ insert: own, label: own, about: 'the default' }];
  if (key.example && key.example !== own) all.push({ insert: key.example, label: key.example, about: `an example: ${key.allowed ?? ''}` });
  return all;
}

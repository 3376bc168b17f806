// The parts of the configuration that the form shows, and the fields of each: from the table of keys and the values of the files.
import type { ConfigProblem, Key, Phase, Setting, Settings } from '../types';

export type Path = (string | number)[];

export const isTable = (it: Setting | null | undefined): it is Settings => typeof it === 'object' && it !== null && !Array.isArray(it);

/** The value at a path; undefined where nothing is. */
export function at(root: Settings, path: Path): Setting | undefined {
  let it: Setting | undefined = root;
  for (const step of path) {
    if (Array.isArray(it) && typeof step === 'number') it = it[step];
    else if (isTable(it) && typeof step === 'string') it = it[step];
    else return undefined;
  }
  return it;
}

/** The members of a list; none where there is no list. */
export function members(root: Settings, path: Path): Setting[] {
  const it = at(root, path);
  return Array.isArray(it) ? it : [];
}

/** Whether a list is that of certificates. */
export const isCertificates = (list: Path): boolean => list[0] === 'tls';

/** The hosts of a site, as its name. */
export const named = (site: Setting | undefined): string => (isTable(site) ? [site['hosts'] ?? '*'].flat().join(', ') : '');

export interface Field {
  key: Key;
  path: Path;
  /** What stands before the field: the key without what its section says already. */
  name: string;
}

/** A list of sections within a section, such as the cache rules of a route. */
export interface SubList {
  /** `cache.rule`. */
  name: string;
  path: Path;
  phase: Phase | null;
  keys: Key[];
}

export interface Section {
  id: string;
  title: string;
  sub: string;
  /** 1 for a route, which stands below its site. */
  depth: number;
  fields: Field[];
  /** Where a site or a route stands in its list, how many there are, and which of them are in its file. */
  of?: { list: Path; at: number; count: number; first: number; last: number };
  /** Of a site, a route or a block: its path. What it inherits is shown, and only what is set. */
  layered?: Path;
  lists: SubList[];
}

const SECTIONS: [string, string][] = [
  ['limits.', 'Limits'],
  ['cache.ram.', 'RAM tier'],
  ['cache.disk.', 'Disk tier'],
  ['cache.fleet.', 'Fleet'],
  ['cache.', 'Cache, for all routes'],
  ['admin.', 'Admin'],
  ['clients.', 'Clients'],
  ['tls.', 'TLS'],
  ['log.', 'Log'],
  ['telemetry.', 'Telemetry'],
  ['geoip.', 'Countries'],
  ['database.', 'Databases'],
];

const SITE = 'site[].';
const ROUTE = 'site[].route[].';

/** The section of TLS. */
export const TLS = 'tls.';

/** What keys of a member of the list of certificates begin with. */
const CERTIFICATE = 'tls.certificates.';

/** The phases of a request, with what their keys are for. */
export const PHASES: [Phase, string, string][] = [
  ['match', 'Match', 'Which requests it is for'],
  ['admit', 'Admit', 'Who may make them'],
  ['rewrite', 'Rewrite', 'What the origin receives'],
  ['answer', 'Answer', 'Where the response comes from'],
  ['cache', 'Cache', 'What is stored, and for how long'],
  ['finish', 'Finish', 'What the client receives'],
];

/** The fields and the lists of a member of sites, routes or blocks. */
function layered(keys: Key[], before: string, base: Path): { fields: Field[]; lists: SubList[] } {
  const fields: Field[] = [];
  const lists = new Map<string, SubList>();
  for (const key of keys) {
    const rest = key.pattern.slice(before.length);
    const [name, inner] = rest.split('[].', 2) as [string, string | undefined];
    const path = [...base, ...name.split('.')];
    if (inner === undefined) fields.push({ key, name, path });
    else if (lists.has(name)) lists.get(name)!.keys.push(key);
    else lists.set(name, { name, path, phase: key.phase, keys: [key] });
  }
  return { fields, lists: [...lists.values()] };
}

/** The fields of a member of a list of sections. */
export const membersFields = (of: SubList, number: number): Field[] =>
  of.keys.map((key) => {
    const name = key.pattern.slice(key.pattern.indexOf(`${of.name}[].`) + of.name.length + 3);
    return { key, name, path: [...of.path, number, ...name.split('.')] };
  });

/** `files` are the names of the files, `siteFiles` the number of the file of each site. */
export function sections(keys: Key[], root: Settings, siteFiles: number[], files: string[]): Section[] {
  const field = (key: Key, before: string, base: Path): Field => {
    const name = key.key.slice(before.length);
    return { key, name, path: [...base, ...name.split('.')] };
  };
  const taken = new Set<Key>();
  const found: Section[] = [];
  const top = keys.filter((it) => !it.key.includes('.'));
  found.push({ id: 'top', title: 'Server', sub: '', depth: 0, fields: top.map((it) => field(it, '', [])), lists: [] });
  const rest = keys.filter((it) => it.key.includes('.') && !it.pattern.startsWith('site[]'));
  // A part that no title is for has its own name.
  const known = (it: Key): boolean => SECTIONS.some(([before]) => it.key.startsWith(before));
  const others = [...new Set(rest.filter((it) => !known(it)).map((it) => it.key.slice(0, it.key.indexOf('.') + 1)))];
  for (const [before, title] of [...SECTIONS, ...others.map((it): [string, string] => [it, it.slice(0, -1)])]) {
    const of = rest.filter((it) => it.key.startsWith(before) && !taken.has(it));
    of.forEach((it) => taken.add(it));
    const base = before.split('.').filter((it) => it !== '');
    if (before === TLS) {
      found.push(...ofTls(of, root, field));
      continue;
    }
    const plain = of.filter((it) => !it.pattern.includes('[]'));
    // A list at the top level, such as that of databases, is the only content of its part.
    const isList = (it: Key): boolean => it.pattern.startsWith(`${before.slice(0, -1)}[].`);
    const lists = [
      ...layered(of.filter((it) => it.pattern.includes('[]') && !isList(it)), before, base).lists,
      ...layered(of.filter(isList), '', []).lists,
    ];
    const sub = of.some(isList) ? `[[${base.join('.')}]]` : `[${base.join('.')}]`;
    if (of.length) found.push({ id: before, title, sub, depth: 0, fields: plain.map((it) => field(it, before, base)), lists });
  }
  const ofSite = keys.filter((it) => it.pattern.startsWith(SITE) && !it.pattern.startsWith(ROUTE));
  const ofRoute = keys.filter((it) => it.pattern.startsWith(ROUTE));
  const blocks = at(root, ['block']);
  if (isTable(blocks)) {
    for (const name of Object.keys(blocks)) {
      const base: Path = ['block', name];
      const ofBlock = ofRoute.filter((it) => it.pattern !== `${ROUTE}use`);
      found.push({ id: `block ${name}`, title: name, sub: `[block.${name}]`, depth: 0, ...layered(ofBlock, ROUTE, base), layered: base });
    }
  }
  const sites = members(root, ['site']);
  sites.forEach((site, s) => {
    const hosts = named(site);
    const base: Path = ['site', s];
    const file = siteFiles[s] ?? 0;
    const place = file > 0 && files[file] !== undefined ? `, ${files[file]}` : '';
    const range = { first: siteFiles.indexOf(file), last: siteFiles.lastIndexOf(file) };
    const within = range.first < 0 ? { first: 0, last: sites.length - 1 } : range;
    found.push({ id: `site ${s}`, title: hosts, sub: `Site ${s + 1}${place}`, depth: 0, ...layered(ofSite, SITE, base), of: { list: ['site'], at: s, count: sites.length, ...within }, layered: base });
    const list: Path = ['site', s, 'route'];
    const routes = members(root, list);
    routes.forEach((route, r) => {
      const path = isTable(route) && typeof route['path'] === 'string' ? route['path'] : '/*';
      const base: Path = ['site', s, 'route', r];
      const of = { list, at: r, count: routes.length, first: 0, last: routes.length - 1 };
      found.push({ id: `route ${s} ${r}`, title: path, sub: `Route ${r + 1} of ${hosts}`, depth: 1, ...layered(ofRoute, ROUTE, base), of, layered: base });
    });
  });
  return found;
}

/** TLS, and each certificate of its list as a section of its own. */
function ofTls(keys: Key[], root: Settings, field: (key: Key, before: string, base: Path) => Field): Section[] {
  const isOfList = (it: Key): boolean => it.key.startsWith(CERTIFICATE);
  const list: Path = ['tls', 'certificates'];
  const all = members(root, list);
  const each = keys.filter(isOfList);
  const plain = keys.filter((it) => !isOfList(it));
  const one = (it: Setting, at: number): Section => {
    const cert = isTable(it) ? it['cert'] : undefined;
    const title = typeof cert === 'string' && cert !== '' ? cert : `Certificate ${at + 1}`;
    const of = { list, at, count: all.length, first: 0, last: all.length - 1 };
    return { id: `certificate ${at}`, title, sub: `Certificate ${at + 1}`, depth: 0, fields: each.map((key) => field(key, CERTIFICATE, [...list, at])), of, lists: [] };
  };
  return [{ id: TLS, title: 'TLS', sub: '[tls]', depth: 0, fields: plain.map((it) => field(it, TLS, ['tls'])), lists: [] }, ...all.map(one)];
}

/** Whether a problem is of this field, or of a row of its table: by its key, and by the site and the route that it is in. */
export function isAbout(it: ConfigProblem, field: Field): boolean {
  return rowOf(it, field) !== null;
}

/** The row of a field that a problem is about; an empty text is the field itself, null is another field. */
export function rowOf(it: ConfigProblem, field: Field): string | null {
  if (it.key === null || !it.within.every((step, depth) => field.path[depth] === step)) return null;
  const path = field.path.filter((step) => typeof step === 'string').join('.');
  if (it.key === path || it.key === field.key.key) return '';
  if (!isPairs(field.key)) return null;
  for (const of of [path, field.key.key]) if (it.key.startsWith(`${of}.`)) return it.key.slice(of.length + 1);
  return null;
}

/** Whether the values of a key are tables with free names. */
export const isPairs = (it: Key): boolean => it.kind === 'pairs' || it.kind === 'status-ttls';

/** A value as it stands in its field: a list with commas, a text without quotes. */
export function shape(value: Setting): string {
  if (Array.isArray(value)) return value.map(shape).join(', ');
  if (isTable(value)) return Object.entries(value).map(([name, it]) => `${name} = ${shape(it)}`).join(', ');
  return String(value);
}

/** A default, which is TOML, in the same shape. */
export const plain = (it: string): string => it.replace(/^\[(.*)\]$/, '$1').replaceAll('"', '');

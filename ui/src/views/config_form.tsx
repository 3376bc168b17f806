// The configuration as a form: a section for each part of the file, a site for each site, a field for each key. Every change is
// made in the text by larder, which keeps comments and order.
import { Fragment, type JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Icon } from '../parts/icons';
import { say } from '../parts/toast';
import type { Config, ConfigProblem, Key, Setting, Settings } from '../types';
import * as draft from './config_draft';
import { type Edit, NewRoute, covers, paths } from './config_new';

type Path = (string | number)[];

const isTable = (it: Setting | undefined): it is Settings => typeof it === 'object' && !Array.isArray(it);

/** The value at a path; undefined where nothing is. */
function at(root: Settings, path: Path): Setting | undefined {
  let it: Setting | undefined = root;
  for (const step of path) {
    if (Array.isArray(it) && typeof step === 'number') it = it[step];
    else if (isTable(it) && typeof step === 'string') it = it[step];
    else return undefined;
  }
  return it;
}

/** The members of a list; none where there is no list. */
function members(root: Settings, path: Path): Setting[] {
  const it = at(root, path);
  return Array.isArray(it) ? it : [];
}

/** Whether a list is that of certificates. */
const isCertificates = (list: Path): boolean => list[0] === 'tls';

/** The hosts of a site, as its name. */
const named = (site: Setting | undefined): string => (isTable(site) ? [site['hosts'] ?? '*'].flat().join(', ') : '');

interface Field {
  key: Key;
  path: Path;
  /** What stands before the field: the key without what its section says already. */
  name: string;
}

interface Section {
  id: string;
  title: string;
  sub: string;
  /** 1 for a route, which stands below its site. */
  depth: number;
  fields: Field[];
  /** Where a site or a route stands in its list, and how many there are. */
  of?: { list: Path; at: number; count: number };
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
];

/** What keys of a member of the list of certificates begin with. */
const CERTIFICATE = 'tls.certificates.';

/** Sites of which all show their routes; of more, none but the open one does. */
const FOLDED = 8;

const TIERS = ['cache.ram.', 'cache.disk.', 'cache.fleet.'];

/** Whether a key of `cache` may be given for one route. */
const isOfRoutes = (it: Key): boolean => it.key.startsWith('cache.') && !it.restart && !TIERS.some((tier) => it.key.startsWith(tier));

function sections(keys: Key[], root: Settings): Section[] {
  const field = (key: Key, before: string, base: Path): Field => {
    const name = key.key.slice(before.length);
    return { key, name, path: [...base, ...name.split('.')] };
  };
  const taken = new Set<Key>();
  const found: Section[] = [];
  const top = keys.filter((it) => !it.key.includes('.'));
  found.push({ id: 'top', title: 'Server', sub: '', depth: 0, fields: top.map((it) => field(it, '', [])) });
  for (const [before, title] of SECTIONS) {
    const of = keys.filter((it) => it.key.startsWith(before) && !taken.has(it));
    of.forEach((it) => taken.add(it));
    const base = before.split('.').filter((it) => it !== '');
    if (before === 'tls.') {
      found.push(...ofTls(of, root, field));
      continue;
    }
    if (of.length) found.push({ id: before, title, sub: `[${base.join('.')}]`, depth: 0, fields: of.map((it) => field(it, before, base)) });
  }
  const ofSite = keys.filter((it) => it.key.startsWith('site.') && !it.key.startsWith('site.route.'));
  const ofRoute = keys.filter((it) => it.key.startsWith('site.route.'));
  const listed = new Set(ofRoute.map((it) => it.key.slice('site.route.'.length)));
  const cached = keys.filter((it) => isOfRoutes(it) && !listed.has(it.key));
  const sites = members(root, ['site']);
  sites.forEach((site, s) => {
    const hosts = named(site);
    found.push({ id: `site ${s}`, title: hosts, sub: `Site ${s + 1}`, depth: 0, fields: ofSite.map((it) => field(it, 'site.', ['site', s])), of: { list: ['site'], at: s, count: sites.length } });
    const list: Path = ['site', s, 'route'];
    const routes = members(root, list);
    routes.forEach((route, r) => {
      const base: Path = ['site', s, 'route', r];
      const path = isTable(route) && typeof route['path'] === 'string' ? route['path'] : '/*';
      const isFiles = isTable(route) && route['files'] !== undefined;
      const of = ofRoute.filter((it) => !it.key.startsWith(isFiles ? 'site.route.proxy.' : 'site.route.files.'));
      const fields = of.map((it) => field(it, 'site.route.', base));
      // Files are in no tier, so that nothing of the cache is theirs.
      const caching = isFiles ? [] : cached.map((it): Field => ({ key: it, name: it.key, path: [...base, ...it.key.split('.')] }));
      found.push({ id: `route ${s} ${r}`, title: path, sub: `Route ${r + 1} of ${hosts}`, depth: 1, fields: [...fields, ...caching], of: { list, at: r, count: routes.length } });
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
    return { id: `certificate ${at}`, title, sub: `Certificate ${at + 1}`, depth: 0, fields: each.map((key) => field(key, CERTIFICATE, [...list, at])), of: { list, at, count: all.length } };
  };
  return [{ id: 'tls.', title: 'TLS', sub: '[tls]', depth: 0, fields: plain.map((it) => field(it, 'tls.', ['tls'])) }, ...all.map(one)];
}

interface Props {
  config: Config;
  document: Settings;
  text: string;
  problems: ConfigProblem[];
  /** A text, and the edits that made it of the one before. */
  write: (text: string, edits: Edit[]) => void;
  /** Another one where what is written in a field holds no more. */
  era: number;
}

export function ConfigForm({ config, document: root, text, problems, write, era }: Props): JSX.Element {
  const [chosen, setChosen] = useState<string | null>(null);
  const [search, setSearch] = useState('');
  const all = useMemo(() => sections(config.keys, root), [config.keys, root]);
  const now = all.find((it) => it.id === chosen) ?? all[0]!;
  const [adding, setAdding] = useState<{ site: number } | 'site' | null>(null);
  const given = (it: Field): Setting | undefined => at(root, it.path);

  const edit = async (...set: Edit[]): Promise<boolean> => {
    try {
      await draft.edit(config, set);
      return true;
    } catch (error) {
      say(error instanceof Error ? error.message : String(error), true);
      return false;
    }
  };
  // Whoever chose another section while larder was asked stays there.
  const follow = (from: string, to: string): void => setChosen((now) => (now === from ? to : now));
  const move = async ({ list, at }: NonNullable<Section['of']>, to: number): Promise<void> => {
    const id = (it: number): string => (isCertificates(list) ? `certificate ${it}` : list.length === 1 ? `site ${it}` : `route ${list[1]} ${it}`);
    if (await edit({ path: [...list, at], to })) follow(id(at), id(to));
  };
  const remove = async (it: Section): Promise<void> => {
    const { list, at } = it.of!;
    if (!(await edit({ path: [...list, at], value: null }))) return;
    follow(it.id, isCertificates(list) ? 'tls.' : list.length === 1 ? 'top' : `site ${list[1]}`);
    say(`${isCertificates(list) ? 'Certificate' : list.length === 1 ? 'Site' : 'Route'} ${it.title} was removed from the draft.`);
  };
  const certificates = members(root, ['tls', 'certificates']).length;
  // With names that are files nowhere, so that what is still to be said is marked as wrong.
  const certify = async (): Promise<void> => {
    const fresh = { cert: '', key: '' };
    // A list is made with its first member.
    if (!(await edit(certificates ? { path: ['tls', 'certificates', certificates], value: fresh } : { path: ['tls', 'certificates'], value: [fresh] }))) return;
    setSearch('');
    setChosen(`certificate ${certificates}`);
  };
  const sites = members(root, ['site']);
  const site = adding !== null && adding !== 'site' ? sites[adding.site] : undefined;
  // What was given when the section was opened: a field that one writes in stays where it is.
  const first = useMemo(() => new Set(all.flatMap((it) => it.fields).filter((it) => given(it) !== undefined).map((it) => it.path.join('.'))), [now.id, config.hash]);
  const words = search.trim().toLowerCase();
  const fits = (it: Field): boolean => `${it.key.key} ${it.key.help}`.toLowerCase().includes(words);
  const shown = words ? all.map((it) => ({ ...it, fields: it.fields.filter(fits) })).filter((it) => it.fields.length) : [now];
  // Of many sites, only that which is open shows its routes, and those that have something wrong.
  const folded = sites.length > FOLDED;
  const siteNow = now.of && !isCertificates(now.of.list) ? Number(now.id.split(' ')[1]) : null;
  const unfolded = (it: Section): boolean => it.depth === 0 || !folded || Number(it.id.split(' ')[1]) === siteNow || wrong(it);
  const wrong = (it: Section): boolean => it.fields.some((field) => problems.some((one) => isAbout(one, field)));
  return (
    <div class="form-view">
      <div class="form-side">
        <div class="search">
          <Icon name="search" />
          <input data-search type="search" aria-label="Search keys" placeholder="Search keys" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
          <kbd aria-hidden="true">/</kbd>
        </div>
        <nav aria-label="Sections">
          {all.filter(unfolded).map((it, number, listed) => {
            const count = it.fields.filter((field) => given(field) !== undefined).length;
            const next = listed[number + 1];
            const isCertificate = it.id.startsWith('certificate ');
            const ofTls = isCertificate || it.id === 'tls.';
            const siteOf = Number(it.id.split(' ')[1]);
            return (
              <Fragment key={it.id}>
                {it.id === 'site 0' && <p class="form-part">Sites</p>}
                <button
                  class={`section ${it.depth || isCertificate ? 'below' : it.of && (!folded || siteOf === siteNow) ? 'site' : ''}`}
                  aria-current={!words && it === now ? 'true' : undefined}
                  onClick={() => {
                    setChosen(it.id);
                    setSearch('');
                  }}
                >
                  <span class={it.of ? 'mono' : ''}>{it.title}</span>
                  {wrong(it) ? <Icon name="warn" size={13} /> : count > 0 && <span class="faint">{count}</span>}
                </button>
                {ofTls && !next?.id.startsWith('certificate ') && config.editable && (
                  <button class="section below add" aria-label="New certificate" onClick={() => void certify()}>
                    <span>
                      <Icon name="plus" size={13} /> New certificate
                    </span>
                  </button>
                )}
                {it.of && !isCertificate && !next?.depth && (!folded || siteOf === siteNow) && config.editable && (
                  <button class="section below add" aria-label={`New route of ${named(sites[siteOf])}`} onClick={() => setAdding({ site: siteOf })}>
                    <span>
                      <Icon name="plus" size={13} /> New route …
                    </span>
                  </button>
                )}
              </Fragment>
            );
          })}
          {config.editable && (
            <button class="section site add" onClick={() => setAdding('site')}>
              <span>
                <Icon name="plus" size={13} /> New site …
              </span>
            </button>
          )}
        </nav>
      </div>
      <div class="form-main">
        {shown.length === 0 && <p class="hint">No matching key.</p>}
        {shown.map((section) => (
          <section key={section.id} aria-label={section.title}>
            <header class="form-title">
              <h2>
                <span class={section.of ? 'mono' : ''}>{section.title}</span> <span class="faint">{section.sub}</span>
              </h2>
              {section.of && config.editable && <Tools it={section} move={(to) => void move(section.of!, to)} remove={() => void remove(section)} />}
            </header>
            {section.depth > 0 && <Unreached it={section} routes={paths(at(root, section.of!.list.slice(0, 2)) as Settings)} />}
            {sorted(section.fields, (it) => first.has(it.path.join('.')), words !== '').map((it) => (
              <OneField
                key={it.path.join('.')}
                it={it}
                value={given(it)}
                problem={problems.find((one) => isAbout(one, it)) ?? null}
                editable={config.editable}
                era={era}
                set={(value) => void edit({ path: it.path, value })}
              />
            ))}
          </section>
        ))}
      </div>
      {adding !== null && (
        <NewRoute
          site={adding === 'site' ? null : { at: adding.site, name: named(site), routes: paths(site as Settings) }}
          sites={sites.length}
          text={text}
          known={problems}
          close={() => setAdding(null)}
          done={(text, section, edits) => {
            write(text, edits);
            setAdding(null);
            setSearch('');
            setChosen(section);
          }}
        />
      )}
    </div>
  );
}

/** What can be done with a whole site or route. */
function Tools({ it, move, remove }: { it: Section; move: (to: number) => void; remove: () => void }): JSX.Element {
  const { at, count } = it.of!;
  const what = isCertificates(it.of!.list) ? 'certificate' : it.depth ? 'route' : 'site';
  return (
    <div class="form-tools">
      {count > 1 && (
        <>
          <button class="tool" disabled={at === 0} onClick={() => move(at - 1)} aria-label={`Move this ${what} up`} title="Match it earlier">
            <Icon name="up" />
          </button>
          <button class="tool" disabled={at === count - 1} onClick={() => move(at + 1)} aria-label={`Move this ${what} down`} title="Match it later">
            <Icon name="down" />
          </button>
        </>
      )}
      <button class="button" onClick={remove} aria-label={`Remove this ${what}`} title="Remove from the draft; the file changes when the draft is applied">
        <Icon name="trash" /> Remove
      </button>
    </div>
  );
}

/** Says of a route that another takes everything before it. */
function Unreached({ it, routes }: { it: Section; routes: string[] }): JSX.Element | null {
  const before = routes.slice(0, it.of!.at).findIndex((path) => covers(path, routes[it.of!.at]!));
  if (before < 0) return null;
  return (
    <p class="hint">
      <Icon name="warn" /> Route {before + 1}, <code>{routes[before]}</code>, precedes it and matches all of its paths. This route receives no requests, unless the other one is limited to some methods.
    </p>
  );
}

/** What is given stands before what is not. */
function sorted(of: Field[], given: (it: Field) => boolean, asIs: boolean): Field[] {
  if (asIs) return of;
  return [...of.filter(given), ...of.filter((it) => !given(it))];
}

/** Whether a problem is of this field: by its key, and by the site and the route that it is in. */
function isAbout(it: ConfigProblem, field: Field): boolean {
  if (it.key === null || !it.within.every((step, depth) => field.path[depth] === step)) return false;
  const path = field.path.filter((step) => typeof step === 'string').join('.');
  return it.key === path || it.key === field.key.key;
}

interface FieldProps {
  it: Field;
  value: Setting | undefined;
  problem: ConfigProblem | null;
  editable: boolean;
  era: number;
  set: (value: Setting | null) => void;
}

function OneField({ it, value, problem: found, editable, era, set }: FieldProps): JSX.Element {
  // Half of a value is wrong more often than not: what is wrong with it is told once it is written.
  const [writing, setWriting] = useState(false);
  const problem = writing ? null : found;
  const id = `setting ${it.path.join('.')}`;
  return (
    <div class={`setting ${value !== undefined ? 'given' : ''}`}>
      <div class="setting-text">
        <label for={id}>
          <code>{it.name}</code>
          {it.key.restart && (
            <span class="chip" title="Requires a restart">
              restart
            </span>
          )}
        </label>
        <p>{it.key.help.replaceAll('`', '')}</p>
      </div>
      <div class="setting-value">
        <Input id={id} it={it} value={value} bad={problem !== null} editable={editable} era={era} writes={setWriting} set={set} />
        <p class="setting-kind">{problem ? <span class="bad">{problem.message}</span> : it.key.allowed ?? it.key.kind}</p>
      </div>
      {value !== undefined && editable && (
        <button class="tool" onClick={() => set(null)} aria-label={`Remove ${it.name}`} title="Remove it: the default applies">
          <Icon name="close" />
        </button>
      )}
    </div>
  );
}

interface InputProps {
  id: string;
  it: Field;
  value: Setting | undefined;
  bad: boolean;
  editable: boolean;
  era: number;
  /** Told that somebody writes in it, and that it is written. */
  writes: (now: boolean) => void;
  set: (value: Setting | null) => void;
}

function Input({ id, it, value, bad, editable, era, writes, set }: InputProps): JSX.Element {
  const { kind, words } = it.key;
  const choices = kind === 'bool' ? ['true', 'false'] : (words ?? null);
  const shown = value === undefined ? '' : shape(value);
  // What is written in it, from the first letter until larder has read it and the field is left; null is what the draft says.
  const [written, setWritten] = useState<string | null>(null);
  const isHere = useRef(false);
  useEffect(() => {
    if (!isHere.current) setWritten(null);
  }, [shown]);
  useEffect(() => setWritten(null), [era]);
  if (choices) {
    return (
      <select
        id={id}
        aria-invalid={bad}
        disabled={!editable}
        value={shown}
        onChange={(event) => {
          const chosen = event.currentTarget.value;
          set(chosen === '' ? null : kind === 'bool' ? chosen === 'true' : chosen);
        }}
      >
        <option value="">{it.key.default === null ? 'not given' : `default: ${plain(it.key.default)}`}</option>
        {choices.map((one) => (
          <option key={one}>{one}</option>
        ))}
        {shown !== '' && !choices.includes(shown) && <option>{shown}</option>}
      </select>
    );
  }
  const isList = kind === 'list' || Array.isArray(value);
  const read = (text: string): Setting | null => {
    if (text.trim() === '') return null;
    if (isList) return text.split(/[,\n]/).map((one) => one.trim()).filter((one) => one !== '');
    const isNumber = /^-?\d[\d_]*$/.test(text.trim()) && kind === 'integer';
    return isNumber ? Number(text.trim().replaceAll('_', '')) : text.trim();
  };
  const leave = (): void => {
    isHere.current = false;
    writes(false);
    if (written !== null && shape(read(written) ?? '') === shown) setWritten(null);
  };
  return (
    <input
      id={id}
      class="mono"
      aria-invalid={bad}
      readOnly={!editable}
      spellcheck={false}
      placeholder={it.key.default === null ? 'not given' : plain(it.key.default)}
      value={written ?? shown}
      onFocus={() => (isHere.current = true)}
      onInput={(event) => {
        const text = event.currentTarget.value;
        setWritten(text);
        writes(true);
        set(read(text));
      }}
      onBlur={leave}
      onKeyDown={(event) => event.key === 'Enter' && writes(false)}
    />
  );
}

/** A value as it stands in its field: a list with commas, a text without quotes. */
function shape(value: Setting): string {
  if (Array.isArray(value)) return value.map(shape).join(', ');
  return typeof value === 'object' ? JSON.stringify(value) : String(value);
}

/** A default, which is told as TOML, in the same shape. */
const plain = (it: string): string => it.replace(/^\[(.*)\]$/, '$1').replaceAll('"', '');

// The configuration as a form: a section for each part of the file, a site for each site, a field for each key. Every change is
// made in the text by larder, which keeps comments and order.
import { Fragment, type JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { post } from '../api';
import { Skeleton } from '../parts/basic';
import { Icon } from '../parts/icons';
import { showToast } from '../parts/toast';
import { useFetched } from '../hooks';
import type { Config, ConfigProblem, Layers, Setting, Settings } from '../types';
import { AddSetting, SERVICES } from './config_add';
import { Certificates } from './config_certificates';
import * as draft from './config_draft';
import type { DraftFile, Edit } from './config_draft';
import { OneField } from './config_field';
import { Confirm, Mover, OneList } from './config_list';
import { NewRoute, covers, paths } from './config_new';
import { type Field, PHASES, type Section, TLS, at, isAbout, isCertificates, members, named, sections } from './config_sections';

/** Fields that a search shows at most: a letter alone finds most of those of every route. */
const MOST_FOUND = 100;

/** Settings of a section that are all shown; of more, those that are not set are behind "Add setting". */
const MANY = 16;

/** Pixels of the window that the bar of the draft may cover; `scroll-margin-top` of `.form-title` is the same. */
const BAR = 66;

/** Sites of which all show their routes; of more, none but the open one does. */
const FOLDED = 8;

interface Props {
  config: Config;
  document: Settings;
  files: DraftFile[];
  /** The number of the file of each site. */
  siteFiles: number[];
  problems: ConfigProblem[];
  write: (files: DraftFile[]) => void;
  /** The section that a link names. */
  linked: string | null;
  /** Another one where what is written in a field holds no more. */
  era: number;
}

/** What a member of a list is called. */
const nameOf = ({ list }: NonNullable<Section['of']>): string => (isCertificates(list) ? 'certificate' : list.length === 1 ? 'site' : 'route');

/** The section of a member of a list. */
function idOf({ list }: NonNullable<Section['of']>, number: number): string {
  return isCertificates(list) ? `certificate ${number}` : list.length === 1 ? `site ${number}` : `route ${list[1]} ${number}`;
}

export function ConfigForm({ config, document: root, files, siteFiles, problems, write, linked, era }: Props): JSX.Element {
  const [chosen, setChosen] = useState<string | null>(linked);
  const [search, setSearch] = useState('');
  const names = files.map((it) => it.name).join('\n');
  const all = useMemo(() => sections(config.keys, root, siteFiles, names.split('\n')), [config.keys, root, siteFiles, names]);
  const now = all.find((it) => it.id === chosen) ?? all[0]!;
  const [adding, setAdding] = useState<{ site: number } | 'site' | null>(null);
  const [removing, setRemoving] = useState<Section | null>(null);
  const side = useRef<HTMLElement>(null);
  const main = useRef<HTMLDivElement>(null);
  const follows = useRef(false);

  const edit = async (...set: Edit[]): Promise<boolean> => {
    try {
      await draft.edit(config, set);
      return true;
    } catch (error) {
      showToast(error instanceof Error ? error.message : String(error), true);
      return false;
    }
  };
  // If another section was chosen while the request was in flight, that section stays.
  const follow = (from: string, to: string): void => setChosen((now) => (now === from ? to : now));
  const move = async (it: Section, to: number): Promise<boolean> => {
    const of = it.of!;
    if (to < of.first || to > of.last || !(await edit({ path: [...of.list, of.at], to }))) return false;
    follow(idOf(of, of.at), idOf(of, to));
    showToast(`The ${nameOf(of)} ${it.title} is now number ${to + 1} of ${of.count}.`);
    return true;
  };
  // A member of the list goes along with the keys that move it.
  useEffect(() => {
    if (!follows.current) return;
    follows.current = false;
    side.current?.querySelector<HTMLElement>('[aria-current]')?.focus();
  }, [now.id]);
  // What was chosen far down the list begins below the bar of the draft, which stays in the window.
  useEffect(() => {
    const title = main.current?.querySelector('.form-title');
    if (title && title.getBoundingClientRect().top < BAR) title.scrollIntoView({ block: 'start' });
  }, [now.id]);
  const moveByKey = (event: KeyboardEvent, it: Section): void => {
    const by = event.key === 'ArrowUp' ? -1 : event.key === 'ArrowDown' ? 1 : 0;
    if (!event.altKey || by === 0 || !it.of || !config.editable) return;
    event.preventDefault();
    setChosen(it.id);
    void move(it, it.of.at + by).then((moved) => (follows.current = moved));
  };
  const remove = async (it: Section): Promise<void> => {
    setRemoving(null);
    const { list, at } = it.of!;
    const alone = isCertificates(list) && it.of!.count === 1;
    if (!(await edit({ path: alone ? list : [...list, at], value: null }))) return;
    // The one after it has its number now.
    const left = it.of!.count - 1;
    const near = isCertificates(list) ? TLS : list.length === 1 ? 'top' : `site ${list[1]}`;
    follow(it.id, isCertificates(list) || left === 0 ? near : idOf(it.of!, Math.min(at, left - 1)));
    const what = nameOf(it.of!);
    showToast(`${what[0]!.toUpperCase()}${what.slice(1)} ${it.title} was removed from the draft.`);
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
  const words = search.trim().toLowerCase();
  const fits = (it: Field): boolean => `${it.key.key} ${it.key.help}`.toLowerCase().includes(words);
  const found = words ? all.map((it) => ({ ...it, fields: it.fields.filter(fits), lists: [] })).filter((it) => it.fields.length) : [];
  const shown = words ? cut(found, MOST_FOUND) : [now];
  const more = found.reduce((sum, it) => sum + it.fields.length, 0) - MOST_FOUND;
  // Of many sites, only that which is open shows its routes, and those that have something wrong.
  const folded = sites.length > FOLDED;
  const siteNow = /^(site|route) /.test(now.id) ? Number(now.id.split(' ')[1]) : null;
  const wrong = (it: Section): boolean => problems.some((one) => it.fields.some((field) => isAbout(one, field)) || it.lists.some((list) => isInList(one, list.path, list.name)));
  const unfolded = (it: Section): boolean => it.depth === 0 || !folded || Number(it.id.split(' ')[1]) === siteNow || wrong(it);
  const firstBlock = all.find((it) => it.id.startsWith('block '))?.id;
  return (
    <div class="form-view">
      <div class="form-side">
        <div class="search">
          <Icon name="search" />
          <input data-search type="search" aria-label="Search keys" placeholder="Search keys" value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
          <kbd aria-hidden="true">/</kbd>
        </div>
        <nav aria-label="Sections" ref={side}>
          {all.filter(unfolded).map((it, number, listed) => {
            const count = it.fields.filter((field) => at(root, field.path) !== undefined).length + it.lists.filter((list) => members(root, list.path).length > 0).length;
            const next = listed[number + 1];
            const isCertificate = it.id.startsWith('certificate ');
            const ofTls = isCertificate || it.id === TLS;
            const ofSites = it.of !== undefined && !isCertificate;
            const siteOf = Number(it.id.split(' ')[1]);
            return (
              <Fragment key={it.id}>
                {it.id === firstBlock && <p class="form-part">Blocks</p>}
                {it.id === 'site 0' && <p class="form-part">Sites</p>}
                <button
                  class={`section ${it.depth || isCertificate ? 'below' : ofSites && (!folded || siteOf === siteNow) ? 'site' : ''}`}
                  aria-current={!words && it === now ? 'true' : undefined}
                  onKeyDown={(event) => moveByKey(event, it)}
                  onClick={() => {
                    setChosen(it.id);
                    setSearch('');
                  }}
                >
                  <span class={it.of || it.layered ? 'mono' : ''}>{it.title}</span>
                  {wrong(it) ? <Icon name="warn" size={13} /> : count > 0 && <span class="faint">{count}</span>}
                </button>
                {ofTls && !next?.id.startsWith('certificate ') && config.editable && (
                  <button class="section below add" aria-label="New certificate" onClick={() => void certify()}>
                    <span>
                      <Icon name="plus" size={13} /> New certificate
                    </span>
                  </button>
                )}
                {ofSites && !next?.depth && (!folded || siteOf === siteNow) && config.editable && (
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
      <div class="form-main" ref={main}>
        {shown.length === 0 && <p class="hint">No matching key.</p>}
        {shown.map((section) => (
          <OneSection
            key={section.id}
            it={section}
            searched={words !== ''}
            config={config}
            root={root}
            files={files}
            problems={problems}
            era={era}
            edit={edit}
            move={(to) => void move(section, to)}
            remove={() => setRemoving(section)}
          />
        ))}
      </div>
      {more > 0 && (
        <p class="hint form-more" role="status">
          {more} more {more === 1 ? 'key matches' : 'keys match'}. Search for more of the name.
        </p>
      )}
      {removing !== null && <Confirm what={`${nameOf(removing.of!)} ${removing.title}`} more={moreOf(removing, root)} close={() => setRemoving(null)} deed={() => void remove(removing)} />}
      {adding !== null && (
        <NewRoute
          site={adding === 'site' ? null : { at: adding.site, name: named(site), routes: paths(site as Settings) }}
          siteFiles={siteFiles}
          sites={sites.length}
          files={files}
          known={problems}
          close={() => setAdding(null)}
          done={(files, section) => {
            write(files);
            setAdding(null);
            setSearch('');
            setChosen(section);
          }}
        />
      )}
    </div>
  );
}

/** Limits the sections to this number of fields. */
function cut(of: Section[], most: number): Section[] {
  let left = most;
  return of.flatMap((it) => {
    const fields = it.fields.slice(0, left);
    left -= fields.length;
    return fields.length ? [{ ...it, fields }] : [];
  });
}

/** What goes with a site or a route. */
function moreOf(it: Section, root: Settings): string {
  const routes = it.of!.list.length === 1 ? members(root, ['site', it.of!.at, 'route']).length : 0;
  if (routes > 0) return `Its keys are removed, and its ${routes === 1 ? 'route' : `${routes} routes`}.`;
  return 'Its keys are removed.';
}

/** Whether a problem is in a list of sections. */
function isInList(it: ConfigProblem, path: (string | number)[], name: string): boolean {
  return it.key !== null && it.key.includes(`${name}.`) && it.within.every((step, depth) => depth >= path.length || path[depth] === step);
}

interface SectionProps {
  it: Section;
  /** One searches: all fields that were found are shown, and nothing else. */
  searched: boolean;
  config: Config;
  root: Settings;
  files: DraftFile[];
  problems: ConfigProblem[];
  era: number;
  edit: (...set: Edit[]) => Promise<boolean>;
  move: (to: number) => void;
  remove: () => void;
}

function OneSection({ it, searched, config, root, files, problems, era, edit, move, remove }: SectionProps): JSX.Element {
  const given = (field: Field): Setting | undefined => at(root, field.path);
  const fetched = useLayers(searched ? undefined : it.layered, files);
  const layers = fetched ?? NO_LAYERS;
  const [opened, setOpened] = useState<string[]>([]);
  const [adding, setAdding] = useState(false);
  const focus = useRef<string | null>(null);
  const box = useRef<HTMLElement>(null);
  // What was shown once stays where it is while the section is open: one may be writing in it.
  const seen = useRef(new Set<string>());
  useMemo(() => {
    seen.current = new Set();
    setOpened([]);
  }, [config.hash, era]);
  const folds = it.layered !== undefined || it.fields.length > MANY;
  const isShown = (field: Field): boolean =>
    searched || !folds || given(field) !== undefined || (layers[field.name]?.length ?? 0) > 0 || opened.includes(field.name) || seen.current.has(field.name) || ALWAYS.includes(field.key.pattern);
  const shown = it.fields.filter(isShown);
  shown.forEach((field) => seen.current.add(field.name));
  useEffect(() => {
    if (focus.current === null || adding) return;
    const found = box.current?.querySelector<HTMLElement>(`[data-setting="${focus.current}"]`);
    found?.scrollIntoView({ block: 'center' });
    found?.querySelector<HTMLElement>('input, select, textarea, button')?.focus({ preventScroll: true });
    focus.current = null;
  });
  const service = SERVICES.find((one) => it.layered && at(root, [...it.layered, one]) !== undefined) ?? null;
  const field = (one: Field): JSX.Element => (
    <OneField
      key={one.path.join('.')}
      it={one}
      value={given(one)}
      layers={layers[one.name] ?? []}
      problems={problems.filter((problem) => isAbout(problem, one))}
      editable={config.editable}
      era={era}
      edit={(...set) => void edit(...set)}
    />
  );
  const list = (one: Section['lists'][number]): JSX.Element => (
    <OneList key={one.name} it={one} root={root} layers={layers[one.name] ?? []} problems={problems} editable={config.editable} era={era} edit={edit} />
  );
  return (
    <section aria-label={it.title} ref={box}>
      <header class="form-title">
        <h2>
          <span class={it.of || it.layered ? 'mono' : ''}>{it.title}</span> <span class="faint">{it.sub}</span>
        </h2>
        {config.editable && !searched && (
          <div class="form-tools">
            {folds && (
              <button class="button" onClick={() => setAdding(true)}>
                <Icon name="plus" /> Add setting …
              </button>
            )}
            {it.of && <Tools it={it} move={move} remove={remove} />}
          </div>
        )}
      </header>
      {it.id === TLS && !searched && <Certificates />}
      {it.depth > 0 && <Unreached it={it} routes={paths(at(root, it.of!.list.slice(0, 2)) as Settings)} />}
      {fetched === null ? (
        // So that nothing moves under the hand that opened it.
        <Skeleton rows={4} />
      ) : it.layered === undefined || searched ? (
        <>
          {folds && !searched && shown.length === 0 && <p class="hint">Nothing is set here: the defaults apply.</p>}
          {sorted(shown, given, searched).map(field)}
          {it.lists.map(list)}
        </>
      ) : (
        PHASES.map(([phase, title, about]) => {
          const fields = shown.filter((one) => one.key.phase === phase);
          const lists = it.lists.filter((one) => one.phase === phase);
          if (fields.length === 0 && lists.length === 0) return null;
          return (
            <section class="phase" key={phase} aria-label={title}>
              <h3>
                {title} <span class="faint">{about}</span>
              </h3>
              {fields.map(field)}
              {lists.map(list)}
            </section>
          );
        })
      )}
      {adding && (
        <AddSetting
          of={it.title}
          fields={it.fields.filter((one) => !isShown(one))}
          service={service}
          close={() => setAdding(false)}
          choose={(one) => {
            focus.current = one.name;
            setOpened((before) => [...before, one.name]);
            setAdding(false);
          }}
        />
      )}
    </section>
  );
}

/** Keys that a section shows even where they are not given. */
const ALWAYS = ['site[].hosts', 'site[].route[].path'];

/** What is given stands before what is not, as it was when the section was opened. */
function sorted(of: Field[], given: (it: Field) => Setting | undefined, asIs: boolean): Field[] {
  const first = useRef<Set<string> | null>(null);
  first.current ??= new Set(of.filter((it) => given(it) !== undefined).map((it) => it.name));
  if (asIs) return of;
  return [...of.filter((it) => first.current!.has(it.name)), ...of.filter((it) => !first.current!.has(it.name))];
}

/** What a site, a route or a block sets and inherits, in the files as they are in the draft; null until larder has told. */
function useLayers(of: Section['layered'], files: DraftFile[]): Layers | null {
  const layersKey = of === undefined ? null : JSON.stringify({ ...draft.texts(files), at: of });
  const { data, problem } = useFetched(layersKey, async () => ({ of: JSON.stringify(of), ...(await post<{ keys: Layers }>('/api/v1/config/layers', JSON.parse(layersKey!))) }));
  // Of another section, what was told is of no use; of another text of this one, it is until the next answer.
  if (data !== null && data.of === JSON.stringify(of)) return data.keys;
  return of === undefined || problem !== null ? NO_LAYERS : null;
}

const NO_LAYERS: Layers = {};

/** What can be done with a whole site or route. */
function Tools({ it, move, remove }: { it: Section; move: (to: number) => void; remove: () => void }): JSX.Element {
  const { at, count, first, last } = it.of!;
  const what = nameOf(it.of!);
  return (
    <>
      {count > 1 && <Mover what={`this ${what}`} up={at > first} down={at < last} id={at} move={(by) => move(at + by)} />}
      <button class="button" onClick={remove} aria-label={`Remove this ${what}`} title="Remove from the draft; the file changes when the draft is applied">
        <Icon name="trash" /> Remove
      </button>
    </>
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

// A row for every route: the worst first, or by a column; a search finds one of many.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Meter } from '../parts/meter';
import { useShort } from '../parts/short';
import * as format from '../format';
import { note, useMedia } from '../hooks';
import { areMany, between, quantile, ratio } from '../points';
import type { Over } from '../readings';
import type { RouteStats, Stats } from '../types';

/** Rows that are shown at first: the tiers beneath are on the same screen of 1440 × 900. */
const FEW = 4;
/** The same in a high window. */
const MORE = 12;

interface Row {
  id: string;
  name: string;
  site: string;
  kind: string;
  requests: number;
  errors: number;
  /** Responses with 401, 403 and 429 of `access`. */
  refused: number;
  /** Their share, of a route that refuses most of its requests; otherwise 0. */
  mostlyRefused: number;
  isBad: boolean;
  share: number | null;
  hits: number | null;
  p99: number | null;
  /** Microseconds of origin time a second. */
  origin: number;
}

type Column = 'worst' | 'name' | 'requests' | 'share' | 'refused' | 'hits' | 'p99' | 'origin';

/** The column, its heading, and whether its larger values come first. */
const COLUMNS: [Exclude<Column, 'worst'>, string, boolean][] = [
  ['name', 'Route', false],
  ['requests', 'Req / s', true],
  ['share', '5xx', true],
  ['refused', 'Refused', true],
  ['hits', 'Hit ratio', false],
  ['p99', 'p99', true],
  ['origin', 'Origin time', true],
];

/** What tells a route from the others, of which several may have its name. */
const identity = (it: RouteStats): string => JSON.stringify([it.site, it.path, it.methods, it.when, it.listeners]);

function rowsOf(now: Stats, then: Stats, seconds: number): Row[] {
  const before = new Map((then.routes ?? []).map((it) => [identity(it), it]));
  return (now.routes ?? []).map((it) => {
    const id = identity(it);
    const old = before.get(id);
    const grew = (name: string): number => Math.max(0, (it.counters[name] ?? 0) - (old?.counters[name] ?? 0));
    const [requests, errors, refused] = [grew('requests'), grew('errors_5xx'), grew('refused') + grew('limited')];
    return {
      id,
      name: it.name,
      site: it.site_name ?? '',
      kind: it.kind,
      requests: requests / seconds,
      errors,
      refused,
      mostlyRefused: refused > requests / 2 ? Math.min(1, refused / Math.max(requests, 1)) : 0,
      isBad: areMany(errors, requests),
      share: requests > 0 ? errors / requests : null,
      hits: ratio(grew('hits'), grew('misses'), grew('passes')),
      p99: quantile(between(old?.latency, it.latency), 0.99),
      origin: grew('origin_us') / seconds,
    };
  });
}

/** The share of requests that fail, or that a route refuses which refuses most of them. */
const failing = (it: Row): number => (it.share ?? 0) + it.mostlyRefused;

/** The worst first: by the share of failing requests, then by origin time, then by requests. */
const worst = (a: Row, b: Row): number => failing(b) - failing(a) || b.origin - a.origin || b.requests - a.requests;

function sorted(rows: Row[], by: Column, back: boolean): Row[] {
  if (by === 'worst') return [...rows].sort(worst);
  const falls = COLUMNS.find((it) => it[0] === by)![2] !== back;
  return [...rows].sort((a, b) => {
    if (by === 'name') return (falls ? -1 : 1) * a.name.localeCompare(b.name);
    const [x, y] = [a[by], b[by]];
    // What has no value comes last in either order.
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    return falls ? y - x : x - y;
  });
}

/** The requests of a route as they finish; where it fails or refuses most of them, those. */
function leadsTo(it: Row): string {
  const parts = [`route == ${JSON.stringify(it.name)}`, ...(it.errors > 0 ? ['status >= 500'] : it.mostlyRefused > 0 ? ['status >= 400'] : [])];
  return `#/live?filter=${encodeURIComponent(parts.join(' && '))}`;
}

export function Routes({ now, then, seconds, params }: Over & { params: URLSearchParams }): JSX.Element | null {
  const [by, setBy] = useState<Column>((COLUMNS.find((it) => it[0] === params.get('sort'))?.[0] ?? 'worst') as Column);
  const [back, setBack] = useState(params.get('order') === 'back');
  const [search, setSearch] = useState(params.get('route') ?? '');
  const narrow = useMedia('(max-width: 600px)');
  const all = rowsOf(now, then, seconds);
  const words = search.toLowerCase().split(/\s+/).filter(Boolean);
  const found = all.filter((it) => words.every((word) => `${it.site} ${it.name}`.toLowerCase().includes(word)));
  const few = useMedia('(min-height: 1200px)') ? MORE : FEW;
  const [shown, more] = useShort(sorted(found, by, back), 'routes', few);
  if (all.length === 0) return null;
  const keep = (to: Column, other: boolean, text: string): void => {
    setBy(to);
    setBack(other);
    setSearch(text);
    note('overview', { sort: to === 'worst' ? '' : to, order: other ? 'back' : '', route: text });
  };
  /** Once by the column, again in the other order, then as it was. */
  const press = (to: Column): void => keep(by === to && back ? 'worst' : to, by === to && !back, search);
  const several = new Set(now.routes?.map((it) => it.site)).size > 1;
  const columns = COLUMNS.filter((it) => !narrow || (it[0] !== 'origin' && it[0] !== 'p99' && it[0] !== 'refused'));
  return (
    <section class="block">
      <div class="block-head">
        <h2>
          Routes <span class="faint">{by === 'worst' ? 'the worst first' : `by ${COLUMNS.find((it) => it[0] === by)![1].toLowerCase()}`}</span>
        </h2>
        {all.length > few && (
          <input class="find" type="search" data-search aria-label="Find routes" placeholder="Find a route or site" spellcheck={false} value={search} onInput={(event) => keep(by, back, event.currentTarget.value)} />
        )}
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Routes">
        <table class="table rows linked">
          <thead>
            <tr>
              {columns.map(([name, heading, falls]) => {
                const on = by === name;
                const order = falls !== back ? 'desc' : 'asc';
                return (
                  <th key={name} scope="col" class={name === 'name' || name === 'hits' ? '' : 'num'} aria-sort={on ? (order === 'desc' ? 'descending' : 'ascending') : undefined}>
                    <button class="sorter" {...(on ? { 'data-order': order } : {})} onClick={() => press(name)}>
                      {heading}
                    </button>
                  </th>
                );
              })}
            </tr>
          </thead>
          <tbody>
            {shown.map((it) => (
              <tr key={it.id}>
                <th scope="row" class="route">
                  <div>
                    <a data-row class="row-link" href={leadsTo(it)} title={`${it.site} ${it.name}`}>
                      {it.name}
                    </a>
                    {several && <span class="faint site">{it.site}</span>}
                    {it.kind !== 'proxy' && <span class="chip">{it.kind}</span>}
                  </div>
                </th>
                <td class="num">{format.flat(format.rate(it.requests))}</td>
                <td class={`num ${it.isBad ? 'bad' : it.errors ? '' : 'faint'}`} title={`${it.errors.toLocaleString('en')} responses with a status from 500`}>
                  {it.share === null ? '–' : format.flat(format.share(it.share))}
                </td>
                {!narrow && (
                  <td class={`num ${it.mostlyRefused ? 'bad' : it.refused ? '' : 'faint'}`} title="Requests that `access` refused with 401, 403 or 429">
                    {it.refused.toLocaleString('en')}
                  </td>
                )}
                <td>{it.hits === null ? <span class="faint">–</span> : <Meter share={it.hits} />}</td>
                {!narrow && <td class="num">{format.flat(format.micros(it.p99))}</td>}
                {!narrow && <td class="num" title="Time of its requests at origins, per second">{it.origin ? `${format.flat(format.micros(it.origin))} / s` : '–'}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {found.length === 0 && <p class="faint">No route of that name</p>}
      {more}
    </section>
  );
}

// The view of stored objects and overlays: search, sort, inspect, purge, add and remove.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { get, query } from '../api';
import { Act } from '../parts/act';
import { Skeleton, Empty, Failed, Head, Segments, Status, Url } from '../parts/basic';
import { Icon } from '../parts/icons';
import { walk } from '../parts/rows';
import { showToast } from '../parts/toast';
import * as format from '../format';
import { note, useFetched, useDebounced } from '../hooks';
import { useKeys } from '../keys';
import type { ObjectPage, StoredObject } from '../types';
import { may } from '../identity';
import { Inspect } from './inspect';
import { OverlayEditor, Overlays } from './overlays';
import { PurgeDialog } from './purge';

type Sort = 'key' | 'size' | 'age' | 'hits' | 'expires';
type Which = 'stored' | 'overlays';
type Tier = 'all' | 'ram' | 'disk';

const TIERS: [Tier, string][] = [
  ['all', 'All tiers'],
  ['ram', 'In RAM'],
  ['disk', 'On disk'],
];

/** The index of the disk has no keys and no lifetimes: by these it sorts nothing. */
const RAM_ONLY: Sort[] = ['key', 'expires'];

const PAGE = 100;

/** What a column is sorted by at first: the largest is what one looks for, but of names and ends the first. */
const FIRST: Record<Sort, 'asc' | 'desc'> = { key: 'asc', size: 'desc', age: 'asc', hits: 'desc', expires: 'asc' };

export function Objects({ params }: { params: URLSearchParams }): JSX.Element {
  const [which, setWhich] = useState<Which>(params.get('show') === 'overlays' ? 'overlays' : 'stored');
  const [purging, setPurging] = useState(false);
  const [laying, setLaying] = useState<string | null>(may('operator') ? params.get('lay') : null);
  const [turn, again] = useState(0);
  const changed = (): void => again((it) => it + 1);
  useKeys(may('operator') ? { p: () => setPurging(true), n: () => setLaying('') } : {});
  return (
    <>
      <Head title="Objects">
        <Segments
          label="Which"
          of={[
            ['stored', 'Stored'],
            ['overlays', 'Overlays'],
          ]}
          now={which}
          choose={(it) => {
            setWhich(it);
            note('objects', it === 'overlays' ? { show: it } : {});
          }}
        />
        <Act class="button" onClick={() => setLaying('')}>
          <Icon name="layers" /> Overlay …
        </Act>
        <Act class="button" onClick={() => setPurging(true)}>
          <Icon name="trash" /> Purge …
        </Act>
      </Head>
      {which === 'stored' ? <Stored params={params} turn={turn} changed={changed} lay={setLaying} /> : <Overlays turn={turn} changed={changed} lay={setLaying} />}
      {purging && (
        <PurgeDialog
          close={() => {
            setPurging(false);
            changed();
          }}
        />
      )}
      {laying !== null && (
        <OverlayEditor
          uri={laying}
          close={(put) => {
            setLaying(null);
            if (put) {
              setWhich('overlays');
              changed();
            }
          }}
        />
      )}
    </>
  );
}

interface StoredProps {
  params: URLSearchParams;
  turn: number;
  changed: () => void;
  lay: (uri: string) => void;
}

function Stored({ params, turn, changed, lay }: StoredProps): JSX.Element {
  const [search, setSearch] = useState(params.get('search') ?? '');
  const [tag, setTag] = useState(params.get('tag') ?? '');
  const [status, setStatus] = useState(params.get('status') ?? '');
  const [sort, setSort] = useState<Sort>((params.get('sort') as Sort | null) ?? 'hits');
  const [order, setOrder] = useState<'asc' | 'desc'>((params.get('order') as 'asc' | 'desc' | null) ?? 'desc');
  const [tier, setTier] = useState<Tier>(TIERS.find((it) => it[0] === params.get('tier'))?.[0] ?? 'all');
  const [open, setOpen] = useState<string | null>(null);
  const rows = useRef<HTMLTableElement>(null);
  const unsorted = tier === 'disk' && RAM_ONLY.includes(sort);
  const by = unsorted ? { sort: 'size' as const, order: 'desc' as const } : { sort, order };
  const queryKey = useDebounced(JSON.stringify({ search, tag, status, tier: tier === 'all' ? '' : tier, ...by }), 200);
  const page = useFetched<ObjectPage & { of: Tier }>(`${queryKey} ${turn}`, async (signal) => {
    const question = JSON.parse(queryKey);
    return { of: question.tier || 'all', ...(await get<ObjectPage>(`/api/v1/objects${query({ ...question, limit: PAGE })}`, signal)) };
  });
  const more = useMore(page.data, queryKey);

  useEffect(() => note('objects', JSON.parse(queryKey)), [queryKey]);

  const column = (name: Sort, text: string, numeric = true, more = ''): JSX.Element => {
    const now = by.sort === name ? by.order : undefined;
    const choose = (): void => {
      setOrder(now ? (now === 'asc' ? 'desc' : 'asc') : FIRST[name]);
      setSort(name);
    };
    return (
      <th scope="col" class={`${numeric ? 'num' : ''} ${more}`} aria-sort={now && (now === 'asc' ? 'ascending' : 'descending')}>
        {tier === 'disk' && RAM_ONLY.includes(name) ? (
          text
        ) : (
          <button class="sorter" data-order={now} onClick={choose}>
            {text}
          </button>
        )}
      </th>
    );
  };
  const filtered = search || tag || status;
  // Of what the rows are that stand there, while others are asked for.
  const shown = page.data?.of ?? tier;
  return (
    <>
      <div class="bar-row" role="search">
        <div class="search">
          <Icon name="search" />
          <input
            data-search
            type="search"
            aria-label="Search URLs"
            placeholder="Part of a URL, or a pattern: /news/*"
            spellcheck={false}
            value={search}
            onInput={(event) => setSearch(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key !== 'ArrowDown') return;
              event.preventDefault();
              rows.current?.querySelector<HTMLElement>('[data-row]')?.focus();
            }}
          />
          <kbd aria-hidden="true">/</kbd>
        </div>
        <input class="narrow" aria-label="Tag" placeholder="Tag" spellcheck={false} value={tag} onInput={(event) => setTag(event.currentTarget.value.trim())} />
        <input
          class="narrow"
          aria-label="Status"
          placeholder="404, 5xx"
          value={status}
          onInput={(event) => setStatus(event.currentTarget.value.trim())}
        />
        <select class="auto" aria-label="Tier" title="All tiers: objects in RAM, sorted, then objects on disk only" value={tier} onChange={(event) => setTier(event.currentTarget.value as Tier)}>
          {TIERS.map(([name, text]) => (
            <option key={name} value={name}>
              {text}
            </option>
          ))}
        </select>
        <button class="tool" aria-label="Refresh" title="Refresh" onClick={changed}>
          <Icon name="refresh" />
        </button>
      </div>
      <Failed problem={page.problem} again={page.again} />
      {!page.data && page.busy && <Skeleton />}
      {page.data && (
        <>
          <p class="found" role="status">
            {shown !== 'disk' && (
              <>
                <b>{page.data.matched.toLocaleString('en')}</b> {filtered ? `of ${page.data.total.toLocaleString('en')} ` : ''}
                in RAM{more.disk && ', '}
              </>
            )}
            {shown === 'disk' && !more.disk && 'No disk tier'}
            {more.disk && <OnDisk rows={more.rows} disk={more.disk} alone={shown !== 'disk'} />}
            <span class="faint">, found in {format.flat(format.micros(page.data.took_us))}</span>
          </p>
          {more.rows.length === 0 ? (
            <Empty icon="objects" title={more.next ? 'No matches so far' : filtered ? 'No stored object matches' : 'Nothing is stored yet'}>
              {filtered ? 'Shorten the search, or remove the tag or status.' : 'Cacheable responses appear here once clients have requested them.'}
            </Empty>
          ) : (
            <div class="scroll">
              <table ref={rows} class="table rows objects" onKeyDown={walk}>
                <thead>
                  <tr>
                    {column('key', 'URL', false)}
                    <th scope="col" class="not-on-phones">
                      Status
                    </th>
                    {column('size', 'Size')}
                    {column('hits', 'Hits', true, 'not-on-phones')}
                    {column('age', 'Age', true, 'not-on-phones')}
                    {column('expires', 'Expires in')}
                    <th scope="col" class="num wide-only">
                      Variants
                    </th>
                    <th scope="col" class="after-num not-on-phones">
                      In
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {more.rows.map((it) => (
                    <Row key={it.id} it={it} open={() => setOpen(it.id)} />
                  ))}
                </tbody>
              </table>
            </div>
          )}
          {more.next && (
            <p class="more">
              <button class="button" disabled={more.busy} onClick={more.load}>
                Show more
              </button>
            </p>
          )}
        </>
      )}
      {open !== null && (
        <Inspect
          id={open}
          close={() => setOpen(null)}
          purged={changed}
          lay={(uri) => {
            setOpen(null);
            lay(uri);
          }}
        />
      )}
    </>
  );
}

/** How many of the rows are on disk; `alone`, where what RAM has is counted before. */
function OnDisk({ rows, disk, alone }: { rows: StoredObject[]; disk: NonNullable<ObjectPage['disk']>; alone: boolean }): JSX.Element {
  const shown = alone ? rows.filter((it) => it.tiers[0] === 'disk').length : rows.length;
  return (
    <>
      {alone && disk.left > 0 && disk.left === disk.objects ? (
        <>
          and <b>{disk.objects.toLocaleString('en')}</b> on disk, not searched yet
        </>
      ) : (
        <>
          <b>{shown.toLocaleString('en')}</b> on disk{alone && ' alone'}
          {disk.left > 0 && `, ${disk.left.toLocaleString('en')} of ${disk.objects.toLocaleString('en')} not searched yet`}
        </>
      )}
    </>
  );
}

function Row({ it, open }: { it: StoredObject; open: () => void }): JSX.Element {
  return (
    <tr onClick={open}>
      <td class="url">
        <button data-row class="row-button" title={it.url}>
          <Url it={it.url} />
        </button>
      </td>
      <td class="not-on-phones">
        <Status it={it.status} />
      </td>
      <td class="num">{format.flat(format.bytes(it.bytes))}</td>
      <td class="num not-on-phones">{format.flat(format.count(it.hits))}</td>
      <td class="num not-on-phones">{format.flat(format.seconds(it.age))}</td>
      <td class="num">{it.fresh ? format.flat(format.seconds(it.expires_in)) : <span class="chip">stale</span>}</td>
      <td class="num wide-only">{it.variants > 1 ? it.variants : <span class="faint">1</span>}</td>
      <td class="after-num not-on-phones">
        {it.tiers.map((tier) => (
          <span class="chip" key={tier}>
            {tier}
          </span>
        ))}
      </td>
    </tr>
  );
}

/** Pages that one "Show more" asks for at most, where they bring nothing: the disk is looked through a part at a time. */
const LOOKS = 50;

interface More {
  rows: StoredObject[];
  next: string | null;
  disk: ObjectPage['disk'];
  busy: boolean;
  load: () => void;
}

/** The first page and those behind it that were asked for. */
function useMore(first: ObjectPage | null, queryKey: string): More {
  const [rest, setRest] = useState<{ of: ObjectPage; rows: StoredObject[]; last: ObjectPage } | null>(null);
  const [busy, setBusy] = useState(false);
  const known = first && rest?.of === first ? rest : null;
  const last = known?.last ?? first;
  const rows = [...(first?.objects ?? []), ...(known?.rows ?? [])];
  const load = async (): Promise<void> => {
    if (!first) return;
    setBusy(true);
    try {
      let page = last;
      for (let look = 0; look < LOOKS && page?.next && (look === 0 || page.objects.length === 0); look += 1) {
        page = await get<ObjectPage>(`/api/v1/objects${query({ ...JSON.parse(queryKey), limit: PAGE, cursor: page.next })}`);
        setRest({ of: first, rows: [...(known?.rows ?? []), ...page.objects], last: page });
      }
    } catch (error) {
      showToast(error instanceof Error ? error.message : String(error), true);
    } finally {
      setBusy(false);
    }
  };
  return { rows, next: last?.next ?? null, disk: last?.disk ?? null, busy, load: () => void load() };
}

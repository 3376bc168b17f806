// The URLs and clients that matter most, by four orders. The counts are those of a sketch: each is too high by its error at most.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { request, get, query } from '../api';
import { Act } from '../parts/act';
import { Skeleton, Empty, Failed, Head, Segments, Url, hostsOf, reasonWords } from '../parts/basic';
import { Icon } from '../parts/icons';
import { walk } from '../parts/rows';
import { showToast } from '../parts/toast';
import * as format from '../format';
import { go, note, useFetched } from '../hooks';
import type { Order, Top as TopList, TopSubject, Why } from '../types';

const ORDERS: [Order, string][] = [
  ['requests', 'Requests'],
  ['misses', 'Misses'],
  ['bytes', 'Bytes'],
  ['origin_time', 'Origin time'],
];

const SUBJECTS: [TopSubject, string][] = [
  ['urls', 'URLs'],
  ['clients', 'Clients'],
];

/** The noun of the sum; bytes and times have their units. */
const UNITS: Record<Order, string> = { requests: ' requests', misses: ' misses', bytes: ' sent', origin_time: ' of origin time' };

/** The most reasons that are shown. */
const REASONS = 5;

function figure(by: Order, value: number): string {
  switch (by) {
    case 'bytes':
      return format.flat(format.bytes(value));
    case 'origin_time':
      return format.flat(format.micros(value));
    default:
      return value.toLocaleString('en');
  }
}

/** A URL is explained; a client leads to its requests. */
function follow({ url, client = '' }: TopList['entries'][number]): void {
  if (url !== undefined) go('explain', { url });
  else go('live', { filter: client.includes('/') ? `client in "${client}"` : `client == "${client}"` });
}

export function Top({ params }: { params: URLSearchParams }): JSX.Element {
  const [by, setBy] = useState<Order>((params.get('by') as Order | null) ?? 'requests');
  const [of, setOf] = useState<TopSubject>((params.get('of') as TopSubject | null) ?? 'urls');
  const { data, problem, busy, again } = useFetched<TopList>(`${of} ${by}`, (signal) => get(`/api/v1/top${query({ of, by, limit: 50 })}`, signal), 2000);
  const reset = async (): Promise<void> => {
    try {
      await request('/api/v1/top/reset', { method: 'POST' });
      showToast('The counts were reset.');
      again();
    } catch (error) {
      showToast(error instanceof Error ? error.message : String(error), true);
    }
  };
  const list = data?.by === by && data.of === of ? data : null;
  const most = Math.max(1, ...(list?.entries.map((it) => it.value) ?? []));
  return (
    <>
      <Head title="Top" sub={list ? `${figure(by, list.total)}${UNITS[by]} since ${format.moment(list.since)}` : ''}>
        <Segments
          label="Of"
          of={SUBJECTS}
          now={of}
          choose={(it) => {
            setOf(it);
            note('top', { of: it, by });
          }}
        />
        <Segments
          label="By"
          of={ORDERS}
          now={by}
          choose={(it) => {
            setBy(it);
            note('top', { of, by: it });
          }}
        />
        <Act class="button" onClick={() => void reset()}>
          <Icon name="undo" /> Reset
        </Act>
      </Head>
      <Failed problem={problem} again={again} />
      {of === 'urls' && (by === 'misses' || by === 'origin_time') && <Reasons by={by} />}
      {!list && busy && <Skeleton />}
      {list && list.entries.length === 0 && (
        <Empty icon="top" title="No data yet">
          {by === 'misses' || by === 'origin_time' ? 'No request needed the origin since the last reset.' : 'No requests since the last reset.'}
        </Empty>
      )}
      {list && list.entries.length > 0 && (
        <table class={`table rows top ${hostsOf(list.entries.flatMap((it) => it.url ?? []))}`} onKeyDown={walk}>
          <thead>
            <tr>
              <th scope="col" class="num">
                #
              </th>
              <th scope="col">{of === 'urls' ? 'URL' : 'Client'}</th>
              <th scope="col" class="num">
                {ORDERS.find((it) => it[0] === by)![1]}
              </th>
              <th scope="col" class="num">
                Share
              </th>
              <th scope="col" class="num wide-only">
                Maximum error
              </th>
            </tr>
          </thead>
          <tbody>
            {list.entries.map((it, at) => (
              <tr key={it.url ?? it.client} onClick={() => follow(it)}>
                <td class="num faint">{at + 1}</td>
                <td class="url top-url">
                  <span class="top-bar" aria-hidden="true" style={{ width: `${(it.value / most) * 100}%` }} />
                  <button data-row class="row-button" title={it.url === undefined ? `Requests of ${it.client}` : `Explain ${it.url}`}>
                    {it.url === undefined ? it.client : <Url it={it.url} />}
                  </button>
                </td>
                <td class="num">{figure(by, it.value)}</td>
                <td class="num faint">{format.flat(format.share(list.total > 0 ? it.value / list.total : null))}</td>
                <td class="num faint wide-only">{it.error > 0 ? figure(by, it.error) : '–'}</td>
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </>
  );
}

/** The most frequent reasons for requests to origins; each leads to its class. */
function Reasons({ by }: { by: Order }): JSX.Element | null {
  const { data } = useFetched<Why>('why', (signal) => get('/api/v1/why', signal), 10_000);
  const sums = new Map<string, number>();
  for (const it of (data?.routes ?? []).flatMap((route) => route.reasons)) {
    if (it.reason !== 'waited') sums.set(it.reason, (sums.get(it.reason) ?? 0) + (by === 'misses' ? it.requests : it.origin_us));
  }
  const all = [...sums.values()].reduce((sum, it) => sum + it, 0);
  const shown = [...sums].filter((it) => it[1] > 0).sort((a, b) => b[1] - a[1]).slice(0, REASONS);
  if (!data || shown.length === 0) return null;
  const known = new Map(data.reasons.map((it) => [it.name, it]));
  return (
    <p class="top-reasons">
      <span class="faint">{by === 'misses' ? 'Reasons for requests to origins' : 'Reasons by origin time'}, within the last {format.flat(format.seconds(data.seconds))}:</span>{' '}
      {shown.map(([name, value]) => (
        <a key={name} class="chip" href={`#/why?class=${known.get(name)?.class ?? ''}`} title={known.get(name)?.sentence}>
          {reasonWords(name)} {format.flat(format.share(value / all))}
        </a>
      ))}
    </p>
  );
}

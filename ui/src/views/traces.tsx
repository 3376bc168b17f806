// Where the time of single requests went: a dot for each by when it began, and a bar of its stages; sampling is switched here.
import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { get, put } from '../api';
import { Skeleton, Cache, Failed, Head, Segments, Url, cacheWords } from '../parts/basic';
import { Drawer } from '../parts/dialog';
import { Icon } from '../parts/icons';
import { walk } from '../parts/rows';
import { type Dot, Scatter } from '../parts/scatter';
import { useShort } from '../parts/short';
import { STAGES, StageBar, StageKey, StageTable } from '../parts/stages';
import { showToast } from '../parts/toast';
import { WorstTable } from '../parts/worst';
import * as format from '../format';
import { go, note, useFetched } from '../hooks';
import type { Trace, Traces as All, WorstRequest } from '../types';
import { may, needs } from '../identity';
import { Act } from '../parts/act';
import { useTraces } from './traces_stream';

const ROWS = 60;

/** Plot mode: a name, and the stages that it sums up; none are all. */
const MEASURES: [string, string, string[]][] = [
  ['total', 'Total', []],
  ['queue', 'Queue wait', ['queue']],
  ['queue+read', 'Queue + read', ['queue', 'read']],
  ['queue+read+write', 'Queue + read + write', ['queue', 'read', 'write']],
];

function measured(it: Trace, of: string[]): number | null {
  if (of.length === 0) return it.total_us;
  const there = of.filter((name) => it.stages[name] !== undefined);
  return there.length === 0 ? null : there.reduce((sum, name) => sum + it.stages[name]!, 0);
}

/** How many are here, and what is not. */
function countSentence(count: number, lost: number, stopped: boolean): string {
  if (count === 0 && !stopped) return 'No request yet';
  const left = lost > 0 ? `, ${lost.toLocaleString('en')} dropped` : '';
  return `${stopped ? 'Paused at the latest' : 'The latest'} ${count.toLocaleString('en')} requests${left}`;
}

export function Traces({ params }: { params: URLSearchParams }): JSX.Element {
  const [route, setRoute] = useState(params.get('route') ?? '');
  const [measure, setMeasure] = useState(params.get('stage') ?? 'total');
  const [order, setOrder] = useState<'latest' | 'slowest'>('slowest');
  const [scale, setScale] = useState<'time' | 'share'>('time');
  const [stopped, setStopped] = useState(false);
  const [open, setOpen] = useState<Trace | null>(null);
  const { data, traces, lost, problem, again } = useTraces(route, stopped);
  const keep = (more: Record<string, string>): void => note('traces', { route, stage: measure === 'total' ? '' : measure, ...more });

  const of = MEASURES.find((it) => it[0] === measure)?.[2] ?? [measure];
  const seen = useMemo(() => traces.filter((it) => measured(it, of) !== null), [traces, measure]);
  const dots = useMemo(() => seen.map((it): Dot => ({ at: it.start_us, us: measured(it, of)!, marked: !it.cache.startsWith('hit') })), [seen, measure]);
  const rows = useMemo(() => {
    const sorted = order === 'latest' ? [...seen].reverse() : [...seen].sort((a, b) => measured(b, of)! - measured(a, of)!);
    return sorted.slice(0, ROWS);
  }, [seen, order, measure]);
  const most = Math.max(1, ...rows.map((it) => it.total_us));

  return (
    <>
      <Head title="Traces" sub={data ? countSentence(traces.length, lost, stopped) : ''}>
        <select
          class="auto"
          aria-label="Route"
          value={route}
          onChange={(event) => {
            setRoute(event.currentTarget.value);
            keep({ route: event.currentTarget.value });
          }}
        >
          <option value="">Every route</option>
          {data?.sampling.map((it) => (
            <option key={it.route} value={it.route}>
              {it.route}
            </option>
          ))}
        </select>
        <button
          class="button"
          onClick={() => {
            const table = document.querySelector('.sampling');
            table?.scrollIntoView({ block: 'center' });
            table?.querySelector('select')?.focus();
          }}
        >
          <Icon name="config" /> Sampling
        </button>
        <button class="button" aria-pressed={stopped} onClick={() => setStopped(!stopped)}>
          <Icon name={stopped ? 'play' : 'pause'} /> {stopped ? 'Resume' : 'Pause'}
        </button>
      </Head>
      <Failed problem={problem} again={again} />
      {!data && !problem && <Skeleton />}
      {data && (
        <>
          <div class="bar-row">
            <Segments
              label="Plot mode"
              of={MEASURES.map(([name, text]): [string, string] => [name, text])}
              now={measure}
              choose={(it) => {
                setMeasure(it);
                keep({ stage: it });
              }}
            />
            <select
              class="auto"
              aria-label="One stage"
              value={STAGES.some((it) => it[0] === measure && it[0] !== 'queue') ? measure : ''}
              onChange={(event) => {
                const it = event.currentTarget.value || 'total';
                setMeasure(it);
                keep({ stage: it });
              }}
            >
              <option value="">One stage …</option>
              {STAGES.filter((it) => data.stages.includes(it[0]) && it[0] !== 'queue').map(([name, text]) => (
                <option key={name} value={name}>
                  {text}
                </option>
              ))}
            </select>
          </div>
          {dots.length > 0 ? (
            <>
              <Scatter
                title={MEASURES.find((it) => it[0] === measure)?.[1] ?? STAGES.find((it) => it[0] === measure)?.[1] ?? measure}
                dots={dots}
                chosen={open ? seen.findIndex((it) => it.id === open.id) : -1}
                choose={(at) => setOpen(seen[at] ?? null)}
              />
              <p class="dots-key">
                <span class="swatch round" style={{ background: 'var(--series-1)' }} /> hit <span class="swatch round ring" /> other
              </p>
            </>
          ) : (
            <p class="hint">{traces.length ? 'No request entered this stage. Choose another one.' : 'No traces yet. Sampling, below, chooses the routes of which every Nth request is traced.'}</p>
          )}
          {rows.length > 0 && (
            <section class="block">
              <div class="bar-row">
                <Segments
                  label="Which requests"
                  of={[
                    ['slowest', 'Slowest'],
                    ['latest', 'Latest'],
                  ]}
                  now={order}
                  choose={setOrder}
                />
                <Segments
                  label="Bar scale"
                  of={[
                    ['time', 'By time'],
                    ['share', 'By share'],
                  ]}
                  now={scale}
                  choose={setScale}
                />
                <StageKey />
              </div>
              <table class="table rows traces" onKeyDown={walk}>
                <thead>
                  <tr>
                    <th scope="col">Start</th>
                    <th scope="col">Request</th>
                    <th scope="col" class="wide-only">
                      Cache
                    </th>
                    <th scope="col" class="num">
                      Total
                    </th>
                    <th scope="col" class="bar-column">
                      Stages
                    </th>
                  </tr>
                </thead>
                <tbody>
                  {rows.map((it) => (
                    <tr key={it.id} onClick={() => setOpen(it)}>
                      <td class="faint">{format.clock(it.start_us, true)}</td>
                      <td class="url">
                        <button data-row class="row-button" title={it.url}>
                          <Url it={it.url} />
                        </button>
                      </td>
                      <td class="wide-only">
                        <Cache it={it.cache} />
                      </td>
                      <td class="num">{format.flat(format.micros(it.total_us))}</td>
                      <td>
                        <StageBar stages={it.stages} most={scale === 'time' ? most : 0} />
                      </td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </section>
          )}
          <Worst />
          <Sampling all={data} changed={again} />
        </>
      )}
      {open && <OneTrace it={open} close={() => setOpen(null)} />}
    </>
  );
}

/** The requests that larder keeps without sampling, over restarts. */
function Worst(): JSX.Element | null {
  const [which, setWhich] = useState<'slow' | 'failed'>('slow');
  const { data } = useFetched<{ slow: WorstRequest[]; failed: WorstRequest[] }>('worst', (signal) => get('/api/v1/worst', signal), 10_000);
  const [shown, more] = useShort(data?.[which] ?? [], 'requests', 10);
  if (!data) return null;
  return (
    <section class="block">
      <div class="block-head">
        <h2>
          The worst requests <span class="faint">without sampling: the slowest 100 of a day, the latest 30 that failed, and before them one or two of each route and minute</span>
        </h2>
        <Segments
          label="The worst by"
          of={[
            ['slow', `Slowest (${data.slow.length})`],
            ['failed', `Failed (${data.failed.length})`],
          ]}
          now={which}
          choose={setWhich}
        />
      </div>
      {shown.length > 0 ? <WorstTable label="The worst requests" of={shown} /> : <p class="hint">{which === 'slow' ? 'No request yet.' : 'No request has failed.'}</p>}
      {more}
    </section>
  );
}

const RATES: [number, string][] = [
  [0, 'Off'],
  [1, 'Every request'],
  [10, '1 in 10'],
  [100, '1 in 100'],
  [1000, '1 in 1,000'],
  [10000, '1 in 10,000'],
];

function rated(every: number): string {
  return RATES.find((it) => it[0] === every)?.[1] ?? `1 in ${every.toLocaleString('en')}`;
}

function Sampling({ all, changed }: { all: Pick<All, 'sampling'>; changed: () => void }): JSX.Element {
  const set = async (route: string, every: number): Promise<void> => {
    try {
      await put('/api/v1/traces/sampling', { route, every });
      showToast(`Sampling of ${route === '*' ? 'every route' : route}: ${rated(every).toLowerCase()}.`);
      changed();
    } catch (error) {
      showToast(error instanceof Error ? error.message : String(error), true);
    }
  };
  const [shown, more] = useShort(all.sampling, 'routes');
  // What is recorded ends by itself, and nothing tells of that.
  const soon = Math.min(...all.sampling.map((it) => it.for ?? Infinity));
  useEffect(() => {
    if (soon === Infinity) return;
    const timer = setTimeout(changed, soon * 1000 + 1000);
    return () => clearTimeout(timer);
  }, [all]);
  return (
    <section class="block">
      <h2>Sampling</h2>
      <table class="table sampling">
        <thead>
          <tr>
            <th scope="col">Route</th>
            <th scope="col">Traced</th>
          </tr>
        </thead>
        <tbody>
          {shown.map(({ route, every: now, for: left, set: own = now }) => (
            <tr key={route}>
              <th scope="row">{route}</th>
              <td>
                <select class="auto" aria-label={`Sampling of ${route}`} disabled={!may('operator')} title={may('operator') ? undefined : needs('operator')} value={String(own)} onChange={(event) => void set(route, Number(event.currentTarget.value))}>
                  {(RATES.some((rate) => rate[0] === own) ? RATES : ([...RATES, [own, rated(own)]] as [number, string][])).map(([every, text]) => (
                    <option key={every} value={String(every)}>
                      {text}
                    </option>
                  ))}
                </select>
                {left !== undefined && <span class="faint"> {rated(now).toLowerCase()} while it is recorded</span>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {more}
      {all.sampling.length > 1 && (
        <p class="bar-row sampling-all">
          <Act class="button" onClick={() => void set('*', 0)}>
            All off
          </Act>
          <Act class="button" onClick={() => void set('*', 100)}>
            All 1 in 100
          </Act>
        </p>
      )}
    </section>
  );
}

function OneTrace({ it, close }: { it: Trace; close: () => void }): JSX.Element {
  const foot = (
    <button
      class="button"
      onClick={() => {
        close();
        go('explain', it.url.includes('***') ? { id: it.id } : { url: it.url, method: it.method });
      }}
    >
      <Icon name="explain" /> Explain
    </button>
  );
  return (
    <Drawer title={it.url} over={`${it.method}, ${format.clock(it.start_us, true)}`} close={close} foot={foot}>
      <dl class="facts">
        <div>
          <dt>Total</dt>
          <dd>{format.flat(format.micros(it.total_us))}</dd>
        </div>
        <div>
          <dt>Status</dt>
          <dd>{it.status}</dd>
        </div>
        <div>
          <dt>Cache</dt>
          <dd>{cacheWords(it.cache)}</dd>
        </div>
        <div>
          <dt>Size</dt>
          <dd>{format.flat(format.bytes(it.bytes))}</dd>
        </div>
        <div>
          <dt>Route</dt>
          <dd>{it.route}</dd>
        </div>
      </dl>
      <StageBar stages={it.stages} most={0} />
      <StageTable stages={it.stages} />
    </Drawer>
  );
}

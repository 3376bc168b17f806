// What the cache does now, and what it costs: tiles, charts, memory, and a row for every route, tier and origin.
import type { ComponentChildren, JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { Fig, Head, Segments } from '../parts/basic';
import { Chart, type Series } from '../parts/chart';
import { FEW, useShort } from '../parts/short';
import { Spark } from '../parts/spark';
import * as format from '../format';
import type { Figure } from '../format';
import { useReadings } from '../hooks';
import { type Point, between, quantile, ratio } from '../readings';
import type { Counts, Histogram, Origin, RouteStats, Stats } from '../types';
import { Memory } from './memory';

const WINDOWS: [string, string][] = [
  ['60', '1 min'],
  ['300', '5 min'],
  ['900', '15 min'],
];

/** Seconds that a tile's line shows. */
const SPARK = 60;

type Over = { now: Stats; then: Stats; seconds: number };

export function Overview(): JSX.Element {
  const it = useReadings();
  const { points, latest } = it;
  const over = it.over(10);
  const [window, setWindow] = useState('300');
  if (!latest) {
    return (
      <>
        <Head title="Overview" />
        <div class="tiles loading" role="status" aria-label="Loading" />
      </>
    );
  }
  return (
    <>
      <Head title="Overview" sub={latest.listen.join(', ')}>
        <Segments label="Time shown" of={WINDOWS} now={window} choose={setWindow} />
      </Head>
      <Tiles latest={latest} points={points} />
      <Charts points={points} window={Number(window)} />
      <Memory stats={latest} />
      {over && <Routes {...over} />}
      <div class="halves">
        <Tiers stats={latest} />
        {over && <Origins {...over} />}
      </div>
    </>
  );
}

function Tile({ label, figure, values, top, children }: { label: string; figure: Figure; values: (number | null)[]; top?: number; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="tile">
      <h2>{label}</h2>
      <p class="tile-figure" data-figure>
        <Fig it={figure} />
      </p>
      <Spark values={values} {...(top ? { top } : {})} />
      <p class="tile-sub">{children}</p>
    </div>
  );
}

/** What is told before two readings are known: a rate is none yet, and not zero. */
const NONE: Figure = { text: '–', unit: '' };

/** Each tile says what the charts show at their newest point: one second, the latest. What is not of it is said to be. */
function Tiles({ latest, points }: { latest: Stats; points: Point[] }): JSX.Element {
  const recent = points.slice(-SPARK);
  const ahead = Array<null>(SPARK - recent.length).fill(null);
  const of = (name: keyof Point): (number | null)[] => [...ahead, ...recent.map((it) => it[name])];
  const now = (name: keyof Point): number | null => points.at(-1)?.[name] ?? null;
  const told = (name: keyof Point, as: (it: number) => Figure): Figure => {
    const it = now(name);
    return it === null ? NONE : as(it);
  };
  const ever = ratio(latest.counters['cache_hits'] ?? 0, latest.counters['cache_misses'] ?? 0, latest.counters['cache_passes'] ?? 0);
  const rss = latest.memory?.rss_bytes;
  return (
    <section class="tiles" aria-label="In the last second">
      <Tile label="Requests / s" figure={told('requests', format.rate)} values={of('requests')}>
        {format.flat(format.count(latest.counters['requests'] ?? 0))} since the start
      </Tile>
      <Tile label="Hit ratio" figure={format.share(now('ratio'))} values={of('ratio')} top={1}>
        {format.flat(format.share(ever))} since the start
      </Tile>
      <Tile label="Latency p99" figure={format.micros(now('p99'))} values={of('p99')}>
        p50 {format.flat(format.micros(now('p50')))}
      </Tile>
      <Tile label="Bytes / s" figure={told('sent', format.bytes)} values={of('sent')}>
        {format.flat(told('received', format.bytes))} from origins
      </Tile>
      <Tile label="Memory" figure={format.bytes(rss ?? latest.ram.used_bytes)} values={of('memory')}>
        cache {format.flat(format.bytes(latest.ram.used_bytes))} / {format.flat(format.bytes(latest.ram.usable_bytes))}
      </Tile>
      <Tile label="Origin time saved" figure={format.seconds((latest.saved?.origin_us ?? 0) / 1e6)} values={of('saved')}>
        since the start; {format.flat(told('saved', format.seconds))} / s
      </Tile>
    </section>
  );
}

function Charts({ points, window }: { points: Point[]; window: number }): JSX.Element {
  const shown = useMemo(() => {
    const end = points.at(-1)?.at ?? 0;
    return points.filter((it) => it.at >= end - window - 1);
  }, [points, points.length, points.at(-1)?.at, window]);
  const at = useMemo(() => shown.map((it) => it.at), [shown]);
  const line = (label: string, colour: string, name: keyof Point, more: Partial<Series> = {}): Series => ({
    label,
    colour,
    values: shown.map((it) => it[name]),
    ...more,
  });
  const common = { at, window };
  return (
    <section class="charts" aria-label="Over time">
      <Chart
        {...common}
        title="Requests / s"
        stacked
        sum
        figure={format.rate}
        series={[
          line('RAM', '--series-1', 'hitsRam'),
          line('Disk', '--series-2', 'hitsDisk'),
          line('Fleet', '--series-3', 'hitsFleet'),
          line('Miss', '--series-4', 'misses'),
          line('Pass', '--series-5', 'passes'),
          line('Other', '--series-6', 'others'),
        ]}
      />
      <Chart
        {...common}
        title="Latency"
        log
        figure={format.micros}
        series={[
          line('p50', '--series-3', 'p50'),
          line('p90', '--series-2', 'p90'),
          line('p99', '--series-1', 'p99', { width: 2 }),
        ]}
      />
      <Chart {...common} title="Hit ratio" range={[0, 1]} figure={format.share} series={[line('Hits', '--series-1', 'ratio', { fill: true, width: 2 })]} />
      <Chart
        {...common}
        title="Bytes / s"
        binary
        figure={format.bytes}
        series={[
          line('To clients', '--series-1', 'sent', { fill: true, width: 2 }),
          line('From origins', '--series-4', 'received'),
        ]}
      />
    </section>
  );
}

/** What rates and latencies of a table are of. */
const lately = (seconds: number): string => `rates and latency of the last ${Math.round(seconds)} s`;

/** Of many, those with the most requests since the start come first; of few, each stays where the file has it. */
function busiest<T extends { counters: Counts }>(all: T[]): T[] {
  const requests = (it: T): number => it.counters['requests'] ?? 0;
  return all.length > FEW ? [...all].sort((a, b) => requests(b) - requests(a)) : all;
}

const byName = <T extends { name: string }>(of: T[] | undefined, it: T): T | undefined => of?.find((other) => other.name === it.name);

/** What tells a route from the others, of which several may have its name. */
const requestsOf = (it: RouteStats): string => JSON.stringify([it.site, it.path, it.methods, it.when, it.listeners]);

function Routes({ now, then, seconds }: Over): JSX.Element | null {
  const all = now.routes ?? [];
  const [shown, more] = useShort(busiest(all), 'routes');
  if (all.length === 0) return null;
  const rows = shown.map((it) => {
    const before = then.routes?.find((other) => requestsOf(other) === requestsOf(it));
    const grew = (name: string): number => Math.max(0, (it.counters[name] ?? 0) - (before?.counters[name] ?? 0));
    const ms = between(before?.latency, it.latency);
    return { it, grew, site: now.sites?.[it.site]?.name ?? '', hits: ratio(grew('hits'), grew('misses'), grew('passes')), ms };
  });
  return (
    <section class="block">
      <h2>
        Routes <span class="faint">{lately(seconds)}</span>
      </h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Routes">
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Route</th>
              <th scope="col">Site</th>
              <th scope="col" class="num">Req / s</th>
              <th scope="col">Hit ratio</th>
              <th scope="col" class="num">p50</th>
              <th scope="col" class="num">p99</th>
              <th scope="col" class="num">Bytes / s</th>
              <th scope="col" class="num">Origin / s</th>
              <th scope="col" class="num">4xx</th>
              <th scope="col" class="num">5xx</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ it, grew, site, hits, ms }) => (
              <tr key={`${it.site} ${it.name}`}>
                <th scope="row">
                  {it.name} {it.kind === 'files' && <span class="chip">files</span>}
                </th>
                <td class="faint">{site}</td>
                <td class="num">{format.flat(format.rate(grew('requests') / seconds))}</td>
                <td>{it.kind === 'files' ? <span class="faint">–</span> : <Meter share={hits} />}</td>
                <td class="num">{format.flat(format.micros(quantile(ms, 0.5)))}</td>
                <td class="num">{format.flat(format.micros(quantile(ms, 0.99)))}</td>
                <td class="num">{format.flat(format.bytes(grew('bytes_sent') / seconds))}</td>
                <td class="num">{format.flat(format.rate(grew('origin_requests') / seconds))}</td>
                <td class="num">{format.flat(format.count(it.counters['errors_4xx'] ?? 0))}</td>
                <td class={`num ${it.counters['errors_5xx'] ? 'bad' : ''}`}>{format.flat(format.count(it.counters['errors_5xx'] ?? 0))}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {more}
    </section>
  );
}

export function Meter({ share, text }: { share: number | null; text?: string }): JSX.Element {
  return (
    <span class="meter">
      <span class="meter-rail" aria-hidden="true">
        <span style={{ width: `${Math.min(1, share ?? 0) * 100}%` }} />
      </span>
      <span class="meter-text">{text ?? format.flat(format.share(share))}</span>
    </span>
  );
}

function Tiers({ stats }: { stats: Stats }): JSX.Element | null {
  if (!stats.tiers?.length) return null;
  return (
    <section class="block">
      <h2>Tiers</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Tiers">
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Tier</th>
              <th scope="col" class="num">Objects</th>
              <th scope="col" class="num">Hits</th>
              <th scope="col">Filled</th>
            </tr>
          </thead>
          <tbody>
            {stats.tiers.map((it) => {
              const off = it.state === 'off';
              return (
                <tr key={it.name} class={off ? 'off' : ''}>
                  <th scope="row">
                    {it.name} {it.state !== 'on' && <span class="chip">{it.state}</span>}
                  </th>
                  <td class="num">{off || it.objects === undefined ? '–' : format.flat(format.count(it.objects))}</td>
                  <td class="num">{off ? '–' : format.flat(format.count(it.hits))}</td>
                  <td>
                    {off || !it.budget_bytes || it.used_bytes === undefined ? (
                      '–'
                    ) : (
                      <Meter
                        share={it.used_bytes / it.budget_bytes}
                        text={`${format.flat(format.bytes(it.used_bytes))} of ${format.flat(format.bytes(it.budget_bytes))}`}
                      />
                    )}
                  </td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** How an origin is, in a word: its colour, and what that means to those who ask. */
const STATES: Record<string, [word: string, look: string, means: string]> = {
  up: ['up', 'faint', 'It receives requests'],
  slow_start: ['slow start', 'warn', 'In use again; its share of requests grows (slow start)'],
  probing: ['probing', 'warn', 'Ejected; one request probes it'],
  ejected: ['ejected', 'bad', 'Ejected after consecutive failures'],
  unhealthy: ['unhealthy', 'bad', 'Its health check fails, so it receives no requests'],
  drained: ['drained', 'faint', 'Drained by the configuration: it receives no new requests'],
  taken_out: ['drained', 'warn', 'Drained by an operator: no new requests until `larder origin restore` or a restart'],
};

function State({ of }: { of: Origin }): JSX.Element {
  const state = of.drained_by === 'operator' ? 'taken_out' : (of.state ?? 'up');
  const [word, look, means] = STATES[state] ?? [state, 'warn', ''];
  const left = state === 'ejected' && of.ejected_ms ? ` ${format.flat(format.seconds(of.ejected_ms / 1000))}` : '';
  return (
    <span class={state === 'up' ? look : `chip ${look}`} title={means}>
      {word}
      {left}
    </span>
  );
}

function Origins({ now, then, seconds }: Over): JSX.Element | null {
  const all = now.origins ?? [];
  const [shown, more] = useShort(busiest(all), 'origins');
  if (all.length === 0) return null;
  return (
    <section class="block">
      <h2>
        Origins <span class="faint">{lately(seconds)}</span>
      </h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Origins">
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Origin</th>
              <th scope="col">State</th>
              <th scope="col" class="num">Req / s</th>
              <th scope="col" class="num">p50</th>
              <th scope="col" class="num">p99</th>
              <th scope="col" class="num">In flight</th>
              <th scope="col" class="num">Failures</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((it) => {
              const before = byName(then.origins, it);
              const ms = between(before?.latency as Histogram | undefined, it.latency);
              const sent = Math.max(0, (it.counters['requests'] ?? 0) - (before?.counters['requests'] ?? 0));
              return (
                <tr key={it.name}>
                  <th scope="row">
                    {it.name} {it.protocol === 'HTTP/2.0' && <span class="faint">HTTP/2</span>}
                  </th>
                  <td>
                    <State of={it} />
                  </td>
                  <td class="num">{format.flat(format.rate(sent / seconds))}</td>
                  <td class="num">{format.flat(format.micros(quantile(ms, 0.5)))}</td>
                  <td class="num">{format.flat(format.micros(quantile(ms, 0.99)))}</td>
                  <td class="num">{format.flat(format.count(it.in_flight ?? 0))}</td>
                  <td class={`num ${it.counters['failures'] ? 'bad' : ''}`}>{format.flat(format.count(it.counters['failures'] ?? 0))}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
      {more}
    </section>
  );
}

// The overview, on one screen: four figures against an hour ago, an advice, one chart, routes and origins with the worst first, the tiers.
import type { ComponentChildren, JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { Fig, Head } from '../parts/basic';
import { Spark } from '../parts/spark';
import * as format from '../format';
import type { Figure } from '../format';
import { history, type Minute } from '../history';
import { useReadings } from '../hooks';
import type { Point } from '../points';
import { areMany, ratio } from '../points';
import { BASE, grown, type Over, readings, timesOf } from '../readings';
import { Advice } from './overview_advice';
import { Charts } from './overview_chart';
import { Origins } from './overview_origins';
import { Routes } from './overview_routes';
import { Tiers } from './overview_tiers';

/** Seconds that a tile is compared with, and that its line shows. */
const HOUR = 3600;

export function Overview({ params }: { params: URLSearchParams }): JSX.Element {
  const it = useReadings();
  const { points, latest } = it;
  const over = it.over();
  const scopes = it.scopes();
  useEffect(() => readings.view(), []);
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
      <Head title="Overview" sub={<TimeBase of={over} />} />
      <Tiles now={latest.now} over={over} />
      <Advice />
      <Charts points={points} version={history.version} />
      {scopes && (
        <div class="worst">
          <Routes {...scopes} params={params} />
          <Origins {...scopes} params={params} />
        </div>
      )}
      <Tiers stats={latest} over={over} showsMemory={params.get('show') === 'memory'} />
    </>
  );
}

/** The time that every figure of the view is of. */
function TimeBase({ of }: { of: Over | null }): JSX.Element {
  const seconds = Math.round(of?.seconds ?? 0);
  const whole = seconds >= BASE - 5;
  return (
    <span data-base={seconds}>
      {of ? `Figures of the last ${whole ? 'minute' : `${seconds} s`}` : 'Figures follow in a second'}
    </span>
  );
}

/** What is shown before two readings are known: a rate is none yet, and not zero. */
const NONE: Figure = { text: '–', unit: '' };

interface Tile {
  label: string;
  href: string;
  /** What the link shows. */
  leads: string;
  figure: Figure;
  /** The figure's value, to compare with that of an hour ago. */
  value: number | null;
  then: number | null;
  as: (value: number) => Figure;
  /** Whether the difference is that of the values, and not its share. */
  points?: boolean;
  bad?: boolean;
  values: (number | null)[];
  top?: number;
  children?: ComponentChildren;
}

function TileOf(it: Tile): JSX.Element {
  return (
    <a class={`tile ${it.bad ? 'is-bad' : ''}`} href={it.href} title={it.leads}>
      <h2>{it.label}</h2>
      <p class="tile-figure" data-figure>
        <Fig it={it.figure} />
      </p>
      <Spark values={it.values} {...(it.top ? { top: it.top } : {})} />
      <p class="tile-sub">{it.children}</p>
      <p class="tile-sub" data-then>
        <Then {...it} />
      </p>
    </a>
  );
}

/** The value of an hour ago, and how this one differs. */
function Then({ value, then, as, points }: Tile): JSX.Element {
  if (then === null) return <>an hour ago –</>;
  const earlier = format.flat(as(then));
  if (value === null) return <>an hour ago {earlier}</>;
  const by = points ? (value - then) * 100 : then > 0 ? (value / then - 1) * 100 : value > 0 ? Infinity : 0;
  const size = Math.abs(by);
  const text = !Number.isFinite(by) ? 'new' : size < (points ? 0.05 : 0.5) ? 'the same' : `${by > 0 ? '+' : '−'}${size < 10 ? size.toFixed(1) : Math.round(size).toLocaleString('en')} %`;
  return (
    <>
      an hour ago {earlier} <span class="delta">{text}</span>
    </>
  );
}

/** The points of the last hour, of which the line has a few dozen. */
function hour(name: keyof Point): (number | null)[] {
  const end = history.points.at(-1)?.at ?? 0;
  return history.points.filter((it) => it.at > end - HOUR).map((it) => it[name]);
}

function Tiles({ now, over }: { now: number; over: Over | null }): JSX.Element {
  const then: Minute | null = history.minute(now, HOUR);
  const of = over && grown(over.then, over.now);
  const times = over && timesOf(over.then, over.now);
  const share = of && of.requests > 0 ? of.errors5 / of.requests : null;
  const hits = of ? ratio(of.hits, of.misses, of.passes) : null;
  const could = of ? Math.min(1, (of.hits + (of.couldBe ?? 0)) / (of.hits + of.misses + of.passes)) : null;
  const rate = over && of ? of.requests / over.seconds : null;
  const count = (value: number): string => format.flat(format.count(value));
  const micros = (value: number | null | undefined): string => format.flat(format.micros(value ?? null));
  return (
    <section class="tiles" aria-label="Figures, against an hour ago">
      <TileOf
        label="Requests / s"
        href="#/top?by=requests"
        leads="The URLs with the most requests"
        figure={rate === null ? NONE : format.rate(rate)}
        value={rate}
        then={then?.requests ?? null}
        as={format.rate}
        values={hour('requests')}
      >
        {over && of ? `${format.flat(format.bytes(of.sent / over.seconds))} / s to clients` : ' '}
      </TileOf>
      <TileOf
        label="Server errors"
        href={`#/live?filter=${encodeURIComponent('status >= 500')}`}
        leads="The requests with a status from 500, as they finish"
        figure={of && share === null ? { text: '0', unit: '%' } : format.share(share)}
        bad={!!of && areMany(of.errors5, of.requests)}
        value={share}
        then={then?.errors ?? null}
        as={format.share}
        points
        values={hour('errors5')}
      >
        {of ? `${count(of.errors5)} with 5xx, ${count(of.errors4)} with 4xx` : ' '}
      </TileOf>
      <TileOf
        label="Hit ratio"
        href="#/why"
        leads="The reasons why requests were no hits"
        figure={format.share(hits)}
        value={hits}
        then={then?.ratio ?? null}
        as={format.share}
        points
        values={hour('ratio')}
        top={1}
      >
        {over && of?.validated ? `${format.flat(format.share(of.validated / (of.hits + of.misses + of.passes)))} more from the cache after a 304; ` : ''}
        {over && of ? `${of.couldBe ? `could be ${format.flat(format.share(could))}, ` : ''}about ${format.flat(format.seconds(of.savedUs / 1e6))} ${of.couldBe ? '' : 'of origin time '}saved` : ' '}
      </TileOf>
      <TileOf
        label="Latency of misses, p99"
        href="#/traces"
        leads="Traces of requests: the time in each stage"
        figure={format.micros(times?.missP99 ?? null)}
        value={times?.missP99 ?? null}
        then={then?.missP99 ?? null}
        as={format.micros}
        values={hour('missP99')}
      >
        median {micros(times?.missP50)}; hits {micros(times?.hitP99)}
      </TileOf>
    </section>
  );
}

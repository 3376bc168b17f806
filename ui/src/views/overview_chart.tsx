// The chart of the overview: an operator selects the measure and the time range; marks show reloads, purges and origin failures.
import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { Segments } from '../parts/basic';
import { Chart, type Series } from '../parts/chart';
import * as format from '../format';
import type { Figure } from '../format';
import { history } from '../history';
import type { Point } from '../points';

type Measure = 'requests' | 'errors' | 'ratio' | 'latency' | 'bytes' | 'saved';

const MEASURES: [Measure, string][] = [
  ['requests', 'Requests'],
  ['errors', 'Errors'],
  ['ratio', 'Hit ratio'],
  ['latency', 'Latency'],
  ['bytes', 'Bytes'],
  ['saved', 'Time saved'],
];

const WINDOWS: [string, string][] = [
  ['300', '5 min'],
  ['900', '15 min'],
  ['3600', '1 h'],
  ['7200', '2 h'],
];

/** Seconds up to which the page's own readings are shown, one a second. */
const FINE = 300;

type Line = [label: string, colour: string, name: keyof Point, more?: Partial<Series>];

interface Shape {
  title: string;
  figure: (value: number) => Figure;
  lines: Line[];
  stacked?: boolean;
  log?: boolean;
  binary?: boolean;
  range?: [number, number];
}

const SHAPES: Record<Measure, Shape> = {
  requests: {
    title: 'Requests / s',
    figure: format.rate,
    stacked: true,
    lines: [
      ['RAM', '--series-1', 'hitsRam'],
      ['Disk', '--series-2', 'hitsDisk'],
      ['Fleet', '--series-3', 'hitsFleet'],
      ['Miss', '--series-4', 'misses'],
      ['Pass', '--series-5', 'passes'],
      ['Other', '--series-6', 'others'],
    ],
  },
  errors: {
    title: 'Errors / s',
    figure: format.rate,
    lines: [
      ['5xx', '--bad', 'errors5', { fill: true, width: 2 }],
      ['4xx', '--series-4', 'errors4'],
    ],
  },
  ratio: { title: 'Hit ratio', figure: format.share, range: [0, 1], lines: [['Hits', '--series-1', 'ratio', { fill: true, width: 2 }]] },
  latency: {
    title: 'Latency, of the minute before',
    figure: format.micros,
    log: true,
    lines: [
      ['Miss p99', '--series-1', 'missP99', { width: 2 }],
      ['Miss p50', '--series-2', 'missP50'],
      ['Hit p99', '--series-4', 'hitP99', { width: 2 }],
      ['Hit p50', '--series-5', 'hitP50'],
    ],
  },
  bytes: {
    title: 'Bytes / s',
    figure: format.bytes,
    binary: true,
    lines: [
      ['To clients', '--series-1', 'sent', { fill: true, width: 2 }],
      ['From origins', '--series-4', 'received'],
    ],
  },
  saved: { title: 'Origin time saved / s', figure: format.seconds, lines: [['Saved', '--series-1', 'saved', { fill: true, width: 2 }]] },
};

/** The points of a time: the page's own, one a second, as far as they reach; before them those that larder kept. */
function shownOf(own: Point[], window: number): Point[] {
  const fine = window <= FINE ? own : [];
  const began = fine[0]?.at ?? Infinity;
  const all = [...history.points.filter((it) => it.at < began), ...fine];
  // A young larder has no step yet.
  const some = all.length > 1 ? all : own;
  const end = some.at(-1)?.at ?? 0;
  return some.filter((it) => it.at >= end - window - 1);
}

export function Charts({ points, version }: { points: Point[]; version: number }): JSX.Element {
  const [measure, setMeasure] = useState<Measure>('requests');
  const [window, setWindow] = useState('3600');
  const seconds = Number(window);
  // Of a longer time, a point comes with each step.
  const fresh = seconds <= FINE || history.points.length < 2 ? points.at(-1)?.at : 0;
  const shown = useMemo(() => shownOf(points, seconds), [points, fresh, version, seconds]);
  const at = useMemo(() => shown.map((it) => it.at), [shown]);
  const { lines, ...shape } = SHAPES[measure];
  const series = useMemo(() => lines.map(([label, colour, name, more]): Series => ({ label, colour, values: shown.map((it) => it[name]), ...more })), [shown, lines]);
  return (
    <section class="charts" aria-label="Over time">
      <div class="chart-bar">
        <Segments label="Measure" of={MEASURES} now={measure} choose={setMeasure} />
        <h2 class="faint">{shape.title}</h2>
        <Segments label="Time shown" of={WINDOWS} now={window} choose={setWindow} />
      </div>
      <Chart {...shape} at={at} series={series} marks={history.marks} window={seconds} />
    </section>
  );
}

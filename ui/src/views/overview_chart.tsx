// The chart of the overview: an operator selects the measure and the time shown; marks show restarts, reloads, purges and origin failures. A
// range that is dragged over, or entered, is compared with the time before it.
import type { JSX } from 'preact';
import { useEffect, useMemo, useState } from 'preact/hooks';
import { Segments } from '../parts/basic';
import { Chart, type Series } from '../parts/chart';
import * as format from '../format';
import type { Figure } from '../format';
import { history } from '../history';
import type { Point } from '../points';
import { Difference } from './overview_difference';

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
  ['21600', '6 h'],
  ['86400', '1 d'],
  ['604800', '7 d'],
];

/** The step in which a time is drawn, seconds: some hundred points. */
const STEPS: Record<string, number> = { 300: 1, 900: 1, 3600: 10, 21600: 60, 86400: 300, 604800: 1800 };
/** The longest range that can be compared with the time before it, seconds. */
const COMPARED = 21_600;

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

/** The points of a time: those that larder kept; where its steps are seconds, the page's own readings after them. */
function shownOf(own: Point[], window: number, step: number): Point[] {
  const kept = history.of(step);
  const last = kept.at(-1)?.at ?? -Infinity;
  const all = step === 1 ? [...kept, ...own.filter((it) => it.at > last)] : kept;
  // A young larder has no step of this length yet.
  const some = [all, history.points, own].find((it) => it.length > 1) ?? own;
  const end = some.at(-1)?.at ?? 0;
  return some.filter((it) => it.at >= end - window - 1);
}

export function Charts({ points, version }: { points: Point[]; version: number }): JSX.Element {
  const [measure, setMeasure] = useState<Measure>('requests');
  const [window, setWindow] = useState('3600');
  const [range, choose] = useState<[number, number] | null>(null);
  // The whole minutes of the range that are compared: the chart shows the same.
  const [compared, setCompared] = useState<[number, number] | null>(null);
  const setRange = (it: [number, number] | null): void => {
    setCompared(null);
    choose(it);
  };
  const seconds = Number(window);
  const step = STEPS[window]!;
  useEffect(() => history.want(step), [step]);
  // Of a longer time, a point comes with each step.
  const fresh = step === 1 || history.points.length < 2 ? points.at(-1)?.at : 0;
  const shown = useMemo(() => shownOf(points, seconds, step), [points, fresh, version, seconds]);
  const at = useMemo(() => shown.map((it) => it.at), [shown]);
  const { lines, ...shape } = SHAPES[measure];
  const series = useMemo(() => lines.map(([label, colour, name, more]): Series => ({ label, colour, values: shown.map((it) => it[name]), ...more })), [shown, lines]);
  return (
    <section class="charts" aria-label="Over time">
      <div class="chart-bar">
        <Segments label="Measure" of={MEASURES} now={measure} choose={setMeasure} />
        <h2 class="faint">{shape.title}</h2>
        <Segments
          label="Time shown"
          of={WINDOWS}
          now={window}
          choose={(it) => {
            setWindow(it);
            setRange(null);
          }}
        />
      </div>
      <Chart {...shape} at={at} series={series} marks={history.marks} window={seconds} zoom={compared ?? range} setZoom={setRange} />
      <Compare choose={setRange} end={at.at(-1) ?? Date.now() / 1000} />
      {history.kept?.in === 'ram' && history.kept.path && (
        <p class="hint">
          The history is in RAM only: {history.kept.path}: {history.kept.why}
        </p>
      )}
      {history.kept?.in === 'ram' && !history.kept.path && <p class="hint">The history ends with the process: {history.kept.why}</p>}
      {range && <Difference from={range[0]} to={range[1]} found={(from, to) => setCompared([from, to])} close={() => setRange(null)} />}
    </section>
  );
}

/** Unix seconds as the text of an input of local date and time. */
function local(unix: number): string {
  const two = (value: number): string => String(value).padStart(2, '0');
  const it = new Date(unix * 1000);
  return `${it.getFullYear()}-${two(it.getMonth() + 1)}-${two(it.getDate())}T${two(it.getHours())}:${two(it.getMinutes())}:${two(it.getSeconds())}`;
}

/** Selects a time range by keyboard, as dragging over the chart does by mouse. */
function Compare({ choose, end }: { choose: (it: [number, number]) => void; end: number }): JSX.Element {
  const [from, setFrom] = useState('');
  const [to, setTo] = useState('');
  const [wrong, setWrong] = useState('');
  const open = (event: Event): void => {
    if (!(event.currentTarget as HTMLDetailsElement).open || from) return;
    setFrom(local(end - 300));
    setTo(local(end));
  };
  const submit = (event: Event): void => {
    event.preventDefault();
    const [a, b] = [Date.parse(from) / 1000, Date.parse(to) / 1000];
    const fault = !(b > a) ? 'The end is not after the beginning.' : b - a > COMPARED ? 'A range has at most 6 hours.' : '';
    setWrong(fault);
    if (!fault) choose([a, b]);
  };
  return (
    <details class="compare" onToggle={open}>
      <summary>Compare a time range</summary>
      <form class="compare-form" onSubmit={submit}>
        <label>
          From <input class="auto" type="datetime-local" step="1" required value={from} onInput={(event) => setFrom(event.currentTarget.value)} />
        </label>
        <label>
          To <input class="auto" type="datetime-local" step="1" required value={to} onInput={(event) => setTo(event.currentTarget.value)} />
        </label>
        <button class="button" type="submit">
          Compare
        </button>
        {wrong && (
          <p class="bad" role="alert">
            {wrong}
          </p>
        )}
      </form>
      <p class="hint">Or drag over the chart.</p>
    </details>
  );
}

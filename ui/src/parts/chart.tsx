// A line or stacked chart over time: uPlot draws, and a legend beneath tells the same in numbers. A part of the time is shown where one
// drags over it; marks are events.
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { flat, when } from '../format';
import type { Figure } from '../format';
import { colour, onTheme } from '../theme';
import type { Mark } from '../types';
import { Codes } from './linked';

export interface Series {
  label: string;
  /** A CSS variable, such as `--accent`. */
  colour: string;
  values: (number | null)[];
  /** Pixels; 1.5 without it. */
  width?: number;
  fill?: boolean;
}

interface Props {
  title: string;
  /** Unix seconds, ascending. */
  at: number[];
  series: Series[];
  marks: Mark[];
  figure: (value: number) => Figure;
  /** Each series is drawn on top of those before it. */
  stacked?: boolean;
  /** The least and the most that the axis shows, where it is fixed. */
  range?: [number, number];
  log?: boolean;
  /** Seconds that are shown. */
  window: number;
  /** Whether the axis counts in powers of 1024. */
  binary?: boolean;
  /** The part of the time that is shown; all without it. */
  zoom: [number, number] | null;
  setZoom: (to: [number, number] | null) => void;
}

const HEIGHT = 178;
/** In a window that is as high as this, the chart is higher. */
const [TALL, TALLER] = [1200, 320];

const height = (): number => (innerHeight >= TALL ? TALLER : HEIGHT);
/** Pixels from a mark within which the pointer is on it. */
const NEAR = 7;

/** Series upon series: what is drawn, lowest first; the legend keeps the values themselves. */
function stack(series: Series[]): (number | null)[][] {
  const floor: number[] = [];
  return series.map((one) =>
    one.values.map((value, at) => {
      if (value === null) return null;
      floor[at] = (floor[at] ?? 0) + value;
      return floor[at]!;
    }),
  );
}

/** The powers of ten that a logarithmic axis shows; more lines would be a hatching. */
const decades = (it: uPlot): number[] => {
  const { min = 1, max = 10 } = it.scales['y']!;
  const found: number[] = [];
  for (let at = min!; at <= max! * 1.01; at *= 10) found.push(at);
  return found;
};

/** Steps of an axis of bytes: 1, 2 and 5 times ten and a hundred of each unit would be odd; halves and doubles are not. */
const POWERS = Array.from({ length: 50 }, (_, at) => 2 ** at);

/** The readings with nothing on either side: a line has no length there, so that a point is drawn. */
const isolatedPoints = (it: uPlot, series: number): number[] => {
  const values = it.data[series]!;
  return [...values.keys()].filter((at) => values[at] != null && values[at - 1] == null && values[at + 1] == null);
};

const isWrong = (it: Mark): boolean => ['down', 'fault', 'refused'].includes(it.kind);

/** A dashed line at each mark, red where something fails from then on. */
function drawMarks(it: uPlot, marks: Mark[]): void {
  const { left, top, width, height } = it.bbox;
  it.ctx.save();
  for (const mark of marks) {
    const x = Math.round(it.valToPos(mark.at, 'x', true));
    if (x < left || x > left + width) continue;
    const wrong = isWrong(mark);
    it.ctx.strokeStyle = it.ctx.fillStyle = colour(wrong ? '--bad' : '--text-soft');
    it.ctx.lineWidth = devicePixelRatio;
    it.ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
    it.ctx.beginPath();
    it.ctx.moveTo(x, top);
    it.ctx.lineTo(x, top + height);
    it.ctx.stroke();
    it.ctx.beginPath();
    it.ctx.arc(x, top, 3.5 * devicePixelRatio, 0, 2 * Math.PI);
    it.ctx.fill();
  }
  it.ctx.restore();
}

/** Formats a time of the axis; the axis has a value every `by` seconds. */
function timeOf(unix: number, by: number): string {
  const it = new Date(unix * 1000);
  if (by >= 86_400) return it.toLocaleDateString('en-GB', { day: 'numeric', month: 'short' });
  if (by >= 10_800) return it.toLocaleString('en-GB', { weekday: 'short', hour: '2-digit', minute: '2-digit' });
  return it.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' });
}

interface ChartHandlers {
  moved: (at: number | null, mark: Mark | null) => void;
  zoomed: (to: [number, number] | null) => void;
  marks: () => Mark[];
}

function options(props: Props, width: number, handlers: ChartHandlers): uPlot.Options {
  const { series, figure, stacked, range, log } = props;
  const faint = colour('--text-faint');
  const grid = { stroke: colour('--line'), width: 1 };
  const font = '11px system-ui, sans-serif';
  const drawn = stacked ? [...series].reverse() : series;
  const near = (it: uPlot): Mark | null => {
    const x = it.cursor.left ?? -1;
    return x < 0 ? null : (handlers.marks().find((mark) => Math.abs(it.valToPos(mark.at, 'x') - x) <= NEAR) ?? null);
  };
  return {
    width,
    height: height(),
    padding: [8, 26, 0, 0], // Room for the half of a time that stands at the right end.
    legend: { show: false },
    cursor: { drag: { x: true, y: false, setScale: false, dist: 8 }, points: { size: 6 }, y: false, bind: { dblclick: () => () => (handlers.zoomed(null), null) } },
    scales: {
      x: { time: true },
      y: log
        ? { distr: 3, range: (_, low, high) => [Math.max(1, 10 ** Math.floor(Math.log10(Math.max(1, low)))), 10 ** Math.ceil(Math.log10(Math.max(10, high)))] }
        : { range: range ?? ((_, __, high) => [0, high > 0 ? high * 1.12 : 1]) },
    },
    axes: [
      {
        stroke: faint, font, grid: { show: false }, ticks: { show: false }, size: 22, gap: 4, space: 90,
        values: (_, at, __, ___, by) => at.map((it) => timeOf(it, by)),
      },
      {
        stroke: faint, font, grid, ticks: { show: false }, size: 62, gap: 8, space: 34,
        ...(log ? { splits: decades } : {}), ...(props.binary ? { incrs: POWERS } : {}),
        values: (_, at) => at.map((it) => (it === null ? '' : flat(figure(it)).replace(/\.0+(?= |$)/, ''))),
      },
    ],
    series: [
      {},
      ...drawn.map((one): uPlot.Series => {
        const stroke = colour(one.colour);
        const it: uPlot.Series = { label: one.label, stroke, width: one.width ?? 1.5, points: { show: false, size: 5, width: 0, fill: stroke, filter: isolatedPoints }, spanGaps: false };
        if (stacked || one.fill) it.fill = stacked ? stroke : `${stroke}22`;
        if (stacked) Object.assign(it, { width: 0, points: { show: false } });
        return it;
      }),
    ],
    hooks: {
      setCursor: [(it) => handlers.moved(it.cursor.idx ?? null, near(it))],
      setSelect: [
        (it) => {
          const { left, width: wide } = it.select;
          if (wide > 0) handlers.zoomed([it.posToVal(left, 'x'), it.posToVal(left + wide, 'x')]);
          it.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
        },
      ],
      draw: [(it) => drawMarks(it, handlers.marks())],
    },
  };
}

export function Chart(props: Props): JSX.Element {
  const { title, at, series, marks, figure, stacked, zoom, setZoom } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [hover, setHover] = useState<number | null>(null);
  const [pointed, setPointed] = useState<Mark | null>(null);
  const [colours, turn] = useState(0);
  const events = useRef(marks);
  events.current = marks;

  const data = useMemo((): uPlot.AlignedData => {
    const drawn = stacked ? stack(series).reverse() : series.map((it) => it.values);
    return [at, ...drawn];
  }, [at, series, stacked]);

  useEffect(() => onTheme(() => turn((it) => it + 1)), []);

  const shape = series.map((it) => it.label).join();
  useEffect(() => {
    const handlers: ChartHandlers = {
      moved: (to, mark) => {
        setHover(to);
        setPointed(mark);
      },
      zoomed: setZoom,
      marks: () => events.current,
    };
    const it = new uPlot(options(props, box.current!.clientWidth, handlers), data, box.current!);
    plot.current = it;
    const sizes = new ResizeObserver(() => it.setSize({ width: box.current!.clientWidth, height: height() }));
    sizes.observe(box.current!);
    return () => {
      sizes.disconnect();
      it.destroy();
    };
  }, [shape, colours, stacked, props.log]);

  // While larder is young, the time shown grows with it.
  const end = at.at(-1) ?? Date.now() / 1000;
  const span = Math.min(props.window, Math.max(60, end - (at[0] ?? end)));
  const [from, to] = zoom ?? [end - span, end];
  useEffect(() => {
    const it = plot.current;
    if (!it) return;
    it.batch(() => {
      it.setData(data, false);
      it.setScale('x', { min: from, max: to });
      it.redraw(false, true);
    });
  }, [data, from, to, shape, colours, marks]);

  const shown = hover ?? at.length - 1;
  const now = series.map((it) => it.values[shown] ?? null);
  const latest = series.map((it) => `${it.label} ${formatted(it.values.at(-1) ?? null, figure)}`).join(', ');
  const seen = marks.filter((it) => (it.last ?? it.at) >= from && it.at <= to);
  return (
    <figure class="chart" aria-label={title}>
      <div ref={box} class="plot" role="img" aria-label={`${title} over time. Now: ${latest}.`} />
      <div class="chart-foot">
        <table class="legend">
          <caption class="away">{title}: the latest value, and the most of the time shown</caption>
          <thead class="away">
            <tr>
              <th scope="col">Series</th>
              <th scope="col">Value</th>
              <th scope="col">Maximum</th>
            </tr>
          </thead>
          <tbody>
            {series.map((it, index) => (
              <tr key={it.label}>
                <th scope="row">
                  <span class="swatch" style={{ background: `var(${it.colour})` }} />
                  {it.label}
                </th>
                <td data-value>{formatted(now[index] ?? null, figure)}</td>
                <td class="faint">
                  <span aria-hidden="true">max </span>
                  {formatted(most(it.values, at, from, to), figure)}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
        {zoom && (
          <p class="zoomed">
            {when(from)} to {when(to)}{' '}
            <button class="link" onClick={() => setZoom(null)}>
              Show all
            </button>
          </p>
        )}
      </div>
      <Marks of={pointed ? [pointed] : seen.slice().reverse()} />
    </figure>
  );
}

/** As many events as one line has room for; the rest on request. */
const SHOWN = 3;

function Marks({ of }: { of: Mark[] }): JSX.Element | null {
  const [all, showAll] = useState(false);
  if (of.length === 0) return <p class="marks" />;
  const more = of.length - SHOWN;
  return (
    <ul class={all ? 'marks all' : 'marks'} aria-label="Events in the time shown">
      {(all ? of : of.slice(0, SHOWN)).map((it) => (
        <li key={`${it.at} ${it.what}`} class={isWrong(it) ? 'bad' : ''}>
          <span class="num">{when(it.at)}</span> <Codes text={it.what} />
          {it.count! > 1 && `, ${it.count} times, last at ${when(it.last!)}`}
        </li>
      ))}
      {more > 0 && (
        <li>
          <button class="link" aria-expanded={all} onClick={() => showAll(!all)}>
            {all ? 'Show fewer' : `${more.toLocaleString('en')} earlier …`}
          </button>
        </li>
      )}
    </ul>
  );
}

const formatted = (value: number | null, figure: (value: number) => Figure): string => (value === null ? '–' : flat(figure(value)));

function most(values: (number | null)[], at: number[], from: number, to: number): number | null {
  let found: number | null = null;
  values.forEach((it, index) => {
    const when = at[index]!;
    if (it !== null && when >= from && when <= to && (found === null || it > found)) found = it;
  });
  return found;
}

// A line or stacked chart over time: uPlot draws, and a legend beneath tells the same in numbers. The charts of a page share
// their cursor.
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import type { Figure } from '../format';
import { flat } from '../format';
import { colour, onTheme } from '../theme';
import { Fig } from './basic';

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
  figure: (value: number) => Figure;
  /** Each series is drawn on top of those before it. */
  stacked?: boolean;
  /** The least and the most that the axis shows, where it is fixed. */
  range?: [number, number];
  log?: boolean;
  height?: number;
  /** Seconds that are shown. */
  window: number;
  /** Whether the sum of the series stands beside the title. */
  sum?: boolean;
  /** Whether the axis counts in powers of 1024. */
  binary?: boolean;
}

const SYNC = uPlot.sync('time');

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
const alone = (it: uPlot, series: number): number[] => {
  const values = it.data[series]!;
  return [...values.keys()].filter((at) => values[at] != null && values[at - 1] == null && values[at + 1] == null);
};

function options(props: Props, width: number, moved: (at: number | null) => void): uPlot.Options {
  const { series, figure, stacked, range, log } = props;
  const faint = colour('--text-faint');
  const grid = { stroke: colour('--line'), width: 1 };
  const font = '11px system-ui, sans-serif';
  const drawn = stacked ? [...series].reverse() : series;
  return {
    width,
    height: props.height ?? 150,
    padding: [8, 26, 0, 0], // Room for the half of a time that stands at the right end.
    legend: { show: false },
    cursor: { sync: { key: SYNC.key }, drag: { x: false, y: false }, points: { size: 6 }, y: false },
    scales: {
      x: { time: true },
      y: log
        ? { distr: 3, range: (_, low, high) => [Math.max(1, 10 ** Math.floor(Math.log10(Math.max(1, low)))), 10 ** Math.ceil(Math.log10(Math.max(10, high)))] }
        : { range: range ?? ((_, __, high) => [0, high > 0 ? high * 1.12 : 1]) },
    },
    axes: [
      {
        stroke: faint, font, grid: { show: false }, ticks: { show: false }, size: 22, gap: 4, space: 90,
        values: (_, at) => at.map((it) => new Date(it * 1000).toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit', second: '2-digit' })),
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
        const it: uPlot.Series = { label: one.label, stroke, width: one.width ?? 1.5, points: { show: false, size: 5, width: 0, fill: stroke, filter: alone }, spanGaps: false };
        if (stacked || one.fill) it.fill = stacked ? stroke : `${stroke}22`;
        if (stacked) Object.assign(it, { width: 0, points: { show: false } });
        return it;
      }),
    ],
    hooks: { setCursor: [(it) => moved(it.cursor.idx ?? null)] },
  };
}

export function Chart(props: Props): JSX.Element {
  const { title, at, series, figure, stacked } = props;
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [hover, setHover] = useState<number | null>(null);
  const [colours, turn] = useState(0);

  const data = useMemo((): uPlot.AlignedData => {
    const drawn = stacked ? stack(series).reverse() : series.map((it) => it.values);
    return [at, ...drawn];
  }, [at, series, stacked]);

  useEffect(() => onTheme(() => turn((it) => it + 1)), []);

  const shape = series.map((it) => it.label).join();
  useEffect(() => {
    const it = new uPlot(options(props, box.current!.clientWidth, setHover), data, box.current!);
    plot.current = it;
    SYNC.sub(it);
    const sizes = new ResizeObserver(() => it.setSize({ width: box.current!.clientWidth, height: props.height ?? 150 }));
    sizes.observe(box.current!);
    return () => {
      sizes.disconnect();
      SYNC.unsub(it);
      it.destroy();
    };
  }, [shape, colours, stacked, props.log]);

  useEffect(() => {
    const it = plot.current;
    if (!it) return;
    it.batch(() => {
      it.setData(data, false);
      const end = at.at(-1) ?? Date.now() / 1000;
      // While the page is young, the time shown grows with it.
      const span = Math.min(props.window, Math.max(60, end - (at[0] ?? end)));
      it.setScale('x', { min: end - span, max: end });
      it.redraw(false, true);
    });
  }, [data, props.window]);

  const shown = hover ?? at.length - 1;
  const now = series.map((it) => it.values[shown] ?? null);
  const latest = series.map((it) => `${it.label} ${told(it.values.at(-1) ?? null, figure)}`).join(', ');
  const sum = now.some((it) => it !== null) ? now.reduce<number>((all, it) => all + (it ?? 0), 0) : null;
  return (
    <figure class="chart" aria-label={title}>
      <figcaption class="chart-title">
        <h3>{title}</h3>
        {props.sum && (
          <span class="chart-sum">
            {sum === null ? '–' : <Fig it={figure(sum)} />}
          </span>
        )}
      </figcaption>
      <div ref={box} class="plot" role="img" aria-label={`${title} over time. Now: ${latest}.`} />
      <table class="legend">
        <caption class="away">{title}: the latest value, and the least and the most of the time shown</caption>
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
              <td data-value>{told(now[index] ?? null, figure)}</td>
              <td class="faint">
                <span aria-hidden="true">max </span>
                {told(most(it.values), figure)}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </figure>
  );
}

const told = (value: number | null, figure: (value: number) => Figure): string => (value === null ? '–' : flat(figure(value)));

function most(values: (number | null)[]): number | null {
  let found: number | null = null;
  for (const it of values) if (it !== null && (found === null || it > found)) found = it;
  return found;
}

// One dot for each request: when it began, and how long something of it took, on a logarithmic axis.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import uPlot from 'uplot';
import { clock, flat, micros } from '../format';
import { colour, onTheme } from '../theme';

export interface Dot {
  /** Unix microseconds. */
  at: number;
  us: number;
  /** Whether it stands out. */
  marked: boolean;
}

interface Props {
  title: string;
  dots: Dot[];
  height?: number;
  choose?: (index: number) => void;
  chosen?: number;
}

/** Pixels around a dot in which a click is meant for it. */
const NEAR = 14;

export function Scatter({ title, dots, height = 220, choose, chosen }: Props): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const now = useRef({ dots, choose });
  now.current = { dots, choose };
  const [colours, turn] = useState(0);
  useEffect(() => onTheme(() => turn((it) => it + 1)), []);

  useEffect(() => {
    const faint = colour('--text-faint');
    const font = '11px system-ui, sans-serif';
    const dot = (name: string, size: number, within = name): uPlot.Series => ({
      paths: () => null,
      points: { show: true, size, stroke: colour(name), fill: colour(within), width: within === name ? 0 : 1.5, space: 0 },
    });
    const it = new uPlot(
      {
        width: box.current!.clientWidth,
        height,
        padding: [8, 44, 0, 0], // Room for the half of a time with milliseconds that stands at the right end.
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, points: { show: false } },
        scales: { x: { time: true }, y: { distr: 3, range: (_, low, high) => bounds(low, high) } },
        axes: [
          {
            stroke: faint, font, grid: { show: false }, ticks: { show: false }, size: 22, gap: 4, space: 90,
            // Ticks less than a second apart have milliseconds.
            values: (_, at) => at.map((it) => clock(it * 1e6, (at[1] ?? 0) - (at[0] ?? 0) < 1)),
          },
          {
            stroke: faint, font, grid: { stroke: colour('--line'), width: 1 }, ticks: { show: false }, size: 62, gap: 8,
            splits: (it) => decades(it.scales['y']!.min ?? 1, it.scales['y']!.max ?? 10),
            values: (_, at) => at.map((it) => (it === null ? '' : flat(micros(it)))),
          },
        ],
        // As in every list: a hit is full, anything else a ring.
        series: [{}, dot('--series-1', 5), dot('--text-soft', 6, '--bg'), dot('--text', 11)],
      },
      [[], [], [], []],
      box.current!,
    );
    const click = (): void => {
      const { left = -1, top = -1 } = it.cursor;
      let best = -1;
      let away = NEAR;
      now.current.dots.forEach((dot, at) => {
        const distance = Math.hypot(it.valToPos(dot.at / 1e6, 'x') - left, it.valToPos(dot.us, 'y') - top);
        if (distance < away) [best, away] = [at, distance];
      });
      if (best >= 0) now.current.choose?.(best);
    };
    it.over.addEventListener('click', click);
    plot.current = it;
    const sizes = new ResizeObserver(() => it.setSize({ width: box.current!.clientWidth, height }));
    sizes.observe(box.current!);
    return () => {
      sizes.disconnect();
      it.destroy();
    };
  }, [colours, height]);

  useEffect(() => {
    const of = (which: (dot: Dot, at: number) => boolean): (number | null)[] => dots.map((dot, at) => (which(dot, at) ? Math.max(1, dot.us) : null));
    plot.current?.setData([
      dots.map((it) => it.at / 1e6),
      of((it) => !it.marked),
      of((it) => it.marked),
      of((_, at) => at === chosen),
    ]);
  }, [dots, chosen, colours]);

  const most = dots.reduce((most, it) => Math.max(most, it.us), 0);
  return (
    <figure class="chart" aria-label={title}>
      <figcaption class="chart-title">
        <h2>{title}</h2>
        <span class="faint">max {flat(micros(dots.length ? most : null))}</span>
      </figcaption>
      <div
        ref={box}
        class={`plot ${choose ? 'clickable' : ''}`}
        style={{ height: `${height}px` }}
        role="img"
        aria-label={`${title} of ${dots.length} requests by the time at which they began; the longest took ${flat(micros(dots.length ? most : null))}. The table below has each.`}
      />
    </figure>
  );
}

function bounds(low: number | null, high: number | null): [number, number] {
  const down = 10 ** Math.floor(Math.log10(Math.max(1, low ?? 1)));
  const up = 10 ** Math.ceil(Math.log10(Math.max(10, (high ?? 10) * 1.01)));
  return [down, Math.max(up, down * 10)];
}

function decades(low: number, high: number): number[] {
  const found: number[] = [];
  for (let at = low; at <= high * 1.01; at *= 10) found.push(at);
  return found;
}

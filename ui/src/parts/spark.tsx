// A line without axes next to a number: only the shape of the last minutes.
import type { JSX } from 'preact';

interface Props {
  values: (number | null)[];
  /** The most that fits; the values' own most without it. */
  top?: number;
}

const [WIDTH, HEIGHT] = [120, 28];

export function Spark({ values, top }: Props): JSX.Element {
  const known = values.filter((it): it is number => it !== null);
  const most = Math.max(top ?? 0, ...known, 1e-9);
  const step = WIDTH / Math.max(1, values.length - 1);
  let path = '';
  let area = '';
  let from: number | null = null;
  values.forEach((value, at) => {
    if (value === null) {
      if (from !== null) area += `L${((at - 1) * step).toFixed(1)},${HEIGHT}L${from.toFixed(1)},${HEIGHT}Z`;
      from = null;
      return;
    }
    const x = at * step;
    const to = `${x.toFixed(1)},${(HEIGHT - 2 - (value / most) * (HEIGHT - 4)).toFixed(1)}`;
    path += `${from === null ? 'M' : 'L'}${to}`;
    area += `${from === null ? 'M' : 'L'}${to}`;
    from ??= x;
  });
  if (from !== null) area += `L${WIDTH},${HEIGHT}L${(from as number).toFixed(1)},${HEIGHT}Z`;
  return (
    <svg class="spark" viewBox={`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true" focusable="false">
      <path class="spark-area" d={area} />
      <path class="spark-line" d={path} vector-effect="non-scaling-stroke" />
    </svg>
  );
}

// Our own icons: strokes of 1.5 on a grid of 16, drawn in the text's colour.
import type { JSX } from 'preact';

const PATHS = {
  overview: 'M2 12.5h12M3.5 10V8M6.5 10V4M9.5 10V6M12.5 10V3',
  objects: 'M2.5 4.5 8 2l5.5 2.5v7L8 14l-5.5-2.5zM2.5 4.5 8 7l5.5-2.5M8 7v7',
  explain: 'M5.8 6.2A2.2 2.2 0 1 1 8 8.6v1M8 11.8v.2M8 14.2A6.2 6.2 0 1 0 8 1.8a6.2 6.2 0 0 0 0 12.4z',
  why: 'M8 1.8a6.2 6.2 0 1 0 6.2 6.2H8zM10.4 1.9a6.2 6.2 0 0 1 3.7 3.7h-3.7z',
  live: 'M1.5 8h2.7l2-5 3.4 10 2-5h2.9',
  top: 'M2.5 3.5h11M2.5 8h7.5M2.5 12.5h4',
  traces: 'M2 3.5h5M5 8h6M9 12.5h5',
  config: 'M2.5 4.5h5M11 4.5h2.5M2.5 11.5H5M8.5 11.5h5M9.2 2.8v3.4M6.8 9.8v3.4',
  nodes: 'M8 5.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM3.5 14.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM12.5 14.5a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM7 5.3l-2.6 5.3M9 5.3l2.6 5.3M5.5 12.5h5',
  access: 'M8 8.2a2.9 2.9 0 1 0 0-5.8 2.9 2.9 0 0 0 0 5.8zM2.6 13.8a5.5 5.5 0 0 1 10.8 0',
  search: 'M7 11.5a4.5 4.5 0 1 0 0-9 4.5 4.5 0 0 0 0 9zM10.4 10.4 14 14',
  close: 'M3.5 3.5l9 9M12.5 3.5l-9 9',
  sun: 'M8 10.7a2.7 2.7 0 1 0 0-5.4 2.7 2.7 0 0 0 0 5.4zM8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9',
  moon: 'M13.2 9.6A5.6 5.6 0 0 1 6.4 2.8a5.6 5.6 0 1 0 6.8 6.8z',
  system: 'M2 3h12v8H2zM6 14h4M8 11v3',
  help: 'M2.5 4h11v8h-11zM5 7h.1M8 7h.1M11 7h.1M5.5 9.7h5',
  leave: 'M6.5 2.5h-4v11h4M6 8h8M11 5l3 3-3 3',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  play: 'M4.5 3v10l8-5z',
  trash: 'M2.5 4.5h11M6 4.5v-2h4v2M4 4.5l.6 9h6.8l.6-9M6.6 7v4M9.4 7v4',
  plus: 'M8 3v10M3 8h10',
  layers: 'M8 2.5 14 5.5 8 8.5 2 5.5zM2 8.2l6 3 6-3M2 10.9l6 3 6-3',
  check: 'M3 8.5l3.2 3.2L13 4.8',
  warn: 'M8 2.2 14.3 13H1.7zM8 6.4v3M8 11v.2',
  fail: 'M5.4 1.8h5.2l3.6 3.6v5.2l-3.6 3.6H5.4l-3.6-3.6V5.4zM5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4',
  up: 'M8 13V3M4.2 6.8 8 3l3.8 3.8',
  down: 'M8 3v10M4.2 9.2 8 13l3.8-3.8',
  clock: 'M8 14.2A6.2 6.2 0 1 0 8 1.8a6.2 6.2 0 0 0 0 12.4zM8 4.6V8l2.3 1.6',
  undo: 'M3 6h6.5a3.5 3.5 0 0 1 0 7H6M3 6l2.8-2.8M3 6l2.8 2.8',
  arrow: 'M3 8h10M9.2 4.2 13 8l-3.8 3.8',
  refresh: 'M13 8a5 5 0 1 1-1.5-3.6M13 2v3.2H9.8',
} as const;

export type IconName = keyof typeof PATHS;

export function Icon({ name, size = 16 }: { name: IconName; size?: number }): JSX.Element {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}

export function Mark(): JSX.Element {
  return (
    <svg class="mark" width="22" height="22" viewBox="0 0 22 22" aria-hidden="true" focusable="false">
      <path class="mark-shelf" d="M3 6h16M3 11h16M3 16h16" />
      <path class="mark-fill" d="M3 6h9M3 11h13M3 16h5" />
    </svg>
  );
}

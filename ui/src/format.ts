// How numbers read: three significant digits, the unit apart so that it can be set smaller.

export interface Figure {
  text: string;
  unit: string;
}

function digits(value: number): string {
  const size = Math.abs(value);
  if (size >= 100 || Number.isInteger(value)) return Math.round(value).toLocaleString('en');
  if (size >= 10) return value.toFixed(1);
  return value.toFixed(2);
}

function scaled(value: number, steps: [number, string][]): Figure {
  for (const [size, unit] of steps) {
    if (Math.abs(value) >= size) return { text: digits(value / size), unit };
  }
  return { text: digits(value), unit: '' };
}

const KIB = 1024;
const BYTES: [number, string][] = [
  [KIB ** 4, 'TiB'],
  [KIB ** 3, 'GiB'],
  [KIB ** 2, 'MiB'],
  [KIB, 'KiB'],
];

export function bytes(value: number): Figure {
  if (Math.abs(value) < KIB) return { text: String(Math.round(value)), unit: 'B' };
  return scaled(value, BYTES);
}

export function rate(value: number): Figure {
  if (value > 0 && value < 0.05) return { text: '<0.1', unit: '' };
  if (value !== 0 && Math.abs(value) < 10) return { text: value.toFixed(1), unit: '' };
  return Math.abs(value) < 10_000
    ? { text: Math.round(value).toLocaleString('en'), unit: '' }
    : scaled(value, [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']]);
}

export function count(value: number): Figure {
  return Math.abs(value) < 100_000
    ? { text: Math.round(value).toLocaleString('en'), unit: '' }
    : scaled(value, [[1e9, 'G'], [1e6, 'M'], [1e3, 'k']]);
}

/** A share of 1 as per cent. */
export function share(value: number | null): Figure {
  if (value === null || !Number.isFinite(value)) return { text: '–', unit: '' };
  const percent = value * 100;
  const text = percent >= 99.995 || percent === 0 ? String(Math.round(percent)) : percent >= 99.9 ? percent.toFixed(2) : percent.toFixed(1);
  return { text, unit: '%' };
}

export function micros(value: number | null): Figure {
  if (value === null || !Number.isFinite(value)) return { text: '–', unit: '' };
  if (value < 1000) return { text: String(Math.round(value)), unit: 'µs' };
  if (value < 1e6) return { text: digits(value / 1e3), unit: 'ms' };
  return seconds(value / 1e6);
}

/** A span in one or two units: `4.20 s`, `12 min`, `3 h 20 min`, `5 d`. */
export function seconds(value: number): Figure {
  const it = Math.abs(value);
  const sign = value < 0 ? '−' : '';
  if (it < 60) return { text: sign + (it < 10 && it % 1 ? it.toFixed(2) : String(Math.round(it))), unit: 's' };
  if (it < 3600) return { text: sign + (it / 60 < 10 ? (it / 60).toFixed(1) : String(Math.round(it / 60))), unit: 'min' };
  if (it < 86_400) return { text: sign + (it / 3600 < 10 ? (it / 3600).toFixed(1) : String(Math.round(it / 3600))), unit: 'h' };
  return { text: sign + (it / 86_400 < 10 ? (it / 86_400).toFixed(1) : Math.round(it / 86_400).toLocaleString('en')), unit: 'd' };
}

export const flat = (it: Figure): string => (it.unit ? `${it.text} ${it.unit}` : it.text);

/** Local time of day of unix microseconds, to the millisecond. */
export function clock(us: number, millis = false): string {
  const it = new Date(us / 1000);
  const two = (value: number): string => String(value).padStart(2, '0');
  const text = `${two(it.getHours())}:${two(it.getMinutes())}:${two(it.getSeconds())}`;
  return millis ? `${text}.${String(it.getMilliseconds()).padStart(3, '0')}` : text;
}

/** Date and time of unix seconds. */
export function moment(unix: number): string {
  const it = new Date(unix * 1000);
  const two = (value: number): string => String(value).padStart(2, '0');
  return `${it.getFullYear()}-${two(it.getMonth() + 1)}-${two(it.getDate())} ${clock(unix * 1e6)}`;
}

/** The time of day of unix seconds, with the date where it is not today. */
export function when(unix: number): string {
  return new Date(unix * 1000).toDateString() === new Date().toDateString() ? clock(unix * 1e6) : moment(unix);
}

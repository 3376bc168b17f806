// Reads the statistics once a second and keeps what was seen, as rates: the API gives only sums. Drawing is not here.
import { Problem, get } from './api';
import type { Histogram, Stats } from './types';

/** One second as it was seen. A null is a moment of which nothing is known. */
export interface Point {
  /** Unix seconds of this browser. */
  at: number;
  requests: number | null;
  hitsRam: number | null;
  hitsDisk: number | null;
  hitsFleet: number | null;
  misses: number | null;
  passes: number | null;
  /** What the cache had no part in: files, overlays, what larder refuses. */
  others: number | null;
  ratio: number | null;
  p50: number | null;
  p90: number | null;
  p99: number | null;
  sent: number | null;
  received: number | null;
  errors: number | null;
  memory: number | null;
  /** Seconds of origin time that hits did not cost, per second. */
  saved: number | null;
}

interface Reading {
  at: number;
  stats: Stats;
}

export type Link = 'starting' | 'live' | 'lost';

const KEPT_POINTS = 900;
const KEPT_READINGS = 11;
const PERIOD = 1000;
/** Seconds between two readings that are a gap rather than a late answer. */
const GAP = 4;

class Readings {
  link: Link = 'starting';
  problem: string | null = null;
  points: Point[] = [];
  private readings: Reading[] = [];
  private hearers = new Set<() => void>();
  private timer: number | undefined;
  private running = false;

  get latest(): Stats | null {
    return this.readings.at(-1)?.stats ?? null;
  }

  /** The latest reading and the oldest of about the last `seconds`, and the seconds between; null before the second one. */
  over(seconds: number): { now: Stats; then: Stats; seconds: number } | null {
    const last = this.readings.at(-1);
    if (!last) return null;
    const first = this.readings.find((it) => last.at - it.at <= seconds + 0.5);
    if (!first || first === last) return null;
    return { now: last.stats, then: first.stats, seconds: span(first, last) };
  }

  hear(it: () => void): () => void {
    this.hearers.add(it);
    return () => this.hearers.delete(it);
  }

  start(): void {
    if (this.running) return;
    this.running = true;
    this.points = recalled();
    addEventListener('pagehide', remember);
    void this.turn();
  }

  stop(): void {
    if (!this.running) return;
    this.running = false;
    removeEventListener('pagehide', remember);
    sessionStorage.removeItem(KEPT);
    window.clearTimeout(this.timer);
    this.readings = [];
    this.points = [];
    this.link = 'starting';
  }

  private async turn(): Promise<void> {
    const began = performance.now();
    if (!document.hidden) {
      try {
        const stats = await get<Stats>('/api/v1/stats', AbortSignal.timeout(5000));
        if (!this.running) return;
        this.take({ at: Date.now() / 1000, stats });
        this.link = 'live';
        this.problem = null;
      } catch (error) {
        if (!this.running) return;
        this.link = 'lost';
        this.problem = error instanceof Problem ? error.message : 'larder does not respond.';
      }
      for (const it of this.hearers) it();
    }
    const spent = performance.now() - began;
    this.timer = window.setTimeout(() => void this.turn(), Math.max(100, PERIOD - spent));
  }

  private take(it: Reading): void {
    let last = this.readings.at(-1);
    // Another process answers now: its sums begin anew.
    if (last && (it.stats.counters['requests'] ?? 0) < (last.stats.counters['requests'] ?? 0)) {
      this.readings = [];
      last = undefined;
      this.points.push({ ...EMPTY, at: it.at });
    }
    const before = this.points.at(-1);
    // What was seen before a reload of the page goes on after a gap.
    if (!last && before && before.requests !== null) this.points.push({ ...EMPTY, at: before.at + 0.5 });
    if (last) {
      if (it.at - last.at > GAP) this.points.push({ ...EMPTY, at: last.at + 1 });
      this.points.push(point(last, it));
      if (this.points.length > KEPT_POINTS) this.points.splice(0, this.points.length - KEPT_POINTS);
    }
    this.readings.push(it);
    if (this.readings.length > KEPT_READINGS) this.readings.shift();
  }
}

const EMPTY: Omit<Point, 'at'> = {
  requests: null,
  hitsRam: null,
  hitsDisk: null,
  hitsFleet: null,
  misses: null,
  passes: null,
  others: null,
  ratio: null,
  p50: null,
  p90: null,
  p99: null,
  sent: null,
  received: null,
  errors: null,
  memory: null,
  saved: null,
};

function span(first: Reading, last: Reading): number {
  const [a, b] = [first.stats.now_us, last.stats.now_us];
  const seconds = a && b ? (b - a) / 1e6 : last.at - first.at;
  return seconds > 0.05 ? seconds : last.at - first.at || 1;
}

/** Hits among the requests that the cache had to do with; null where there were none. */
export function ratio(hits: number, misses: number, passes: number): number | null {
  const all = hits + misses + passes;
  return all > 0 ? hits / all : null;
}

function point(before: Reading, after: Reading): Point {
  const seconds = span(before, after);
  const grown = (name: string): number =>
    Math.max(0, (after.stats.counters[name] ?? 0) - (before.stats.counters[name] ?? 0));
  const rate = (name: string): number => grown(name) / seconds;
  const hits = grown('cache_hits');
  const [disk, fleet] = [rate('cache_hits_disk'), rate('cache_hits_fleet')];
  const latency = between(before.stats.latency?.all, after.stats.latency?.all);
  const scopes = (it: Stats, name: string): number =>
    (it.sites ?? []).reduce((sum, site) => sum + (site.counters[name] ?? 0), 0);
  const errors = scopes(after.stats, 'errors_5xx') - scopes(before.stats, 'errors_5xx');
  const saved = (after.stats.saved?.origin_us ?? 0) - (before.stats.saved?.origin_us ?? 0);
  return {
    at: after.at,
    requests: rate('requests'),
    hitsRam: Math.max(0, hits / seconds - disk - fleet),
    hitsDisk: disk,
    hitsFleet: fleet,
    misses: rate('cache_misses'),
    passes: rate('cache_passes'),
    others: Math.max(0, rate('requests') - hits / seconds - rate('cache_misses') - rate('cache_passes')),
    ratio: ratio(hits, grown('cache_misses'), grown('cache_passes')),
    p50: quantile(latency, 0.5),
    p90: quantile(latency, 0.9),
    p99: quantile(latency, 0.99),
    sent: rate('client_bytes_sent'),
    received: rate('origin_bytes_received'),
    errors: Math.max(0, errors) / seconds,
    memory: after.stats.memory?.rss_bytes ?? after.stats.ram.used_bytes,
    saved: after.stats.saved ? Math.max(0, saved) / 1e6 / seconds : null,
  };
}

/** What came into a histogram between two readings: upper bound and count, ascending. */
export function between(before: Histogram | undefined, after: Histogram | undefined): [number, number][] {
  const known = new Map(before?.buckets ?? []);
  return (after?.buckets ?? [])
    .map(([upper, count]): [number, number] => [upper, count - (known.get(upper) ?? 0)])
    .filter(([, count]) => count > 0);
}

/** The microseconds that a share of the requests did not exceed; null without any. */
export function quantile(buckets: [number, number][], share: number): number | null {
  const all = buckets.reduce((sum, [, count]) => sum + count, 0);
  let seen = 0;
  for (const [upper, count] of buckets) {
    seen += count;
    if (seen >= all * share) return upper;
  }
  return null;
}

/** Where the points wait while the page is loaded anew. */
const KEPT = 'larder.points';

function remember(): void {
  try {
    sessionStorage.setItem(KEPT, JSON.stringify(readings.points));
  } catch {
    // Without room for them, the charts begin anew.
  }
}

function recalled(): Point[] {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(KEPT) ?? '[]');
    const oldest = Date.now() / 1000 - (KEPT_POINTS * PERIOD) / 1000;
    return Array.isArray(kept) ? (kept as Point[]).filter((it) => typeof it?.at === 'number' && it.at > oldest && it.at <= Date.now() / 1000).map((it) => ({ ...EMPTY, ...it })) : []; // What an older page kept may lack some.
  } catch {
    return [];
  }
}

export const readings = new Readings();

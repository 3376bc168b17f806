// Reads the statistics once a second, those of routes and origins less often and only while a view shows them, and keeps what was
// seen, as rates: the API gives only sums. Drawing is not here.
import { Problem, get } from './api';
import { history } from './history';
import { EMPTY, type Grown, type Point, type Times, between, pointOf, quantile } from './points';
import type { Stats } from './types';

interface Reading {
  at: number;
  stats: Stats;
}

/** Two readings, and the seconds between them. */
export interface Over {
  now: Stats;
  then: Stats;
  seconds: number;
}

export type Link = 'starting' | 'live' | 'lost';

const KEPT_POINTS = 330;
const PERIOD = 1000;
/** Seconds between two readings that are a gap rather than a late answer. */
const GAP = 4;
/** Seconds that figures are of. */
export const BASE = 60;
/** Of readings older than this, in seconds, one is kept in each interval of the second number. */
const RECENT = 5;
const SPARSE = 5;
/** Seconds between two readings of routes and origins: with many routes, they are long. */
const SCOPES = 5;

class Readings {
  link: Link = 'starting';
  problem: string | null = null;
  points: Point[] = [];
  private readings: Reading[] = [];
  /** Those that have routes and origins. */
  private scoped: Reading[] = [];
  /** The sums that larder kept a minute ago, until the page has its own. */
  private base: Reading | null = null;
  /** Views that show routes or origins, and whether one of them needs a reading now. */
  private viewers = 0;
  private urgent = false;
  private listeners = new Set<() => void>();
  private timer: number | undefined;
  private running = false;

  get latest(): Stats | null {
    return this.readings.at(-1)?.stats ?? null;
  }

  /** The latest reading and the oldest of the last minute, and the seconds between; null before the second one. */
  over(): Over | null {
    return this.of(this.readings);
  }

  /** The same of routes and origins. */
  scopes(): Over | null {
    return this.of(this.scoped);
  }

  private of(own: Reading[]): Over | null {
    const last = own.at(-1);
    const first = last && this.first(own, last);
    if (!first || first === last) return null;
    return { now: last.stats, then: first.stats, seconds: span(first, last) };
  }

  /** The beginning of the minute before `last`: of the page's own readings, or larder's until the page has a minute. */
  private first(own: Reading[], last: Reading): Reading | undefined {
    return lacksMinute(own) && this.base && !isRestart(this.base, last) ? this.base : own[0];
  }

  /** Reads routes and origins, too, until the view ends that shows them. */
  view(): () => void {
    this.viewers += 1;
    this.look();
    return () => void (this.viewers -= 1);
  }

  /** Reads routes and origins now: one of them was changed. */
  look(): void {
    this.urgent = true;
    // A reading that is on its way is followed by this one.
    if (this.timer === undefined) return;
    window.clearTimeout(this.timer);
    void this.turn();
  }

  /** Whether the next reading is one of routes and origins. The first two follow each other, so that there are rates at once. */
  private isDue(): boolean {
    const last = this.scoped.at(-1);
    if (this.viewers === 0) return false;
    return this.urgent || !last || (this.scoped.length === 1 && !this.base) || Date.now() / 1000 - last.at > SCOPES - 0.5;
  }

  listen(it: () => void): () => void {
    this.listeners.add(it);
    return () => this.listeners.delete(it);
  }

  start(): void {
    if (this.running) return;
    this.running = true;
    this.points = storedPoints();
    addEventListener('pagehide', storePoints);
    void this.turn();
  }

  stop(): void {
    if (!this.running) return;
    this.running = false;
    removeEventListener('pagehide', storePoints);
    sessionStorage.removeItem(STORAGE_KEY);
    window.clearTimeout(this.timer);
    this.timer = undefined;
    this.readings = [];
    this.scoped = [];
    this.base = null;
    this.points = [];
    history.clear();
    this.link = 'starting';
  }

  private async turn(): Promise<void> {
    const began = performance.now();
    this.timer = undefined;
    if (!document.hidden) {
      const isScoped = this.isDue();
      if (isScoped) this.urgent = false;
      try {
        // All figures of a view are of the same minute, also just after it was opened.
        const needsBase = isScoped && (lacksMinute(this.scoped) || lacksMinute(this.readings));
        const [stats, base] = await Promise.all([
          get<Stats>(`/api/v1/stats?detail=${isScoped ? 'routes' : 'totals'}`, AbortSignal.timeout(5000)),
          needsBase ? get<Stats>('/api/v1/stats/minute', AbortSignal.timeout(5000)).catch(() => null) : null,
        ]);
        if (!this.running) return;
        if (base) this.base = { at: Date.now() / 1000 - ((stats.now_us ?? 0) - (base.now_us ?? 0)) / 1e6, stats: base };
        this.take({ at: Date.now() / 1000, stats }, isScoped);
        this.link = 'live';
        this.problem = null;
        void history.follow(stats.now);
      } catch (error) {
        if (!this.running) return;
        this.link = 'lost';
        this.problem = error instanceof Problem ? error.message : 'larder does not respond.';
      }
      for (const it of this.listeners) it();
    }
    const spent = performance.now() - began;
    const isUrgent = this.urgent && this.viewers > 0 && this.link === 'live' && !document.hidden;
    const wait = isUrgent ? 0 : Math.max(100, PERIOD - spent);
    this.timer = window.setTimeout(() => void this.turn(), wait);
  }

  private take(it: Reading, isScoped: boolean): void {
    let last = this.readings.at(-1);
    // Another process answers now: its sums begin at zero.
    if (last && isRestart(last, it)) {
      this.readings = [];
      this.scoped = [];
      last = undefined;
      this.points.push({ ...EMPTY, at: it.at });
    }
    const before = this.points.at(-1);
    // What was seen before a reload of the page goes on after a gap.
    if (!last && before && before.requests !== null) this.points.push({ ...EMPTY, at: before.at + 0.5 });
    if (last) {
      if (it.at - last.at > GAP) this.points.push({ ...EMPTY, at: last.at + 1 });
      this.points.push(point(last, it, this.first(this.readings, it) ?? last));
      if (this.points.length > KEPT_POINTS) this.points.splice(0, this.points.length - KEPT_POINTS);
    }
    this.readings.push(it);
    this.thin(it.at);
    this.scoped = this.scoped.filter(({ at }) => it.at - at <= BASE + 0.5);
    if (isScoped) this.scoped.push(it);
  }

  /** Drops readings that are older than the base, and most of those that are not recent. */
  private thin(now: number): void {
    let kept = -Infinity;
    this.readings = this.readings.filter(({ at }) => {
      if (now - at > BASE + 0.5) return false;
      if (now - at > RECENT && at - kept < SPARSE - 0.5) return false;
      kept = at;
      return true;
    });
  }
}

/** Whether these are of less than a minute. */
function lacksMinute(own: Reading[]): boolean {
  const [first, last] = [own[0], own.at(-1)];
  return !first || !last || last.at - first.at < BASE - SCOPES;
}

/** Whether another process gave the second one. */
const isRestart = (before: Reading, after: Reading): boolean => (after.stats.counters['requests'] ?? 0) < (before.stats.counters['requests'] ?? 0);

function span(first: Reading, last: Reading): number {
  const [a, b] = [first.stats.now_us, last.stats.now_us];
  const seconds = a && b ? (b - a) / 1e6 : last.at - first.at;
  return seconds > 0.05 ? seconds : last.at - first.at || 1;
}

/** What was counted between two readings. */
export function grown(before: Stats, after: Stats): Grown {
  const counter = (name: string): number => Math.max(0, (after.counters[name] ?? 0) - (before.counters[name] ?? 0));
  const total = (name: keyof NonNullable<Stats['totals']>): number => Math.max(0, (after.totals?.[name] ?? 0) - (before.totals?.[name] ?? 0));
  return {
    requests: counter('requests'),
    hits: counter('cache_hits'),
    hitsDisk: counter('cache_hits_disk'),
    hitsFleet: counter('cache_hits_fleet'),
    misses: counter('cache_misses'),
    passes: counter('cache_passes'),
    sent: counter('client_bytes_sent'),
    received: counter('origin_bytes_received'),
    errors4: total('errors_4xx'),
    errors5: total('errors_5xx'),
    couldBe: total('could_be_hits'),
    validated: total('revalidated'),
    savedUs: Math.max(0, (after.saved?.origin_us ?? 0) - (before.saved?.origin_us ?? 0)),
  };
}

export function timesOf(before: Stats, after: Stats): Times {
  const hit = between(before.latency?.hit, after.latency?.hit);
  const miss = between(before.latency?.miss, after.latency?.miss);
  return { hitP50: quantile(hit, 0.5), hitP99: quantile(hit, 0.99), missP50: quantile(miss, 0.5), missP99: quantile(miss, 0.99) };
}

/** Latencies are of the minute, as those that larder keeps. */
const point = (before: Reading, after: Reading, minute: Reading): Point =>
  pointOf(after.at, span(before, after), grown(before.stats, after.stats), timesOf(minute.stats, after.stats));

/** The storage of the points while the page is loaded again. */
const STORAGE_KEY = 'larder.points';

function storePoints(): void {
  try {
    sessionStorage.setItem(STORAGE_KEY, JSON.stringify(readings.points));
  } catch {
    // Without room for them, the charts begin empty.
  }
}

function storedPoints(): Point[] {
  try {
    const kept: unknown = JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? '[]');
    const oldest = Date.now() / 1000 - (KEPT_POINTS * PERIOD) / 1000;
    return Array.isArray(kept) ? (kept as Point[]).filter((it) => typeof it?.at === 'number' && it.at > oldest && it.at <= Date.now() / 1000).map((it) => ({ ...EMPTY, ...it })) : []; // What an older page kept may lack some.
  } catch {
    return [];
  }
}

export const readings = new Readings();

// The history that larder keeps, in steps of one second to half an hour: the page reads a step once when it needs it, and then its new samples. Drawing is not here.
import { get, query } from './api';
import { EMPTY, type Grown, type Point, pointOf, ratio, type Times } from './points';
import type { Kept, Mark } from './types';

/** One step, as it was counted. */
interface Step extends Grown, Times {
  /** Its end, Unix seconds. */
  at: number;
  seconds: number;
}

/** The figures of a minute. */
export interface Minute extends Times {
  requests: number;
  errors: number | null;
  ratio: number | null;
}

/** The step of the tiles, seconds. */
const TILES = 10;
/** Of each step, the seconds that are read at first; all without it. */
const FIRST: Record<number, number> = { 1: 900, 10: 7200, 60: 21_600 };
/** Steps that the page keeps of one length. */
const MOST = 1000;
/** Seconds of a step that follows another at once, and of the answer's way. */
const LATE = 5;
/** Steps from this one on are joined of several, so that the last one grows. */
const JOINED = 300;

/** The samples of one step. */
class Series {
  steps: Step[] = [];
  points: Point[] = [];
  requestedAt = 0;

  constructor(readonly step: number) {}

  /** The time after which samples are read: those of an unfinished step come again. */
  since(now: number): number | null {
    const last = this.steps.at(-1)?.at;
    if (last === undefined) {
      const first = FIRST[this.step];
      return first ? Math.floor(now - first) : null;
    }
    return this.step < JOINED ? last - 1 : Math.floor((last - 1) / this.step) * this.step;
  }

  take(more: Step[], since: number | null, skew: number): void {
    const own = since === null ? [] : this.steps.filter((it) => it.at <= since);
    // The clock may have been set back.
    this.steps = [...own, ...more].sort((x, y) => x.at - y.at).slice(-MOST);
    this.points = [];
    const gap = Math.max(LATE, this.step > TILES ? this.step / 2 : 0);
    for (const it of this.steps) {
      const before = this.points.at(-1);
      const end = it.at + skew;
      if (before && end - it.seconds - before.at > gap) this.points.push({ ...EMPTY, at: before.at + 1 });
      this.points.push(pointOf(end, it.seconds, it, it));
    }
  }
}

class History {
  marks: Mark[] = [];
  /** Where the history is kept, and why not in a file. */
  kept: Kept['kept'] | null = null;
  /** Changes with each answer that had something new. */
  version = 0;
  /** Seconds by which the browser's clock is ahead of larder's. */
  skew = 0;
  private all = new Map<number, Series>();
  private wanted = TILES;
  private now = 0;

  /** The points of the tiles. */
  get points(): Point[] {
    return this.of(TILES);
  }

  /** The points of a step. */
  of(step: number): Point[] {
    return this.all.get(step)?.points ?? [];
  }

  /** Reads a step as well, from now on. */
  want(step: number): void {
    this.wanted = step;
    if (this.now) void this.follow(this.now);
  }

  /** Reads what is new, at most once a step; `now` is Unix seconds. */
  async follow(now: number): Promise<void> {
    this.now = now;
    for (const step of new Set([TILES, this.wanted])) await this.read(step, now);
  }

  clear(): void {
    this.marks = [];
    this.all.clear();
    this.now = 0;
  }

  /** The minute that ended `ago` seconds before `now`; null where larder did not run then. */
  minute(now: number, ago: number): Minute | null {
    const end = now - ago;
    const of = (this.all.get(TILES)?.steps ?? []).filter((it) => it.at > end - 60 && it.at <= end + LATE);
    const last = of.at(-1);
    if (!last || of.length < 5) return null;
    const sum = (what: (it: Step) => number): number => of.reduce((all, it) => all + what(it), 0);
    const requests = sum((it) => it.requests);
    return {
      requests: requests / sum((it) => it.seconds),
      errors: requests > 0 ? sum((it) => it.errors5) / requests : null,
      ratio: ratio(sum((it) => it.hits), sum((it) => it.misses), sum((it) => it.passes)),
      hitP50: last.hitP50,
      hitP99: last.hitP99,
      missP50: last.missP50,
      missP99: last.missP99,
    };
  }

  private async read(step: number, now: number): Promise<void> {
    const series = this.all.get(step) ?? new Series(step);
    this.all.set(step, series);
    // A step ends a little before it is read.
    if (now - series.requestedAt < Math.min(60, Math.max(10, step))) return;
    series.requestedAt = now;
    const since = series.since(now);
    const kept = await get<Kept>(`/api/v1/history${query({ since, step })}`, AbortSignal.timeout(5000)).catch(() => null);
    if (!kept) return void (series.requestedAt = 0);
    // Their times are of larder's clock; charts are by the browser's.
    const ahead = Date.now() / 1000 - kept.now;
    this.skew = Math.abs(ahead) > LATE ? ahead : 0;
    const steps = kept.samples.map((it) => stepOf(kept.columns, it));
    // After larder's clock was set back it returns all, and what the page has is from the future.
    series.take(steps, since !== null && since > kept.now ? null : since, this.skew);
    const marks = kept.marks.map((it) => ({ ...it, at: it.at + this.skew, last: (it.last ?? it.at) + this.skew }));
    const isSame = (a: Mark, b: Mark): boolean => Math.abs(a.at - b.at) < 1 && a.what === b.what;
    const more = marks.filter((it) => !this.marks.some((other) => isSame(it, other) && other.count === it.count));
    // An event that repeats takes the place of the earlier ones, and so does the last end of a fault.
    const isKept = (it: Mark): boolean => !more.some((other) => isSame(it, other) || ((other.kind === 'up' || other.kind === 'over') && other.what === it.what));
    this.marks = [...this.marks.filter(isKept), ...more].sort((a, b) => last(a) - last(b)).slice(-MOST);
    this.kept = kept.kept ?? null;
    if (steps.length || more.length) this.version += 1;
  }
}

const last = (it: Mark): number => it.last ?? it.at;

function stepOf(columns: string[], values: number[]): Step {
  const of = (name: string): number => values[columns.indexOf(name)] ?? 0;
  const time = (name: string): number | null => of(name) || null;
  return {
    at: of('at'),
    seconds: Math.max(0.1, of('millis') / 1000),
    requests: of('requests'),
    hits: of('hits'),
    hitsDisk: of('hits_disk'),
    hitsFleet: of('hits_fleet'),
    misses: of('misses'),
    passes: of('passes'),
    sent: of('bytes_sent'),
    received: of('bytes_received'),
    errors4: of('errors_4xx'),
    errors5: of('errors_5xx'),
    savedUs: of('saved_us'),
    hitP50: time('hit_p50_us'),
    hitP99: time('hit_p99_us'),
    missP50: time('miss_p50_us'),
    missP99: time('miss_p99_us'),
  };
}

export const history = new History();

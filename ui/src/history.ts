// The history of the last two hours that larder keeps: the page reads it once when it opens, and then its new steps. Drawing is not here.
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

/** Steps that the page keeps: two hours. */
const MOST = 720;
/** Seconds of a step that follows another at once, and of the answer's way. */
const LATE = 5;

class History {
  points: Point[] = [];
  marks: Mark[] = [];
  /** Changes with each answer that had something new. */
  version = 0;
  private steps: Step[] = [];
  private step = 10;
  private asked = 0;
  private since = 0;

  /** Reads what is new, at most once a step; `now` is Unix seconds. */
  async follow(now: number): Promise<void> {
    // A step ends a little before it is read.
    if (now - this.asked < this.step) return;
    this.asked = now;
    // A mark of the same second may have come after the last answer.
    const since = Math.max(0, this.since - 1) || null;
    const kept = await get<Kept>(`/api/v1/history${query({ since })}`, AbortSignal.timeout(5000)).catch(() => null);
    if (kept) this.take(kept);
  }

  clear(): void {
    this.points = [];
    this.marks = [];
    this.steps = [];
    this.asked = this.since = 0;
  }

  /** The minute that ended `ago` seconds before `now`; null where larder did not run then. */
  minute(now: number, ago: number): Minute | null {
    const end = now - ago;
    const of = this.steps.filter((it) => it.at > end - 60 && it.at <= end + LATE);
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

  private take(kept: Kept): void {
    this.step = kept.step;
    const steps = kept.samples.map((it) => stepOf(kept.columns, it)).filter((it) => it.at > this.since);
    // Their times are of larder's clock; charts are by the browser's.
    const ahead = Date.now() / 1000 - kept.now;
    const skew = Math.abs(ahead) > LATE ? ahead : 0;
    const isKnown = (it: Mark): boolean => this.marks.some((other) => Math.abs(other.at - it.at - skew) < 1 && other.what === it.what);
    const marks = kept.marks.map((it) => ({ ...it, at: it.at + skew })).filter((it) => !isKnown({ ...it, at: it.at - skew }));
    for (const it of steps) {
      const before = this.points.at(-1);
      const end = it.at + skew;
      const began = end - it.seconds;
      if (before && began - before.at > LATE) this.points.push({ ...EMPTY, at: before.at + 1 });
      this.points.push(pointOf(end, it.seconds, it, it));
    }
    this.steps = [...this.steps, ...steps].slice(-MOST);
    this.points = this.points.slice(-MOST);
    this.marks = [...this.marks, ...marks].slice(-MOST);
    this.since = this.steps.at(-1)?.at ?? this.since;
    if (steps.length || marks.length) this.version += 1;
  }
}

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

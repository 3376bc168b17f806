// The points of the charts, of steps that larder kept and of readings that the page took: both are rates per second.
import type { Histogram } from './types';

/** One moment. A null is what is not known of it. */
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
  /** Latencies of the minute before, microseconds. */
  hitP50: number | null;
  hitP99: number | null;
  missP50: number | null;
  missP99: number | null;
  sent: number | null;
  received: number | null;
  errors4: number | null;
  errors5: number | null;
  /** Seconds of origin time that hits did not cost, per second. */
  saved: number | null;
}

export const EMPTY: Omit<Point, 'at'> = {
  requests: null,
  hitsRam: null,
  hitsDisk: null,
  hitsFleet: null,
  misses: null,
  passes: null,
  others: null,
  ratio: null,
  hitP50: null,
  hitP99: null,
  missP50: null,
  missP99: null,
  sent: null,
  received: null,
  errors4: null,
  errors5: null,
  saved: null,
};

/** What was counted in a time; of hits, those of disk and fleet again. */
export interface Grown {
  requests: number;
  hits: number;
  hitsDisk: number;
  hitsFleet: number;
  misses: number;
  passes: number;
  sent: number;
  received: number;
  errors4: number;
  errors5: number;
  /** Requests to origins that could have been hits; a sample of the history has none. */
  couldBe?: number;
  /** Misses whose response came from the cache after a 304; a sample of the history has none. */
  validated?: number;
  savedUs: number;
}

export type Times = Pick<Point, 'hitP50' | 'hitP99' | 'missP50' | 'missP99'>;

export function pointOf(at: number, seconds: number, of: Grown, times: Times): Point {
  const rate = (value: number): number => value / seconds;
  return {
    at,
    requests: rate(of.requests),
    hitsRam: rate(Math.max(0, of.hits - of.hitsDisk - of.hitsFleet)),
    hitsDisk: rate(of.hitsDisk),
    hitsFleet: rate(of.hitsFleet),
    misses: rate(of.misses),
    passes: rate(of.passes),
    others: rate(Math.max(0, of.requests - of.hits - of.misses - of.passes)),
    ratio: ratio(of.hits, of.misses, of.passes),
    hitP50: times.hitP50,
    hitP99: times.hitP99,
    missP50: times.missP50,
    missP99: times.missP99,
    sent: rate(of.sent),
    received: rate(of.received),
    errors4: rate(of.errors4),
    errors5: rate(of.errors5),
    saved: rate(of.savedUs) / 1e6,
  };
}

/** Hits among the requests that the cache had to do with; null where there were none. */
export function ratio(hits: number, misses: number, passes: number): number | null {
  const all = hits + misses + passes;
  return all > 0 ? hits / all : null;
}

/** Whether failures are many, so that they are red: from the share and the number of requests at which the state is no longer healthy. */
export const areMany = (failed: number, requests: number): boolean => requests >= 20 && failed >= requests * 0.05;

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

// The live stream: the latest requests that larder keeps, and then each as it finishes. While the list is still, new ones wait.
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Problem, events, problemOf, query } from '../api';
import type { RequestRecord } from '../types';

/** Requests that are kept here, and that may wait; what is older goes. */
export const MOST_KEPT = 300;
/** Milliseconds between two drawings: a shorter interval would be unreadable. */
const DRAW = 250;

export interface Stream {
  /** The newest first. */
  rows: RequestRecord[];
  /** Those that came while the list was still. */
  waiting: RequestRecord[];
  /** How many of these there were, those that went again included. */
  fresh: number;
  seen: number;
  lost: number;
  rate: number;
  state: 'opening' | 'open' | 'closed';
  problem: Problem | null;
}

const EMPTY: Stream = { rows: [], waiting: [], fresh: 0, seen: 0, lost: 0, rate: 0, state: 'opening', problem: null };

/** Both, each request but once. Ids sort as the requests finished. */
function joined(came: RequestRecord[], rows: RequestRecord[]): RequestRecord[] {
  const all = new Map([...rows, ...came].map((it) => [it.id, it]));
  return [...all.values()].sort((a, b) => (a.id < b.id ? 1 : -1)).slice(0, MOST_KEPT);
}

/** With what waits among the rows. */
const merged = (it: Stream): Stream => ({ ...it, rows: joined(it.waiting, it.rows), waiting: [], fresh: 0 });

/** Follows the stream while `paused` is not set; rows come in bunches, and wait while `still` is set. `show` lets them in. */
export function useStream(filter: string, paused: boolean, still: boolean): Stream & { show: () => void } {
  const [state, set] = useState(EMPTY);
  const shown = useRef(filter);
  const stands = useRef(still);
  stands.current = still;
  useEffect(() => {
    if (!still) set((it) => (it.fresh > 0 ? merged(it) : it));
  }, [still]);
  useEffect(() => {
    if (paused) return;
    const ends = new AbortController();
    let past: RequestRecord[] | null = [];
    let fresh: RequestRecord[] = [];
    let lost = 0;
    let timer: number | undefined;
    const counts: number[] = [];
    set((it) => ({ ...it, state: 'opening', problem: null }));
    const take = (came: RequestRecord[], more: (it: Stream) => Partial<Stream>): void =>
      set((it) => {
        const next = { ...it, ...more(it) };
        if (came.length === 0) return next;
        if (!stands.current || it.rows.length === 0) return merged({ ...next, rows: joined(came, it.rows) });
        const known = new Set([...it.rows, ...it.waiting].map((one) => one.id));
        const others = came.filter((one) => !known.has(one.id));
        return { ...next, waiting: joined(others, it.waiting), fresh: it.fresh + others.length };
      });
    const draw = window.setInterval(() => {
      counts.push(fresh.length);
      if (counts.length > 2000 / DRAW) counts.shift();
      const rate = counts.reduce((sum, it) => sum + it, 0) / ((counts.length * DRAW) / 1000);
      const [came, gone] = [fresh, lost];
      [fresh, lost] = [[], 0];
      take(came, (it) => ({ rate, lost: it.lost + gone, seen: it.seen + came.length }));
    }, DRAW);
    const follow = async (): Promise<void> => {
      try {
        await events(
          `/api/v1/stream${query({ filter, recent: MOST_KEPT })}`,
          ends.signal,
          () => {
            past = [];
            // What another filter let through is not what this one does; a filter that is wrong takes nothing away.
            const other = shown.current !== filter;
            shown.current = filter;
            set((it) => ({ ...(other ? EMPTY : it), state: 'open', problem: null }));
          },
          (event, data) => {
            if (event === 'request') (past ?? fresh).push(data as RequestRecord);
            else if (event === 'lost') lost += (data as { count: number }).count;
            else if (event === 'recent') {
              take(past ?? [], () => ({}));
              past = null;
            }
            if (fresh.length > MOST_KEPT) lost += fresh.splice(0, fresh.length - MOST_KEPT).length;
          },
        );
      } catch (error) {
        if (ends.signal.aborted) return;
        const problem = problemOf(error, 'The stream was interrupted.');
        set((it) => ({ ...it, state: 'closed', problem }));
        // A filter that is wrong stays wrong.
        if (problem.status >= 400 && problem.status < 500 && problem.status !== 429) return;
      }
      if (!ends.signal.aborted) timer = window.setTimeout(() => void follow(), 1000);
    };
    void follow();
    return () => {
      ends.abort();
      window.clearInterval(draw);
      window.clearTimeout(timer);
    };
  }, [filter, paused]);
  return { ...state, show: () => set(merged) };
}

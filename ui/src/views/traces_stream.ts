// The traces of finished requests: the latest that larder keeps, and then each as it comes over the stream.
import { useEffect, useState } from 'preact/hooks';
import { type Problem, events, get, problemOf, query } from '../api';
import type { Trace, Traces } from '../types';

/** Traces that are kept here; what is older goes. */
const MOST_KEPT = 1000;
/** Milliseconds between two drawings: a shorter interval would make the dots jump. */
const DRAW = 1000;
/** Milliseconds after which a stream that ended is opened again. */
const AGAIN = 1000;

export interface Followed {
  /** How often each route is traced, and the names of the stages; null until larder has answered. */
  data: Pick<Traces, 'sampling' | 'stages'> | null;
  /** In the order in which they began. */
  traces: Trace[];
  /** Those that came faster than they could be sent. */
  lost: number;
  problem: Problem | null;
  /** Requests the sampling again. */
  again: () => void;
}

/** The latest of two bunches, each but once, in order. */
function joined(old: Trace[], fresh: Trace[]): Trace[] {
  const known = new Set(fresh.map((it) => it.id));
  return [...old.filter((it) => !known.has(it.id)), ...fresh].sort((a, b) => a.start_us - b.start_us).slice(-MOST_KEPT);
}

/** Follows the traces of a route, or of all where it is empty, while `stopped` is not set. */
export function useTraces(route: string, stopped: boolean): Followed {
  const [state, set] = useState<Omit<Followed, 'again'>>({ data: null, traces: [], lost: 0, problem: null });
  const [turn, setTurn] = useState(0);

  // Of another route, nothing of this one is shown.
  useEffect(() => set((it) => ({ ...it, traces: [], lost: 0 })), [route]);

  useEffect(() => {
    if (stopped) return;
    const ends = new AbortController();
    let fresh: Trace[] = [];
    let lost = 0;
    let timer: number | undefined;
    const draw = window.setInterval(() => {
      if (fresh.length === 0 && lost === 0) return;
      const [came, gone] = [fresh, lost];
      [fresh, lost] = [[], 0];
      set((it) => ({ ...it, traces: joined(it.traces, came), lost: it.lost + gone }));
    }, DRAW);
    const follow = async (): Promise<void> => {
      try {
        await events(
          `/api/v1/traces/stream${query({ route })}`,
          ends.signal,
          // What was finished before the stream began; it is open already, so that nothing falls between.
          () => void list(),
          (event, data) => {
            if (event === 'trace') fresh.push(data as Trace);
            else if (event === 'lost') lost += (data as { count: number }).count;
            if (fresh.length > MOST_KEPT) fresh.splice(0, fresh.length - MOST_KEPT);
          },
        );
      } catch (error) {
        if (ends.signal.aborted) return;
        failed(error);
      }
      if (!ends.signal.aborted) timer = window.setTimeout(() => void follow(), AGAIN);
    };
    const list = async (): Promise<void> => {
      try {
        const all = await get<Traces>(`/api/v1/traces${query({ route, limit: MOST_KEPT })}`, ends.signal);
        set((it) => ({ ...it, data: all, traces: joined(all.traces, it.traces), problem: null }));
      } catch (error) {
        if (!ends.signal.aborted) failed(error);
      }
    };
    const failed = (error: unknown): void => {
      const problem = problemOf(error, 'The stream was interrupted.');
      set((it) => ({ ...it, problem }));
    };
    void follow();
    return () => {
      ends.abort();
      window.clearInterval(draw);
      window.clearTimeout(timer);
    };
  }, [route, stopped]);

  // The sampling, after it was changed here, also while the stream is stopped.
  useEffect(() => {
    if (turn === 0) return;
    const ends = new AbortController();
    get<Traces>(`/api/v1/traces${query({ limit: 1 })}`, ends.signal)
      .then((data) => set((it) => ({ ...it, data, problem: null })))
      .catch(() => null);
    return () => ends.abort();
  }, [turn]);

  return { ...state, again: () => setTurn((it) => it + 1) };
}

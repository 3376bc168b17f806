// Hooks that several views share: they follow the readings, the address and a medium, and send one request.
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Problem, problemOf } from './api';
import { readings } from './readings';

/** Draws again at each reading. */
export function useReadings(): typeof readings {
  const [, turn] = useState(0);
  useEffect(() => readings.listen(() => turn((it) => it + 1)), []);
  return readings;
}

export interface Place {
  view: string;
  params: URLSearchParams;
}

export function place(): Place {
  const [view = '', params = ''] = location.hash.replace(/^#\/?/, '').split('?', 2);
  return { view, params: new URLSearchParams(params) };
}

/** The view of the address, kept up to date; `turn` changes with each navigation. */
export function usePlace(): Place & { turn: number } {
  const [it, set] = useState(() => ({ ...place(), turn: 0 }));
  useEffect(() => {
    const changed = (): void => set((before) => ({ ...place(), turn: before.turn + 1 }));
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);
  return it;
}

export function go(view: string, params: Record<string, string> = {}): void {
  const text = new URLSearchParams(params).toString();
  location.hash = `#/${view}${text ? `?${text}` : ''}`;
}

/** Writes the view's state into the address, without a step in the history; not once the address names another view, which is about to be opened. */
export function note(view: string, params: Record<string, string>): void {
  if ((place().view || 'overview') !== view) return;
  const kept = Object.entries(params).filter(([, it]) => it !== '');
  const text = new URLSearchParams(kept).toString();
  history.replaceState(null, '', `#/${view}${text ? `?${text}` : ''}`);
}

export function useMedia(text: string): boolean {
  const [it, set] = useState(() => matchMedia(text).matches);
  useEffect(() => {
    const media = matchMedia(text);
    const changed = (): void => set(media.matches);
    media.addEventListener('change', changed);
    return () => media.removeEventListener('change', changed);
  }, [text]);
  return it;
}

export interface Fetched<T> {
  data: T | null;
  problem: Problem | null;
  busy: boolean;
  again: () => void;
  /** Takes what was asked for elsewhere as the answer. */
  take: (data: T) => void;
}

/** Milliseconds after which a request is repeated that larder was too busy for: longer than larder itself waits for its turn. */
const BUSY = 1500;

/**
 * Asks when `key` changes, every `every` milliseconds, again after a 503, and once larder is back that was lost; what was answered stays
 * until the next answer.
 */
export function useFetched<T>(key: string | null, asks: (signal: AbortSignal) => Promise<T>, every = 0): Fetched<T> {
  const [state, set] = useState<{ data: T | null; problem: Problem | null; busy: boolean }>({
    data: null,
    problem: null,
    busy: key !== null,
  });
  const [turn, setTurn] = useState(0);
  const run = useRef(asks);
  run.current = asks;
  useEffect(() => {
    if (key === null) return;
    const ends = new AbortController();
    let timer: number | undefined;
    const once = async (): Promise<void> => {
      let next = every;
      try {
        if (!document.hidden || !every) {
          const data = await run.current(ends.signal);
          if (!ends.signal.aborted) set({ data, problem: null, busy: false });
        }
      } catch (error) {
        if (ends.signal.aborted) return;
        const problem = problemOf(error);
        set((it) => ({ data: it.data, problem, busy: false }));
        if (problem.status === 503) next ||= BUSY;
      }
      if (next && !ends.signal.aborted) timer = window.setTimeout(() => void once(), next);
    };
    set((it) => ({ ...it, busy: true }));
    void once();
    return () => {
      ends.abort();
      window.clearTimeout(timer);
    };
  }, [key, turn, every]);
  const again = (): void => setTurn((it) => it + 1);
  // A request without an answer is sent again once larder answers another one.
  const unanswered = state.problem?.status === 0 && !state.busy;
  useEffect(() => (unanswered ? readings.listen(() => readings.link === 'live' && again()) : undefined), [unanswered]);
  const take = (data: T): void => set((it) => ({ ...it, data, problem: null }));
  return { ...state, again, take };
}

export interface Sending {
  busy: boolean;
  problem: Problem | null;
  /** Runs `it`; its failure becomes the problem. */
  send: (it: () => Promise<void>) => Promise<void>;
}

/** One change at a time that a button sends, and its failure. */
export function useSend(): Sending {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const send = async (it: () => Promise<void>): Promise<void> => {
    setBusy(true);
    setProblem(null);
    try {
      await it();
    } catch (error) {
      setProblem(problemOf(error));
    }
    setBusy(false);
  };
  return { busy, problem, send };
}

/** The latest value, once it has not changed for `ms`. */
export function useDebounced<T>(value: T, ms: number): T {
  const [it, set] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => set(value), ms);
    return () => window.clearTimeout(timer);
  }, [value, ms]);
  return it;
}

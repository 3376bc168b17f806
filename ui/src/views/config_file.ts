// The configuration as it is saved: read when the view opens, when the tab is shown again, and every half minute, because others may
// have changed the file.
import { useEffect, useRef } from 'preact/hooks';
import { get } from '../api';
import { type Fetched, useFetched } from '../hooks';
import type { Config } from '../types';

/** Milliseconds between two readings. */
const EVERY = 30_000;

export const configuration = (signal?: AbortSignal): Promise<Config> => get<Config>('/api/v1/config', signal);

/** What may change of it. */
const withoutKeys = (it: Config | null): string => JSON.stringify(it && { ...it, keys: null });

/** The saved configuration; `turn` reads it again. */
export function useSaved(turn: number): Fetched<Config> {
  const fetched = useFetched<Config>(String(turn), configuration);
  const { data, take } = fetched;
  const known = useRef(data);
  known.current = data;
  useEffect(() => {
    let isOpen = true;
    const read = (): void => {
      if (document.hidden) return;
      // The frame shows that larder does not respond.
      void configuration().then((it) => isOpen && withoutKeys(it) !== withoutKeys(known.current) && take(it), () => null);
    };
    const timer = window.setInterval(read, EVERY);
    addEventListener('focus', read);
    document.addEventListener('visibilitychange', read);
    return () => {
      isOpen = false;
      window.clearInterval(timer);
      removeEventListener('focus', read);
      document.removeEventListener('visibilitychange', read);
    };
    // What was read before a change was applied is not taken after it.
  }, [turn]);
  return fetched;
}

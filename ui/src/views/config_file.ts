// The configuration as it is saved: read when the view opens, when the tab is shown again, and every half minute, because the file may
// have been changed elsewhere; more often until a changed file is in force.
import { useEffect, useRef } from 'preact/hooks';
import { get } from '../api';
import { type Fetched, useFetched } from '../hooks';
import type { Config } from '../types';

/** Milliseconds between two readings. */
const EVERY = 30_000;
/** The same while the file is not in force. */
const SOON = 2000;

export const configuration = (signal?: AbortSignal): Promise<Config> => get<Config>('/api/v1/config', signal);

/** Whether the file is not in force, for another reason than keys that need a restart. */
export const waitsForReload = (it: Config): boolean => it.running_hash !== null && it.running_hash !== it.hash && it.pending.length === 0;

/** What may change of it. */
const withoutKeys = (it: Config | null): string => JSON.stringify(it && { ...it, keys: null });

/** The saved configuration; `turn` reads it again. */
export function useSaved(turn: number): Fetched<Config> {
  const fetched = useFetched<Config>(String(turn), configuration);
  const { data } = fetched;
  const known = useRef(data);
  known.current = data;
  // A reading that began before the file was changed here is not taken.
  const taken = useRef(0);
  const take = (it: Config): void => {
    taken.current += 1;
    fetched.take(it);
  };
  const every = data && waitsForReload(data) ? SOON : EVERY;
  useEffect(() => {
    let isOpen = true;
    const read = (): void => {
      if (document.hidden) return;
      // The frame shows that larder does not respond.
      const before = taken.current;
      void configuration().then((it) => isOpen && before === taken.current && withoutKeys(it) !== withoutKeys(known.current) && take(it), () => null);
    };
    const timer = window.setInterval(read, every);
    addEventListener('focus', read);
    document.addEventListener('visibilitychange', read);
    return () => {
      isOpen = false;
      window.clearInterval(timer);
      removeEventListener('focus', read);
      document.removeEventListener('visibilitychange', read);
    };
  }, [turn, every]);
  return { ...fetched, take };
}

// Which keys the file has otherwise than what runs, so that they wait for a restart: every answer about the configuration tells it,
// and the frame shows it in all views.
import { useEffect, useState } from 'preact/hooks';
import { get } from './api';
import type { Config } from './types';

/** Milliseconds between two questions: somebody with an editor may have changed the file. */
const EVERY = 30_000;

let keys: string[] = [];
const hearers = new Set<() => void>();

/** Asks for the configuration, and has the frame tell what it waits with. */
export async function configuration(signal?: AbortSignal): Promise<Config> {
  const it = await get<Config>('/api/v1/config', signal);
  keys = it.pending;
  for (const hearer of hearers) hearer();
  return it;
}

/** The keys that wait; asked for while this is shown. */
export function usePending(): string[] {
  const [, turn] = useState(0);
  useEffect(() => {
    const ask = (): void => {
      // Whoever lost larder is told so elsewhere.
      if (!document.hidden) void configuration().catch(() => null);
    };
    const hearer = (): void => turn((it) => it + 1);
    hearers.add(hearer);
    ask();
    const timer = window.setInterval(ask, EVERY);
    return () => {
      hearers.delete(hearer);
      window.clearInterval(timer);
    };
  }, []);
  return keys;
}

// Keys: single ones, and pairs that begin with `g`. Not while a text is edited, and never with Ctrl, Alt or Meta.
import { useEffect, useRef } from 'preact/hooks';

/** What a key does; `false` says that it had nothing to do here, and leaves the key to the browser. */
export type Keys = Record<string, (event: KeyboardEvent) => unknown>;

/** Milliseconds in which the second key of a pair is waited for. */
const PAIR = 1200;

function writes(target: EventTarget | null): boolean {
  const it = target as HTMLElement | null;
  return !!it?.closest?.('input, textarea, select, [contenteditable]');
}

/** Follows keys while the component is there. Names: `/`, `?`, `g o`, `Escape`. Escape is heard while writing, too; nothing is while a dialog is open. */
export function useKeys(keys: Keys): void {
  const now = useRef(keys);
  now.current = keys;
  useEffect(() => {
    let first = '';
    let at = 0;
    const pressed = (event: KeyboardEvent): void => {
      // What is open over the page has the keys.
      if (document.querySelector('dialog[open]')) return;
      if (event.ctrlKey || event.altKey || event.metaKey || event.defaultPrevented) return;
      if (writes(event.target) && event.key !== 'Escape') return;
      const pair = first && event.timeStamp - at < PAIR ? `${first} ${event.key}` : '';
      first = '';
      const found = now.current[pair] ?? now.current[event.key];
      if (found) {
        if (found(event) !== false) event.preventDefault();
      } else if (event.key === 'g') {
        first = 'g';
        at = event.timeStamp;
      }
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);
}

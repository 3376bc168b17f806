// A list of which most have few rows and some have hundreds: the first of it, and a button for the rest.
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';

/** Rows that are shown at first. */
export const FEW = 12;

/** The rows of `all` that are shown, and the button beneath; null where all is shown. All are shown once the first lack one that is `sought`. */
export function useShort<T>(all: T[], noun: string, few = FEW, sought: (row: T) => boolean = () => false): [T[], JSX.Element | null] {
  const [whole, set] = useState(false);
  const isSought = useRef(false);
  isSought.current ||= all.slice(few).some(sought);
  if (whole || isSought.current || all.length <= few) return [all, null];
  const more = (
    <p class="more">
      <button class="button" onClick={() => set(true)}>
        Show all {all.length.toLocaleString('en')} {noun}
      </button>
    </p>
  );
  return [all.slice(0, few), more];
}

// A list of which most have few rows and some have hundreds: the first of it, and a button for the rest.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

/** Rows that are shown at first. */
export const FEW = 12;

/** The rows of `all` that are shown, and the button beneath; null where all is shown. */
export function useShort<T>(all: T[], noun: string, few = FEW): [T[], JSX.Element | null] {
  const [whole, set] = useState(false);
  if (whole || all.length <= few) return [all, null];
  const more = (
    <p class="more">
      <button class="button" onClick={() => set(true)}>
        Show all {all.length.toLocaleString('en')} {noun}
      </button>
    </p>
  );
  return [all.slice(0, few), more];
}

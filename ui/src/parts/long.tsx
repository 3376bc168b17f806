// A text that may be as long as a page, such as a URL or the value of a field: its beginning, and a button for all of it.
import type { ComponentChildren, JSX } from 'preact';
import { useState } from 'preact/hooks';

/** Characters that are shown at first. */
const SHOWN = 300;

/** The first characters of a text, and a mark where there are more; half a character is none. */
export const cut = (text: string, most = SHOWN): string => (text.length > most ? `${text.slice(0, most).replace(/[\uD800-\uDBFF]$/, '')}…` : text);

interface Props {
  text: string;
  /** Draws the part that is shown. */
  draw?: (text: string) => ComponentChildren;
}

export function Long({ text, draw = (it) => it }: Props): JSX.Element {
  const [whole, set] = useState(false);
  if (text.length <= SHOWN) return <>{draw(text)}</>;
  return (
    <>
      {draw(whole ? text : cut(text))}{' '}
      <button type="button" class="link long" aria-expanded={whole} onClick={() => set(!whole)}>
        {whole ? 'Show less' : `Show all ${text.length.toLocaleString('en')} characters`}
      </button>
    </>
  );
}

// A share as a bar with its text.
import type { JSX } from 'preact';
import * as format from '../format';

export function Meter({ share, text }: { share: number | null; text?: string }): JSX.Element {
  return (
    <span class="meter">
      <span class="meter-rail" aria-hidden="true">
        <span style={{ width: `${Math.min(1, share ?? 0) * 100}%` }} />
      </span>
      <span class="meter-text">{text ?? format.flat(format.share(share))}</span>
    </span>
  );
}

// Short words at the corner that something was done; told to screen readers, gone after a while.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Icon } from './icons';
import { Codes } from './linked';
import { cut } from './long';

interface Toast {
  id: number;
  text: string;
  bad: boolean;
}

/** Milliseconds that one is shown. */
const SHOWN_MILLIS = 6000;
/** Characters that one has at most. */
const MOST = 240;
let toasts: Toast[] = [];
let next = 0;
let draw: () => void = () => {};

export function showToast(text: string, bad = false): void {
  const id = next++;
  toasts = [...toasts.slice(-2), { id, text: cut(text, MOST), bad }];
  draw();
  setTimeout(() => {
    toasts = toasts.filter((it) => it.id !== id);
    draw();
  }, SHOWN_MILLIS);
}

export function Toasts(): JSX.Element {
  const [, turn] = useState(0);
  useEffect(() => {
    draw = () => turn((it) => it + 1);
  }, []);
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.map((it) => (
        <div key={it.id} class={it.bad ? 'toast bad' : 'toast'}>
          <Icon name={it.bad ? 'warn' : 'check'} />
          <Codes text={it.text} />
        </div>
      ))}
    </div>
  );
}

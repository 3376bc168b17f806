// A dialog over the page, and a drawer at its side: both take the focus, keep it, give it back, and close with Escape.
import type { ComponentChildren, JSX } from 'preact';
import { useId, useLayoutEffect, useRef } from 'preact/hooks';
import { Icon } from './icons';
import { Long } from './long';

interface Props {
  title: string;
  /** Set smaller over the title. */
  over?: ComponentChildren;
  close: () => void;
  children: ComponentChildren;
  foot?: ComponentChildren;
  wide?: boolean;
  side?: boolean;
}

export function Dialog({ title, over, close, children, foot, wide, side }: Props): JSX.Element {
  const box = useRef<HTMLDialogElement>(null);
  const id = useId();
  // Before it is painted: Escape that follows the click at once closes it.
  useLayoutEffect(() => {
    const it = box.current!;
    const before = document.activeElement as HTMLElement | null;
    it.showModal();
    it.querySelector<HTMLElement>('[data-first]')?.focus();
    return () => {
      it.close();
      before?.focus?.();
    };
  }, []);
  return (
    <dialog
      ref={box}
      class={side ? 'drawer' : wide ? 'dialog wide' : 'dialog'}
      aria-labelledby={id}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
      onClick={(event) => event.target === box.current && close()}
    >
      <div class="dialog-box">
        <header class="dialog-head">
          <div>
            {over && <div class="over">{over}</div>}
            <h2 id={id}>
              <Long text={title} />
            </h2>
          </div>
          <button type="button" class="tool" onClick={close} aria-label="Close" title="Close (Esc)">
            <Icon name="close" />
          </button>
        </header>
        <div class="dialog-body">{children}</div>
        {foot && <footer class="dialog-foot">{foot}</footer>}
      </div>
    </dialog>
  );
}

export const Drawer = (props: Props): JSX.Element => <Dialog {...props} side />;

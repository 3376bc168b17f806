// The configuration as text: numbered lines, what is wrong at its place, and a list that completes keys, sections and values.
import type { JSX } from 'preact';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { Problems } from '../parts/diff';
import { Icon } from '../parts/icons';
import { Codes } from '../parts/linked';
import type { ConfigProblem, Key } from '../types';
import { type Completions, complete } from './config_complete';

/** A place that is to be shown; another object shows it again. */
export interface Target {
  line: number;
  /** Counted from 1; null selects the line. */
  column: number | null;
}

interface Props {
  text: string;
  keys: Key[];
  target: Target | null;
  problems: ConfigProblem[];
  /** The name of an included file, as problems have it; null is the main one. */
  file: string | null;
  write: (text: string) => void;
  /** Shows the place of a problem, in whatever file it is. */
  show: (it: ConfigProblem) => void;
  editable: boolean;
}

/** Pixels of a line, and around the text, as in the style. */
const LINE = 20;
const [ABOVE, INDENT] = [10, 14];
/** The width of a character of the text, rounded up. */
const CHARACTER = 8;

/** Characters that are typed before the list opens by itself. */
const ENOUGH = 2;

interface List extends Completions {
  /** The chosen item; -1 is none: Tab and Enter do what they do without a list. */
  at: number;
}

export function ConfigText({ text, keys, target, problems, file, write, show, editable }: Props): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  const [list, setList] = useState<List | null>(null);
  const [scrolled, setScrolled] = useState(0);
  const id = useId();
  const lines = text.split('\n');
  const own = problems.filter((it) => it.file === file && it.line !== null && it.line <= lines.length);
  const wrong = new Set(own.map((it) => it.line));
  useEffect(() => {
    const box = area.current;
    if (!box || !target || target.line < 1 || target.line > lines.length) return;
    const start = startOf(lines, target.line);
    const length = lines[target.line - 1]!.length;
    box.focus({ preventScroll: true });
    if (target.column === null) box.setSelectionRange(start, start + length);
    else box.setSelectionRange(start + Math.min(target.column - 1, length), start + Math.min(target.column - 1, length));
    box.closest('.editor')?.querySelector(`.gutter span:nth-child(${target.line})`)?.scrollIntoView({ block: 'center' });
  }, [target]);
  const open = (at: number): void => {
    const box = area.current!;
    const found = editable && box.selectionStart === box.selectionEnd ? complete(keys, box.value, box.selectionStart) : null;
    setList(found && { ...found, at });
  };
  const typed = (box: HTMLTextAreaElement, event: InputEvent): void => {
    write(box.value);
    const found = editable ? complete(keys, box.value, box.selectionStart) : null;
    const isTyped = event.inputType.startsWith('insert') && found !== null && box.selectionStart - found.from >= ENOUGH;
    // While the list is open, it follows what is typed.
    if (list && list.at >= 0 && found) setList({ ...found, at: 0 });
    else setList(isTyped ? { ...found, at: -1 } : null);
  };
  const accept = (of: List, at: number): void => {
    const box = area.current!;
    const { insert } = of.items[at]!;
    box.setSelectionRange(of.from, of.to);
    // As if it were typed: the browser can undo it.
    if (!document.execCommand('insertText', false, insert)) {
      box.setRangeText(insert, of.from, of.to, 'end');
      write(box.value);
    }
    setList(null);
    // Behind a key, its values.
    if (insert.endsWith('= ')) open(0);
  };
  const pressed = (event: KeyboardEvent): void => {
    if (event.key === ' ' && event.ctrlKey && !event.altKey && !event.metaKey) {
      event.preventDefault();
      open(0);
    } else if (list && !event.ctrlKey && !event.altKey && !event.metaKey && !event.isComposing) {
      listKey(event, list, setList, accept);
    }
  };
  const active = list && list.at >= 0 ? list.items[list.at]! : null;
  return (
    <>
      {problems.length > 0 && <Problems of={problems} show={show} />}
      <p class="hint" id={`${id}-hint`}>
        <kbd>Ctrl</kbd> <kbd>Space</kbd> lists the keys, sections and values that can stand at the cursor.
      </p>
      <div class="editor">
        <div class="gutter" aria-hidden="true">
          {lines.map((_, line) => (
            <span key={line} class={wrong.has(line + 1) ? 'wrong' : ''}>
              {line + 1}
            </span>
          ))}
        </div>
        <div class="editor-text">
          {own.map((it, index) => (
            <Mark key={index} it={it} line={lines[it.line! - 1]!} scrolled={scrolled} show={() => show(it)} />
          ))}
          <textarea
            ref={area}
            data-search
            aria-label="The text of the configuration"
            aria-describedby={`${id}-hint`}
            aria-invalid={own.length > 0}
            aria-autocomplete="list"
            aria-haspopup="listbox"
            aria-controls={list ? `${id}-list` : undefined}
            aria-activedescendant={active ? `${id}-${list!.at}` : undefined}
            spellcheck={false}
            autocomplete="off"
            wrap="off"
            readOnly={!editable}
            rows={lines.length + 1}
            value={text}
            onInput={(event) => typed(event.currentTarget, event as InputEvent)}
            onKeyDown={pressed}
            onScroll={(event) => setScrolled(event.currentTarget.scrollLeft)}
            onBlur={() => setList(null)}
            onMouseDown={() => setList(null)}
          />
          {list && <Offers id={id} of={list} text={text} scrolled={scrolled} accept={(at) => accept(list, at)} />}
        </div>
      </div>
      <p class="away" role="status">
        {list && (active ? `${active.label}. ${active.about}` : `${list.items.length} ${list.items.length === 1 ? 'completion' : 'completions'}: Down chooses`)}
      </p>
    </>
  );
}

/** What a key does while the list is open. */
function listKey(event: KeyboardEvent, list: List, set: (it: List | null) => void, accept: (of: List, at: number) => void): void {
  const count = list.items.length;
  if (event.key === 'ArrowDown') set({ ...list, at: (list.at + 1) % count });
  else if (event.key === 'ArrowUp' && list.at >= 0) set({ ...list, at: (list.at + count - 1) % count });
  else if (event.key === 'Escape') set(null);
  else if ((event.key === 'Enter' || (event.key === 'Tab' && !event.shiftKey)) && list.at >= 0) accept(list, list.at);
  else {
    if (['ArrowUp', 'ArrowLeft', 'ArrowRight', 'Home', 'End', 'PageUp', 'PageDown'].includes(event.key)) set(null);
    return;
  }
  event.preventDefault();
  event.stopPropagation();
}

/** The position of the first character of a line, counted from 1. */
const startOf = (lines: string[], line: number): number => lines.slice(0, line - 1).reduce((sum, it) => sum + it.length + 1, 0);

/** A mistake: its words at the end of the line, and a wave below what it is about. */
function Mark({ it, line, scrolled, show }: { it: ConfigProblem; line: string; scrolled: number; show: () => void }): JSX.Element {
  const plain = it.message.replaceAll('`', '');
  const top = `${(it.line! - 1) * LINE + ABOVE}px`;
  const from = it.column === null ? line.length - line.trimStart().length : Math.min(it.column - 1, line.length);
  const length = it.column === null ? line.trim().length : (/^("[^"]*"?|'[^']*'?|[^\s=,[\]{}]+|.)/.exec(line.slice(from))?.[0].length ?? 0);
  // The sentence gets what the line leaves of the width, and the list above the text has all of it.
  const maxWidth = `calc(100% - ${line.length * CHARACTER + INDENT + 30}px)`;
  return (
    <>
      <button class="mark-line" style={{ top }} onClick={show} title={plain} aria-label={`Line ${it.line}: ${plain}`}>
        <Icon name="warn" size={13} />
        <span class="mark-text" style={{ maxWidth }}>
          <Codes text={it.message} />
        </span>
      </button>
      <pre class="wave" aria-hidden="true" style={{ top, left: `${INDENT - scrolled}px` }}>
        {line.slice(0, from)}
        <span>{line.slice(from, from + Math.max(length, 1)) || ' '}</span>
      </pre>
    </>
  );
}

interface OffersProps {
  id: string;
  of: List;
  text: string;
  scrolled: number;
  accept: (at: number) => void;
}

/** The list below the place that it completes. */
function Offers({ id, of, text, scrolled, accept }: OffersProps): JSX.Element {
  const box = useRef<HTMLUListElement>(null);
  const [left, setLeft] = useState(0);
  const before = text.slice(0, of.from).split('\n');
  const top = before.length * LINE + ABOVE;
  const prefix = before.at(-1)!;
  useLayoutEffect(() => {
    const it = box.current!;
    const measured = it.previousElementSibling!.getBoundingClientRect().width + INDENT - scrolled;
    setLeft(Math.max(0, Math.min(measured, it.parentElement!.clientWidth - it.offsetWidth)));
  }, [prefix, scrolled]);
  // The end of the text is often at the lower edge of the window.
  useEffect(() => box.current?.scrollIntoView({ block: 'nearest' }), []);
  useEffect(() => box.current?.querySelector('[aria-selected="true"]')?.scrollIntoView({ block: 'nearest' }), [of.at]);
  return (
    <>
      <pre class="ruler" aria-hidden="true">
        {prefix}
      </pre>
      <ul ref={box} id={`${id}-list`} class="offers" tabIndex={-1} role="listbox" aria-label="Completions" style={{ top: `${top}px`, left: `${left}px` }}>
        {of.items.map((it, at) => (
          <li
            key={it.label}
            id={`${id}-${at}`}
            role="option"
            aria-selected={at === of.at}
            // The text keeps the focus.
            onMouseDown={(event) => event.preventDefault()}
            onClick={() => accept(at)}
          >
            <code>{it.label}</code> <span>{it.about}</span>
          </li>
        ))}
      </ul>
    </>
  );
}

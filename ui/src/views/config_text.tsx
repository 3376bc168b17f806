// The configuration as text: numbered lines, and what is wrong at its line.
import type { JSX } from 'preact';
import { useEffect, useRef } from 'preact/hooks';
import { Problems } from '../parts/diff';
import { Icon } from '../parts/icons';
import type { ConfigProblem } from '../types';

interface Props {
  text: string;
  /** The line that is shown at first, counted from 1; 0 is none. */
  line: number;
  problems: ConfigProblem[];
  /** The name of an included file, as problems have it; null is the main one. */
  file: string | null;
  write: (text: string) => void;
  editable: boolean;
}

/** Pixels of a line, as in the style. */
const LINE = 20;

export function ConfigText({ text, line: first, problems, file, write, editable }: Props): JSX.Element {
  const area = useRef<HTMLTextAreaElement>(null);
  const lines = text.split('\n');
  const own = problems.filter((it) => it.file === file);
  const at = new Map(own.map((it) => [it.line, it]));
  const show = (it: ConfigProblem): void => {
    const box = area.current;
    if (!box || it.line === null) return;
    const start = lines.slice(0, it.line - 1).reduce((sum, line) => sum + line.length + 1, 0) + (it.column ?? 1) - 1;
    box.focus();
    box.setSelectionRange(start, start);
  };
  useEffect(() => {
    const box = area.current;
    if (!box || !first || first > lines.length) return;
    const start = lines.slice(0, first - 1).reduce((sum, line) => sum + line.length + 1, 0);
    box.focus({ preventScroll: true });
    box.setSelectionRange(start, start + lines[first - 1]!.length);
    box.closest('.editor')?.querySelector(`.gutter span:nth-child(${first})`)?.scrollIntoView({ block: 'center' });
  }, [first]);
  return (
    <>
      {problems.length > 0 && <Problems of={problems} />}
      <div class="editor">
        <div class="gutter" aria-hidden="true">
          {lines.map((_, line) => (
            <span key={line} class={at.has(line + 1) ? 'wrong' : ''}>
              {line + 1}
            </span>
          ))}
        </div>
        <div class="editor-text">
          {own.map((it, index) =>
            it.line === null ? null : (
              <button
                key={index}
                class="mark-line"
                style={{ top: `${(it.line - 1) * LINE + 10}px` }}
                onClick={() => show(it)}
                title={it.message}
                aria-label={`Line ${it.line}: ${it.message}`}
              >
                <Icon name="warn" size={13} />
                <span class="mark-text">{it.message}</span>
              </button>
            ),
          )}
          <textarea
            ref={area}
            data-search
            aria-label="The text of the configuration"
            aria-invalid={own.length > 0}
            spellcheck={false}
            autocomplete="off"
            wrap="off"
            readOnly={!editable}
            rows={lines.length + 1}
            value={text}
            onInput={(event) => write(event.currentTarget.value)}
          />
        </div>
      </div>
    </>
  );
}

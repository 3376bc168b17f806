// The difference of two texts, and the problems of a configuration, as several views show them.
import type { JSX } from 'preact';
import type { ConfigProblem, DiffLine } from '../types';
import { Icon } from './icons';
import { Codes } from './linked';

/** With `show`, a problem with a line is a button that shows its place. */
export function Problems({ of, show, mild = false }: { of: ConfigProblem[]; show?: (it: ConfigProblem) => void; mild?: boolean }): JSX.Element {
  return (
    <ul class={mild ? 'problems mild' : 'problems'} aria-label={mild ? 'Warnings' : 'Problems'}>
      {of.map((it, at) => (
        <li key={at}>
          <Icon name="warn" />
          {show && it.line !== null ? (
            <button class="link" onClick={() => show(it)}>
              <Sentence of={it} />
            </button>
          ) : (
            <span>
              <Sentence of={it} />
            </span>
          )}
        </li>
      ))}
    </ul>
  );
}

function Sentence({ of: it }: { of: ConfigProblem }): JSX.Element {
  return (
    <>
      {it.line !== null && (
        <b>
          {it.file !== null && `${it.file}, `}
          {it.file === null ? 'Line' : 'line'} {it.line}
          {it.column !== null ? `, column ${it.column}` : ''}:{' '}
        </b>
      )}
      {it.key !== null && <code>{it.key}: </code>}
      <Codes text={it.message} />
    </>
  );
}

/** Lines that are the same, in a row, beyond these around a change, are left out. */
const AROUND = 3;

export function Diff({ of }: { of: DiffLine[] }): JSX.Element {
  const near = of.map((_, at) => of.slice(Math.max(0, at - AROUND), at + AROUND + 1).some((it) => it.op !== ' '));
  return (
    <pre class="diff" tabIndex={0} aria-label="Difference">
      {of.map((it, at) => {
        if (!near[at]) return near[at - 1] || at === 0 ? <span key={at} class="gap">⋯{'\n'}</span> : null;
        return (
          <span key={at} class={it.op === '+' ? 'new' : it.op === '-' ? 'old' : ''}>
            {it.op} {it.text}
            {'\n'}
          </span>
        );
      })}
    </pre>
  );
}

// Proposed changes: each with its sentence, the difference in the configuration, and the way to its review.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { useReadings } from '../hooks';
import { review } from '../review';
import type { Change } from '../types';
import { Act } from './act';
import { Diff } from './diff';
import { Icon } from './icons';
import { LineLink, Linked } from './linked';

export function Changes({ of }: { of: Change[] }): JSX.Element | null {
  if (of.length === 0) return null;
  return (
    <ul class="changes">
      {of.map((it, at) => (
        <li key={at}>
          <One it={it} />
        </li>
      ))}
    </ul>
  );
}

function One({ it }: { it: Change }): JSX.Element {
  const [problem, setProblem] = useState('');
  const follow = (): void => void review(it).catch((error: unknown) => setProblem(error instanceof Error ? error.message : String(error)));
  const files = it.diff ?? [];
  const pending = useReadings().latest?.pending ?? [];
  // The file has the value already.
  const isSaved = it.diff?.length === 0 && (it.settings ?? []).some((line) => pending.some((key) => line.startsWith(`${key} = `)));
  return (
    <>
      <p>
        <Icon name={it.by === 'configuration' ? 'config' : 'arrow'} size={14} /> <Linked text={it.sentence} />
        {isSaved ? (
          <>
            {' '}
            It is saved, and waits for <a class="link" href="#/config">the restart</a>.
          </>
        ) : (
          it.restart && ' It takes effect at a restart.'
        )}
      </p>
      {files.map((file) => (
        <section key={file.file} aria-label={file.file}>
          <p class="rule-where">
            <Where text={`${file.file}:${file.line}`} />
          </p>
          <Diff of={file.lines} />
        </section>
      ))}
      {files.length === 0 && it.settings && <pre class="diff">{it.settings.join('\n')}</pre>}
      {files.length > 0 && (
        <Act of="admin" class="button" onClick={follow}>
          Review this change …
        </Act>
      )}
      {problem && (
        <p class="warn" role="alert">
          {problem}
        </p>
      )}
    </>
  );
}

/** A place in the configuration, as a link to its line where it is one. */
export function Where({ text }: { text: string }): JSX.Element {
  const [, before, file, line] = /^(.*?)([^\s:]+):(\d+)(?::\d+)?$/.exec(text) ?? [];
  if (!file) return <>{text}</>;
  return (
    <>
      {before}
      <LineLink file={file} line={line!} title={text}>
        {text.slice(before!.length).replace(/^.*\//, '')}
      </LineLink>
    </>
  );
}

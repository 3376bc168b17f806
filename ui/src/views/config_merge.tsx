// The merge of a draft with files that changed since it began: the view shows the merged lines, and offers a choice for each conflict.
import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';
import { Segments } from '../parts/basic';
import { Dialog } from '../parts/dialog';
import { Diff } from '../parts/diff';
import { Icon } from '../parts/icons';
import { type Choice, type Piece, merge3, merged } from '../merge';
import type { Config, DiffLine } from '../types';
import { type DraftFile, isChanged, saved } from './config_draft';

/** Equal lines that are shown around a change. */
const AROUND = 2;

const CHOICES: [Choice, string][] = [
  ['mine', 'Mine'],
  ['theirs', 'Theirs'],
  ['both', 'Both'],
];

const TITLES: Record<Exclude<Piece['kind'], 'same'>, string> = {
  mine: 'Changed in the draft',
  theirs: 'Changed in the file',
  alike: 'Changed in both, alike',
  conflict: 'Conflict',
};

/** Whether files are no longer those that a draft began with. */
export function isOutdated(draft: DraftFile[], now: DraftFile[]): boolean {
  const bases = (of: DraftFile[]): string => of.map((it) => `${it.path} ${it.base}`).join('\n');
  return bases(draft) !== bases(now);
}

interface FileMerge {
  file: DraftFile;
  pieces: Piece[];
}

interface Props {
  draft: DraftFile[];
  /** The configuration as it is saved now. */
  current: Config;
  close: () => void;
  /** Takes the files, with the merged texts. */
  done: (files: DraftFile[]) => void;
}

export function Merge({ draft, current, close, done }: Props): JSX.Element {
  const [choices, choose] = useState<Record<string, Choice>>({});
  const files = useMemo(() => saved(current).map((file) => mergeOf(draft, file)), [draft, current]);
  const gone = draft.filter((it) => isChanged(it) && !files.some(({ file }) => file.path === it.path));
  const keyOf = (file: DraftFile, conflict: number): string => `${file.path ?? ''}\n${file.base}\n${conflict}`;
  const chosen = ({ file, pieces }: FileMerge): (Choice | undefined)[] => conflictsOf(pieces).map((_, at) => choices[keyOf(file, at)]);
  const texts = files.map((it) => merged(it.pieces, chosen(it)));
  const all = files.flatMap((it) => it.pieces);
  const count = (kind: Piece['kind']): number => all.filter((it) => it.kind === kind).length;
  const conflicts = count('conflict');
  const open = files.flatMap(chosen).filter((it) => it === undefined).length;
  return (
    <Dialog
      title="Merge the draft with the file"
      close={close}
      wide
      foot={
        <>
          <button class="button" onClick={close}>
            Cancel
          </button>
          <button class="button primary" data-first disabled={open > 0} onClick={() => done(files.map(({ file }, at) => ({ ...file, text: texts[at]! })))}>
            Use the merged text
          </button>
        </>
      }
    >
      <p>
        The file changed after this draft began. {changes(count('mine'))} of the draft and {changes(count('theirs'))} of the file are of different lines, and are merged.
      </p>
      <p role="status" class={`merge-status ${open > 0 ? 'merge-open' : 'faint'}`}>
        {conflicts === 0 ? 'No conflict.' : open === 0 ? 'A choice is made for each conflict.' : conflicts === 1 ? 'One conflict without a choice.' : `${open} of ${conflicts} conflicts without a choice.`}
      </p>
      {files.map((it) => (
        <OneFile
          key={it.file.path ?? ''}
          of={it}
          named={files.length > 1}
          chosen={chosen(it)}
          choose={(at, choice) => choose((before) => ({ ...before, [keyOf(it.file, at)]: choice }))}
        />
      ))}
      {gone.map((it) => (
        <section key={it.path} aria-label={it.name}>
          <h3 class="mono diff-file">{it.name}</h3>
          <p class="warn">
            <Icon name="warn" /> The configuration no longer includes this file. The draft's changes to it are not in the merged text:
          </p>
          <Diff of={merge3(it.was, it.text, it.was).flatMap((piece) => lines(piece))} />
        </section>
      ))}
    </Dialog>
  );
}

const changes = (count: number): string => `${count} ${count === 1 ? 'change' : 'changes'}`;

const conflictsOf = (pieces: Piece[]): Piece[] => pieces.filter((it) => it.kind === 'conflict');

/** A file that the draft does not have was added by the others. */
function mergeOf(draft: DraftFile[], file: DraftFile): FileMerge {
  const own = draft.find((it) => it.path === file.path);
  return { file, pieces: merge3(own?.was ?? file.text, own?.text ?? file.text, file.text) };
}

/** A piece that is no conflict, as lines of a difference. */
function lines({ kind, base, mine, theirs }: Piece): DiffLine[] {
  const now = kind === 'theirs' ? theirs : mine;
  const diffLines = (op: string, of: string[]): DiffLine[] => of.map((it) => ({ op, text: it.replace(/\r?\n$/, '') }));
  return kind === 'same' ? diffLines(' ', base) : [...diffLines('-', base), ...diffLines('+', now)];
}

interface FileProps {
  of: FileMerge;
  /** Whether the name of the file is shown. */
  named: boolean;
  chosen: (Choice | undefined)[];
  choose: (conflict: number, choice: Choice) => void;
}

function OneFile({ of: { file, pieces }, named, chosen, choose }: FileProps): JSX.Element | null {
  if (pieces.every((it) => it.kind === 'same')) return null;
  // The lines of the file as it is now.
  let line = 1;
  let conflict = -1;
  return (
    <section aria-label={file.name}>
      {named && <h3 class="mono diff-file">{file.name}</h3>}
      {pieces.map((it, at) => {
        const from = line;
        line += it.theirs.length;
        if (it.kind === 'same') return null;
        if (it.kind !== 'conflict') {
          const [before, after] = [pieces[at - 1], pieces[at + 1]];
          const around = [...(before?.kind === 'same' ? lines(before).slice(-AROUND) : []), ...lines(it), ...(after?.kind === 'same' ? lines(after).slice(0, AROUND) : [])];
          return (
            <section key={at} class={`merge-piece ${it.kind}`} aria-label={`${TITLES[it.kind]}, line ${from}`}>
              <h3>
                {TITLES[it.kind]} <span class="faint">line {from}</span>
              </h3>
              <Diff of={around} />
            </section>
          );
        }
        conflict += 1;
        const number = conflict;
        return <Conflict key={at} it={it} line={from} chosen={chosen[number]} choose={(choice) => choose(number, choice)} />;
      })}
    </section>
  );
}

function Conflict({ it, line, chosen, choose }: { it: Piece; line: number; chosen: Choice | undefined; choose: (it: Choice) => void }): JSX.Element {
  const takes = (side: Choice): boolean => chosen === side || chosen === 'both';
  return (
    <section class="merge-piece conflict" aria-label={`Conflict, line ${line}`}>
      <h3>
        <Icon name="warn" size={13} /> Conflict <span class="faint">line {line}</span>
        <Segments label={`Choice for the conflict at line ${line}`} of={CHOICES} now={chosen ?? ('' as Choice)} choose={choose} />
      </h3>
      <div class="merge-sides">
        <Side title="Mine (the draft)" of={it.mine} taken={takes('mine')} />
        <Side title="Theirs (the file)" of={it.theirs} taken={takes('theirs')} />
      </div>
      <details>
        <summary>Before both changes</summary>
        <pre tabIndex={0} class="merge-lines">
          {it.base.join('') || 'no line'}
        </pre>
      </details>
    </section>
  );
}

function Side({ title, of, taken }: { title: string; of: string[]; taken: boolean }): JSX.Element {
  return (
    <figure class={taken ? 'taken' : ''}>
      <figcaption>
        {title} {taken && <Icon name="check" size={13} />}
      </figcaption>
      <pre tabIndex={0} class="merge-lines" aria-label={title}>
        {of.length === 0 ? <span class="faint">the lines are removed</span> : of.join('')}
      </pre>
    </figure>
  );
}

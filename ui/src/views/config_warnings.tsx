// The warnings about a draft: those of its changes first; those that the saved files have as well, folded. Which lines changed is
// taken from the difference that larder made.
import type { JSX } from 'preact';
import { post } from '../api';
import { Problems } from '../parts/diff';
import { useFetched } from '../hooks';
import type { Checked, ConfigProblem, DiffLine } from '../types';
import { type DraftFile, texts } from './config_draft';

interface Props {
  checked: Checked;
  files: DraftFile[];
  /** Shows the place of a warning in the editor. */
  show: (it: ConfigProblem) => void;
}

/** The lines of the new text that the saved one lacks, counted from 1. */
function changedLines(diff: DiffLine[]): Set<number> {
  const changed = new Set<number>();
  let line = 0;
  for (const { op } of diff) {
    if (op !== '-') line += 1;
    if (op === '+') changed.add(line);
  }
  return changed;
}

/** A warning without its line: a change above moves it. */
const identity = (it: ConfigProblem): string => JSON.stringify([it.file, it.key, it.message]);

export function Warnings({ checked, files, show }: Props): JSX.Element | null {
  const all = checked.warnings ?? [];
  const before = JSON.stringify(texts(files.map((it) => ({ ...it, text: it.was }))));
  const { data } = useFetched(all.length > 0 ? before : null, () => post<Checked>('/api/v1/config/check', JSON.parse(before)));
  if (all.length === 0) return null;
  const known = new Set((data?.warnings ?? []).map(identity));
  const lines = new Map<string | null, Set<number>>([[null, changedLines(checked.diff)], ...checked.included.map((it) => [it.file, changedLines(it.diff)] as const)]);
  const isOlder = (it: ConfigProblem): boolean => known.has(identity(it)) && (it.line === null || !lines.get(it.file)?.has(it.line));
  const [older, own] = [all.filter(isOlder), all.filter((it) => !isOlder(it))];
  return (
    <>
      {own.length > 0 && <Problems of={own} show={show} mild />}
      {older.length > 0 && (
        <details class="how">
          <summary>
            Also in the file: {older.length} older {older.length === 1 ? 'warning' : 'warnings'}
          </summary>
          <Problems of={older} show={show} mild />
        </details>
      )}
    </>
  );
}

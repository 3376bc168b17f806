// The draft of the configuration: in memory while the page is open, whatever view is shown, until it is applied or discarded. The
// edits of the form are made in it by larder, one after another; nothing is drawn here.
import { useEffect, useState } from 'preact/hooks';
import { post } from '../api';
import type { Config, Setting, Settings } from '../types';

/** One edit, as the API takes it: a value sets, null removes, `to` moves; `file` is where a new part goes. */
export interface Edit {
  path: (string | number)[];
  value?: Setting | null;
  to?: number;
  file?: number;
}

/** A file of the configuration in a draft. */
export interface DraftFile {
  /** Of an included file; null is the main one. */
  path: string | null;
  /** Its name, for people. */
  name: string;
  /** The hash of the text that it was made of, and that text. */
  base: string;
  was: string;
  text: string;
}

/** What is to become of the files. */
export interface Draft {
  /** The main file first. */
  files: DraftFile[];
  /** The keys of these texts; without them, the next check has them. */
  read?: Read | undefined;
  /** The field that was written in last, with what the draft was before. */
  last?: { field: string; files: DraftFile[] } | undefined;
}

/** The keys of texts, and the number of the file of each site. */
export interface Read {
  document: Settings;
  siteFiles: number[];
}

/** Texts of files, as requests have them. */
export interface Texts {
  text: string;
  included: { path: string; text: string }[];
}

let draft: Draft | null = null;
/** Another one each time that the draft was set by other means than an edit; edits that were asked for before are dropped. */
let era = 0;
/** Edits that were not answered yet, and the last that was asked for. */
let open = 0;
let requested = { number: 0, field: '' };
let queue: Promise<unknown> = Promise.resolve();
const listeners = new Set<() => void>();

const notify = (): void => listeners.forEach((it) => it());

// The browser asks before the page is left with a draft that is not applied.
addEventListener('beforeunload', (event) => {
  if (draft || open) event.preventDefault();
});

/** The part of a path behind its last slash. */
const last = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

/** The files as they are saved. */
export function saved(config: Config): DraftFile[] {
  const main: DraftFile = { path: null, name: last(config.path ?? ''), base: config.hash, was: config.text, text: config.text };
  return [main, ...config.included.map((it) => ({ path: it.path, name: it.file, base: it.hash, was: it.text, text: it.text }))];
}

export const isChanged = (it: DraftFile): boolean => it.text !== it.was;

/** The texts of files, for a request. */
export const texts = (files: DraftFile[]): Texts => ({
  text: files[0]!.text,
  included: files.slice(1).filter(isChanged).map((it) => ({ path: it.path!, text: it.text })),
});

/** A draft that says what the files say is none. */
function keep(it: Draft | null): void {
  draft = it?.files.some(isChanged) ? it : null;
  notify();
}

/** Sets the draft, whatever edits are on their way; null discards it. */
export function setDraft(it: Draft | null): void {
  era += 1;
  keep(it);
}

/** Resolves once all edits that were asked for are made. */
export const written = (): Promise<unknown> => queue;

/** The draft `before` was applied, or discarded by a rollback, and the files are `now` these (`null`: unknown). Later edits stay a draft. */
export function settle(before: Draft | null, now: DraftFile[] | null): void {
  if (draft === before) return setDraft(null);
  const isApplied = now !== null && before?.files.every((it, at) => it.path === now[at]?.path && it.text === now[at]?.text);
  if (draft && isApplied) keep({ ...draft, files: draft.files.map((it, at) => ({ ...now[at]!, text: it.text })), last: undefined });
}

/** The draft as it is now; `busy` while an edit is on its way. */
export function useDraft(): { draft: Draft | null; busy: boolean; era: number } {
  const [, turn] = useState(0);
  useEffect(() => {
    const listener = (): void => turn((it) => it + 1);
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }, []);
  return { draft, busy: open > 0, era };
}

/** Files in which larder has made edits. */
export async function edited(files: DraftFile[], set: Edit[]): Promise<{ files: DraftFile[]; read: Read | undefined }> {
  const made = await post<Texts & { document: Settings | null; site_files: number[] }>('/api/v1/config/edit', { ...texts(files), set });
  // A file that is not among them is as it is saved.
  const of = (it: DraftFile): string => (it.path === null ? made.text : (made.included.find((one) => one.path === it.path)?.text ?? it.was));
  return { files: files.map((it) => ({ ...it, text: of(it) })), read: made.document ? { document: made.document, siteFiles: made.site_files } : undefined };
}

/** The field that an edit is of, where it is one that gives a key its value; a member of a list is none. */
function fieldOf(set: Edit[]): string {
  const [only] = set;
  return set.length === 1 && only && only.to === undefined && typeof only.path.at(-1) === 'string' ? JSON.stringify(only.path) : '';
}

/**
 * Makes edits in the draft, once those before are made. What is written in one field letter by letter is one edit of what was there
 * before: a field that is empty for a moment does not lose its comment.
 */
export function edit(config: Config, set: Edit[]): Promise<void> {
  const field = fieldOf(set);
  const mine = { number: requested.number + 1, field };
  const ofEra = era;
  requested = mine;
  open += 1;
  notify();
  const run = async (): Promise<void> => {
    const overtaken = field !== '' && requested.field === field && requested.number !== mine.number;
    if (era !== ofEra || overtaken) return;
    const before = field !== '' && draft?.last?.field === field ? draft.last : { field, files: draft?.files ?? saved(config) };
    const made = await edited(before.files, set);
    if (era === ofEra) keep({ ...made, last: field === '' ? undefined : before });
  };
  const made = queue.then(run).finally(() => {
    open -= 1;
    notify();
  });
  queue = made.catch(() => null);
  return made;
}

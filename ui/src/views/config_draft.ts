// The draft of the configuration: in memory while the page is open, whatever view is shown, until it is applied or discarded. The
// edits of the form are made in it by larder, one after another; nothing is drawn here.
import { useEffect, useState } from 'preact/hooks';
import { post } from '../api';
import type { Config } from '../types';
import type { Edit } from './config_new';

/** What is to become of the file. */
export interface Draft {
  /** The hash of the text that it was made of, and that text. */
  base: string;
  was: string;
  text: string;
  /** The edits of the form that it came of; null where some of it was written as text. */
  edits: Edit[] | null;
  /** The field that was written in last, with what the draft was before. */
  last?: { field: string; text: string; edits: Edit[] | null };
}

let draft: Draft | null = null;
/** Another one each time that the draft was set by other means than an edit; edits that were asked for before are dropped. */
let era = 0;
/** Edits that were not answered yet, and the last that was asked for. */
let open = 0;
let asked = { number: 0, field: '' };
let queue: Promise<unknown> = Promise.resolve();
const hearers = new Set<() => void>();

const tell = (): void => hearers.forEach((it) => it());

// Whoever leaves the page with something that is not applied is asked.
addEventListener('beforeunload', (event) => {
  if (draft || open) event.preventDefault();
});

/** A draft that says what the file says is none. */
function keep(it: Draft | null): void {
  draft = it && it.text !== it.was ? it : null;
  tell();
}

/** Sets the draft, whatever edits are on their way; null discards it. */
export function setDraft(it: Draft | null): void {
  era += 1;
  keep(it);
}

/** The draft as it is now; `busy` while an edit is on its way. */
export function useDraft(): { draft: Draft | null; busy: boolean; era: number } {
  const [, turn] = useState(0);
  useEffect(() => {
    const hearer = (): void => turn((it) => it + 1);
    hearers.add(hearer);
    return () => void hearers.delete(hearer);
  }, []);
  return { draft, busy: open > 0, era };
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
export function edit(file: Config, set: Edit[]): Promise<void> {
  const field = fieldOf(set);
  const mine = { number: asked.number + 1, field };
  const ofEra = era;
  asked = mine;
  open += 1;
  tell();
  const run = async (): Promise<void> => {
    const overtaken = field !== '' && asked.field === field && asked.number !== mine.number;
    if (era !== ofEra || overtaken) return;
    const { base, was } = draft ?? { base: file.hash, was: file.text };
    const before = field !== '' && draft?.last?.field === field ? draft.last : { field, text: draft?.text ?? was, edits: draft ? draft.edits : [] };
    const { text } = await post<{ text: string }>('/api/v1/config/edit', { text: before.text, set });
    if (era === ofEra) keep({ base, was, text, edits: before.edits && [...before.edits, ...set], last: field === '' ? undefined : before });
  };
  const made = queue.then(run).finally(() => {
    open -= 1;
    tell();
  });
  queue = made.catch(() => null);
  return made;
}

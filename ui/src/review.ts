// The way from a proposed change to its review: it is put into the draft of the configuration, and the draft is opened.
import { get } from './api';
import * as format from './format';
import { go } from './hooks';
import type { Advice, Change, Config } from './types';

export async function review(change: Change): Promise<void> {
  // The draft is no part of the first view.
  const [{ edit }, config] = await Promise.all([import('./views/config_draft'), get<Config>('/api/v1/config')]);
  await edit(config, change.edits ?? []);
  go('config', { review: '1' });
}

/** The gain of a finding; hits of responses that would be smaller are not counted. */
export function gainOf(it: Advice['findings'][number]): string {
  const number = format.flat(format.count(it.per_hour));
  return it.saves === 'bytes' ? `smaller responses: ${number} an hour, and their hits` : `up to ${number} requests an hour`;
}

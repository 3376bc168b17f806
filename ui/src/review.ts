// The way from a proposed change to its review: it is put into the draft of the configuration, and the draft is opened.
import { get } from './api';
import { go } from './hooks';
import type { Change, Config } from './types';

export async function review(change: Change): Promise<void> {
  // The draft is no part of the first view.
  const [{ edit }, config] = await Promise.all([import('./views/config_draft'), get<Config>('/api/v1/config')]);
  await edit(config, change.edits ?? []);
  go('config', { review: '1' });
}

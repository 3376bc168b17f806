// Purges by URL, prefix, tag, condition, or all: first a preview counts by tier, then the receipt of each tier is shown.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Problem, post } from '../api';
import { Failed, Segments } from '../parts/basic';
import { Dialog } from '../parts/dialog';
import { Preview, Receipts, briefly } from '../parts/receipts';
import { useSend } from '../hooks';
import type { PurgePreview, Purged } from '../types';

type Scope = 'url' | 'prefix' | 'tag' | 'where' | 'all';
type Strength = 'hard' | 'soft' | 'validate';

const SCOPES: [Scope, string][] = [
  ['url', 'URL'],
  ['prefix', 'Prefix'],
  ['tag', 'Tag'],
  ['where', 'Condition'],
  ['all', 'Everything'],
];

const HINTS: Record<Scope, [string, string]> = {
  url: ['http://www.example.com/news', 'Every variant of this URL.'],
  prefix: ['http://www.example.com/news/', 'Every URL with this prefix; a host name covers the whole host.'],
  tag: ['article-17', 'Every response with this tag.'],
  where: ['status == 404 && age > 60', 'Every response that matches this condition.'],
  all: ['', 'Every response in every tier.'],
};

export function PurgeDialog({ close }: { close: () => void }): JSX.Element {
  const [scope, setScope] = useState<Scope>('url');
  const [text, setText] = useState('');
  const [strength, setStrength] = useState<Strength>('hard');
  const [counted, setCounted] = useState<{ of: string; preview: PurgePreview } | null>(null);
  const [done, setDone] = useState<{ of: string; purged: Purged } | null>(null);
  const { busy, problem, send } = useSend();
  const what = { ...(scope === 'all' ? { all: true } : { [scope]: text }), [strength]: true };
  // What is shown is of what is entered: an answer that comes after a change is not.
  const of = JSON.stringify(what);
  const ready = counted?.of === of ? counted.preview : null;
  const submit = async (): Promise<void> => {
    setDone(null);
    if ((scope === 'url' || scope === 'prefix') && text.trim().startsWith('/')) throw new Problem(400, `A page is purged with its host: write http://HOST${text.trim()}.`);
    if (!ready) return setCounted({ of, preview: await post<PurgePreview>('/api/v1/purge/preview', what) });
    // A fleet is waited for, so that the receipts name each node.
    const purged = await post<Purged>('/api/v1/purge', { ...what, wait: ready.tiers.some((it) => it.of === 'fleet') });
    setCounted(null);
    setDone({ of, purged });
  };
  return (
    <Dialog title="Purge" close={close}>
      {/* Neither the second click of two nor a key that is held confirms what the first has just shown. */}
      <form
        class="form"
        onSubmit={(event) => (event.preventDefault(), void (busy || send(submit)))}
        onKeyDown={(event) => event.repeat && event.key === 'Enter' && event.preventDefault()}
      >
        <Segments label="What" of={SCOPES} now={scope} choose={setScope} />
        {scope !== 'all' ? (
          <label class="field">
            <span>{HINTS[scope][1]}</span>
            <input
              data-first
              class="mono"
              aria-label={SCOPES.find((it) => it[0] === scope)![1]}
              placeholder={HINTS[scope][0]}
              spellcheck={false}
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
            />
          </label>
        ) : (
          <p>{HINTS.all[1]}</p>
        )}
        <label class="field">
          <span>How</span>
          <select value={strength} onChange={(event) => setStrength(event.currentTarget.value as Strength)}>
            <option value="hard">Remove: not served again</option>
            <option value="soft">Soft: stale from now on, served where stale responses are allowed</option>
            <option value="validate">Validate: validated with the origin before the next use</option>
          </select>
        </label>
        <Failed problem={problem} />
        {ready && <Preview of={ready} />}
        {done?.of === of && <Receipts of={done.purged} />}
        <div class="form-end">
          <button type="button" class="button" onClick={close}>
            Close
          </button>
          <button onClick={(event) => event.detail > 1 && event.preventDefault()} class={`button ${ready && scope === 'all' ? 'danger' : 'primary'}`} disabled={busy || (scope !== 'all' && text.trim() === '')}>
            {ready ? `Purge ${scope === 'all' ? 'everything: ' : ''}${briefly(ready)}` : 'Preview'}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

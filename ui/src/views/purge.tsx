// Purges by URL, prefix, tag, condition, or all; the receipt of each tier is shown.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Problem, post } from '../api';
import { Failed, Segments } from '../parts/basic';
import { Dialog } from '../parts/dialog';
import { Receipts } from '../parts/receipts';
import type { Purged } from '../types';

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
  const [done, setDone] = useState<Purged | null>(null);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    setBusy(true);
    setDone(null);
    setProblem(null);
    try {
      const what = scope === 'all' ? { all: true } : { [scope]: text };
      setDone(await post<Purged>('/api/v1/purge', strength === 'hard' ? what : { ...what, [strength]: true }));
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(0, String(error)));
    } finally {
      setBusy(false);
    }
  };
  return (
    <Dialog title="Purge" close={close}>
      <form class="form" onSubmit={(event) => void submit(event)}>
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
        {done && <Receipts of={done} />}
        <div class="form-end">
          <button type="button" class="button" onClick={close}>
            Close
          </button>
          <button class="button primary" disabled={busy || (scope !== 'all' && text.trim() === '')}>
            {scope === 'all' ? 'Purge everything' : 'Purge'}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

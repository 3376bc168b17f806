// A view whose code is a file of its own, loaded when the view is first opened: pending, shown, or a sentence with Retry.
import type { ComponentType, JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Skeleton, Empty, Head } from './parts/basic';
import { readings } from './readings';

export type Draw = ComponentType<{ params: URLSearchParams }>;

export type Load = () => Promise<Draw>;

/** Views that were loaded, by name. */
const loaded = new Map<string, Draw>();

/** Why a file was not loaded: no answer; the page was replaced by that of another version; anything else. */
type Failure = 'silent' | 'replaced' | 'refused';

/** The name of the newer page's script for which this tab was reloaded. */
const RELOADED = 'larder.reloaded';

const nameOf = (script: string | undefined): string => script?.slice(script.lastIndexOf('/') + 1) ?? '';

/** Whether something in this tab is not applied: a reload would lose it. Its listener prevents the event. */
const isUnsaved = (): boolean => !dispatchEvent(new Event('beforeunload', { cancelable: true }));

/** Finds why a file was not loaded. A page that was replaced is reloaded, once, unless that would lose a draft. */
async function failure(): Promise<Failure> {
  const own = nameOf(document.querySelector<HTMLScriptElement>('script[type="module"]')?.src);
  let text: string;
  try {
    text = await (await fetch('./', { cache: 'no-cache', credentials: 'omit' })).text();
  } catch {
    return 'silent';
  }
  const now = nameOf(/<script[^>]* src="([^"]+)"/.exec(text)?.[1]);
  if (now === '' || now === own) return 'refused';
  if (sessionStorage.getItem(RELOADED) !== now && !isUnsaved()) {
    sessionStorage.setItem(RELOADED, now);
    location.reload();
  }
  return 'replaced';
}

const SENTENCES: Record<Failure, string> = {
  silent: 'larder does not respond. The view is loaded as soon as it does.',
  replaced: 'larder was upgraded. The view is shown after a reload of the page, which discards changes that are not applied.',
  refused: 'Its file could not be loaded.',
};

interface Props {
  name: string;
  title: string;
  load: Load;
  params: URLSearchParams;
}

export function Chunk({ name, title, load, params }: Props): JSX.Element {
  const [failed, fail] = useState<Failure | null>(null);
  const [, turn] = useState(0);
  const Drawn = loaded.get(name);
  const isPending = !Drawn && failed === null;
  useEffect(() => {
    if (!isPending) return;
    let isOpen = true;
    load().then(
      (it) => {
        loaded.set(name, it);
        if (isOpen) turn((before) => before + 1);
      },
      async () => {
        const why = await failure();
        if (isOpen) fail(why);
      },
    );
    return () => void (isOpen = false);
  }, [name, isPending]);
  useEffect(() => (failed === 'silent' ? readings.listen(() => readings.link === 'live' && fail(null)) : undefined), [failed]);
  if (Drawn) return <Drawn params={params} />;
  return (
    <>
      <Head title={title} />
      {failed === null ? (
        <Skeleton />
      ) : (
        <div role="alert">
          <Empty icon="warn" title="This view was not loaded">
            <p>{SENTENCES[failed]}</p>
            <p>
              {failed !== 'replaced' && (
                <button class="button" onClick={() => fail(null)}>
                  Retry
                </button>
              )}{' '}
              {failed !== 'silent' && (
                <button class="button" onClick={() => location.reload()}>
                  Reload the page
                </button>
              )}
            </p>
          </Empty>
        </div>
      )}
    </>
  );
}

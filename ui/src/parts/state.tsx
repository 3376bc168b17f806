// The state of the server: its word and its worst finding over every view, all findings on demand; the word in the title and the icon
// of the tab as well.
import type { ComponentChildren, JSX, RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { clock, moment } from '../format';
import { useReadings } from '../hooks';
import degraded from '../larder-degraded.svg';
import failing from '../larder-failing.svg';
import type { Finding, ServerState } from '../types';
import { Icon, type IconName } from './icons';
import { Linked, again } from './linked';

const WORDS: Record<ServerState['word'], { word: string; icon: IconName }> = {
  healthy: { word: 'Healthy', icon: 'check' },
  degraded: { word: 'Degraded', icon: 'warn' },
  failing: { word: 'Failing', icon: 'fail' },
};

/** A time in this browser's zone; with the date if it is not today's. */
function local(unix: number): string {
  const isToday = new Date(unix * 1000).toDateString() === new Date().toDateString();
  return isToday ? clock(unix * 1e6) : moment(unix);
}

/** A text within a link, whose names are between backticks. */
function marked(text: string): ComponentChildren {
  return text.split('`').map((part, at) => (at % 2 ? <code key={at}>{part}</code> : part));
}

function Sentence({ of }: { of: Finding }): JSX.Element {
  const [view = '', query] = of.view.split(/\?(.*)/s, 2);
  const [name = '', value = ''] = query?.split(/=(.*)/, 2) ?? [];
  const href = `#/${view}${query ? `?${name}=${encodeURIComponent(value)}` : ''}`;
  return (
    <>
      <a href={href} onClick={() => again(href)}>
        {marked(of.what)}
      </a>
      {of.since !== null && ` since ${local(of.since)}`}
      {of.first && `, ${of.times} times since ${local(of.first)}`}
      {of.evidence && <> (<Linked text={of.evidence} />)</>}
      {of.effect && <>; <Linked text={of.effect} /></>}
    </>
  );
}

/** A sentence may take more lines than the one before: rows that are aimed at or read stay where they are in the window. */
function useStill(box: RefObject<HTMLElement>): void {
  const height = useRef<number | null>(null);
  useLayoutEffect(() => {
    const now = box.current?.getBoundingClientRect().height ?? null;
    const by = now === null || height.current === null ? 0 : now - height.current;
    height.current = now;
    if (by !== 0 && document.querySelector('[data-still="true"]')) scrollBy({ top: by, behavior: 'instant' });
  });
}

export function State(): JSX.Element | null {
  const { link, latest } = useReadings();
  const [open, setOpen] = useState(false);
  const box = useRef<HTMLElement>(null);
  useStill(box);
  const health = latest?.health;
  const isFine = (health?.findings.length ?? 0) === 0;
  // The next finding does not begin with its remedies open.
  useEffect(() => {
    if (isFine) setOpen(false);
  }, [isFine]);
  // The list lies over the view: it must not lie over the next one.
  useEffect(() => {
    if (!open) return;
    const close = (event: Event): void => {
      if (!(event instanceof KeyboardEvent) || event.key === 'Escape') setOpen(false);
    };
    addEventListener('hashchange', close);
    addEventListener('keydown', close);
    return () => {
      removeEventListener('hashchange', close);
      removeEventListener('keydown', close);
    };
  }, [open]);
  if (link === 'lost') return null;
  if (!health) return <div class="state" />;
  const { word, icon } = WORDS[health.word];
  const [first] = health.findings;
  const others = health.findings.length - 1 + health.left_out;
  return (
    // A link of the list leads to a view, which is not to be looked for beneath the list.
    <section ref={box} class={`state ${health.word}`} aria-label="State of the server" onClick={(event) => (event.target as Element).closest('a') && setOpen(false)}>
      <div class={open ? 'state-line whole' : 'state-line'}>
        <Icon name={icon} />
        <p>
          {/* The word alone is read out when it changes: the numbers change every second. */}
          <strong role="status">{word}</strong>
          {first && (health.word === 'healthy' ? '. Notice: ' : ': ')}
          {first && <Sentence of={first} />}
          {first && '.'}
        </p>
        {first && (
          <button class="link" aria-expanded={open} title={open ? 'Hide the remedies' : 'Show the whole sentence, all findings and their remedies'} onClick={() => setOpen(!open)}>
            {open ? 'Hide' : others > 0 ? `${others} more …` : 'Remedy …'}
          </button>
        )}
      </div>
      {open && first && (
        <ul class="findings" tabIndex={0} aria-label="Findings">
          {/* The sentence of the first is above. */}
          {health.findings.map((it, at, all) => (
            <li key={`${it.name} ${it.what}`}>
              {it !== first && <Sentence of={it} />}
              {it.remedy !== all[at + 1]?.remedy && <div class="remedy"><Linked text={it.remedy} /></div>}
            </li>
          ))}
          {health.left_out > 0 && <li>{health.left_out} further findings</li>}
        </ul>
      )}
    </section>
  );
}

/** The icon of a healthy server: that of the page. */
const icon = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
const well = icon?.href ?? '';

/** The title and the icon of the tab. */
export function Tab({ title }: { title: string }): null {
  const { link, latest } = useReadings();
  const word = link === 'lost' ? 'lost' : (latest?.health?.word ?? 'healthy');
  useEffect(() => {
    const prefix = word === 'lost' ? 'No answer · ' : word === 'healthy' ? '' : `${WORDS[word].word} · `;
    document.title = `${prefix}${title} · larder`;
    if (icon) icon.href = word === 'healthy' ? well : word === 'degraded' ? degraded : failing;
  }, [title, word]);
  return null;
}

// The state of the server: its word and its worst finding over every view, all findings on demand; the word in the title and the icon
// of the tab as well.
import { Fragment, type JSX, type RefObject } from 'preact';
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks';
import { clock, moment } from '../format';
import { useReadings } from '../hooks';
import { may } from '../identity';
import degraded from '../larder-degraded.svg';
import failing from '../larder-failing.svg';
import type { Finding, ServerState } from '../types';
import { Icon, type IconName } from './icons';
import { Codes, Linked, again } from './linked';

const WORDS: Record<ServerState['word'], { word: string; icon: IconName }> = {
  healthy: { word: 'Healthy', icon: 'check' },
  degraded: { word: 'Degraded', icon: 'warn' },
  failing: { word: 'Failing', icon: 'fail' },
};

/** Findings that are shown with their remedies; more are grouped by the part of the server, which the first word of the name tells. */
const FEW = 4;
const PARTS: [RegExp, string][] = [
  [/^(no-)?origin|^database/, 'Origins'],
  [/^cert/, 'Certificates'],
  [/^(disk|memory|fresh|snapshot)/, 'Cache'],
  [/^(node|memcached|purge-log)/, 'Fleet'],
  [/^(config|start|runs|restart|route-un|maint|http3|access)/, 'Configuration'],
  [/^/, 'Requests and limits'],
];

/** The parts in the order of their first finding. */
function grouped(of: Finding[]): [string, Finding[]][] {
  const parts = new Map<string, Finding[]>();
  for (const it of of) {
    const part = PARTS.find(([names]) => names.test(it.name))![1];
    parts.set(part, [...(parts.get(part) ?? []), it]);
  }
  return [...parts];
}

/** The beginning of a view with marked origins. */
const ORIGINS = 'overview?origin=';

/** A time in this browser's zone; with the date if it is not today's. */
function local(unix: number): string {
  const isToday = new Date(unix * 1000).toDateString() === new Date().toDateString();
  return isToday ? clock(unix * 1e6) : moment(unix);
}

/** The origins that a finding is about. */
export const originsOf = (it: Finding): string[] => (it.view.startsWith(ORIGINS) ? it.view.slice(ORIGINS.length).split(',') : []);

/** Buttons to drain the origins that a sentence names. */
function Drains({ of }: { of: Finding }): JSX.Element | null {
  const origins = may('operator') ? originsOf(of) : [];
  return (
    <>
      {origins.map((it) => {
        const href = `#/overview?${new URLSearchParams({ origin: it, drain: it }).toString()}`;
        return (
          <a key={it} class="link" href={href} title={`Drain ${it}`} onClick={() => again(href)}>
            Drain{origins.length > 1 && ` ${it.replace(/^https?:\/\//, '')}`} …
          </a>
        );
      })}
    </>
  );
}

function Sentence({ of }: { of: Finding }): JSX.Element {
  const [view = '', query] = of.view.split(/\?(.*)/s, 2);
  const [name = '', value = ''] = query?.split(/=(.*)/, 2) ?? [];
  const href = `#/${view}${query ? `?${name}=${encodeURIComponent(value)}` : ''}`;
  return (
    <>
      <a href={href} onClick={() => again(href)}>
        <Codes text={of.what} />
      </a>
      {of.since !== null && ` since ${local(of.since)}`}
      {of.first && `, ${of.times} times since ${local(of.first)}`}
      {of.evidence && <> (<Linked text={of.evidence} />)</>}
      {of.effect && <>; <Linked text={of.effect} /></>}
    </>
  );
}

function Remedy({ text, isFolded }: { text: string; isFolded: boolean }): JSX.Element {
  const [open, setOpen] = useState(!isFolded);
  return (
    <>
      {isFolded && ' '}
      {isFolded && (
        <button class="link" aria-expanded={open} onClick={() => setOpen(!open)}>
          Remedy
        </button>
      )}
      {open && (
        <div class="remedy">
          <Linked text={text} />
        </div>
      )}
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
  const isMany = health.findings.length > FEW;
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
        {first && <Drains of={first} />}
        {first && (
          <button class="link" aria-expanded={open} title={open ? 'Hide the remedies' : 'Show the whole sentence, all findings and their remedies'} onClick={() => setOpen(!open)}>
            {open ? 'Hide' : others > 0 ? `${others} more …` : 'Remedy …'}
          </button>
        )}
      </div>
      {open && first && (
        <div class="findings" tabIndex={0} role="region" aria-label="Findings">
          <ul class={isMany ? 'many' : ''}>
            {(isMany ? grouped(health.findings) : [['', health.findings] as const]).map(([part, all]) => (
              <Fragment key={part}>
                {part && <li class="faint">{part}</li>}
                {/* The sentence of the first is above. */}
                {all.map((it, at) => (
                  <li key={`${it.name} ${it.what}`}>
                    {it !== first && (
                      <>
                        {part && it.severity !== 'notice' && <Icon name={WORDS[it.severity].icon} size={13} />} <Sentence of={it} /> <Drains of={it} />
                      </>
                    )}
                    {it.remedy !== all[at + 1]?.remedy && <Remedy text={it.remedy} isFolded={part !== '' && it !== first} />}
                  </li>
                ))}
              </Fragment>
            ))}
            {health.left_out > 0 && <li>{health.left_out} further findings</li>}
          </ul>
        </div>
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

// Small parts that views share: figures, states of emptiness and failure, a row of choices.
import type { ComponentChildren, JSX } from 'preact';
import type { Problem } from '../api';
import type { Figure } from '../format';
import { Icon, type IconName } from './icons';
import { Linked } from './linked';
import { Long } from './long';

export function Fig({ it }: { it: Figure }): JSX.Element {
  return (
    <span class="fig">
      {it.text}
      {it.unit && <span class="unit">{it.unit === '%' ? '%' : ` ${it.unit}`}</span>}
    </span>
  );
}

/** A link from a view to its text in Help. */
function HelpLink(): JSX.Element | null {
  const view = /^#\/(\w+)/.exec(location.hash)?.[1] ?? 'overview';
  if (view === 'help') return null;
  return (
    <a class="help-link" href={`#/help?view=${view}`} title="Help on this view, and the keys of the configuration (g h)">
      Help
    </a>
  );
}

export function Head({ title, sub, children }: { title: string; sub?: ComponentChildren; children?: ComponentChildren }): JSX.Element {
  return (
    <header class="head">
      <h1>{title}</h1>
      {sub !== undefined && <p class="head-sub">{sub}</p>}
      <HelpLink />
      {children && <div class="head-tools">{children}</div>}
    </header>
  );
}

export function Empty({ icon, title, children }: { icon: IconName; title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <Icon name={icon} size={28} />
      <p class="empty-title">{title}</p>
      {children && <div class="empty-text">{children}</div>}
    </div>
  );
}

export function Failed({ problem, again }: { problem: Problem | null; again?: () => void }): JSX.Element | null {
  if (!problem) return null;
  return (
    <div class={problem.status === 0 ? 'failed unanswered' : 'failed'} role="alert">
      <Icon name="warn" />
      <span>
        <Long text={problem.message} draw={(it) => <Linked text={it} />} />
      </span>
      {again && (
        <button class="link" onClick={again}>
          Try again
        </button>
      )}
    </div>
  );
}

/** Grey lines where rows will be. */
export function Skeleton({ rows = 8 }: { rows?: number }): JSX.Element {
  return (
    <div class="bones" role="status" aria-label="Loading">
      {Array.from({ length: rows }, (_, at) => (
        <span key={at} />
      ))}
    </div>
  );
}

interface Choices<T extends string> {
  label: string;
  of: [T, string][];
  now: T;
  choose: (it: T) => void;
}

/** A row of choices, of which one holds. */
export function Segments<T extends string>({ label, of, now, choose }: Choices<T>): JSX.Element {
  return (
    <div class="segments" role="group" aria-label={label}>
      {of.map(([name, text]) => (
        // In a form, it is not what sends it.
        <button key={name} type="button" aria-pressed={name === now} onClick={() => choose(name)}>
          {text}
        </button>
      ))}
    </div>
  );
}

/** The name of a reason as words. */
export const reasonWords = (name: string): string => name.replaceAll('-', ' ');

/** The words for values that the access log and filters have as terms of Cache-Status. */
const FORWARDED: Record<string, string> = {
  'uri-miss': 'miss',
  'vary-miss': 'miss of a variant',
  request: 'request directive',
  stale: 'expired',
  method: 'uncacheable method',
};

/** What the cache did, in words. */
export const cacheWords = (it: string): string => FORWARDED[it] ?? (it.replace(/-/g, ' ') || '–');

/** What the cache did, as a word with a mark; the colour repeats it. Why an origin was asked says more than the word for it. */
export function Cache({ it, reason = null }: { it: string; reason?: string | null }): JSX.Element {
  const kind = it === 'hit-stale' ? 'stale' : it.startsWith('hit') ? 'hit' : it === '' ? 'none' : 'miss';
  return <span class={`cache ${kind}`}>{reason ? reasonWords(reason) : cacheWords(it)}</span>;
}

/** The class of a table whose URLs are of several hosts: a narrow window shows hosts in these only. */
export const hostsOf = (urls: string[]): string => (new Set(urls.map((it) => HOST.exec(it)?.[0])).size > 1 ? 'hosts' : '');

const HOST = /^[a-z]+:\/\/[^/]+/;

/** A URL whose host stands back: where there are many, it is mostly the same. */
export function Url({ it }: { it: string }): JSX.Element {
  const host = HOST.exec(it)?.[0] ?? '';
  return (
    <>
      {host && <span class="host">{host}</span>}
      <span class="path">{it.slice(host.length)}</span>
    </>
  );
}

export function Status({ it }: { it: number }): JSX.Element {
  return <span class={`status s${Math.floor(it / 100)}`}>{it || '–'}</span>;
}

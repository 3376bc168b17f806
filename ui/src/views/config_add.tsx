// The keys that a site, a route or a block does not have yet: a list by phase, which one searches, and chooses from.
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { Dialog } from '../parts/dialog';
import { Icon } from '../parts/icons';
import { type Field, PHASES } from './config_sections';
import type { Key } from '../types';

interface Props {
  /** The section's name. */
  of: string;
  fields: Field[];
  /** The service that the section has: keys of another one replace it. */
  service: string | null;
  choose: (it: Field) => void;
  close: () => void;
}

/** The sections of a route of which it has one; proxy and files refine php. */
export const SERVICES = ['php', 'proxy', 'files', 'redirect', 'respond', 'fastcgi', 'scgi', 'uwsgi', 'cgi', 'sql'];

/** The group of settings without a phase. */
const ALL: [Key['phase'], string, string][] = [[null, '', '']];

export function AddSetting({ of, fields, service, choose, close }: Props): JSX.Element {
  const [search, setSearch] = useState('');
  const list = useRef<HTMLDivElement>(null);
  const words = search.trim().toLowerCase().split(/\s+/);
  const text = search.trim().toLowerCase();
  const found = fields.filter((it) => words.every((one) => `${it.name} ${it.key.help}`.toLowerCase().includes(one))).sort((a, b) => (text ? rank(a, text) - rank(b, text) : 0));
  // Only settings of requests have phases.
  const groups = fields.some((it) => it.key.phase !== null) ? PHASES : ALL;
  const shown = groups.flatMap(([phase]) => found.filter((it) => it.key.phase === phase));
  // The name that was typed, in whatever phase it is.
  const first = text ? [...shown].sort((a, b) => rank(a, text) - rank(b, text))[0] : shown[0];
  // Arrows lead through the keys, and back into the search.
  const step = (event: KeyboardEvent): void => {
    const by = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
    if (by === 0) return;
    event.preventDefault();
    const all = [...list.current!.querySelectorAll<HTMLElement>('button')];
    const now = all.indexOf(document.activeElement as HTMLElement) + by;
    if (now < 0) (list.current!.parentElement!.querySelector('input') as HTMLElement).focus();
    else all[Math.min(now, all.length - 1)]?.focus();
  };
  return (
    <Dialog title="Add setting" over={of} close={close} wide>
      <div class="add-settings" onKeyDown={step}>
        <div class="search">
          <Icon name="search" />
          <input
            data-first
            type="search"
            aria-label="Search settings"
            placeholder="Search by name or effect"
            value={search}
            onInput={(event) => setSearch(event.currentTarget.value)}
            onKeyDown={(event) => event.key === 'Enter' && first && choose(first)}
          />
        </div>
        <p class="away" role="status">
          {found.length} {found.length === 1 ? 'setting' : 'settings'}
        </p>
        <div ref={list}>
          {found.length === 0 && <p class="hint">No setting has these words.</p>}
          {groups.map(([phase, title, about]) => {
            const own = found.filter((it) => it.key.phase === phase);
            if (own.length === 0) return null;
            return (
              <section key={phase} aria-label={title}>
                {title && (
                  <h3>
                    {title} <span class="faint">{about}</span>
                  </h3>
                )}
                <ul>
                  {own.map((it) => (
                    <li key={it.name}>
                      <button type="button" class="add-key" onClick={() => choose(it)}>
                        <code>{it.name}</code>
                        {isOther(it, service) && <span class="chip">in place of {service}</span>}
                        <span class="add-help">{it.key.help.replaceAll('`', '')}</span>
                      </button>
                    </li>
                  ))}
                </ul>
              </section>
            );
          })}
        </div>
      </div>
    </Dialog>
  );
}

/** The order of what a search found: the key of this name, keys whose name has it, then those whose help has it. */
function rank({ name }: Field, text: string): number {
  const own = name.toLowerCase();
  if (own === text) return 0;
  return own.includes(text) ? 1 : 2;
}

/** Whether a key belongs to another service than the section has. */
function isOther(it: Field, service: string | null): boolean {
  const own = it.name.split('.')[0]!;
  const refines = service === 'php' && ['proxy', 'files'].includes(own);
  return service !== null && own !== service && !refines && SERVICES.includes(own);
}

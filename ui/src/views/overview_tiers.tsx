// The line of cache tiers: each tier shows its used and usable bytes and its eviction rate; a drawer shows the memory of the process.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Drawer } from '../parts/dialog';
import { Meter } from '../parts/meter';
import * as format from '../format';
import type { Over } from '../readings';
import type { Stats } from '../types';
import { Memory } from './memory';

type Tier = NonNullable<Stats['tiers']>[number];

const NAMES: Record<string, string> = { ram: 'RAM', disk: 'Disk', fleet: 'Fleet' };

export function Tiers({ stats, over, showsMemory }: { stats: Stats; over: Over | null; showsMemory: boolean }): JSX.Element {
  const [open, setOpen] = useState(showsMemory);
  const rss = stats.memory?.rss_bytes;
  const ends = (stats.certificates ?? []).map((it) => it.until).filter((it) => it !== null);
  const first = ends.length > 0 ? Math.min(...ends) : null;
  return (
    <section class="tiers" aria-label="Tiers">
      <ul>
        {(stats.tiers ?? []).map((it) => (
          <li key={it.name}>
            <OneTier of={it} stats={stats} over={over} />
          </li>
        ))}
        <li>
          <button class="tier" aria-haspopup="dialog" onClick={() => setOpen(true)}>
            <b>Memory</b> {rss === undefined ? 'parts' : `${format.flat(format.bytes(rss))} resident`}
          </button>
        </li>
        {first && (
          <li>
            <a class="tier" href="#/config?part=certificates">
              <b>Certificates</b>
              <span>{`${stats.certificates!.length}, the first ends ${format.moment(first)}`}</span>
            </a>
          </li>
        )}
      </ul>
      {open && (
        <Drawer title="Memory" close={() => setOpen(false)}>
          <Memory stats={stats} />
        </Drawer>
      )}
    </section>
  );
}

function OneTier({ of, stats, over }: { of: Tier; stats: Stats; over: Over | null }): JSX.Element {
  const name = NAMES[of.name] ?? of.name;
  if (of.state === 'off') {
    return (
      <span class="tier faint">
        <b>{name}</b> off
      </span>
    );
  }
  const usable = of.name === 'ram' ? stats.ram.usable_bytes : of.device_full ? of.used_bytes : of.budget_bytes;
  const bytes = (it: number): string => format.flat(format.bytes(it));
  const filled = of.used_bytes !== undefined && usable ? `${bytes(of.used_bytes)} of ${bytes(usable)}${usable !== of.budget_bytes ? ' usable' : of.name === 'disk' ? ' allocated' : ''}` : null;
  const grown = (name: string): number => (over ? Math.max(0, (over.now.counters[name] ?? 0) - (over.then.counters[name] ?? 0)) : 0);
  const responses = grown('cache_evictions');
  const evicted = of.name === 'ram' && over ? responses / over.seconds : null;
  const age = responses > 0 ? `, stored ${format.flat(format.seconds(Math.round(grown('cache_evicted_seconds') / responses)))} before` : '';
  const before = over?.then.tiers?.find((it) => it.name === of.name);
  const hits = over && before ? Math.max(0, of.hits - before.hits) / over.seconds : null;
  const href = of.name === 'fleet' ? '#/top?by=misses' : `#/objects?tier=${of.name}`;
  return (
    <a class="tier" href={href} {...(of.name === 'disk' ? { title: 'The files take whole segments: space of removed responses is free again with its segment' } : {})}>
      <b>{name}</b> {of.state !== 'on' && <span class="chip bad">{of.state}</span>}
      {of.device_full && <span class="chip warn" title={`Pages are dropped before cache.disk.size (${bytes(of.budget_bytes ?? 0)}) is reached`}>device full</span>}
      {filled && <Meter share={of.used_bytes! / usable!} text={filled} />}
      {of.objects !== undefined && <span>{format.flat(format.count(of.objects))} objects</span>}
      {hits !== null && <span>{format.flat(format.rate(hits))} hits / s</span>}
      {evicted !== null && <span>{`${format.flat(format.rate(evicted))} evicted / s${age}`}</span>}
    </a>
  );
}

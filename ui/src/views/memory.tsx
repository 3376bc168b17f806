// Memory by tier and purpose: one bar over all that the process has, and a line for each part.
import type { JSX } from 'preact';
import * as format from '../format';
import type { Stats } from '../types';

const COLOURS: Record<string, string> = { ram: '--series-1', disk: '--series-2', fleet: '--series-3', server: '--series-4' };

export function Memory({ stats }: { stats: Stats }): JSX.Element | null {
  const memory = stats.memory;
  if (!memory) return null;
  const parts = memory.parts.filter((it) => it.bytes > 0);
  const tiers = [...new Set(parts.map((it) => it.tier))];
  const sum = (tier: string): number => parts.filter((it) => it.tier === tier).reduce((all, it) => all + it.bytes, 0);
  const rss = memory.rss_bytes ?? memory.attributed_bytes;
  const rest = Math.max(0, rss - memory.attributed_bytes);
  const whole = Math.max(rss, memory.attributed_bytes, 1);
  const bytes = (it: number): string => format.flat(format.bytes(it));
  return (
    <section class="block">
      <h2>
        Memory <span class="faint">{bytes(rss)} resident, {bytes(memory.attributed_bytes)} accounted for</span>
      </h2>
      <div class="bar" role="img" aria-label={`Memory: ${tiers.map((it) => `${it} ${bytes(sum(it))}`).join(', ')}`}>
        {parts.map((it) => (
          <span
            key={`${it.tier} ${it.purpose}`}
            title={`${it.tier}, ${it.purpose}: ${bytes(it.bytes)}`}
            style={{ flexGrow: it.bytes / whole, background: `var(${COLOURS[it.tier] ?? '--series-5'})` }}
          />
        ))}
        {rest > 0 && <span class="bar-rest" title={`the rest: ${bytes(rest)}`} style={{ flexGrow: rest / whole }} />}
      </div>
      <div class="columns">
        {tiers.map((tier) => (
          <table class="parts" key={tier}>
            <caption>
              <span class="swatch" style={{ background: `var(${COLOURS[tier] ?? '--series-5'})` }} />
              {tier} <span class="num">{bytes(sum(tier))}</span>
            </caption>
            <tbody>
              {parts
                .filter((it) => it.tier === tier)
                .sort((a, b) => b.bytes - a.bytes)
                .map((it) => (
                  <tr key={it.purpose}>
                    <th scope="row">{it.purpose}</th>
                    <td class="num">{bytes(it.bytes)}</td>
                  </tr>
                ))}
            </tbody>
          </table>
        ))}
      </div>
    </section>
  );
}

// The stages of a request: their names and colours, a bar of them, and the same as a table.
import type { JSX } from 'preact';
import * as format from '../format';

/** In the order in which a request meets them: name, what a person reads, colour. */
export const STAGES: [string, string, string][] = [
  ['parse', 'Parse', '--stage-parse'],
  ['lookup', 'Lookup', '--stage-lookup'],
  ['wait', 'Wait', '--stage-wait'],
  ['queue', 'Queue', '--stage-queue'],
  ['read', 'Read', '--stage-read'],
  ['connect', 'Connect', '--stage-connect'],
  ['first_byte', 'First byte', '--stage-first'],
  ['body', 'Body', '--stage-body'],
  ['write', 'Write', '--stage-write'],
];

type Times = Record<string, number>;

const known = (of: Times): [string, string, string, number][] =>
  STAGES.filter(([name]) => (of[name] ?? 0) > 0).map(([name, text, colour]) => [name, text, colour, of[name] ?? 0]);

export const total = (of: Times): number => Object.values(of).reduce((sum, it) => sum + it, 0);

/** A bar whose whole width is `most` microseconds; 0 makes it as wide as its own sum. */
export function StageBar({ stages, most }: { stages: Times; most: number }): JSX.Element {
  const all = Math.max(1, total(stages));
  const width = most > 0 ? Math.min(1, all / most) : 1;
  return (
    <span class="stage-bar" role="img" aria-label={known(stages).map(([, text, , us]) => `${text} ${format.flat(format.micros(us))}`).join(', ')}>
      <span class="stage-bar-whole" style={{ width: `${Math.max(0.4, width * 100)}%` }}>
        {known(stages).map(([name, text, colour, us]) => (
          <span key={name} title={`${text}: ${format.flat(format.micros(us))}`} style={{ flexGrow: us / all, background: `var(${colour})` }} />
        ))}
      </span>
    </span>
  );
}

export function StageTable({ stages }: { stages: Times }): JSX.Element {
  const all = Math.max(1, total(stages));
  return (
    <table class="parts stage-table">
      <tbody>
        {known(stages).map(([name, text, colour, us]) => (
          <tr key={name}>
            <th scope="row">
              <span class="swatch" style={{ background: `var(${colour})` }} />
              {text}
            </th>
            <td class="num">{format.flat(format.micros(us))}</td>
            <td class="num faint">{format.flat(format.share(us / all))}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

export function StageKey(): JSX.Element {
  return (
    <ul class="stage-key" aria-label="Stages">
      {STAGES.map(([name, text, colour]) => (
        <li key={name}>
          <span class="swatch" style={{ background: `var(${colour})` }} />
          {text}
        </li>
      ))}
    </ul>
  );
}

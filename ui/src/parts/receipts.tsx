// The counts of a purge by tier: before it, and its receipts.
import type { JSX } from 'preact';
import * as format from '../format';
import type { PurgePreview, Purged } from '../types';
import { Icon } from './icons';
import { Long } from './long';

const EFFECTS: Record<string, string> = { soft: 'marked as stale', validate: 'marked for validation' };
const ABOUT = { exact: '', more: 'at least ', estimate: 'about ' };

type Tier = PurgePreview['tiers'][number];

const responses = (count: number): string => `${count.toLocaleString('en')} ${count === 1 ? 'response' : 'responses'}`;
/** Zero is zero: the detail names the responses that were not counted. */
const counted = (it: Pick<Tier, 'count' | 'count_is'>): string => `${it.count ? ABOUT[it.count_is ?? 'exact'] : ''}${responses(it.count!)}`;

/** The counts by tier in a few words: `38 in RAM, about 112 on disk`. */
export const briefly = (of: PurgePreview): string =>
  of.tiers
    .filter((it) => it.count !== undefined)
    .map((it) => `${ABOUT[it.count_is ?? 'exact']}${it.count!.toLocaleString('en')} ${it.of === 'ram' ? 'in RAM' : `on ${it.of}`}`)
    .join(', ');

/** What a tier or a node says, as `larder purge` words it: a count says already that the purge was applied. */
function row(of: Purged, it: Purged['receipts'][number]): [string, string, string | undefined] {
  const count = it.count === undefined ? '' : `${counted(it)} ${EFFECTS[of.strength] ?? 'removed'}`;
  const state = it.after_ms === undefined ? it.state : `${it.state} after ${(it.after_ms / 1000).toFixed(1)} s`;
  return [it.of, it.state === 'applied' && count ? count : [state, count].filter(Boolean).join('; '), it.detail];
}

const Rows = ({ of }: { of: [string, string, string | undefined][] }): JSX.Element => (
  <table class="parts">
    <tbody>
      {of.map(([name, text, detail]) => (
        <tr key={name}>
          <th scope="row">{name}</th>
          <td>{text}</td>
          <td class="faint">{detail}</td>
        </tr>
      ))}
    </tbody>
  </table>
);

export function Preview({ of }: { of: PurgePreview }): JSX.Element {
  return (
    <div class="receipts" role="status">
      <p>Matches now, before the purge:</p>
      <Rows of={of.tiers.map((it) => [it.of, it.count === undefined ? '' : `${counted(it)}${it.bytes ? `, ${format.flat(format.bytes(it.bytes))}` : ''}`, it.detail])} />
      {of.hint && (
        <p class="warn" data-hint>
          <Icon name="warn" /> <span>{of.hint}</span>
        </p>
      )}
    </div>
  );
}

/** The receipts of a purge. */
export function Receipts({ of }: { of: Purged }): JSX.Element {
  const [kind, what] = Object.entries(of.scope ?? {})[0] ?? ['', ''];
  return (
    <div class="receipts" role="status">
      <p class={of.complete ? '' : 'warn'}>
        <Icon name={of.complete ? 'check' : 'warn'} /> Purged {kind === 'all' ? 'everything' : kind}{' '}
        {kind !== 'all' && (
          <code>
            <Long text={String(what)} />
          </code>
        )}{' '}
        <span class="faint">
          {of.strength}, purge number {of.seq}, {format.flat(format.micros(of.took_us))}
        </span>
      </p>
      <Rows of={of.receipts.map((it) => row(of, it))} />
    </div>
  );
}

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
const counted = (it: Tier): string => `${ABOUT[it.count_is ?? 'exact']}${responses(it.count!)}`;

/** The counts by tier in a few words: `38 in RAM, about 112 on disk`. */
export const briefly = (of: PurgePreview): string =>
  of.tiers
    .filter((it) => it.count !== undefined)
    .map((it) => `${ABOUT[it.count_is ?? 'exact']}${it.count!.toLocaleString('en')} ${it.of === 'ram' ? 'in RAM' : `on ${it.of}`}`)
    .join(', ');

/** What a tier says, as `larder purge` words it: a count says already that the purge was applied. */
function row(of: Purged, it: Purged['receipts'][number], before: Tier | undefined): [string, string, string | undefined] {
  const effect = EFFECTS[of.strength] ?? 'removed';
  // The index of the disk has no tags and fields; the preview has read the records.
  if (it.count === undefined && it.state === 'applied' && before?.count !== undefined) return [it.of, `${counted(before)} ${effect}`, 'counted before the purge'];
  const count = it.count === undefined ? '' : `${it.count_is_exact === false ? 'more than ' : ''}${responses(it.count)} ${effect}`;
  return [it.of, it.state === 'applied' && count ? count : [it.state, count].filter(Boolean).join('; '), it.detail];
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

/** The receipts of a purge; where a tier has no count, that of the preview. */
export function Receipts({ of, before }: { of: Purged; before?: PurgePreview | null }): JSX.Element {
  const [kind, what] = Object.entries(of.scope ?? {})[0] ?? ['', ''];
  return (
    <div class="receipts" role="status">
      <p>
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
      <Rows of={of.receipts.map((it) => row(of, it, before?.tiers.find((tier) => tier.of === it.of)))} />
    </div>
  );
}

// What each tier said to a purge.
import type { JSX } from 'preact';
import type { Purged } from '../types';
import { Icon } from './icons';
import { Long } from './long';

const EFFECTS: Record<string, string> = { soft: 'marked as stale', validate: 'marked for validation' };

/** What a tier says, as `larder purge` words it: a count says already that the purge was applied. */
function said(of: Purged, it: Purged['receipts'][number]): string {
  if (it.count === undefined) return it.state;
  const more = it.count_is_exact === false ? 'more than ' : '';
  const count = `${more}${it.count} ${it.count === 1 ? 'response' : 'responses'} ${EFFECTS[of.strength] ?? 'removed'}`;
  return it.state === 'applied' ? count : `${it.state}; ${count}`;
}

export function Receipts({ of }: { of: Purged }): JSX.Element {
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
        <span class="faint">{of.strength}, purge number {of.seq}</span>
      </p>
      <table class="parts">
        <tbody>
          {of.receipts.map((it) => (
            <tr key={it.of}>
              <th scope="row">{it.of}</th>
              <td>{said(of, it)}</td>
              <td class="faint">{it.detail}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

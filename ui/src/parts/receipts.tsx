// What each tier said to a purge.
import type { JSX } from 'preact';
import type { Purged } from '../types';
import { Icon } from './icons';
import { Long } from './long';

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
        <span class="faint">{of.strength}, number {of.seq}</span>
      </p>
      <table class="parts">
        <tbody>
          {of.receipts.map((it) => (
            <tr key={it.of}>
              <th scope="row">{it.of}</th>
              <td>{it.state}</td>
              <td class="faint">{it.detail}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

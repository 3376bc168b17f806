// The certificates in use, with the issuer, the end, the next renewal and the file of each; and names without a certificate.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { get } from '../api';
import * as format from '../format';
import { useFetched } from '../hooks';
import { Empty, Failed } from '../parts/basic';
import { Icon } from '../parts/icons';
import { Long } from '../parts/long';
import type { Certificate } from '../types';

/** Milliseconds between two readings: a file that was replaced is in use within a second. */
const EVERY = 2000;

interface List {
  certificates: Certificate[];
  folder_error: string | null;
}

type Column = 'state' | 'names' | 'issuer' | 'until' | 'renews' | 'source';

/** The next attempt to get it; null if larder does not renew it. */
const renewal = (it: Certificate): number | null => (it.state === 'valid' && !it.failures ? it.renews : it.next_attempt) ?? null;

const VALUES: Record<Column, (it: Certificate) => string | number | null> = {
  // Those that need an operator come first.
  state: (it) => (it.state === 'valid' ? 1e12 : 0) + (it.until ?? 0),
  names: (it) => it.names.join(),
  issuer: (it) => it.issuer ?? null,
  until: (it) => it.until,
  renews: renewal,
  source: (it) => it.file ?? it.source,
};

const COLUMNS: [Exclude<Column, 'state'>, string][] = [
  ['names', 'Names'],
  ['until', 'Ends'],
  ['issuer', 'Issuer'],
  ['renews', 'Next renewal'],
  ['source', 'Source'],
];

function sorted(of: Certificate[], by: Column, back: boolean): Certificate[] {
  const value = VALUES[by];
  return [...of].sort((a, b) => {
    const [x, y] = [value(a), value(b)];
    // A certificate without a value comes last in either order.
    if (x === null || y === null) return Number(x === null) - Number(y === null);
    return (back ? -1 : 1) * (typeof x === 'string' ? x.localeCompare(String(y)) : x - Number(y));
  });
}

/** Shows nothing where there is no certificate and none is expected, unless it is a view of its own. */
export function Certificates({ alone = false }: { alone?: boolean }): JSX.Element | null {
  const { data, problem, again } = useFetched<List>('certificates', (signal) => get('/api/v1/certificates', signal), EVERY);
  const [by, setBy] = useState<Column>('state');
  const [back, setBack] = useState(false);
  if (!data) return <Failed problem={problem} again={again} />;
  if (data.certificates.length === 0 && data.folder_error === null) {
    return alone ? <Empty icon="config" title="No certificates">larder serves no TLS: no address of listen is https.</Empty> : null;
  }
  const Heading = alone ? 'h2' : 'h3';
  /** Once by the column, again in the other order, then as it was. */
  const press = (to: Column): void => {
    setBy(by === to && back ? 'state' : to);
    setBack(by === to && !back);
  };
  return (
    <section class="certificates" aria-labelledby="certificates">
      <Heading id="certificates">Certificates in use</Heading>
      {data.folder_error !== null && (
        <p class="warn">
          <Icon name="warn" /> {data.folder_error}
        </p>
      )}
      <div class="scroll" tabIndex={0} role="region" aria-label="Certificates">
        <table class="table">
          <thead>
            <tr>
              {COLUMNS.map(([name, heading]) => (
                <th key={name} scope="col" aria-sort={by === name ? (back ? 'descending' : 'ascending') : undefined}>
                  <button class="sorter" {...(by === name ? { 'data-order': back ? 'desc' : 'asc' } : {})} onClick={() => press(name)}>
                    {heading}
                  </button>
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {sorted(data.certificates, by, back).map((it) => (
              <tr key={`${it.names.join()} ${it.file ?? it.source}`}>
                <th scope="row">
                  <Long text={it.names.join(', ')} />
                </th>
                <td>
                  <span class={it.state === 'valid' ? '' : 'bad'}>
                    <Icon name={it.state === 'valid' ? 'check' : 'warn'} size={14} /> {stateOf(it)}
                  </span>
                  {it.until !== null && <div class="faint">{format.moment(it.until)}</div>}
                  {it.error && (
                    <div class="faint">
                      <Long text={it.error} />
                    </div>
                  )}
                </td>
                <td>{it.issuer ? <Long text={it.issuer} /> : '–'}</td>
                <td>
                  {it.in_progress ? 'in progress' : it.source !== 'acme' ? <span class="faint">not by larder</span> : renewal(it) === null ? '–' : format.moment(renewal(it)!)}
                  {!!it.failures && <div class="faint">{`${it.failures} ${it.failures === 1 ? 'failure' : 'failures'}`}</div>}
                </td>
                <td>{sourceOf(it)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** Whole days, as the state of the server counts them; hours on the last day. */
function left(seconds: number): string {
  const days = Math.floor(seconds / 86_400);
  return days < 1 ? format.flat(format.seconds(seconds)) : `${days} ${days === 1 ? 'day' : 'days'}`;
}

function stateOf(it: Certificate): string {
  const [from, until, now] = [it.from ?? 0, it.until ?? 0, Date.now() / 1000];
  switch (it.state) {
    case 'missing':
      return 'no certificate';
    case 'expired':
      return `expired ${format.flat(format.seconds(now - until))} ago`;
    case 'not-yet-valid':
      return `valid in ${format.flat(format.seconds(from - now))}`;
    default:
      return `expires in ${left(until - now)}`;
  }
}

/** The host of a URL, or the text as it is. */
const hostOf = (url: string): string => (URL.canParse(url) ? new URL(url).host : url);

function sourceOf(it: Certificate): JSX.Element {
  if (it.source === 'self-signed') return <>self-signed by larder</>;
  if (it.source === 'file') return <code>{it.file}</code>;
  return <>tls.acme{it.authority && `, ${hostOf(it.authority)}`}</>;
}

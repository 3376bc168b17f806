// The certificates in use, with the end of each and the file or the CA that it comes from; and names without a certificate.
import type { JSX } from 'preact';
import { get } from '../api';
import * as format from '../format';
import { useFetched } from '../hooks';
import { Failed } from '../parts/basic';
import { Icon } from '../parts/icons';
import { Long } from '../parts/long';
import type { Certificate } from '../types';

/** Milliseconds between two readings: a file that was replaced is in use within a second. */
const EVERY = 2000;

interface List {
  certificates: Certificate[];
  folder_error: string | null;
}

/** Shows nothing where there is no certificate and none is expected. */
export function Certificates(): JSX.Element | null {
  const { data, problem, again } = useFetched<List>('certificates', (signal) => get('/api/v1/certificates', signal), EVERY);
  if (!data) return <Failed problem={problem} again={again} />;
  if (data.certificates.length === 0 && data.folder_error === null) return null;
  // Those that need an operator come first.
  const all = [...data.certificates].sort((a, b) => Number(a.state === 'valid') - Number(b.state === 'valid') || (a.until ?? 0) - (b.until ?? 0));
  return (
    <section class="certificates" aria-labelledby="certificates">
      <h3 id="certificates">Certificates in use</h3>
      {data.folder_error !== null && (
        <p class="warn">
          <Icon name="warn" /> {data.folder_error}
        </p>
      )}
      <table class="table">
        <thead>
          <tr>
            <th scope="col">Names</th>
            <th scope="col">State</th>
            <th scope="col">Source</th>
          </tr>
        </thead>
        <tbody>
          {all.map((it) => (
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
              <td>{sourceOf(it)}</td>
            </tr>
          ))}
        </tbody>
      </table>
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
  const [what, at] = it.state === 'valid' && !it.failures ? ['renewal', it.renews] : ['next attempt', it.next_attempt];
  return (
    <>
      tls.acme{it.authority && `, ${hostOf(it.authority)}`}
      <div class="faint">
        {it.in_progress ? 'renewal in progress' : at ? `${what} ${format.moment(at)}` : ''}
        {!!it.failures && `, ${it.failures} ${it.failures === 1 ? 'failure' : 'failures'}`}
      </div>
    </>
  );
}

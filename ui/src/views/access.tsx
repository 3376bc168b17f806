// Who may do what: the sessions of the page, the tokens, and the latest entries of the audit log.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { request, get, problemOf, query } from '../api';
import { Skeleton, Empty, Failed, Head, Segments } from '../parts/basic';
import { Dialog } from '../parts/dialog';
import { Icon } from '../parts/icons';
import { Long } from '../parts/long';
import { useShort } from '../parts/short';
import { showToast } from '../parts/toast';
import * as format from '../format';
import { useFetched, useSend, useDebounced } from '../hooks';
import type { AuditEntry, Session, Token } from '../types';

/** Milliseconds between two questions. */
const EVERY = 5000;
/** The rows that a list shows at first. */
const FEW = 20;

interface State {
  sessions: Session[];
  tokens: Token[];
}

const fetchState = async (signal: AbortSignal): Promise<State> => {
  const [{ sessions }, { tokens }] = await Promise.all([get<{ sessions: Session[] }>('/api/v1/sessions', signal), get<{ tokens: Token[] }>('/api/v1/tokens', signal)]);
  return { sessions, tokens };
};

export function Access(): JSX.Element {
  const { data, problem, busy, again } = useFetched<State>('', fetchState, EVERY);
  return (
    <>
      <Head title="Access" />
      <Failed problem={problem} again={again} />
      {!data && busy && <Skeleton />}
      {data && <Sessions of={data.sessions} again={again} />}
      {data && <Tokens of={data.tokens} />}
      <Audit names={(data?.tokens ?? []).map((it) => it.name)} />
    </>
  );
}

function Sessions({ of, again }: { of: Session[]; again: () => void }): JSX.Element {
  const [asking, setAsking] = useState(false);
  const [shown, more] = useShort(of, 'sessions', FEW);
  const end = async (it: Session): Promise<void> => {
    try {
      await request(`/api/v1/sessions/${it.id}`, { method: 'DELETE' });
      showToast(`The session of ${it.name} from ${it.from} has ended.`);
      again();
    } catch (error) {
      showToast(problemOf(error).message, true);
    }
  };
  return (
    <section class="block">
      <div class="block-head">
        <h2>Sessions</h2>
        <button class="button small" disabled={of.length === 0} onClick={() => setAsking(true)}>
          End all …
        </button>
      </div>
      {of.length === 0 ? (
        <p class="hint">No browser is logged in.</p>
      ) : (
        <div class="scroll" tabIndex={0} role="region" aria-label="Sessions">
          <table class="table">
            <thead>
              <tr>
                <th scope="col">Token</th>
                <th scope="col" class="wide-only">
                  Role
                </th>
                <th scope="col">From</th>
                <th scope="col" class="wide-only">
                  Login
                </th>
                <th scope="col">Last use</th>
                <th scope="col">
                  <span class="away">End</span>
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((it) => (
                <tr key={it.id}>
                  <th scope="row">
                    {it.name} {it.own && <span class="faint">this browser</span>}
                  </th>
                  <td class="wide-only">{it.role}</td>
                  <td>{it.from}</td>
                  <td class="nowrap wide-only">{format.moment(it.login)}</td>
                  <td>{format.moment(it.used)}</td>
                  <td class="num">
                    <button class="button small" aria-label={`End session ${it.id} of ${it.name}`} onClick={() => void end(it)}>
                      End
                    </button>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {more}
      {asking && <EndAll count={of.length} close={() => setAsking(false)} />}
    </section>
  );
}

function EndAll({ count, close }: { count: number; close: () => void }): JSX.Element {
  const { busy, problem, send } = useSend();
  const end = async (): Promise<void> => {
    await request('/api/v1/sessions', { method: 'DELETE' });
    close();
  };
  return (
    <Dialog title="End all sessions?" close={close}>
      <p>
        {count === 1 ? 'The only session ends' : `All ${count} sessions end`}, this one included, and login links become invalid. Tokens stay valid: <code>larder login</code> prints a new link.
      </p>
      <Failed problem={problem} />
      <div class="form-end">
        <button type="button" class="button" onClick={close}>
          Cancel
        </button>
        <button type="button" data-first class="button danger" disabled={busy} onClick={() => void send(end)}>
          End all
        </button>
      </div>
    </Dialog>
  );
}

function Tokens({ of }: { of: Token[] }): JSX.Element {
  return (
    <section class="block">
      <h2>Tokens</h2>
      <div class="scroll" tabIndex={0} role="region" aria-label="Tokens">
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Token</th>
              <th scope="col">Role</th>
              <th scope="col">Last use</th>
              <th scope="col" class="wide-only">
                From
              </th>
              <th scope="col" class="num">
                Sessions
              </th>
            </tr>
          </thead>
          <tbody>
            {of.map((it) => (
              <tr key={it.name}>
                <th scope="row">{it.name}</th>
                <td>{it.role}</td>
                <td>{it.used === null ? <span class="faint">not since the start</span> : format.moment(it.used)}</td>
                <td class="wide-only">{it.from ?? '–'}</td>
                <td class="num">{it.sessions}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p class="hint">
        Further tokens are sections <code>[[admin.tokens]]</code> of the configuration.
      </p>
    </section>
  );
}

type Kind = 'all' | 'changes' | 'refused';

const KINDS: [Kind, string][] = [
  ['all', 'All'],
  ['changes', 'Changes'],
  ['refused', 'Rejected'],
];

function Audit({ names }: { names: string[] }): JSX.Element {
  const [kind, setKind] = useState<Kind>('all');
  const [who, setWho] = useState('');
  const [search, setSearch] = useState('');
  const [status, setStatus] = useState('');
  const filter = useDebounced(query({ kind: kind === 'all' ? '' : kind, who, search, status: /^[1-5]\d\d$/.test(status) ? status : '' }), 200);
  const { data, problem, busy, again } = useFetched<{ entries: AuditEntry[]; file: string | null }>(filter, (signal) => get(`/api/v1/audit${filter}`, signal), EVERY);
  const entries = data?.entries ?? [];
  const [shown, more] = useShort(entries, 'entries', FEW);
  // A token that is gone has entries still.
  const all = [...new Set([...names, ...entries.map((it) => it.who), who])].filter((it) => it !== '');
  return (
    <section class="block" aria-label="Audit log">
      <div class="block-head">
        <h2>Audit log</h2>
        <Segments label="Entries" of={KINDS} now={kind} choose={setKind} />
      </div>
      <div class="bar-row" role="search">
        <div class="search">
          <Icon name="search" />
          <input data-search aria-label="Request" placeholder="Method or path, such as PUT or /config" spellcheck={false} value={search} onInput={(event) => setSearch(event.currentTarget.value)} />
        </div>
        <select class="auto" aria-label="Token" value={who} onChange={(event) => setWho(event.currentTarget.value)}>
          <option value="">Every token</option>
          {all.map((it) => (
            <option key={it} value={it}>
              {it}
            </option>
          ))}
        </select>
        <input class="narrow" aria-label="Status" placeholder="Status" inputMode="numeric" value={status} onInput={(event) => setStatus(event.currentTarget.value.trim())} />
      </div>
      <Failed problem={problem} again={again} />
      {!data && busy && <Skeleton />}
      {data && entries.length === 0 && (
        <Empty icon="access" title="No entries">
          Changes and rejected requests appear here.
        </Empty>
      )}
      {entries.length > 0 && (
        <div class="scroll" tabIndex={0} role="region" aria-label="Entries of the audit log">
          <table class="table audit">
            <thead>
              <tr>
                <th scope="col">Time</th>
                <th scope="col">Token</th>
                <th scope="col" class="wide-only">
                  From
                </th>
                <th scope="col">Request</th>
                <th scope="col" class="num">
                  Status
                </th>
              </tr>
            </thead>
            <tbody>
              {shown.map((it, at) => (
                <tr key={at}>
                  <th scope="row" class="nowrap">
                    {format.moment(it.time)}
                  </th>
                  <td class="nowrap">
                    {it.who} {it.role !== null && it.role !== it.who && <span class="faint">{it.role}</span>}
                  </td>
                  <td class="nowrap wide-only">{it.from}</td>
                  <td class="mono">
                    <Long text={`${it.method ?? ''} ${it.path ?? ''}${it.query === null ? '' : `?${it.query}`}${it.body === null ? '' : ` ${it.body}`}`} />
                    {it.why !== null && (
                      <div class="faint audit-why">
                        <Long text={it.why} />
                      </div>
                    )}
                  </td>
                  <td class={`num ${it.refused ? 'bad' : ''}`}>{it.status}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {more}
      {data?.file === null && (
        <p class="hint">
          The latest entries only, also those before a restart. A file of <code>admin.audit</code> keeps all.
        </p>
      )}
    </section>
  );
}

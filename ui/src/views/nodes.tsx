// The nodes of the fleet as this node reads their records in the memcached servers: state, version, hit ratio, distance to the end of the
// purge logs; and the servers. Without a fleet, one sentence says how to get the list.
import type { JSX } from 'preact';
import { get } from '../api';
import * as format from '../format';
import { useFetched } from '../hooks';
import { Skeleton, Empty, Failed, Head } from '../parts/basic';
import { Icon, type IconName } from '../parts/icons';
import { Long } from '../parts/long';
import type { FleetNode, Nodes as NodesOf } from '../types';

const ICONS: Record<string, IconName> = { healthy: 'check', degraded: 'warn', failing: 'fail' };
const FORMS: Record<FleetNode['status'], string> = {
  known: 'not judged',
  awaited: 'no status yet',
  'older-version': 'no status (older version)',
  'later-version': 'status of a later version',
  damaged: 'damaged status',
};
const DIFFERS: Record<string, string> = {
  servers: 'uses another list of memcached servers; purges do not reach all nodes',
  keys: 'finds keys on other servers, or in another form; nodes do not share its pages',
  envelope: 'writes pages in another version of the format; nodes do not share them',
};

const span = (ms: number): string => format.flat(format.seconds(ms / 1000));

export function Nodes(): JSX.Element {
  const { data, problem, busy, again } = useFetched<NodesOf>('nodes', (signal) => get('/api/v1/nodes', signal), 2000);
  return (
    <>
      <Head title="Nodes" sub={data?.shared ? `The nodes with the same cache.fleet.servers, figures of a minute${data.read_ms == null ? '' : `, read ${span(data.read_ms)} ago`}` : ''} />
      <Failed problem={problem} again={again} />
      {!data && busy && <Skeleton />}
      {data && !data.shared && (
        <Empty icon="nodes" title="No list of nodes">
          {data.why}
        </Empty>
      )}
      {data?.shared && <Table of={data} />}
      {data?.shared && <Servers of={data} />}
    </>
  );
}

function Table({ of }: { of: NodesOf }): JSX.Element {
  return (
    <table class="table nodes">
      <thead>
        <tr>
          <th scope="col">Node</th>
          <th scope="col">State</th>
          <th scope="col" class="wide-only">
            Version
          </th>
          <th scope="col" class="num wide-only">
            Up
          </th>
          <th scope="col" class="num wide-only">
            Requests/s
          </th>
          <th scope="col" class="num">
            Hit ratio
          </th>
          <th scope="col" class="num wide-only">
            Behind
          </th>
          <th scope="col" class="num wide-only">
            Last report
          </th>
        </tr>
      </thead>
      <tbody>
        {of.nodes.map((it) => (
          <Row key={it.id} it={it} />
        ))}
      </tbody>
    </table>
  );
}

function Row({ it }: { it: FleetNode }): JSX.Element {
  const notes = notesOf(it);
  return (
    <tr>
      <td>
        <b>
          <Long text={it.name || it.id} />
        </b>{' '}
        {it.self && <span class="faint">this node</span>}
        {notes.map((note) => (
          <p class="node-note" key={note}>
            {note}
          </p>
        ))}
      </td>
      <td>
        <State it={it} />
      </td>
      <td class="wide-only">{it.version ?? '–'}</td>
      <td class="num wide-only">{it.uptime === null ? '–' : format.flat(format.seconds(it.uptime))}</td>
      <td class="num wide-only">{it.requests_per_second === null ? '–' : format.flat(format.rate(it.requests_per_second))}</td>
      <td class="num">{format.flat(format.share(it.hit_ratio))}</td>
      <td class="num wide-only">{behind(it)}</td>
      <td class="num wide-only">{reported(it)}</td>
    </tr>
  );
}

/** The word with its icon; the finding has the sentence in the view of that node. */
function State({ it }: { it: FleetNode }): JSX.Element {
  const gone = it.presence === 'silent' || it.presence === 'left' || it.presence === 'unknown' ? it.presence : null;
  const word = gone ?? (it.status === 'known' ? it.state : null);
  const icon = gone === 'silent' ? 'warn' : gone ? 'clock' : (ICONS[word ?? ''] ?? 'help');
  return (
    <span class={`node-state ${word ?? ''}`}>
      <Icon name={icon} /> {word ?? FORMS[it.status]}
      {!gone && it.finding && <span class="faint"> {it.finding}</span>}
    </span>
  );
}

/** The distance to the end of the log in which the node is furthest behind. */
function behind(it: FleetNode): string {
  const lags = it.lags.filter((lag) => lag !== null);
  if (lags.length === 0) return '–';
  const most = lags.reduce((a, b) => (b.entries > a.entries ? b : a));
  return most.entries === 0 ? '0' : `${most.entries.toLocaleString('en')} (${span(most.ms)})`;
}

function reported(it: FleetNode): string {
  if (it.since_ms === null) return 'not seen yet';
  return `${it.since_is_exact ? '' : 'more than '}${span(it.since_ms)} ago`;
}

function notesOf(it: FleetNode): string[] {
  const notes = it.differs.flatMap((what) => DIFFERS[what] ?? []);
  if (it.clock_off !== null) notes.push(`its clock is ${Math.abs(it.clock_off)} s ${it.clock_off > 0 ? 'ahead of' : 'behind'} this node's`);
  if (it.presence === 'silent') {
    notes.push(`no report since ${format.when(it.reported)}: a purge that waits takes a lease, and the node validates every stored response until it reports again`);
  }
  if (it.presence === 'left') notes.push('it has stopped, and no purge waits for it');
  if (it.in_sync === false && it.presence === 'live') notes.push('it does not follow enough purge logs, and validates every stored response');
  return notes;
}

function Servers({ of }: { of: NodesOf }): JSX.Element {
  return (
    <section class="block">
      <h2>
        Memcached servers{' '}
        <small>
          <a class="link" href="#/config?section=cache.fleet.">
            cache.fleet.servers
          </a>
        </small>
      </h2>
      <table class="table node-servers">
        <thead>
          <tr>
            <th scope="col">Server</th>
            <th scope="col">State</th>
            <th scope="col" class="num">
              Purge log
            </th>
          </tr>
        </thead>
        <tbody>
          {of.servers.map((it) => (
            <tr key={it.name}>
              <th scope="row">
                <Long text={it.name} />
              </th>
              <td>
                <Icon name={it.followed && it.in_use ? 'check' : 'warn'} /> {it.followed ? 'its purge log is followed' : 'its purge log is not followed'}
                {!it.in_use && '; not used after failures'}
              </td>
              <td class="num faint">{it.entries !== null && `${it.entries.toLocaleString('en')} ${it.entries === 1 ? 'entry' : 'entries'}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {!!of.damaged_records && <p class="faint">{of.damaged_records} records there are damaged or of no node.</p>}
    </section>
  );
}

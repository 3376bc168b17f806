// The reasons why requests were no hits: a bar shows all requests by class, a table each reason of each route with an example and the
// change that may help. The server sends the texts.
import type { JSX } from 'preact';
import { useRef, useState } from 'preact/hooks';
import { get } from '../api';
import { Skeleton, Empty, Failed, Head, reasonWords } from '../parts/basic';
import { Changes } from '../parts/changes';
import { Icon } from '../parts/icons';
import { Codes } from '../parts/linked';
import { Long } from '../parts/long';
import { useShort } from '../parts/short';
import * as format from '../format';
import { go, note, useFetched } from '../hooks';
import { gainOf } from '../review';
import type { Advice, Reason, ReasonClass, Why as WhyOf, WhyRoute } from '../types';

type Part = 'hits' | ReasonClass;

const PARTS: [Part, string, string][] = [
  ['hits', 'Hits', '--series-1'],
  ['needed', 'Needed once', '--series-3'],
  ['could-be-hit', 'Could be hits', '--series-2'],
  ['by-configuration', 'By your configuration', '--series-4'],
  ['by-request', 'By the request', '--series-6'],
  ['by-response', 'By the response', '--series-7'],
  ['shared', 'Waited for another', '--series-5'],
];

const CLASSES: Record<ReasonClass, string> = {
  needed: 'needed once',
  'could-be-hit': 'could be a hit',
  'by-configuration': 'not cached by your configuration',
  'by-request': 'not cached because of the request',
  'by-response': 'not cached because of the response',
  shared: 'waited',
};

interface Row {
  route: WhyRoute;
  reason: Reason;
  requests: number;
  origin_us: number;
  evidence?: string | null;
  example: { method: string; url: string } | null;
}

export function Why({ params }: { params: URLSearchParams }): JSX.Element {
  const [route, setRoute] = useState(params.get('route') ?? '');
  const [only, setOnly] = useState<Part | ''>((params.get('class') as Part | null) ?? '');
  const { data, problem, busy, again } = useFetched<WhyOf>('why', (signal) => get('/api/v1/why', signal), 3000);
  const { data: advice, problem: unavailable, busy: judging } = useFetched<Advice>('advice', (signal) => get('/api/v1/advice', signal), 30_000);
  const names = [...new Set((data?.routes ?? []).map((it) => it.name))];
  const routes = (data?.routes ?? []).filter((it) => route === '' || it.name === route);
  const rows = rowsOf(routes, data?.reasons ?? []);
  const shown = only === '' ? rows : rows.filter((it) => it.reason.class === only);
  const choose = (next: { route?: string; only?: Part | '' }): void => {
    const [now, part] = [next.route ?? route, next.only ?? only];
    setRoute(now);
    setOnly(part);
    note('why', { route: now, class: part });
  };
  const sum = (part: Part): number =>
    part === 'hits'
      ? routes.reduce((all, it) => all + it.hits, 0)
      : rows.filter((it) => it.reason.class === part).reduce((all, it) => all + it.requests, 0);
  const parts = PARTS.map(([part, text, colour]) => ({ part, text, colour, requests: sum(part) })).filter((it) => it.requests > 0);
  return (
    <>
      <Head title="Why" sub={data ? `Reasons for requests to origins within the last ${span(data.seconds)}` : ''}>
        {names.length > 1 && (
          <select aria-label="Route" value={route} onChange={(event) => choose({ route: event.currentTarget.value })}>
            <option value="">Every route</option>
            {names.map((it) => (
              <option key={it}>{it}</option>
            ))}
          </select>
        )}
      </Head>
      <Failed problem={problem} again={again} />
      {!data && busy && <Skeleton />}
      {data?.statistics === 'off' && <p class="warn">Statistics are off (admin.statistics): nothing is counted.</p>}
      {data && parts.length === 0 && (
        <Empty icon="why" title={`No requests within the last ${span(data.seconds)}`}>
          The reasons of requests that are no hits appear here. They are counted for 30 to 60 minutes.
        </Empty>
      )}
      {parts.length > 0 && <Bar parts={parts} only={only} choose={(it) => choose({ only: it === only ? '' : it })} />}
      {advice && <Findings of={advice.findings.filter((it) => route === '' || it.routes.length === 0 || it.routes.includes(route))} several={names.length > 1} />}
      {parts.length > 0 && !advice && (judging || unavailable) && (
        <section class="findings" aria-labelledby="findings">
          <h2 id="findings">Advice</h2>
          <p class="faint">{judging ? 'Being calculated …' : `Not available: ${unavailable!.message}`}</p>
        </section>
      )}
      {shown.length > 0 && <Table rows={shown} several={names.length > 1} />}
      {data && <Changed routes={routes} seconds={data.seconds} />}
      {!!data?.retries && (
        <p class="faint why-none">
          {data.retries === 1 ? '1 request was sent' : `${data.retries.toLocaleString('en')} requests were sent`} a second time, since an origin had closed the connection; {data.retries === 1 ? 'it counts' : 'each counts'} once here.
        </p>
      )}
      {parts.length > 0 && shown.length === 0 && <p class="faint why-none">{only === 'hits' ? 'Hits reach no origin.' : 'No request reached an origin.'}</p>}
    </>
  );
}

const span = (seconds: number): string => format.flat(format.seconds(seconds));

/** Seconds by which a route is counted for a shorter time than all, other than by rounding. */
const SHORTER = 5;

/** The routes whose counts began with a change of their settings. */
function Changed({ routes, seconds }: { routes: WhyRoute[]; seconds: number }): JSX.Element | null {
  const changed = routes.filter((it) => it.seconds < seconds - SHORTER && it.requests > 0);
  if (changed.length === 0) return null;
  return (
    <p class="faint why-none">
      Counted since their settings of the cache changed: {changed.map((it) => `${it.name} (${span(it.seconds)} ago)`).join(', ')}.
    </p>
  );
}

/** Findings that are shown at first: the reasons are beneath them. */
const FINDINGS = 5;

/** The advice: each finding with the requests that it costs, and its changes. */
function Findings({ of, several }: { of: Advice['findings']; several: boolean }): JSX.Element | null {
  const key = (it: Advice['findings'][number]): string => `${it.name} ${it.routes[0] ?? ''}`;
  // The one with the most requests is open. A later reading with another order opens and closes none.
  const open = useRef<string>();
  open.current ??= of.map(key)[0];
  const [shown, more] = useShort(of, 'findings', FINDINGS);
  if (of.length === 0) return null;
  return (
    <section class="findings" aria-labelledby="findings">
      <h2 id="findings">Advice</h2>
      {shown.map((it) => (
        <details key={key(it)} open={key(it) === open.current}>
          <summary>
            {/* First, so that it floats in the first line. */}
            <span class="finding-gain">{gainOf(it)}</span> <b>
              <Codes text={it.sentence} />
            </b>{' '}
            {several && <span class="faint">{it.routes.join(', ')}</span>}
          </summary>
          <p class="faint">
            {it.requests.toLocaleString('en')} {it.requests === 1 ? 'request' : 'requests'} within the last {span(it.seconds)}, {spent(it.origin_us)} of origin time: {it.from}.
          </p>
          <Changes of={it.changes} />
        </details>
      ))}
      {more}
    </section>
  );
}

/** Each reason of each route, most requests first. Those that could have been hits although their class is another one are a row of their own. */
function rowsOf(routes: WhyRoute[], reasons: Reason[]): Row[] {
  const known = new Map(reasons.map((it) => [it.name, it]));
  return routes
    .flatMap((route) =>
      route.reasons.flatMap(({ reason, requests, could_be_hits, origin_us, evidence, example }) => {
        const row = known.get(reason);
        if (!row) return [];
        const could = row.class === 'could-be-hit' ? 0 : (could_be_hits ?? 0);
        const part = (reason: Reason, count: number): Row[] =>
          count > 0 ? [{ route, reason, requests: count, origin_us: (origin_us * count) / requests, evidence, example }] : [];
        return [...part({ ...row, class: 'could-be-hit' }, could), ...part(row, requests - could)];
      }),
    )
    .sort((a, b) => b.requests - a.requests);
}

interface Parts {
  parts: { part: Part; text: string; colour: string; requests: number }[];
  only: Part | '';
  choose: (it: Part) => void;
}

function Bar({ parts, only, choose }: Parts): JSX.Element {
  const all = parts.reduce((sum, it) => sum + it.requests, 0);
  const share = (it: number): string => format.flat(format.share(it / all));
  return (
    <section class="why-bar">
      <span class="why-whole" role="img" aria-label={parts.map((it) => `${it.text} ${share(it.requests)}`).join(', ')}>
        {parts.map((it) => (
          <span key={it.part} style={{ width: `${(it.requests / all) * 100}%`, background: `var(${it.colour})` }} />
        ))}
      </span>
      <div class="why-key" role="group" aria-label="Show only">
        {parts.map((it) => (
          <button key={it.part} aria-pressed={only === it.part} onClick={() => choose(it.part)}>
            <span class="swatch" aria-hidden="true" style={{ background: `var(${it.colour})` }} />
            {it.text} <b>{share(it.requests)}</b> <span class="faint">{format.flat(format.count(it.requests))}</span>
          </button>
        ))}
      </div>
    </section>
  );
}

function Table({ rows, several }: { rows: Row[]; several: boolean }): JSX.Element {
  const [shown, more] = useShort(rows, 'reasons');
  return (
    <>
      <table class="table why">
        <thead>
          <tr>
            <th scope="col">Reason</th>
            {several && (
              <th scope="col" class="wide-only">
                Route
              </th>
            )}
            <th scope="col" class="num">
              Requests
            </th>
            <th scope="col" class="num wide-only">
              Origin time
            </th>
          </tr>
        </thead>
        <tbody>
          {shown.map((it) => (
            <tr key={`${it.route.site} ${it.route.name} ${it.route.methods.join()} ${it.route.when} ${it.reason.name} ${it.reason.class}`}>
              <td>
                <p class="why-name">
                  <b>{reasonWords(it.reason.name)}</b> <span class={`why-class ${it.reason.class}`}>{CLASSES[it.reason.class]}</span>
                  <span class="faint narrow-only">
                    {several && `${it.route.name} `}
                    {spent(it.origin_us)}
                  </span>
                </p>
                <p class="why-text">
                  <Codes text={it.reason.sentence} />
                </p>
                {it.reason.change && (
                  <p class="why-change">
                    <Icon name="arrow" size={13} /> <span><Codes text={it.reason.change} /></span>
                  </p>
                )}
                {it.evidence && <p class="why-text">{it.evidence}</p>}
                {it.example && <Example it={it.example} />}
              </td>
              {several && <td class="wide-only">{it.route.name}</td>}
              <td class="num">{it.requests.toLocaleString('en')}</td>
              <td class="num wide-only">{spent(it.origin_us)}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {more}
    </>
  );
}

const spent = (micros: number): string => (micros > 0 ? format.flat(format.micros(micros)) : '–');

function Example({ it }: { it: { method: string; url: string } }): JSX.Element {
  const params: Record<string, string> = it.method === 'GET' ? { url: it.url } : { url: it.url, method: it.method };
  return (
    <p class="why-example">
      <button class="link mono" title={`Explain ${it.url}`} onClick={() => go('explain', params)}>
        {it.method !== 'GET' && `${it.method} `}
        <Long text={it.url} />
      </button>
    </p>
  );
}

// The differences of a time range, against the time of the same length before it: routes with their reasons, URLs, slow and failed requests.
import type { JSX } from 'preact';
import { useEffect } from 'preact/hooks';
import { get, query } from '../api';
import { Skeleton, Failed, Url, reasonWords } from '../parts/basic';
import { useShort } from '../parts/short';
import { WorstTable } from '../parts/worst';
import * as format from '../format';
import { history } from '../history';
import { useFetched } from '../hooks';
import { ratio } from '../points';
import type { Difference as Found, RouteFigures, WorstRequest } from '../types';

/** Rows that are shown at first. */
const FEW = 6;

/** Seconds after a time within which its last minute may not have ended. */
const RECENT = 90;

type Row = Found['routes'][number];

export function Difference({ from, to, found, close }: { from: number; to: number; found: (from: number, to: number) => void; close: () => void }): JSX.Element {
  // Of larder's clock.
  const [a, b] = [Math.floor(from - history.skew), Math.ceil(to - history.skew)];
  const { data, problem, again } = useFetched<Found>(`${a} ${b}`, (signal) => get(`/api/v1/history/difference${query({ from: a, to: b })}`, signal));
  useEffect(() => {
    if (data) found(data.from + history.skew, data.to + history.skew);
  }, [data]);
  return (
    <section class="block difference" aria-label="Differences">
      <div class="block-head">
        <h2>
          Differences{' '}
          {data && (
            <span class="faint">
              {format.when(data.from + history.skew)} to {format.when(data.to + history.skew)}, against the {format.flat(format.seconds(data.to - data.from))} before
            </span>
          )}
        </h2>
        <button class="link" onClick={close}>
          Close
        </button>
      </div>
      <Failed problem={problem} again={again} />
      {!data && !problem && <Skeleton rows={4} />}
      {data && <DifferenceSummary of={data} />}
    </section>
  );
}

function DifferenceSummary({ of }: { of: Found }): JSX.Element {
  const rows = of.routes.filter((it) => it.now.requests + it.before.requests > 0);
  const isRecent = Date.now() / 1000 - history.skew - of.to < RECENT;
  const none = isRecent ? 'The figures of routes follow when the minute has ended: select the time again then.' : 'No minute of this time has figures of routes: they are kept for 6 hours, by whole minutes.';
  const missing = of.now.seconds === 0 ? none : of.before.seconds === 0 ? 'The time before it has no figures to compare with.' : '';
  return (
    <>
      {missing && <p class="hint">{missing}</p>}
      {rows.length > 0 && <RouteRows rows={rows} now={of.now.seconds} before={of.before.seconds} />}
      {of.urls.length > 0 && <UrlRows of={of} />}
      {of.failed.length > 0 && <Requests title="Failed requests" of={of.failed} />}
      {of.slow.length > 0 && <Requests title="Slowest requests" of={of.slow} />}
      {of.failed.length + of.slow.length === 0 && of.now.seconds > 0 && <p class="hint">None of the worst requests that are kept ended in this time.</p>}
    </>
  );
}

function Requests({ title, of }: { title: string; of: WorstRequest[] }): JSX.Element {
  const [shown, more] = useShort(of, 'requests', FEW);
  return (
    <>
      <h3>{title}</h3>
      <WorstTable label={title} of={shown} />
      {more}
    </>
  );
}

/** A value, and below it the value of before. */
function Pair({ now, before, bad = false }: { now: string; before: string; bad?: boolean }): JSX.Element {
  return (
    <td class={`num ${bad ? 'bad' : ''}`}>
      {now}
      <span class="before">before {before}</span>
    </td>
  );
}

const hits = (it: RouteFigures): number | null => ratio(it.hits, it.misses, it.passes);
const share = (it: RouteFigures): number | null => (it.requests > 0 ? it.errors_5xx / it.requests : null);
const origin = (it: RouteFigures): number | null => (it.origin_requests > 0 ? it.origin_us / it.origin_requests : null);

function RouteRows({ rows, now, before }: { rows: Row[]; now: number; before: number }): JSX.Element {
  const [shown, more] = useShort(rows, 'routes', FEW);
  const rate = (it: RouteFigures, seconds: number): string => (seconds > 0 ? format.flat(format.rate(it.requests / seconds)) : '–');
  const percent = (it: number | null): string => (it === null ? '–' : format.flat(format.share(it)));
  const micros = (it: number | null): string => format.flat(format.micros(it));
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="Routes that differ">
        <table class="table rows" data-difference>
          <thead>
            <tr>
              <th scope="col">Route</th>
              <th scope="col" class="num">
                Req / s
              </th>
              <th scope="col" class="num">
                5xx
              </th>
              <th scope="col" class="num">
                Hit ratio
              </th>
              <th scope="col" class="num">
                Origin, mean
              </th>
              <th scope="col">Reasons</th>
            </tr>
          </thead>
          <tbody>
            {shown.map((it) => (
              <tr key={it.name}>
                <th scope="row">
                  <a class="row-link" href={`#/live?filter=${encodeURIComponent(`route == ${JSON.stringify(it.name)}`)}`}>
                    {it.name}
                  </a>
                </th>
                <Pair now={rate(it.now, now)} before={rate(it.before, before)} />
                <Pair now={percent(share(it.now))} before={percent(share(it.before))} bad={it.now.errors_5xx > 0 && (share(it.now) ?? 0) > (share(it.before) ?? 0)} />
                <Pair now={percent(hits(it.now))} before={percent(hits(it.before))} />
                <Pair now={micros(origin(it.now))} before={micros(origin(it.before))} />
                <td>
                  {it.reasons.slice(0, 3).map((one) => (
                    <span key={one.reason} class="reason-change">
                      {reasonWords(one.reason)}{' '}
                      <span class="faint">
                        {one.before.toLocaleString('en')} → {one.now.toLocaleString('en')}
                      </span>
                    </span>
                  ))}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {more}
    </>
  );
}

function UrlRows({ of }: { of: Found }): JSX.Element {
  const [shown, more] = useShort(of.urls, 'URLs', FEW);
  const count = (it: number): string => it.toLocaleString('en');
  return (
    <>
      <h3>URLs</h3>
      <div class="scroll" tabIndex={0} role="region" aria-label="URLs that differ">
        <table class="table rows">
          <thead>
            <tr>
              <th scope="col">URL</th>
              <th scope="col" class="num">
                Requests
              </th>
              <th scope="col" class="num">
                Misses
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map((it) => (
              <tr key={it.url}>
                <th scope="row" class="url">
                  <a class="row-link" href={`#/explain?url=${encodeURIComponent(it.url.replace(/…$/, ''))}`}>
                    <Url it={it.url} />
                  </a>
                </th>
                <Pair now={count(it.now)} before={count(it.before)} />
                <Pair now={count(it.misses)} before={count(it.misses_before)} />
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {more}
    </>
  );
}

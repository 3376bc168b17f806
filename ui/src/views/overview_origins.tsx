// A row for every origin, the worst first; one can be drained, after the page has said what that does.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { request, problemOf, query } from '../api';
import { Act } from '../parts/act';
import { Failed } from '../parts/basic';
import { Dialog } from '../parts/dialog';
import { useShort } from '../parts/short';
import { originsOf } from '../parts/state';
import { showToast } from '../parts/toast';
import * as format from '../format';
import { note, useMedia, useSend } from '../hooks';
import { may } from '../identity';
import { areMany, between, quantile } from '../points';
import { type Over, readings } from '../readings';
import type { Finding, Origin, Stats } from '../types';

/** Rows that are shown at first, as many as routes; more if more origins are troubled. */
const FEW = 4;
/** The same in a high window, and the most of those that are troubled. */
const MORE = 12;

/** How an origin is, in a word: its colour, and what that means for requests. */
const STATES: Record<string, [word: string, look: string, means: string]> = {
  up: ['up', 'faint', 'It receives requests'],
  failing: ['failing', 'bad', 'Its last requests failed; it still receives requests, as it has no alternative'],
  slow_start: ['slow start', 'warn', 'In use again; its share of requests grows (slow start)'],
  probing: ['probing', 'warn', 'Ejected; one request probes it'],
  ejected: ['ejected', 'bad', 'Ejected after consecutive failures'],
  unhealthy: ['unhealthy', 'bad', 'Its health check fails, so it receives no requests'],
  drained: ['drained', 'faint', 'Drained by the configuration: it receives no new requests'],
  taken_out: ['drained', 'warn', 'Drained by an operator: no new requests until it is restored or larder restarts'],
};

/** The word for an origin that receives requests and that a finding of the state names. */
const FOUND: Record<string, string> = { 'origin-errors': 'errors', 'origin-slow': 'slow', 'origin-queue': 'queue', 'origins-disagree': 'differs' };

/** The worst come first. */
const RANKS = ['ejected', 'unhealthy', 'failing', 'probing', 'slow_start', 'drained', 'up'];

function State({ of, found }: { of: Origin; found: Finding | undefined }): JSX.Element {
  const state = of.drained_by === 'operator' ? 'taken_out' : (of.state ?? 'up');
  const foundAs = state === 'up' && found && FOUND[found.name];
  if (foundAs) {
    return (
      <span class="chip warn" title={`${found.what}${found.evidence && ` (${found.evidence})`}`}>
        {foundAs}
      </span>
    );
  }
  const [word, look, means] = STATES[state] ?? [state, 'warn', ''];
  const left = state === 'ejected' && of.ejected_ms ? `; one request probes it in ${format.flat(format.seconds(of.ejected_ms / 1000))}` : '';
  return (
    <span class={state === 'up' ? look : `chip ${look}`} title={means + left}>
      {word}
    </span>
  );
}

/** The requests that it got, as they finish. */
const leadsTo = (it: Origin): string => `#/live?filter=${encodeURIComponent(`origin == ${JSON.stringify(it.name)}`)}`;

/** `params` of a link: `origin` are those that it is about, and `drain` is the one whose dialog it opens. */
export function Origins({ now, then, seconds, params }: Over & { params: URLSearchParams }): JSX.Element | null {
  const marked = params.get('origin')?.split(',') ?? [];
  const [drains, setDrains] = useState(may('operator') ? params.get('drain') : null);
  const close = (): void => {
    setDrains(null);
    const { drain: _, ...kept } = Object.fromEntries(params);
    note('overview', kept);
  };
  const narrow = useMedia('(max-width: 600px)');
  const before = new Map((then.origins ?? []).map((it) => [it.name, it]));
  const rows = (now.origins ?? []).map((it) => {
    const old = before.get(it.name);
    const grew = (name: string): number => Math.max(0, (it.counters[name] ?? 0) - (old?.counters[name] ?? 0));
    const [requests, failures] = [grew('requests'), grew('failures')];
    return { it, requests: requests / seconds, failures, isBad: areMany(failures, requests), p99: quantile(between(old?.latency, it.latency), 0.99) };
  });
  // The findings are the worst first.
  const findings = now.health?.findings ?? [];
  const found = new Map(findings.map((it, at) => [it, at] as const).reverse().flatMap(([it, at]) => originsOf(it).map((name) => [name, at] as const)));
  const foundAt = (it: Origin): number => found.get(it.name) ?? findings.length;
  const rank = (it: Origin): number => RANKS.indexOf(it.state ?? 'up');
  rows.sort((a, b) => foundAt(a.it) - foundAt(b.it) || rank(a.it) - rank(b.it) || b.failures - a.failures || b.requests - a.requests);
  const troubled = rows.filter(({ it }) => found.has(it.name) || (it.state !== undefined && it.state !== 'up' && it.state !== 'drained')).length;
  const few = useMedia('(min-height: 1200px)') ? MORE : Math.max(FEW, Math.min(troubled, MORE));
  const [shown, more] = useShort(rows, 'origins', few, ({ it }) => marked.includes(it.name));
  const body = useRef<HTMLTableSectionElement>(null);
  // After a reload of the configuration, a later reading has the row.
  const isMarked = shown.some(({ it }) => marked.includes(it.name));
  useEffect(() => {
    if (isMarked) body.current?.querySelector('[aria-current]')?.scrollIntoView({ block: 'center', behavior: 'instant' });
  }, [isMarked]);
  if (rows.length === 0) return null;
  const chosen = now.origins?.find((it) => it.name === drains);
  return (
    <section class="block">
      <div class="block-head">
        <h2>
          Origins <span class="faint">the worst first</span>
        </h2>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="Origins">
        <table class="table rows linked">
          <thead>
            <tr>
              <th scope="col">Origin</th>
              <th scope="col">State</th>
              {!narrow && <th scope="col" class="num">Req / s</th>}
              {!narrow && <th scope="col" class="num">Failed</th>}
              {!narrow && <th scope="col" class="num">p99</th>}
              <th scope="col">
                <span class="away">Drain</span>
              </th>
            </tr>
          </thead>
          <tbody ref={body}>
            {shown.map(({ it, requests, failures, isBad, p99 }) => (
              <tr key={it.name} aria-current={marked.includes(it.name) ? 'true' : undefined}>
                <th scope="row" class="origin">
                  <a data-row class="row-link" href={leadsTo(it)} title={`${it.name}${it.protocol ? `, ${it.protocol}` : ''}`}>
                    {it.name.replace(/^http:\/\//, '')}
                  </a>
                </th>
                <td>
                  <State of={it} found={findings[foundAt(it)]} />
                </td>
                {!narrow && <td class="num">{format.flat(format.rate(requests))}</td>}
                {!narrow && <td class={`num ${isBad ? 'bad' : failures ? '' : 'faint'}`}>{format.flat(format.count(failures))}</td>}
                {!narrow && <td class="num">{format.flat(format.micros(p99))}</td>}
                <td class="num">
                  <DrainButton of={it} drain={() => setDrains(it.name)} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {more}
      {chosen && !chosen.drained_by && <DrainDialog of={chosen} stats={now} close={close} />}
    </section>
  );
}

const path = (of: Origin): string => `/api/v1/origins/drain${query({ origin: of.name })}`;

function DrainButton({ of, drain }: { of: Origin; drain: () => void }): JSX.Element {
  const [busy, setBusy] = useState(false);
  if (of.drained_by === 'configuration') {
    return (
      <span class="faint" title={'The configuration drains it: remove "drain" after it in proxy.to'}>
        by file
      </span>
    );
  }
  if (of.drained_by !== 'operator') {
    return (
      <Act class="button small" aria-label={`Drain ${of.name}`} onClick={drain}>
        Drain …
      </Act>
    );
  }
  const restore = async (): Promise<void> => {
    setBusy(true);
    try {
      await request(path(of), { method: 'DELETE' });
      readings.look();
      showToast(`${of.name} receives requests again.`);
    } catch (error) {
      showToast(problemOf(error).message, true);
    } finally {
      setBusy(false);
    }
  };
  return (
    <Act class="button small" disabled={busy} aria-label={`Restore ${of.name}`} onClick={() => void restore()}>
      Restore
    </Act>
  );
}

/** States of an origin in which it does not answer. */
const DOWN = ['ejected', 'unhealthy', 'failing', 'probing'];

/** The routes of an origin: those with another origin that receives requests and answers, and those without. */
function routesOf(of: Origin, stats: Stats): { others: string[]; without: string[] } {
  const others = new Set<string>();
  const without: string[] = [];
  for (const at of of.routes) {
    const route = stats.routes?.[at];
    const left = (route?.origins ?? []).map((it) => stats.origins?.[it]).filter((it) => it && it.name !== of.name && !it.drained_by && !DOWN.includes(it.state ?? 'up'));
    for (const it of left) others.add(it!.name);
    if (route && left.length === 0) without.push(route.name);
  }
  return { others: [...others], without };
}

const list = (of: string[]): string => {
  const all = of.length > 4 ? [...of.slice(0, 3), `${of.length - 3} more`] : of;
  return all.length > 1 ? `${all.slice(0, -1).join(', ')} and ${all.at(-1)}` : all.join('');
};

function DrainDialog({ of, stats, close }: { of: Origin; stats: Stats; close: () => void }): JSX.Element {
  const { busy, problem, send } = useSend();
  const { others, without } = routesOf(of, stats);
  const flying = of.in_flight ?? 0;
  const drain = async (): Promise<void> => {
    await request(path(of), { method: 'PUT' });
    readings.look();
    showToast(`${of.name} is drained.`);
    close();
  };
  return (
    <Dialog title={`Drain ${of.name}?`} close={close}>
      <ul class="effects">
        <li>It receives no new requests{others.length > 0 && `; they go to ${list(others)}`}.</li>
        {without.length > 0 && (
          <li class="bad">
            {without.length === 1 ? 'The route' : 'The routes'} <b>{list(without)}</b> {without.length === 1 ? 'has' : 'have'} no other origin that is up: larder answers with stored responses, or an error.
          </li>
        )}
        <li>{flying === 0 ? 'No request is in progress there.' : `${flying.toLocaleString('en')} ${flying === 1 ? 'request in progress finishes' : 'requests in progress finish'} there.`}</li>
        <li>It lasts until Restore or a restart of larder; a reload keeps it.</li>
      </ul>
      <Failed problem={problem} />
      <div class="form-end">
        <button type="button" class="button" onClick={close}>
          Cancel
        </button>
        <button type="button" data-first class={`button ${without.length ? 'danger' : 'primary'}`} disabled={busy} onClick={() => void send(drain)}>
          Drain
        </button>
      </div>
    </Dialog>
  );
}

// The advice of the overview: the finding that costs the most requests and has a change, with the way to its review. All findings are in the view Why.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { get } from '../api';
import * as format from '../format';
import { Act } from '../parts/act';
import { useFetched, useReadings } from '../hooks';
import { gainOf, review } from '../review';
import { Linked } from '../parts/linked';
import type { Advice as AdviceOf, Change } from '../types';

const changeOf = (it: AdviceOf['findings'][number]): Change | undefined => it.changes.find((one) => one.diff?.length);

/** Another server has to be restored: no change of the configuration helps. */
const serverOf = (it: AdviceOf['findings'][number]): Change | undefined => it.changes.find((one) => one.by === 'server');

/** The seconds after which the time of an advice is shown: larder was too busy to renew it. */
const OLD = 120;

/** The latest answer, so that a return to the overview moves nothing. */
let latest: AdviceOf | null = null;

export function Advice(): JSX.Element | null {
  // A change that is in force answers at once.
  const stats = useReadings().latest;
  const reloads = stats?.counters.config_reloads ?? 0;
  const { data, busy, problem: unavailable } = useFetched<AdviceOf>(`advice ${reloads}`, (signal) => get('/api/v1/advice', signal), 60_000);
  const [problem, setProblem] = useState('');
  latest = data ?? latest;
  const findings = latest?.findings ?? [];
  const first = findings.find((it) => changeOf(it) || serverOf(it)) ?? findings[0];
  if (!latest) return busy || unavailable ? <section class="advice faint">{busy ? 'Advice is being calculated …' : `No advice: ${unavailable!.message}`}</section> : null;
  if (!first) return null;
  const [change, server] = [changeOf(first), serverOf(first)];
  const follow = (): void => void review(change!).catch((error: unknown) => setProblem(error instanceof Error ? error.message : String(error)));
  return (
    <section class="advice" aria-labelledby="advice">
      <h2 id="advice">Advice</h2>
      <p title={change?.sentence}>
        <Linked text={server ? (server.sentence.split('. ')[0] ?? '') : first.sentence} /> {first.routes.length > 0 && <span class="faint">{first.routes.join(', ')}</span>}{' '}
        <span class="advice-gain">{gainOf(first)}</span>
        {stats && stats.now - latest.now > OLD && <span class="faint"> as of {format.when(latest.now)}</span>}
      </p>
      {change && (
        <Act of="admin" class="button" onClick={follow}>
          Review this change …
        </Act>
      )}
      <a class="link" href="#/why">
        {findings.length === 1 ? 'Details' : `All ${findings.length}`}
      </a>
      {problem && (
        <p class="warn" role="alert">
          {problem}
        </p>
      )}
    </section>
  );
}

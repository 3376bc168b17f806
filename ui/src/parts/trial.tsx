// Shows the result of a trial: how larder decides recent requests under a changed configuration that is not applied yet.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { post } from '../api';
import * as format from '../format';
import { useFetched } from '../hooks';
import type { TriedExample, Tried } from '../types';
import { Where } from './changes';
import { Icon } from './icons';
import { Linked } from './linked';
import { cut } from './long';

const KINDS: Record<Tried['changes'][number]['kind'], [string, string]> = {
  route: ['gets another route', 'get another route'],
  status: ['gets another status', 'get another status'],
  open: ['was refused and is newly open', 'were refused and are newly open'],
  key: ['gets another cache key', 'get another cache key'],
  storage: ['is stored by only one of the two configurations', 'are stored by only one of the two configurations'],
  lifetime: ['gets another lifetime', 'get another lifetime'],
};

const number = (it: number): string => it.toLocaleString('en');
const requests = (it: number): string => `${number(it)} ${it === 1 ? 'request' : 'requests'}`;
const percent = (it: number | null): string => format.flat(format.share(it));

/** How long the recorded requests are from the first to the last. */
const span = (it: Tried): string => format.flat(format.seconds(Math.max(1, (it.to ?? 0) - (it.from ?? 0))));

/** Whether a change may be put in force by its trial, and the trial as the dialog shows it. */
interface Judged {
  permits: boolean;
  shown: JSX.Element | null;
}

/**
 * Tries the change `of` (`null`: none yet) that `body` describes. It may be put in force once its trial has ended; where the trial shows a
 * danger, or has not judged every recorded request, only with a confirmation of exactly that.
 */
export function useTrial(of: string | null, body: () => object): Judged {
  const trial = useFetched(of, async () => ({ of, ...(await post<Tried>('/api/v1/config/trial', body())) }));
  const [confirmed, confirm] = useState('');
  if (of === null) return { permits: false, shown: null };
  const tried = trial.data?.of === of ? trial.data : null;
  if (!tried && (trial.busy || !trial.problem)) return { permits: false, shown: <p class="hint" role="status">Trying the change on recent requests … Its result decides whether a confirmation is needed.</p> };
  const doubt = !tried ? 'failed' : tried.danger ? 'danger' : tried.complete ? '' : 'incomplete';
  // A confirmation is of one text and one doubt: that of a failed trial is none of the danger that a repeated one finds.
  const key = `${doubt} ${of}`;
  const box = (label: string): JSX.Element => (
    <label>
      <input type="checkbox" checked={confirmed === key} onChange={(event) => confirm(event.currentTarget.checked ? key : '')} /> {label}
    </label>
  );
  const shown = tried ? <Trial of={tried} box={box} /> : <Failure why={trial.problem!.message} box={box} />;
  return { permits: doubt === '' || confirmed === key, shown };
}

type Box = (label: string) => JSX.Element;

function Failure({ why, box }: { why: string; box: Box }): JSX.Element {
  return (
    <div class="trial-danger" role="alert">
      <p>
        <Icon name="warn" /> The change was not tried on recent requests: {why}
      </p>
      {box('Apply without a trial: it is not known whether private responses become shared.')}
    </div>
  );
}

function Trial({ of, box }: { of: Tried; box: Box }): JSX.Element {
  if (of.records === 0) return <p class="hint">No requests have been recorded yet, so this change was not tried.</p>;
  const { measured, running, changed } = of.hit_ratio;
  const changes = of.changes.filter((it) => it.requests > 0);
  return (
    <section class="trial" aria-label="Trial">
      <h3>
        On the last {requests(of.records)}
        <small>
          {' '}
          of {span(of)}
          {of.requests > of.records && `, a sample of ${number(of.requests)}`}
        </small>
      </h3>
      <dl>
        <div>
          <dt>Hit ratio now</dt>
          <dd>{percent(measured)}</dd>
          <dd class="faint">{percent(running)} by the trial</dd>
        </div>
        <div>
          <dt>Predicted</dt>
          <dd>{percent(changed)}</dd>
          <dd class="faint">{of.not_modelled.length > 0 ? 'without the tiers' : difference(running, changed)}</dd>
        </div>
      </dl>
      {of.not_modelled.length > 0 && (
        <p>
          The effect of <code>{of.not_modelled.join(', ')}</code> is not predicted: the trial takes every tier to have room for every response.
        </p>
      )}
      {of.not_judged.length > 0 && (
        <p>
          Not judged: the effect of <code>{of.not_judged.join(', ')}</code>, which recorded responses do not show.
        </p>
      )}
      {of.doubt && (
        <p class="warn">
          <Icon name="warn" /> The prediction holds once stored responses are no longer in doubt. <Linked text={of.doubt} />
        </p>
      )}
      {of.danger && (
        <div class="trial-danger" role="alert">
          <p>
            <Icon name="warn" /> <b>Responses would become public or shared that are private, differ or cannot be judged.</b>
          </p>
          {of.shared.map((it) => (
            <Fold key={it.reason} title={`${number(it.requests)} newly shared ${it.requests === 1 ? 'response' : 'responses'}${ofRoutes(it.routes)}: ${it.sentence}`} of={it.examples} />
          ))}
          {box('Apply nevertheless: all clients may get these responses.')}
        </div>
      )}
      {changes.length === 0 && of.not_judged.length === 0 && <p class="faint">No request changes its route, status, access, key, storage or lifetime.</p>}
      {changes.map((it) => (
        <Fold key={it.kind} title={`${requests(it.requests)} ${KINDS[it.kind][it.requests === 1 ? 0 : 1]}`} of={it.examples} more={it.urls - it.examples.length} />
      ))}
      {of.unknown.map((it) => (
        <p key={it.fact} class="faint">
          Not known: {requests(it.requests)} {it.sentence}.
        </p>
      ))}
      {!of.complete && (
        <div class="trial-danger" role="alert">
          <p>
            <Icon name="warn" /> The time limit ended the trial: the latest requests are not in it.
          </p>
          {!of.danger && box('Apply nevertheless: it is not known whether private responses of the latest requests become shared.')}
        </div>
      )}
    </section>
  );
}

/** Routes that are named; the sum of further ones follows. */
const NAMED = 4;

/** The routes of newly shared responses, with the number of each where there are several. */
function ofRoutes(of: { route: string; requests: number }[]): string {
  if (of.length === 0) return '';
  if (of.length === 1) return ` of route ${of[0]!.route}`;
  const named = of.slice(0, NAMED).map((it) => `${it.route} ${number(it.requests)}`);
  const rest = of.slice(NAMED);
  if (rest.length > 0) named.push(`${rest.length} more routes ${number(rest.reduce((sum, it) => sum + it.requests, 0))}`);
  return ` (${named.join(', ')})`;
}

/** The change of the ratio in points. */
function difference(before: number | null, after: number | null): string {
  if (before === null || after === null) return '';
  const points = (after - before) * 100;
  if (Math.abs(points) < 0.05) return 'no change';
  return `${points > 0 ? '+' : '−'}${Math.abs(points).toFixed(1)} points`;
}

function Fold({ title, of, more = 0 }: { title: string; of: TriedExample[]; more?: number }): JSX.Element {
  return (
    <details>
      <summary>{title}</summary>
      <ul>
        {of.map((it, at) => (
          <li key={at}>
            <Example it={it} />
          </li>
        ))}
        {more > 0 && <li class="faint">and {number(more)} more URLs</li>}
      </ul>
    </details>
  );
}

function Example({ it }: { it: TriedExample }): JSX.Element {
  const params = new URLSearchParams({ url: it.url, ...(it.method === 'GET' ? {} : { method: it.method }) });
  const isChange = it.from !== null || it.to !== null;
  return (
    <>
      <a class="link mono" href={`#/explain?${params.toString()}`} title={`Explain ${it.url}`}>
        {it.method} {cut(it.url, 160)}
      </a>
      {isChange && (
        <span class="trial-change">
          <span>{it.from ?? 'no route'}</span> → <b>{it.to ?? 'no route'}</b>
        </span>
      )}
      {it.where && (
        <span class="rule-where">
          <Where text={it.where} />
        </span>
      )}
    </>
  );
}

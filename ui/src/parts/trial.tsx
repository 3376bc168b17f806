// Shows the result of a trial: how larder decides recent requests under a changed configuration that is not applied yet.
import type { JSX } from 'preact';
import * as format from '../format';
import type { TriedExample, Tried } from '../types';
import { Where } from './changes';
import { Icon } from './icons';
import { cut } from './long';

const KINDS: Record<Tried['changes'][number]['kind'], [string, string]> = {
  route: ['gets another route', 'get another route'],
  status: ['gets another status', 'get another status'],
  open: ['was refused and is newly open', 'were refused and are newly open'],
  key: ['gets another cache key', 'get another cache key'],
  storage: ['is stored under one configuration only', 'are stored under one configuration only'],
  lifetime: ['gets another lifetime', 'get another lifetime'],
};

const number = (it: number): string => it.toLocaleString('en');
const requests = (it: number): string => `${number(it)} ${it === 1 ? 'request' : 'requests'}`;
const percent = (it: number | null): string => format.flat(format.share(it));

/** How long the recorded requests are from the first to the last. */
const span = (it: Tried): string => format.flat(format.seconds(Math.max(1, (it.to ?? 0) - (it.from ?? 0))));

export function Trial({ of, confirmed, confirm }: { of: Tried; confirmed: boolean; confirm: (it: boolean) => void }): JSX.Element {
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
          <dd class="faint">{of.not_modelled.length > 0 ? 'without RAM and disk' : difference(running, changed)}</dd>
        </div>
      </dl>
      {of.not_modelled.length > 0 && (
        <p>
          The effect of <code>{of.not_modelled.join(', ')}</code> is not predicted: the trial takes RAM and disk to have room for every response.
        </p>
      )}
      {of.danger && (
        <div class="trial-danger" role="alert">
          <p>
            <Icon name="warn" /> <b>Responses would become public or shared that are private, differ or cannot be judged.</b>
          </p>
          {of.shared.map((it) => (
            <Fold key={it.reason} title={`${number(it.requests)} newly shared ${it.requests === 1 ? 'response' : 'responses'}: ${it.sentence}`} of={it.examples} />
          ))}
          <label>
            <input type="checkbox" checked={confirmed} onChange={(event) => confirm(event.currentTarget.checked)} /> Apply nevertheless: all clients may get these responses.
          </label>
        </div>
      )}
      {changes.length === 0 && <p class="faint">No request changes its route, status, access, key, storage or lifetime.</p>}
      {changes.map((it) => (
        <Fold key={it.kind} title={`${requests(it.requests)} ${KINDS[it.kind][it.requests === 1 ? 0 : 1]}`} of={it.examples} more={it.urls - it.examples.length} />
      ))}
      {of.unknown.map((it) => (
        <p key={it.fact} class="faint">
          Not known: {requests(it.requests)} {it.sentence}.
        </p>
      ))}
      {!of.complete && (
        <p class="warn">
          <Icon name="warn" /> The time limit ended the trial: the latest requests are not in it.
        </p>
      )}
    </section>
  );
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

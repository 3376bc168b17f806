// A table of slow or failed requests that larder keeps without sampling; each opens with all that is kept of it.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Cache, Status, Url, cacheWords, reasonWords } from './basic';
import { Drawer } from './dialog';
import { Icon } from './icons';
import { walk } from './rows';
import * as format from '../format';
import { go } from '../hooks';
import type { WorstRequest } from '../types';

/** What became of a request, and why. */
function OneRequest({ it, close }: { it: WorstRequest; close: () => void }): JSX.Element {
  const facts: [string, JSX.Element | string][] = [
    ['Status', it.status === 0 ? 'none was sent' : String(it.status)],
    ['Ended', format.moment(it.at)],
    ['Duration', format.flat(format.micros(it.duration_us))],
    ['Route', it.route || '–'],
    ['Origin', it.origin ? `${it.origin}, ${format.flat(format.micros(it.origin_us))}` : '–'],
    ['Cache', it.cache ? cacheWords(it.cache) : '–'],
    ['Reason', it.reason ? reasonWords(it.reason) : '–'],
    ['Id', it.id],
    ...(it.request_id ? [['X-Request-Id', it.request_id] as [string, string]] : []),
  ];
  const why =
    it.failure ||
    (it.broken
      ? 'the origin broke the response off'
      : it.cache === 'shared-failure'
        ? 'an identical request had failed within the second before'
        : it.status >= 500 && it.origin
          ? `the origin answered ${it.status}`
          : '');
  const foot = (
    <button
      class="button"
      onClick={() => {
        close();
        go('explain', it.url.includes('***') ? { id: it.id } : { url: it.url.replace(/…$/, ''), method: it.method });
      }}
    >
      <Icon name="explain" /> Explain its URL now
    </button>
  );
  return (
    <Drawer title={it.url} over={`${it.method}, ${format.when(it.at)}`} close={close} foot={foot}>
      {why && (
        <p class="warn" data-failure>
          <Icon name="warn" /> {`${why[0]!.toUpperCase()}${why.slice(1)}.`}
        </p>
      )}
      <dl class="facts">
        {facts.map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
    </Drawer>
  );
}

export function WorstTable({ label, of }: { label: string; of: WorstRequest[] }): JSX.Element {
  const [open, setOpen] = useState<WorstRequest | null>(null);
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label={label}>
        <table class="table rows worst-requests" onKeyDown={walk}>
          <thead>
            <tr>
              <th scope="col" class="num">
                End
              </th>
              <th scope="col">Request</th>
              <th scope="col">Status</th>
              <th scope="col" class="num">
                Duration
              </th>
              <th scope="col" class="num">
                Origin
              </th>
              <th scope="col">Reason</th>
              <th scope="col">Id</th>
            </tr>
          </thead>
          <tbody>
            {of.map((it) => (
              <tr key={`${it.id} ${it.at}`} onClick={() => setOpen(it)}>
                <td class="faint num">{format.when(it.at)}</td>
                <td class="url">
                  <button data-row class="row-button" title={`${it.method} ${it.url}`}>
                    {it.method !== 'GET' && `${it.method} `}
                    <Url it={it.url} />
                  </button>
                  <span class="faint site">{it.route}</span>
                </td>
                <td>
                  <Status it={it.status} />
                  {it.broken && <span class="faint"> broken off</span>}
                </td>
                <td class="num">{format.flat(format.micros(it.duration_us))}</td>
                <td class="num" title={it.origin}>
                  {it.origin_us ? format.flat(format.micros(it.origin_us)) : '–'}
                </td>
                <td>
                  <Cache it={it.cache} reason={it.reason || null} />
                </td>
                <td class="mono" title={it.request_id ? `X-Request-Id: ${it.request_id}` : ''}>
                  {it.id}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {open && <OneRequest it={open} close={() => setOpen(null)} />}
    </>
  );
}

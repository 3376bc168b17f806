// A table of slow or failed requests that larder keeps without sampling; each leads to Explain.
import type { JSX } from 'preact';
import { Cache, Status, Url } from './basic';
import { walk } from './rows';
import * as format from '../format';
import { go } from '../hooks';
import type { WorstRequest } from '../types';

/** What a request is explained by: larder does not keep its fields. */
/** By its id where parts of its URL are hidden. */
const explain = (it: WorstRequest): void => go('explain', it.url.includes('***') ? { id: it.id } : { url: it.url.replace(/…$/, ''), method: it.method });

export function WorstTable({ label, of }: { label: string; of: WorstRequest[] }): JSX.Element {
  return (
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
            <tr key={`${it.id} ${it.at}`} onClick={() => explain(it)}>
              <td class="faint num">{format.when(it.at)}</td>
              <td class="url">
                <button data-row class="row-button" title={`Explain ${it.method} ${it.url}`}>
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
  );
}

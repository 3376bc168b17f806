// Overlays: responses in place of those of a URL, until they are removed or their time is over.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Problem, request, get, query } from '../api';
import { Act } from '../parts/act';
import { Skeleton, Empty, Failed, Url } from '../parts/basic';
import { Dialog, Drawer } from '../parts/dialog';
import { Icon } from '../parts/icons';
import { walk } from '../parts/rows';
import { showToast } from '../parts/toast';
import * as format from '../format';
import { go, useFetched, useSend } from '../hooks';
import type { Overlay } from '../types';

interface List {
  overlays: Overlay[];
  bytes: number;
  limit_bytes: number;
}

interface Props {
  turn: number;
  changed: () => void;
  lay: (uri: string) => void;
}

export function Overlays({ turn, changed, lay }: Props): JSX.Element {
  const { data, problem, busy, again } = useFetched<List>(String(turn), (signal) => get('/api/v1/overlays', signal), 5000);
  const [open, setOpen] = useState<Overlay | null>(null);
  const remove = async (uri: string): Promise<void> => {
    setOpen(null);
    try {
      await request(`/api/v1/overlays${query({ uri })}`, { method: 'DELETE' });
      showToast(`The overlay of ${uri} was removed.`);
      changed();
    } catch (error) {
      showToast(error instanceof Error ? error.message : String(error), true);
    }
  };
  if (!data) return busy ? <Skeleton rows={4} /> : <Failed problem={problem} again={again} />;
  return (
    <>
      <Failed problem={problem} again={again} />
      {data.overlays.length === 0 ? (
        <Empty icon="layers" title="No overlays">
          An overlay replaces the response of a URL at once, independent of the cache and the origin.{' '}
          <Act class="link" onClick={() => lay('')}>
            Add one
          </Act>
        </Empty>
      ) : (
        <>
          <p class="found">
            <b>{data.overlays.length}</b> {data.overlays.length === 1 ? 'overlay' : 'overlays'} <span class="faint">{format.flat(format.bytes(data.bytes))} of {format.flat(format.bytes(data.limit_bytes))}</span>
          </p>
          <div class="scroll">
            <table class="table rows" onKeyDown={walk}>
              <thead>
                <tr>
                  <th scope="col">URL</th>
                  <th scope="col" class="wide-only">Type</th>
                  <th scope="col" class="num">Size</th>
                  <th scope="col" class="num">Hits</th>
                  <th scope="col">Until</th>
                  <th scope="col" class="wide-only">By</th>
                  <th scope="col">
                    <span class="away">Remove</span>
                  </th>
                </tr>
              </thead>
              <tbody>
                {data.overlays.map((it) => (
                  <tr key={it.uri} onClick={() => setOpen(it)}>
                    <td class="url">
                      <button data-row class="row-button" title={it.uri}>
                        <Url it={it.uri} />
                      </button>
                    </td>
                    <td class="nowrap wide-only">{it.content_type}</td>
                    <td class="num">{format.flat(format.bytes(it.bytes))}</td>
                    <td class="num">{format.flat(format.count(it.hits))}</td>
                    <td class="nowrap">{it.expires === null ? 'removed' : format.moment(it.expires)}</td>
                    <td class="faint nowrap wide-only">{it.by}</td>
                    <td class="num">
                      <Act
                        class="button"
                        aria-label={`Remove the overlay of ${it.uri}`}
                        onClick={(event) => {
                          event.stopPropagation();
                          void remove(it.uri);
                        }}
                      >
                        Remove
                      </Act>
                    </td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </>
      )}
      {open && (
        <OneOverlay
          it={data.overlays.find((one) => one.uri === open.uri) ?? open}
          close={() => setOpen(null)}
          remove={() => void remove(open.uri)}
          replace={() => {
            setOpen(null);
            lay(open.uri);
          }}
        />
      )}
    </>
  );
}

function OneOverlay({ it, close, remove, replace }: { it: Overlay; close: () => void; remove: () => void; replace: () => void }): JSX.Element {
  const facts: [string, string | number][] = [
    ['Status', it.status],
    ['Size', format.flat(format.bytes(it.bytes))],
    ['Type', it.content_type ?? '–'],
    ['Hits', format.flat(format.count(it.hits))],
    ['Set at', format.moment(it.set_at)],
    ['By', it.by],
    ['Until', it.expires === null ? 'removed' : format.moment(it.expires)],
  ];
  const foot = (
    <>
      {!it.uri.startsWith('/') && (
        <button
          class="button"
          onClick={() => {
            close();
            // It lies over both schemes; the page asks by the one that it was loaded by.
            go('explain', { url: it.uri.replace(/^\*:/, location.protocol) });
          }}
        >
          <Icon name="explain" /> Explain
        </button>
      )}
      <Act class="button" onClick={replace}>
        <Icon name="layers" /> Replace …
      </Act>
      <Act class="button danger" onClick={remove}>
        <Icon name="trash" /> Remove
      </Act>
    </>
  );
  return (
    <Drawer title={it.uri} over={it.uri.startsWith('/') ? 'Overlay on every host' : 'Overlay'} close={close} foot={foot}>
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

export function OverlayEditor({ uri: given, close }: { uri: string; close: (put: boolean) => void }): JSX.Element {
  const [uri, setUri] = useState(given);
  const [type, setType] = useState('text/html; charset=utf-8');
  const [status, setStatus] = useState('200');
  const [ttl, setTtl] = useState('');
  const [text, setText] = useState('');
  const [file, setFile] = useState<File | null>(null);
  const { busy, problem, send } = useSend();
  const submit = async (): Promise<void> => {
    // larder takes a word for a path of every host: an operator who forgot the scheme meant a host.
    if (!/^(\/|(https?|\*):\/\/)/i.test(uri.trim())) throw new Problem(0, `${uri.trim()} is ambiguous: path or host; write /PATH for every host, or http://HOST/PATH for one.`);
    const put = await request<Overlay>(`/api/v1/overlays${query({ uri: uri.trim(), ttl, status })}`, { method: 'PUT', body: file ?? text, type });
    const where = put.uri;
    showToast(where.startsWith('/') ? `The overlay of ${where} is active on every host.` : `The overlay of ${where} is active.`);
    close(true);
  };
  return (
    <Dialog title="New overlay" close={() => close(false)} wide>
      <form class="form" onSubmit={(event) => (event.preventDefault(), void send(submit))}>
        <label class="field">
          <span>URL</span>
          <input
            data-first
            class="mono"
            placeholder="http://www.example.com/news, or /news on every host"
            spellcheck={false}
            value={uri}
            onInput={(event) => setUri(event.currentTarget.value)}
          />
        </label>
        <div class="form-row">
          <label class="field">
            <span>Content-Type</span>
            <input value={type} spellcheck={false} onInput={(event) => setType(event.currentTarget.value)} />
          </label>
          <label class="field">
            <span>Status</span>
            <input inputMode="numeric" value={status} onInput={(event) => setStatus(event.currentTarget.value)} />
          </label>
          <label class="field">
            <span>Expires after seconds</span>
            <input inputMode="numeric" placeholder="until removed" value={ttl} onInput={(event) => setTtl(event.currentTarget.value)} />
          </label>
        </div>
        <label class="field">
          <span>Page</span>
          <textarea class="mono" rows={12} spellcheck={false} disabled={file !== null} value={text} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span>Or a file</span>
          <input
            class="file"
            type="file"
            onChange={(event) => {
              const it = event.currentTarget.files?.[0] ?? null;
              setFile(it);
              if (it?.type) setType(it.type);
            }}
          />
        </label>
        <Failed problem={problem} />
        <div class="form-end">
          <button type="button" class="button" onClick={() => close(false)}>
            Cancel
          </button>
          <button class="button primary" disabled={busy || uri.trim() === ''}>
            <Icon name="layers" /> Activate
          </button>
        </div>
      </form>
    </Dialog>
  );
}

// The answer to one request: whether the cache serves it, whether that is right, and safe changes; below, the rules that decided.
import type { JSX } from 'preact';
import { useEffect, useState } from 'preact/hooks';
import { Problem, post } from '../api';
import { Skeleton, Cache, Empty, Failed, Head } from '../parts/basic';
import { Act } from '../parts/act';
import { Changes, Where } from '../parts/changes';
import { Icon } from '../parts/icons';
import { Linked } from '../parts/linked';
import { Long } from '../parts/long';
import * as format from '../format';
import { go, note, useFetched, useReadings } from '../hooks';
import type { Explanation, RequestRecord, Rule } from '../types';

const METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'PURGE'];

/** `Name: value` on each line. */
function fields(text: string): [string, string][] {
  return text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .map((line) => {
      const at = line.indexOf(':');
      return at < 0 ? [line, ''] : [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    });
}

/** Asks about a request by its id; where larder keeps it no more, about its URL. */
async function explain({ otherwise, ...question }: { id?: string; otherwise?: { ask: string; method: string } }): Promise<Explanation & { isGone?: boolean }> {
  try {
    return await post<Explanation>('/api/v1/explain', question);
  } catch (error) {
    if (!otherwise || !(error instanceof Problem) || error.status !== 404) throw error;
    return { ...(await post<Explanation>('/api/v1/explain', otherwise)), isGone: true };
  }
}

/** The question about a request by its id; a link from a list has its URL as well. */
function byId(id: string, params: URLSearchParams): string {
  const url = params.get('of');
  return JSON.stringify({ id, otherwise: url && !url.endsWith('…') ? { ask: url, method: params.get('method') ?? 'GET' } : undefined });
}

export function Explain({ params }: { params: URLSearchParams }): JSX.Element {
  const id = params.get('id');
  const [url, setUrl] = useState(params.get('url') ?? '');
  const [method, setMethod] = useState(params.get('method') ?? 'GET');
  const [headers, setHeaders] = useState(params.get('headers') ?? '');
  const [client, setClient] = useState(params.get('client') ?? '');
  const asked = (given: string): string => JSON.stringify({ ask: given, method, headers: fields(headers), client: client.trim() || undefined });
  const [question, setQuestion] = useState(id ? byId(id, params) : url ? asked(url.trim()) : null);
  const [turn, again] = useState(0);

  // A link from another view while this one is open.
  useEffect(() => {
    if (id) return setQuestion(byId(id, params));
    const given = params.get('url');
    if (given && given !== url) {
      setUrl(given);
      setQuestion(asked(given.trim()));
    }
  }, [params]);

  const { data: told, problem, busy } = useFetched(question && `${question} ${turn}`, async () => ({ of: question, it: await explain(JSON.parse(question!)) }));
  // The answer about another URL is not shown below this one.
  const data = told?.of === question ? told?.it : undefined;
  const submit = (event: Event): void => {
    event.preventDefault();
    const given = url.trim();
    if (given === '') return;
    setUrl(given);
    note('explain', { url: given, method: method === 'GET' ? '' : method, headers, client: client.trim() });
    setQuestion(asked(given));
    again((it) => it + 1);
  };

  return (
    <>
      <Head title="Explain" sub="How larder would serve a request now, computed by the same functions" />
      <form class="ask" onSubmit={submit}>
        <select aria-label="Method" value={method} onChange={(event) => setMethod(event.currentTarget.value)}>
          {METHODS.map((it) => (
            <option key={it}>{it}</option>
          ))}
        </select>
        <div class="search">
          <Icon name="search" />
          <input
            data-search
            class="mono"
            aria-label="URL, path, tag or request id"
            placeholder="www.example.com/page, /page, a tag, or the id of a request"
            spellcheck={false}
            value={url}
            onInput={(event) => setUrl(event.currentTarget.value)}
          />
          <kbd aria-hidden="true">/</kbd>
        </div>
        <button class="button primary">Explain</button>
        <details class="ask-fields" open={headers !== '' || client !== ''}>
          <summary>Client and request fields</summary>
          <label>
            Client address
            <input class="mono" placeholder="127.0.0.1" spellcheck={false} value={client} onInput={(event) => setClient(event.currentTarget.value)} />
            <span class="faint">for rules by address, country and rate</span>
          </label>
          <textarea
            class="mono"
            rows={3}
            aria-label="Request fields, one per line"
            placeholder={'Cookie: session=Ada\nAccept-Language: de'}
            spellcheck={false}
            value={headers}
            onInput={(event) => setHeaders(event.currentTarget.value)}
          />
        </details>
      </form>
      <Failed problem={problem} />
      {busy && !data && question && <Skeleton rows={6} />}
      {!question && (
        <Empty icon="explain" title="Enter a URL">
          Says whether it is served from the cache, whether that is right, and the changes that would help. <kbd>Ctrl</kbd> <kbd>K</kbd> asks from every view.
        </Empty>
      )}
      {data?.isGone && !problem && (
        <p class="hint" role="status">
          <Icon name="clock" /> larder keeps this request no more. Its URL is explained, as a request without its fields would be served now.
        </p>
      )}
      {data && !problem && <Result it={data} />}
    </>
  );
}

function Result({ it }: { it: Explanation }): JSX.Element {
  return (
    <article class="told-all" aria-live="polite">
      {it.then && <Then it={it.then} />}
      <section class="verdict">
        <p class="verdict-name">
          <Cache it={it.verdict.name} />
          {it.route && (
            <span class="faint">
              route {it.route}
              {it.settings?.route && ', '}
              {it.settings?.route && <Where text={it.settings.route} />}
            </span>
          )}
        </p>
        <p class="verdict-sentence" data-verdict={it.verdict.name}>
          <Long text={it.summary.answer} draw={(text) => <Linked text={text} />} />
        </p>
        <p class={`because ${it.summary.judgement}`}>
          <Linked text={it.summary.because} />
        </p>
        {it.verdict.name === 'maintenance' && it.where && <Maintenance at={it.where} />}
        {it.site === null && (
          <p data-add-site>
            <a class="link" href="#/config?part=form">
              Open the configuration to add a site
            </a>
          </p>
        )}
        {it.summary.fails && it.url && (
          <p data-bridge>
            Until it is repaired, an overlay can answer this URL with a page of yours.{' '}
            <Act class="button" onClick={() => go('objects', { show: 'overlays', lay: it.url! })}>
              <Icon name="layers" /> Overlay …
            </Act>
          </p>
        )}
        <Changes of={it.summary.changes} />
        {it.pages?.map((page) => (
          <p key={page}>
            <button class="link mono" onClick={() => go('explain', { url: page })}>
              <Long text={page} />
            </button>
          </p>
        ))}
      </section>
      <div class="told-columns">
        <div>
          <Phases it={it} />
          <details class="how">
            <summary>How this was decided</summary>
            <p class="told-text">{it.verdict.sentence}</p>
            {it.change && (
              <p class="told-text">
                <b>To change the verdict:</b> {it.change}
              </p>
            )}
          {it.rules && it.rules.length > 0 && <Rules title="Rules, in order" rules={it.rules} />}
          {it.last_refusal && (
            <>
              <h2 class="told-title">
                The last response
                <span class="faint">
                  {' '}
                  {format.flat(format.seconds(it.last_refusal.seconds_ago))} ago, status {it.last_refusal.status}
                </span>
              </h2>
              <p class="told-text">{it.last_refusal.sentence}</p>
              {it.last_refusal.rules.length > 0 && <Rules title="Why it was not stored" rules={it.last_refusal.rules} />}
            </>
          )}
          </details>
        </div>
        <aside aria-label="Stored">
          {it.key && (
            <>
              <h2 class="told-title">Key</h2>
              <p class="code-line">
                <Long text={it.key.text} />
              </p>
              <p class="faint told-text">{it.key.recipe}</p>
            </>
          )}
          {it.tiers && it.tiers.length > 0 && (
            <>
              <h2 class="told-title">Tiers</h2>
              <table class="parts">
                <tbody>
                  {it.tiers.map((tier) => (
                    <tr key={tier.tier}>
                      <th scope="row">{tier.tier}</th>
                      <td>{holds(tier.holds, tier.count)}</td>
                    </tr>
                  ))}
                </tbody>
              </table>
            </>
          )}
          {it.nodes?.say && <p class="faint told-text">{it.nodes.say}</p>}
          {it.stored && (
            <>
              <h2 class="told-title">Stored response</h2>
              <table class="parts">
                <tbody>
                  <Line name="status" it={String(it.stored.status)} />
                  <Line name="size" it={format.flat(format.bytes(it.stored.bytes))} />
                  <Line name="age" it={it.stored.age} />
                  <Line name="lifetime" it={it.stored.lifetime} />
                  <Line name="freshness" it={it.stored.freshness} />
                  <Line name="variant" it={it.stored.variant} />
                  <Line name="part" it={it.stored.part} />
                  <Line name="forms" it={it.stored.forms} />
                </tbody>
              </table>
            </>
          )}
          {it.settings && it.settings.given.length > 0 && (
            <>
              <h2 class="told-title">Settings of this route</h2>
              <table class="parts">
                <tbody>
                  {it.settings.given.map((row) => (
                    <Line key={row.key} name={row.key.replace('site[].route[].', '')} it={<Where text={row.where} />} title={`${row.key}, ${row.where}`} mono />
                  ))}
                </tbody>
              </table>
            </>
          )}
        </aside>
      </div>
    </article>
  );
}

/** Since when a route is under maintenance, as far as larder has seen it, and the line that ends it. */
function Maintenance({ at }: { at: string }): JSX.Element {
  const finding = useReadings().latest?.health?.findings.find((it) => it.name === 'maintenance-on' && it.evidence === at);
  return (
    <p data-ends>
      {finding?.since && <>Since {format.when(finding.since)}. </>}
      <code>maintenance.enabled = false</code> ends it: <Where text={at} />
    </p>
  );
}

/** The phases before the cache, each with the place of the key that decides. */
function Phases({ it }: { it: Explanation }): JSX.Element | null {
  const rows: { name: string; text: string; where?: string | null }[] = [];
  if (it.matched?.path) rows.push({ name: 'path', text: it.matched.path, where: it.matched.where?.path });
  if (it.matched?.when) rows.push({ name: 'when', text: it.matched.when, where: it.matched.where?.when });
  for (const other of it.matched?.passed_over ?? []) rows.push({ name: 'not', text: `${other.route}: ${other.sentence}`, where: other.where });
  if (it.tls) {
    rows.push({ name: 'tls', text: `min_version ${it.tls.min_version}`, where: it.tls.where['min_version'] });
    rows.push({ name: 'tls', text: `client_auth ${it.tls.client_auth}`, where: it.tls.where['client_auth'] });
  }
  if (it.access) rows.push({ name: 'access', text: `${it.access.name}: ${it.access.sentence}, by ${it.access.key}`, where: it.access.where });
  if (it.where) rows.push({ name: 'answer', text: it.verdict.name, where: it.where });
  if (it.file) rows.push({ name: 'file', text: `${it.file.path ?? it.file.page ?? 'none'} in ${it.file.root}, by ${it.file.key}`, where: it.file.where });
  if (it.script) rows.push({ name: 'script', text: it.script.sentence, where: it.script.where });
  if (it.sql) rows.push({ name: 'sql', text: `${it.sql.database}, freshness ${it.sql.grade}: ${it.sql.sentence}`, where: it.sql.where });
  for (const shown of it.sql?.rows ?? []) rows.push({ name: '', text: `${shown.rows}: ${shown.grade} (${shown.tag}): ${shown.sentence}` });
  if (it.sticky) rows.push({ name: 'sticky', text: it.sticky.sentence, where: it.sticky.where });
  if (rows.length === 0) return null;
  return (
    <>
      <h2 class="told-title">Before the cache</h2>
      <table class="parts">
        <tbody>
          {rows.map((row, at) => (
            <tr key={at}>
              <th scope="row">{row.name}</th>
              <td>
                <Long text={row.text} />
                {row.where && (
                  <p class="rule-where">
                    <Where text={row.where} />
                  </p>
                )}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function holds(what: string, count?: number): string {
  switch (what) {
    case 'variants':
      return count === 1 ? 'one variant' : `${count} variants`;
    case 'response':
      return 'a response of this kind';
    case 'hit-for-miss':
      return 'nothing; responses of this key cannot be shared (hit-for-miss)';
    case 'unshared':
      return 'nothing; another node marked it as not shareable';
    case 'purged':
      return 'a response that is not used: a purge covers it, or it may be older';
    case 'unknown':
      return 'could not be asked in time';
    default:
      return 'nothing';
  }
}

const Line = ({ name, it, mono, title }: { name: string; it: JSX.Element | string | null | undefined; mono?: boolean; title?: string }): JSX.Element | null =>
  it ? (
    <tr title={title}>
      <th scope="row" class={mono ? 'mono' : ''}>
        {name}
      </th>
      <td>{it}</td>
    </tr>
  ) : null;

function Rules({ title, rules }: { title: string; rules: Rule[] }): JSX.Element {
  return (
    <>
      <h2 class="told-title">{title}</h2>
      <ol class="rules">
        {rules.map((it, at) => (
          <li key={at} class={it.outcome}>
            <span class="rule-mark" title={it.outcome === 'decided' ? 'decided' : 'looked at'}>
              {it.outcome === 'decided' ? <Icon name="arrow" size={14} /> : <span aria-hidden="true">·</span>}
              <span class="away">{it.outcome === 'decided' ? 'decided' : 'looked at'}</span>
            </span>
            <div>
              <p class="rule-name">
                {it.rule} <span class="chip">{it.source}</span>
              </p>
              <p class="rule-evidence">
                <Long text={it.evidence} />
              </p>
              {it.where.map((line) => (
                <p key={line} class="rule-where">
                  <Where text={line} />
                </p>
              ))}
            </div>
          </li>
        ))}
      </ol>
    </>
  );
}

/** What became of it when it came, over what would be done with it now. */
function Then({ it }: { it: RequestRecord }): JSX.Element {
  return (
    <section class="then">
      <h2 class="told-title">
        Then <span class="faint">{format.clock(it.time_us, true)}</span>
      </h2>
      <p class="then-line">
        <code>
          <Long text={`${it.method} ${it.url}`} />
        </code>
        <span>{it.status}</span>
        <Cache it={it.cache} />
        <span>{format.flat(format.bytes(it.bytes))}</span>
        <span>{format.flat(format.micros(it.duration_us))}</span>
        <button class="link" onClick={() => go('explain', { url: it.url, method: it.method })}>
          Explain this URL
        </button>
      </p>
      <h2 class="told-title">Now</h2>
    </section>
  );
}

// Requests as they finish, after the latest ones, through a filter. Rows stand still while one is aimed at or read.
import { Component, type JSX, type RefObject } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { Problem } from '../api';
import { Cache, Empty, Failed, Head, Status, Url, cacheWords, hostsOf, reasonWords } from '../parts/basic';
import { Drawer } from '../parts/dialog';
import { Icon } from '../parts/icons';
import { Long } from '../parts/long';
import { walk } from '../parts/rows';
import { StageBar, StageTable } from '../parts/stages';
import * as format from '../format';
import { go, note } from '../hooks';
import { useKeys } from '../keys';
import type { RequestRecord } from '../types';
import { expression, parts, quoted, toggled } from './live_filter';
import { type Stream, useStream } from './live_stream';

const EXAMPLES = ['status >= 500', 'cache != "hit"', 'duration_us > 100ms', 'method != "GET"'];
/** Milliseconds that a finger holds the rows after it has left: its click comes later. */
const TOUCHED = 1000;

export function Live({ params }: { params: URLSearchParams }): JSX.Element {
  const [text, setText] = useState(params.get('filter') ?? '');
  const [filter, setFilter] = useState(text);
  const [paused, setPaused] = useState(false);
  const [open, setOpen] = useState<RequestRecord | null>(null);
  const [holds, setHolds] = useState(false);
  const [focused, setFocused] = useState(false);
  const { top, scrolled } = useScrolled();
  // A row stays where it is while it is aimed at or read: the pointer, a finger or the focus is there, or the view is scrolled.
  const still = holds || focused || scrolled || open !== null;
  const sent = expression(filter);
  const { rows, fresh, seen, lost, rate, state, problem, show } = useStream(sent, paused, still);
  const bad = problem !== null && problem.status === 400 && filter === text.trim();
  const lifted = useRef(0);
  const hold = (event: PointerEvent, it: boolean): void => {
    clearTimeout(lifted.current);
    if (it || event.pointerType === 'mouse') setHolds(it);
    else lifted.current = window.setTimeout(() => setHolds(false), TOUCHED);
  };
  const apply = (it: string): void => {
    setText(it);
    setFilter(it.trim());
    // Rows that are gone say nothing when the pointer leaves them.
    setHolds(false);
    setFocused(false);
    note('live', { filter: it.trim() });
  };
  useEffect(() => {
    const given = params.get('filter');
    if (given !== null && given !== filter) apply(given);
  }, [params]);
  const latest = (): void => {
    show();
    top.current?.scrollIntoView({ block: 'end' });
    document.getElementById('main')?.focus({ preventScroll: true });
  };
  // A button that has the focus is pressed by it; a row is opened by Enter.
  useKeys({ ' ': ({ target }) => !(target as HTMLElement).closest('button:not([data-row]), a') && (setPaused((it) => !it), true), n: latest });
  const chips = [...new Set([...parts(filter), ...EXAMPLES])];
  return (
    <>
      <Head title="Live" sub={<Sub state={state} paused={paused} rate={rate} seen={seen} lost={lost} />}>
        <button class="button" aria-pressed={paused} onClick={() => setPaused(!paused)}>
          <Icon name={paused ? 'play' : 'pause'} /> {paused ? 'Resume' : 'Pause'}
        </button>
      </Head>
      <form
        class="filter"
        role="search"
        onSubmit={(event) => {
          event.preventDefault();
          apply(text);
        }}
      >
        <div class="bar-row">
          <div class="search">
            <Icon name="search" />
            <input
              data-search
              class="mono"
              aria-label="Filter"
              aria-invalid={bad}
              aria-describedby="filter-told"
              placeholder={'words of the URL, or status >= 500 && route == "api"'}
              spellcheck={false}
              autocomplete="off"
              value={text}
              onInput={(event) => setText(event.currentTarget.value)}
            />
            <kbd aria-hidden="true">/</kbd>
          </div>
          <button class="button">Filter</button>
          {filter && (
            <button type="button" class="button" onClick={() => apply('')}>
              Show all
            </button>
          )}
        </div>
        <div id="filter-told" role="alert">
          {bad && <BadFilter text={sent} problem={problem} />}
        </div>
        <div class="examples" role="group" aria-label="Conditions">
          {chips.map((it) => (
            <button type="button" class="chip mono" key={it} aria-pressed={parts(filter).includes(it)} onClick={() => apply(toggled(filter, it))}>
              {it}
            </button>
          ))}
        </div>
      </form>
      {!bad && <Failed problem={problem} />}
      <div ref={top} class="live-top" />
      <div class="fresh">
        {fresh > 0 && (
          <button class="button primary" onClick={latest}>
            <Icon name="up" /> {fresh.toLocaleString('en')} new
          </button>
        )}
      </div>
      {rows.length === 0 ? bad ? null : (
        <Empty icon="live" title={filter ? 'No matching request yet' : 'No request yet'}>
          {filter ? 'Matching requests appear here as they finish.' : 'Requests appear here as they finish.'}
        </Empty>
      ) : (
        <div
          class="scroll"
          data-still={still}
          onPointerEnter={(event) => hold(event, event.pointerType === 'mouse')}
          onPointerDown={(event) => hold(event, true)}
          onPointerUp={(event) => event.pointerType !== 'mouse' && hold(event, false)}
          onPointerCancel={(event) => hold(event, false)}
          onPointerLeave={(event) => hold(event, false)}
          onFocusIn={() => setFocused(true)}
          onFocusOut={() => setFocused(false)}
        >
          <table class={`table rows live ${hostsOf(rows.map((it) => it.url))}`} onKeyDown={walk}>
            <thead>
              <tr>
                <th scope="col">Time</th>
                <th scope="col">Status</th>
                <th scope="col">Request</th>
                <th scope="col">Cache</th>
                <th scope="col" class="num">
                  Took
                </th>
                <th scope="col" class="num">
                  Size
                </th>
                <th scope="col" class="wide-only">
                  Route
                </th>
                <th scope="col" class="wide-only">
                  Client
                </th>
              </tr>
            </thead>
            <tbody>
              {rows.map((it) => (
                <Row key={it.id} it={it} open={setOpen} />
              ))}
            </tbody>
          </table>
        </div>
      )}
      {open && <Details it={open} close={() => setOpen(null)} filter={(it) => apply(parts(filter).includes(it) ? filter : toggled(filter, it))} />}
    </>
  );
}

/** Whether what stands at `top` is scrolled away. */
function useScrolled(): { top: RefObject<HTMLDivElement>; scrolled: boolean } {
  const top = useRef<HTMLDivElement>(null);
  const [scrolled, set] = useState(false);
  useEffect(() => {
    const seen = new IntersectionObserver(([it]) => set(!it!.isIntersecting && it!.boundingClientRect.top < innerHeight / 2));
    seen.observe(top.current!);
    return () => seen.disconnect();
  }, []);
  return { top, scrolled };
}

/** The limits by the statuses of requests that exceed them. */
const LIMITS: Record<number, string> = { 414: 'limits.target_size', 431: 'limits.head_size' };

/** Why a request was rejected before its method and URL were known, with the limit if one decides. */
const rejection = (it: RequestRecord): string => `${it.rejected!.replace(/\.$/, '')}${LIMITS[it.status] ? ` (${LIMITS[it.status]})` : ''}`;

/** Drawn once: a record never changes. */
class Row extends Component<{ it: RequestRecord; open: (it: RequestRecord) => void }> {
  override shouldComponentUpdate(): boolean {
    return false;
  }

  render({ it, open }: Row['props']): JSX.Element {
    return (
      <tr onClick={() => open(it)}>
        <td class="faint">{format.clock(it.time_us, true)}</td>
        <td>
          <Status it={it.status} />
        </td>
        <td class="url">
          <button data-row class="row-button" title={it.rejected ?? it.url}>
            {it.rejected ? (
              <>
                <span class="faint">rejected</span> {rejection(it)} <span class="faint">from {it.client ?? 'a Unix socket'}</span>
              </>
            ) : (
              <>
                <span class="faint">{it.method}</span> <Url it={it.url} />
              </>
            )}
          </button>
        </td>
        <td>
          <Cache it={it.cache} reason={it.reason} />
        </td>
        <td class="num">{format.flat(format.micros(it.duration_us))}</td>
        <td class="num">{format.flat(format.bytes(it.bytes))}</td>
        <td class="wide-only">{it.route}</td>
        <td class="wide-only faint">{it.client}</td>
      </tr>
    );
  }
}

function Sub({ state, paused, rate, seen, lost }: { state: Stream['state']; paused: boolean; rate: number; seen: number; lost: number }): JSX.Element {
  const word = paused ? 'Paused' : state === 'open' ? `${format.flat(format.rate(rate))} requests per second` : state === 'opening' ? 'Opening the stream' : 'No stream';
  return (
    <>
      {word}, <span data-seen={seen} title="Requests since the view opened">{seen.toLocaleString('en')} seen</span>
      {lost > 0 && <span class="warn">, {lost.toLocaleString('en')} passed over because they came too fast</span>}
    </>
  );
}

/** The filter as it was sent, and under it what is wrong at which column. */
function BadFilter({ text, problem }: { text: string; problem: Problem }): JSX.Element {
  const column = problem.column;
  return (
    <div class="bad-filter">
      {column !== null && (
        <pre aria-hidden="true">
          {text}
          {'\n'}
          {' '.repeat(Math.max(0, column - 1))}^
        </pre>
      )}
      <p>
        {problem.message}
        {problem.where && !problem.message.includes(problem.where) ? ` (${problem.where})` : ''}
      </p>
    </div>
  );
}

/** Conditions that hold for a request. */
function conditions(it: RequestRecord): string[] {
  const all: [string, string | null][] = [
    ['route', it.route],
    ['site', it.site],
    ['host', it.host],
    ['path', it.path],
    ['client', it.client],
    ['cache', it.cache],
    ['reason', it.reason ?? null],
  ];
  return [`status == ${it.status}`, ...all.filter(([, value]) => value).map(([name, value]) => `${name} == ${quoted(value!)}`)];
}

function Details({ it, close, filter }: { it: RequestRecord; close: () => void; filter: (part: string) => void }): JSX.Element {
  const rows: [string, string | number | null][] = [
    ['Rejected', it.rejected ? rejection(it) : null],
    ['Time', format.clock(it.time_us, true)],
    ['Status', it.status],
    ['Took', format.flat(format.micros(it.duration_us))],
    ['Origin', it.origin_us === null ? null : `${it.origin}, ${format.flat(format.micros(it.origin_us))}, ${it.origin_protocol}`],
    ['Size', format.flat(format.bytes(it.bytes))],
    ['Cache', cacheWords(it.cache)],
    ['Reason', it.reason ? reasonWords(it.reason) : null],
    ['Fresh for', it.ttl === null ? null : format.flat(format.seconds(it.ttl))],
    ['Route', it.route],
    ['Site', it.site],
    ['Client', it.client],
    ['End', it.end],
    ['Id', it.id],
  ];
  const foot = (
    <button
      class="button primary"
      onClick={() => {
        close();
        go('explain', { id: it.id, ...(it.rejected ? {} : { of: it.url, method: it.method }) });
      }}
    >
      <Icon name="explain" /> Explain this request
    </button>
  );
  return (
    <Drawer title={it.rejected ? 'Rejected request' : it.url} over={it.rejected ? '' : it.method} close={close} foot={foot}>
      <dl class="facts">
        {rows
          .filter(([, value]) => value !== null && value !== '')
          .map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
      </dl>
      <h3 class="part-title">Show only requests with</h3>
      <p class="examples">
        {conditions(it).map((part) => (
          <button
            class="chip mono"
            key={part}
            onClick={() => {
              close();
              filter(part);
            }}
          >
            {part}
          </button>
        ))}
      </p>
      {it.stages && (
        <>
          <h3 class="part-title">Time by stage</h3>
          <StageBar stages={it.stages} most={0} />
          <StageTable stages={it.stages} />
        </>
      )}
      {(it.user_agent || it.referer) && (
        <table class="fields">
          <tbody>
            {it.user_agent && (
              <tr>
                <th scope="row">User-Agent</th>
                <td>
                  <Long text={it.user_agent} />
                </td>
              </tr>
            )}
            {it.referer && (
              <tr>
                <th scope="row">Referer</th>
                <td>
                  <Long text={it.referer} />
                </td>
              </tr>
            )}
          </tbody>
        </table>
      )}
    </Drawer>
  );
}

// Requests as they finish, through a filter; one can stop the stream, and look at one.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { type Problem, events, problemOf, query } from '../api';
import { Cache, Empty, Failed, Head, Status, Url, reasonWords } from '../parts/basic';
import { Drawer } from '../parts/dialog';
import { Icon } from '../parts/icons';
import { Long } from '../parts/long';
import { walk } from '../parts/rows';
import { StageBar, StageTable } from '../parts/stages';
import * as format from '../format';
import { go, note } from '../hooks';
import { useKeys } from '../keys';
import type { RequestRecord } from '../types';

const KEPT = 300;
const SHOWN = 150;
/** Milliseconds between two drawings: more often, nobody could read it. */
const DRAW = 250;

interface Stream {
  rows: RequestRecord[];
  seen: number;
  lost: number;
  rate: number;
  state: 'opening' | 'open' | 'closed';
  problem: Problem | null;
}

const EXAMPLES = ['status >= 500', 'cache != "hit"', 'duration_us > 100ms', 'path ~ "^/api/"'];

/** Follows the stream while `paused` is not set; rows come in bunches. */
function useStream(filter: string, paused: boolean): Stream {
  const [state, set] = useState<Stream>({ rows: [], seen: 0, lost: 0, rate: 0, state: 'opening', problem: null });
  const shown = useRef(filter);
  useEffect(() => {
    if (paused) return;
    const ends = new AbortController();
    let fresh: RequestRecord[] = [];
    let lost = 0;
    let timer: number | undefined;
    const counts: number[] = [];
    set((it) => ({ ...it, state: 'opening', problem: null }));
    const draw = window.setInterval(() => {
      counts.push(fresh.length);
      if (counts.length > 2000 / DRAW) counts.shift();
      const rate = counts.reduce((sum, it) => sum + it, 0) / ((counts.length * DRAW) / 1000);
      const came = fresh;
      const gone = lost;
      fresh = [];
      lost = 0;
      set((it) =>
        came.length === 0 && gone === 0 && it.rate === rate
          ? it
          : { ...it, rate, lost: it.lost + gone, seen: it.seen + came.length, rows: came.length ? [...came.reverse(), ...it.rows].slice(0, KEPT) : it.rows },
      );
    }, DRAW);
    const follow = async (): Promise<void> => {
      try {
        await events(
          `/api/v1/stream${query({ filter })}`,
          ends.signal,
          () => {
            // What another filter let through is not what this one does; a filter that is wrong takes nothing away.
            const other = shown.current !== filter;
            shown.current = filter;
            set((it) => ({ ...it, state: 'open', problem: null, ...(other ? { rows: [], seen: 0, lost: 0 } : {}) }));
          },
          (event, data) => {
            if (event === 'request') fresh.push(data as RequestRecord);
            else if (event === 'lost') lost += (data as { count: number }).count;
            if (fresh.length > KEPT) lost += fresh.splice(0, fresh.length - KEPT).length;
          },
        );
      } catch (error) {
        if (ends.signal.aborted) return;
        const problem = problemOf(error, 'The stream was interrupted.');
        set((it) => ({ ...it, state: 'closed', problem }));
        // A filter that is wrong stays wrong.
        if (problem.status >= 400 && problem.status < 500 && problem.status !== 429) return;
      }
      if (!ends.signal.aborted) timer = window.setTimeout(() => void follow(), 1000);
    };
    void follow();
    return () => {
      ends.abort();
      window.clearInterval(draw);
      window.clearTimeout(timer);
    };
  }, [filter, paused]);
  return state;
}

export function Live({ params }: { params: URLSearchParams }): JSX.Element {
  const [text, setText] = useState(params.get('filter') ?? '');
  const [filter, setFilter] = useState(text);
  const [paused, setPaused] = useState(false);
  const [open, setOpen] = useState<RequestRecord | null>(null);
  const { rows, seen, lost, rate, state, problem } = useStream(filter, paused);
  const bad = problem !== null && problem.status === 400 && filter === text.trim();
  const apply = (it: string): void => {
    setText(it);
    setFilter(it.trim());
    note('live', { filter: it.trim() });
  };
  useEffect(() => {
    const given = params.get('filter');
    if (given !== null && given !== filter) apply(given);
  }, [params]);
  // A button that has the focus is pressed by it; a row is opened by Enter.
  useKeys({ ' ': ({ target }) => !(target as HTMLElement).closest('button:not([data-row]), a') && (setPaused((it) => !it), true) });
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
              placeholder={'status >= 500 && route == "api" && cache != "hit"'}
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
          {bad && <BadFilter text={filter} problem={problem} />}
        </div>
        {!filter && !text && (
          <p class="examples">
            {EXAMPLES.map((it) => (
              <button type="button" class="chip mono" key={it} onClick={() => apply(it)}>
                {it}
              </button>
            ))}
          </p>
        )}
      </form>
      {!bad && <Failed problem={problem} />}
      {rows.length === 0 ? bad ? null : (
        <Empty icon="live" title={filter ? 'No matching request yet' : 'No request yet'}>
          {filter ? 'Matching requests appear here as they finish.' : 'Requests appear here as they finish.'}
        </Empty>
      ) : (
        <div class="scroll">
          <table class="table rows live" onKeyDown={walk}>
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
              {rows.slice(0, SHOWN).map((it) => (
                <tr key={it.id} onClick={() => setOpen(it)}>
                  <td class="faint">{format.clock(it.time_us, true)}</td>
                  <td>
                    <Status it={it.status} />
                  </td>
                  <td class="url">
                    <button data-row class="row-button" title={it.url}>
                      <span class="faint">{it.method}</span> <Url it={it.url} />
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
              ))}
            </tbody>
          </table>
        </div>
      )}
      {open && <Details it={open} close={() => setOpen(null)} />}
    </>
  );
}

function Sub({ state, paused, rate, seen, lost }: { state: Stream['state']; paused: boolean; rate: number; seen: number; lost: number }): JSX.Element {
  const word = paused ? 'Paused' : state === 'open' ? `${format.flat(format.rate(rate))} per second` : state === 'opening' ? 'Opening the stream' : 'No stream';
  return (
    <>
      {word}, <span data-seen={seen}>{seen.toLocaleString('en')} seen</span>
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

function Details({ it, close }: { it: RequestRecord; close: () => void }): JSX.Element {
  const rows: [string, string | number | null][] = [
    ['Time', format.clock(it.time_us, true)],
    ['Status', it.status],
    ['Took', format.flat(format.micros(it.duration_us))],
    ['Origin', it.origin_us === null ? null : `${format.flat(format.micros(it.origin_us))}, ${it.origin_protocol}`],
    ['Size', format.flat(format.bytes(it.bytes))],
    ['Cache', it.cache],
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
        go('explain', { id: it.id });
      }}
    >
      <Icon name="explain" /> Explain this request
    </button>
  );
  return (
    <Drawer title={it.url} over={it.method} close={close} foot={foot}>
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

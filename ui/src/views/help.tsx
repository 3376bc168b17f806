// Help: a text for each view, and the reference of the configuration's keys, from the table of this larder.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { get } from '../api';
import { Failed, Head, Skeleton } from '../parts/basic';
import { Icon } from '../parts/icons';
import { Linked } from '../parts/linked';
import { useShort } from '../parts/short';
import { note, useFetched } from '../hooks';
import type { Config, Key } from '../types';
import { VIEWS } from './index';

/** Of each view: its text, and the guides (docs/guide) that go further. */
const TEXTS: Record<string, [text: string, ...guides: string[]]> = {
  overview: [
    'Whether the server is well: all figures are of the last minute, and the chart is of the history that larder keeps. Routes and origins have the worst first. Drag over the chart to see what differed in a time. “Could be” counts the requests that a cache might have answered.',
    'reading-the-page',
    'after-an-incident',
  ],
  objects: ['What is stored in RAM and on the disk: search by URL, inspect, purge. An overlay answers a URL with a page of yours, whatever the cache and the origin do.'],
  explain: ['How one request would be served now: whether from the cache, whether that is right, and the changes that would help. Fields and client address of the request can be given.', 'why-is-my-hit-ratio-low'],
  why: ['Each request that an origin answered has one reason. The bar shows which of them are right and which could be hits; the advice has changes with the gain, each tried on recent requests before it is applied.', 'why-is-my-hit-ratio-low'],
  live: ['Requests as they end. Words search the URL, conditions such as `status >= 500 && route == "api"` filter. The list stands still while the pointer is over it.', 'reading-the-page'],
  top: ['The most frequent URLs by requests, misses, bytes or time at origins, counted since the last reset.', 'reading-the-page'],
  traces: ['Where the time of single requests went. The worst requests are kept without sampling, with the failure of each; others are traced at the rate of their route.', 'after-an-incident'],
  nodes: ['The nodes that share the memcached servers: state, version, hit ratio, and how far each has followed the log of purges.'],
  config: ['The files of the configuration, as a form or as text. A draft is checked, compared and tried on recent requests before it comes into force; keys marked “restart” wait for one.', 'several-files', 'secrets-and-environment'],
  access: ['Tokens with their roles, sessions, and the log of changes.', 'roles'],
};

/** The keys that a name in a sentence may mean, the exact ones first. */
function found(keys: Key[], name: string): Key[] {
  const wanted = name.trim().toLowerCase();
  const rank = (it: Key): number => (it.key === wanted ? 0 : it.key.endsWith(`.${wanted}`) ? 1 : it.key.startsWith(`${wanted}.`) || it.key.includes(`.${wanted}.`) ? 2 : it.key.includes(wanted) ? 3 : it.help.toLowerCase().includes(wanted) ? 4 : 5);
  return keys.filter((it) => rank(it) < 5).sort((a, b) => rank(a) - rank(b));
}

export function HelpView({ params }: { params: URLSearchParams }): JSX.Element {
  const [name, setName] = useState(params.get('key') ?? '');
  const { data, problem, again } = useFetched<Config>('keys', (signal) => get('/api/v1/config', signal));
  const [shown, more] = useShort(data ? found(data.keys, name) : [], 'keys');
  const view = params.get('view');
  const texts = Object.entries(TEXTS).filter(([it]) => (view ? it === view : name === ''));
  return (
    <>
      <Head title="Help" sub="Views, and the keys of the configuration" />
      {texts.map(([it, [text, ...guides]]) => (
        <section class="block help" key={it}>
          <h2>{VIEWS.find((one) => one.name === it)?.title}</h2>
          <p>
            <Linked text={text} />
          </p>
          {guides.length > 0 && <p class="faint">Guides in the documentation of larder: {guides.map((guide) => `docs/guide/${guide}.md`).join(', ')}</p>}
        </section>
      ))}
      <section class="block help">
        <h2>Keys of the configuration</h2>
        <div class="search">
          <Icon name="search" />
          <input
            data-search
            class="mono"
            aria-label="Search keys"
            placeholder="cache.max_object, or a word"
            spellcheck={false}
            value={name}
            onInput={(event) => {
              setName(event.currentTarget.value);
              note('help', { view: view ?? '', key: event.currentTarget.value });
            }}
          />
        </div>
        <Failed problem={problem} again={again} />
        {!data && !problem && <Skeleton rows={6} />}
        {data && shown.length === 0 && <p class="hint">No key has this name or word.</p>}
        {shown.map((it) => (
          <article key={it.key} data-key={it.key}>
            <h3>
              <code>{it.key}</code> {it.restart && <span class="chip">restart</span>}
            </h3>
            <p>
              <Linked text={it.help} />
            </p>
            <p class="faint">
              {it.allowed ?? it.kind}
              {it.default !== null && <>; default <code>{it.default}</code></>}
              {it.example && <>; such as <code>{it.example}</code></>}
            </p>
          </article>
        ))}
        {more}
      </section>
    </>
  );
}

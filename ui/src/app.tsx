// The frame around every view: where one can go, whether larder answers, keys, and the login in front of it.
import { Component, type ComponentChildren, type JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { request, hasToken, onSessionChanged, onSessionEnded, post, problemOf, setToken } from './api';
import { Chunk, type Draw, type Load } from './chunk';
import { go, useMedia, usePlace, useReadings } from './hooks';
import { useKeys } from './keys';
import { Login } from './login';
import { Empty, Head } from './parts/basic';
import { Dialog } from './parts/dialog';
import { Icon, type IconName, Mark } from './parts/icons';
import { cut } from './parts/long';
import { enter } from './parts/rows';
import { Toasts } from './parts/toast';
import { seconds, flat } from './format';
import { State, Tab } from './parts/state';
import { readings } from './readings';
import { setTheme, theme, type Theme } from './theme';
import { VIEWS as ALL_VIEWS } from './views';
import { type Role, fetchIdentity, may, identity } from './identity';

export interface View {
  name: string;
  title: string;
  icon: IconName;
  /** The key behind `g`. */
  key: string;
  /** It has a link only where a fleet is configured. */
  ofFleet?: boolean;
  /** Every view has a link to it; the list of views has none. */
  isHelp?: boolean;
  /** What draws it ... */
  draw?: Draw;
  /** ... or loads what does. */
  load?: Load;
  /** The role that it needs; without one, a viewer's. */
  needs?: Role;
}

/** Those that the client may see. */
const views = (): View[] => ALL_VIEWS.filter((it) => may(it.needs ?? 'viewer'));

/** Where the view is kept at which a session ended: a login link opens in another tab. */
const VIEW_KEY = 'larder.view';

/** Takes the code of a login link out of the address, and the session for it; returns to the view of the last session. */
async function navigate(link: string): Promise<string | null> {
  const view = localStorage.getItem(VIEW_KEY) ?? '#/overview';
  history.replaceState(null, '', `${location.pathname}${view}`);
  try {
    const { token } = await post<{ token: string }>('/api/v1/login', { code: link });
    setToken(token);
    return null;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}

/** Milliseconds between two questions who is logged in, while larder does not answer. */
const RETRY = 1000;

export function App(): JSX.Element {
  const [state, set] = useState<'busy' | 'in' | 'out'>('busy');
  const [problem, setProblem] = useState<string | null>(null);
  const [, turn] = useState(0);
  // What the page offers depends on the role: it is asked for first.
  const admit = async (): Promise<void> => {
    while (hasToken()) {
      try {
        await fetchIdentity();
        turn((it) => it + 1);
        return set('in');
      } catch (error) {
        const it = problemOf(error);
        if (it.status === 401) return;
        // The page shows by itself that larder does not answer.
        if (it.status === 0 && identity()) return set('in');
        if (it.status !== 0) {
          setProblem(it.message);
          break;
        }
        await new Promise((then) => setTimeout(then, RETRY));
      }
    }
    set('out');
  };

  useEffect(() => {
    onSessionEnded(() => {
      setToken(null);
      setProblem('The session has ended: it was ended or not used for 12 hours, or its token was changed or removed.');
      set('out');
    });
    onSessionChanged(() => void admit());
    const enter = async (): Promise<void> => {
      const link = /^#login=(.+)$/.exec(location.hash)?.[1];
      if (link) setProblem(await navigate(link));
      await admit();
    };
    const changed = (): void => {
      if (location.hash.startsWith('#login=')) void enter();
    };
    void enter();
    addEventListener('hashchange', changed);
    return () => removeEventListener('hashchange', changed);
  }, []);

  useEffect(() => {
    if (state === 'out' && location.hash.startsWith('#/')) localStorage.setItem(VIEW_KEY, location.hash);
    if (state === 'in') localStorage.removeItem(VIEW_KEY);
  }, [state]);

  useEffect(() => {
    if (state === 'in') readings.start();
    return () => readings.stop();
  }, [state]);

  if (state === 'busy') return <div class="wait" role="status" aria-label="Loading" />;
  if (state === 'out') {
    return (
      <Login
        problem={problem}
        enter={async () => {
          setProblem(null);
          await admit();
        }}
      />
    );
  }
  return (
    <Shell
      key={`${identity()?.name} ${identity()?.role}`}
      leave={(path) => {
        void request(path, { method: 'POST' }).catch(() => null);
        setToken(null);
        setProblem(null);
        set('out');
      }}
    />
  );
}

/** Shows in place of a view what broke it; the other views go on. */
class Guard extends Component<{ children: ComponentChildren }, { broken: string | null }> {
  override state = { broken: null as string | null };

  static override getDerivedStateFromError(error: unknown): { broken: string } {
    return { broken: String(error) };
  }

  override componentDidCatch(error: unknown): void {
    console.error(error);
  }

  override render(): ComponentChildren {
    if (this.state.broken === null) return this.props.children;
    return (
      <Empty icon="warn" title="This view failed">
        {this.state.broken}{' '}
        <button class="link" onClick={() => this.setState({ broken: null })}>
          Try again
        </button>
      </Empty>
    );
  }
}

type Leave = (path: '/api/v1/logout' | '/api/v1/logout/everywhere') => void;

function Shell({ leave }: { leave: Leave }): JSX.Element {
  const VIEWS = views();
  const { view, params, turn } = usePlace();
  const [help, setHelp] = useState(false);
  const [asking, setAsking] = useState(false);
  const main = useRef<HTMLElement>(null);
  const now = VIEWS.find((it) => it.name === (view || 'overview'));
  const title = now?.title ?? 'No such view';

  const pairs = Object.fromEntries(VIEWS.map((it) => [`g ${it.key}`, () => open(it)]));
  useKeys({
    ...pairs,
    '/': () => {
      const it = main.current?.querySelector<HTMLInputElement>('[data-search]');
      it?.focus();
      it?.select();
    },
    '?': () => setHelp(true),
    ArrowDown: () => enter(main.current, 1),
    ArrowUp: () => enter(main.current, -1),
  });

  // While writing as well; not while a dialog is open.
  useEffect(() => {
    const pressed = (event: KeyboardEvent): void => {
      if (!(event.ctrlKey || event.metaKey) || event.altKey || event.key.toLowerCase() !== 'k' || document.querySelector('dialog[open]')) return;
      event.preventDefault();
      setAsking(true);
    };
    addEventListener('keydown', pressed);
    return () => removeEventListener('keydown', pressed);
  }, []);

  function open(it: View): void {
    go(it.name);
    // So that the keyboard goes on from the new view, and a screen reader tells it. At once: later, it would take the focus from the
    // field that `/` has gone to meanwhile.
    main.current?.focus();
  }

  return (
    <div class="shell">
      <a class="skip" href="#main" onClick={(event) => (event.preventDefault(), main.current?.focus())}>
        Skip to content
      </a>
      <header class="side">
        <a class="brand" href="#/overview" aria-label="larder, overview">
          <Mark />
          <span class="side-text">larder</span>
        </a>
        <nav aria-label="Views">
          <Links now={now} />
        </nav>
        <div class="side-foot">
          <RestartPendingLink />
          <ConnectionState />
          <Client leave={leave} />
          <div class="side-tools">
            <ThemeSwitch />
            <button class="tool" onClick={() => setHelp(true)} title="Keys (?)" aria-label="Keys">
              <Icon name="help" />
            </button>
            <button class="tool" onClick={() => leave('/api/v1/logout')} title="Log out" aria-label="Log out">
              <Icon name="leave" />
            </button>
          </div>
        </div>
      </header>
      <main id="main" ref={main} tabIndex={-1} aria-label={title}>
        <ConnectionLost />
        <State />
        {/* A link to the open view opens it again; a change of the address by the view itself does not. */}
        <Guard key={turn}>{now ? <Content of={now} params={params} /> : <NotFound name={view} />}</Guard>
      </main>
      <Tab title={title} />
      <Help open={help} close={() => setHelp(false)} />
      {asking && <AskExplain close={() => setAsking(false)} />}
      <Toasts />
    </div>
  );
}

/** The links to the views; that of the nodes only where there is a fleet. */
function Links({ now }: { now: View | undefined }): JSX.Element {
  const { latest } = useReadings();
  const hasFleet = latest?.tiers?.some((it) => it.name === 'fleet' && it.state === 'on');
  return (
    <>
      {views().filter((it) => !it.isHelp && (!it.ofFleet || it === now || hasFleet)).map((it) => (
        <a
          key={it.name}
          class="nav"
          href={`#/${it.name}`}
          aria-current={it === now ? 'page' : undefined}
          aria-label={it.title}
          title={`${it.title} (g ${it.key})`}
        >
          <Icon name={it.icon} />
          <span class="side-text">{it.title}</span>
          <kbd class="side-text" aria-hidden="true">
            g {it.key}
          </kbd>
        </a>
      ))}
    </>
  );
}

function Content({ of, params }: { of: View; params: URLSearchParams }): JSX.Element | null {
  if (of.draw) return <of.draw params={params} />;
  return of.load ? <Chunk name={of.name} title={of.title} load={of.load} params={params} /> : null;
}

/** In place of a view that there is none of. */
function NotFound({ name }: { name: string }): JSX.Element {
  const refused = ALL_VIEWS.find((it) => it.name === name);
  return (
    <>
      <Head title={refused ? refused.title : 'No such view'} />
      <Empty icon="explain" title={refused ? `${refused.title} requires the role ${refused.needs}` : `There is no view “${cut(name, 40)}”`}>
        <p>{refused ? '' : 'The address is mistyped or belongs to another version of larder. '}Available views:</p>
        <ul class="ways">
          {views().map((it) => (
            <li key={it.name}>
              <a class="button" href={`#/${it.name}`}>
                <Icon name={it.icon} /> {it.title}
              </a>
            </li>
          ))}
        </ul>
      </Empty>
    </>
  );
}

/** Over every view while larder does not answer; what was known stays beneath. */
function ConnectionLost(): JSX.Element | null {
  const { link, latest, problem } = useReadings();
  if (link !== 'lost') return null;
  return (
    <p class="banner lost-banner" role="alert">
      <Icon name="warn" />
      <span>
        {problem} The page retries every second{latest && '; the values shown are the latest known'}.
      </span>
    </p>
  );
}

/** That the file waits for a restart, wherever one is; it leads to what it waits with. */
function RestartPendingLink(): JSX.Element | null {
  const keys = useReadings().latest?.pending ?? [];
  if (keys.length === 0) return null;
  const label = `Restart pending: the file changes ${keys.join(', ')}`;
  return (
    <a class="pending" href="#/config" aria-label={label} title={label}>
      <Icon name="clock" />
      <span class="side-text">Restart pending</span>
    </a>
  );
}

/** Whether larder answers, in one word. */
function ConnectionState(): JSX.Element {
  const { link, latest, problem } = useReadings();
  const text = link === 'live' ? 'Live' : link === 'starting' ? 'Connecting' : 'No answer';
  const up = latest?.uptime;
  return (
    <div class={`standing ${link}`} role="status" title={problem ?? (latest?.listen ?? []).join(', ')}>
      <span class="dot" aria-hidden="true" />
      <span class="side-text">{text}</span>
      {link === 'live' && up !== undefined && <span class="side-text faint">up {flat(seconds(up))}</span>}
    </div>
  );
}

/** The name and the role of the token, and the end of its sessions. */
function Client({ leave }: { leave: Leave }): JSX.Element | null {
  const [open, setOpen] = useState(false);
  const it = identity();
  if (!it) return null;
  const label = `Logged in as ${it.name}, role ${it.role}`;
  return (
    <>
      <button class="client" title={label} aria-label={`${it.name === it.role ? it.name : `${it.name} ${it.role}`}, logged in`} onClick={() => setOpen(true)}>
        <Icon name="access" />
        <span class="side-text client-name">{it.name}</span>{' '}
        {it.name !== it.role && <span class="side-text faint">{it.role}</span>}
      </button>
      {open && (
        <Dialog title={label} close={() => setOpen(false)}>
          <p>{RIGHTS[it.role]}</p>
          <div class="form-end">
            <button class="button" onClick={() => leave('/api/v1/logout/everywhere')}>
              Log out everywhere
            </button>
            <button class="button primary" data-first onClick={() => leave('/api/v1/logout')}>
              Log out
            </button>
          </div>
        </Dialog>
      )}
    </>
  );
}

const RIGHTS: Record<Role, string> = {
  viewer: 'A viewer reads, and changes nothing.',
  operator: 'An operator purges, sets overlays, drains origins and changes the sampling of traces, but not the configuration.',
  admin: 'An admin may do everything.',
};

function ThemeSwitch(): JSX.Element {
  const [it, set] = useState<Theme>(theme);
  const dark = useMedia('(prefers-color-scheme: dark)');
  const shown = it === 'system' ? (dark ? 'dark' : 'light') : it;
  const next: Theme = shown === 'dark' ? 'light' : 'dark';
  return (
    <button
      class="tool"
      title={`Switch to ${next}`}
      aria-label={`Switch to ${next}`}
      onClick={() => {
        setTheme(next);
        set(next);
      }}
    >
      <Icon name={shown === 'dark' ? 'sun' : 'moon'} />
    </button>
  );
}

const KEYS: [string, string][] = [
  ['/', 'Search or filter'],
  ['Ctrl K', 'Explain a URL, a path, a tag or a request'],
  ['?', 'Show these keys'],
  ['Esc', 'Close a dialog'],
  ['↑ ↓', 'Select a row; Enter opens it'],
  ['Space', 'Live: pause and resume'],
  ['p', 'Objects: purge'],
  ['n', 'Objects: new overlay; Live: show new requests'],
];

/** The question of Explain, over every view. */
function AskExplain({ close }: { close: () => void }): JSX.Element {
  const [text, set] = useState('');
  const submit = (event: Event): void => {
    event.preventDefault();
    if (text.trim() === '') return;
    close();
    go('explain', { url: text.trim() });
  };
  return (
    <Dialog title="Explain" close={close}>
      <form class="ask" onSubmit={submit}>
        <input
          data-first
          class="mono"
          aria-label="URL, path, tag or request id"
          placeholder="URL, /path, tag or request id"
          spellcheck={false}
          autocomplete="off"
          value={text}
          onInput={(event) => set(event.currentTarget.value)}
        />
        <button class="button primary">Explain</button>
      </form>
    </Dialog>
  );
}

function Help({ open, close }: { open: boolean; close: () => void }): JSX.Element | null {
  if (!open) return null;
  return (
    <Dialog title="Keys" close={close}>
      <dl class="keys">
        {views().map((it) => (
          <div key={it.key}>
            <dt>
              <kbd>g</kbd> <kbd>{it.key}</kbd>
            </dt>
            <dd>{it.title}</dd>
          </div>
        ))}
        {KEYS.map(([key, what]) => (
          <div key={key}>
            <dt>
              {key.split(' ').map((one) => (
                <kbd key={one}>{one}</kbd>
              ))}
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}

// A new route, or a new site with its first one: asked for in a dialog, written into the text by larder, and checked there before
// it goes on. What its other keys are is given in the form afterwards.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { post } from '../api';
import { Segments } from '../parts/basic';
import { Dialog } from '../parts/dialog';
import { Problems } from '../parts/diff';
import { Icon } from '../parts/icons';
import type { Checked, ConfigProblem, Settings } from '../types';
import { type DraftFile, type Edit, edited, texts } from './config_draft';

/** What the routes of a site are reached by, in order. */
export const paths = (site: Settings | undefined): string[] =>
  [site?.['route'] ?? []].flat().map((it) => (typeof it === 'object' && !Array.isArray(it) && typeof it['path'] === 'string' ? it['path'] : '/*'));

/** Whether a route at `wide` takes everything that one at `path` would: what stands behind it is never reached. */
export const covers = (wide: string, path: string): boolean => (wide.endsWith('*') ? path.startsWith(wide.slice(0, -1)) : wide === path);

/** Where a route belongs that is to be reached: before the first that takes all of it. */
function place(path: string, among: string[]): number {
  const found = among.findIndex((it) => covers(it, path));
  return found < 0 ? among.length : found;
}

interface Props {
  /** The site that gets a route; null is a new site. */
  site: { at: number; name: string; routes: string[] } | null;
  sites: number;
  /** The number of the file of each site. */
  siteFiles: number[];
  files: DraftFile[];
  known: ConfigProblem[];
  close: () => void;
  /** The files with it, and the section of the form that is of it. */
  done: (files: DraftFile[], section: string) => void;
}

export function NewRoute({ site, sites, siteFiles, files, known, close, done }: Props): JSX.Element {
  const [file, setFile] = useState(0);
  const [hosts, setHosts] = useState('');
  const [path, setPath] = useState(site ? '' : '/*');
  const [kind, setKind] = useState<'proxy' | 'files'>('proxy');
  const [to, setTo] = useState('');
  const [chosen, setChosen] = useState<number | null>(null);
  const [problems, setProblems] = useState<ConfigProblem[]>([]);
  const [busy, setBusy] = useState(false);
  const routes = site?.routes ?? [];
  const at = chosen ?? place(path.trim(), routes);

  const edits = (): Edit[] => {
    const listed = to.split(',').map((it) => it.trim()).filter((it) => it !== '');
    const route: Settings = { path: path.trim(), ...(kind === 'proxy' ? { proxy: { to: listed } } : { files: { root: to.trim() } }) };
    if (!site) return [{ path: ['site', sites], ...(file > 0 ? { file } : {}), value: { hosts: hosts.split(',').map((it) => it.trim()).filter((it) => it !== ''), route: [route] } }];
    const list = ['site', site.at, 'route'];
    const add: Edit = { path: [...list, routes.length], value: route };
    return at < routes.length ? [add, { path: [...list, routes.length], to: at }] : [add];
  };
  const add = async (): Promise<void> => {
    setBusy(true);
    try {
      const set = edits();
      const { files: made } = await edited(files, set);
      const checked = await post<Checked>('/api/v1/config/check', texts(made));
      // What was wrong before is not this one's fault.
      const fresh = checked.problems.filter((it) => !known.some((one) => one.key === it.key && one.message === it.message));
      if (fresh.length === 0) return done(made, site ? `route ${site.at} ${at}` : `site ${siteFiles.filter((it) => it <= file).length}`);
      setProblems(fresh);
    } catch (error) {
      setProblems([{ file: null, line: null, column: null, key: null, within: [], message: error instanceof Error ? error.message : String(error) }]);
    }
    setBusy(false);
  };
  return (
    <Dialog
      title={site ? 'New route' : 'New site'}
      over={site ? `For ${site.name}` : undefined}
      close={close}
      foot={
        <>
          <button class="button" onClick={close}>
            Cancel
          </button>
          <button class="button primary" form="new-route" disabled={busy}>
            <Icon name="plus" /> Add to the draft
          </button>
        </>
      }
    >
      <form
        id="new-route"
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          void add();
        }}
      >
        {!site && (
          <label class="field">
            <span>Hosts</span>
            <input data-first class="mono" required spellcheck={false} autocomplete="off" placeholder="www.example.com, example.com" value={hosts} onInput={(event) => setHosts(event.currentTarget.value)} />
            <small>With commas between them; * is every host that no other site has.</small>
          </label>
        )}
        <label class="field">
          <span>Path</span>
          <input data-first={site ? true : undefined} class="mono" required spellcheck={false} autocomplete="off" placeholder="/shop/*" value={path} onInput={(event) => setPath(event.currentTarget.value)} />
          <small>Exact, or with a * at its end.</small>
        </label>
        <div class="field">
          <span>Source</span>
          <div>
            <Segments
              label="Source"
              of={[
                ['proxy', 'An origin'],
                ['files', 'Files'],
              ]}
              now={kind}
              choose={(it) => {
                setKind(it);
                setTo('');
              }}
            />
          </div>
        </div>
        <label class="field">
          <span>{kind === 'proxy' ? 'Origin' : 'Directory'}</span>
          <input
            class="mono"
            required
            spellcheck={false}
            autocomplete="off"
            placeholder={kind === 'proxy' ? 'http://127.0.0.1:8000' : '/srv/www'}
            value={to}
            onInput={(event) => setTo(event.currentTarget.value)}
          />
          <small>{kind === 'proxy' ? 'http://HOST:PORT or unix:/PATH' : 'All files in it are served.'}</small>
        </label>
        {!site && files.length > 1 && (
          <label class="field">
            <span>File</span>
            <select value={String(file)} onChange={(event) => setFile(Number(event.currentTarget.value))}>
              {files.map((it, number) => (
                <option key={it.name} value={String(number)}>
                  {it.name}
                </option>
              ))}
            </select>
          </label>
        )}
        {routes.length > 0 && (
          <label class="field">
            <span>Position</span>
            <select value={String(at)} onChange={(event) => setChosen(Number(event.currentTarget.value))}>
              {routes.map((it, number) => (
                <option key={number} value={String(number)}>
                  before {it}
                </option>
              ))}
              <option value={String(routes.length)}>last</option>
            </select>
            <small>The first route that matches answers.</small>
          </label>
        )}
        {problems.length > 0 && (
          <div role="alert">
            <Problems of={problems} />
          </div>
        )}
      </form>
    </Dialog>
  );
}

// The configuration: as a form and as the text of the same file; checked while one writes, shown as a difference, applied, rolled
// back.
import type { JSX } from 'preact';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { Problem, request, post, problemOf, put } from '../api';
import { Act } from '../parts/act';
import { Skeleton, Failed, Head, Segments } from '../parts/basic';
import { Dialog } from '../parts/dialog';
import { Diff, Problems } from '../parts/diff';
import { Icon } from '../parts/icons';
import { showToast } from '../parts/toast';
import { useTrial } from '../parts/trial';
import * as format from '../format';
import { note, useFetched, useDebounced, useReadings } from '../hooks';
import type { Checked, Config as Configuration, ConfigProblem, DiffLine } from '../types';
import { type Draft, type DraftFile, type Read, isChanged, saved, setDraft, settle, texts, useDraft, written } from './config_draft';
import { Certificates } from './config_certificates';
import { configuration, useSaved, waitsForReload } from './config_file';
import { ConfigForm } from './config_form';
import { Merge, isOutdated } from './config_merge';
import { Keys, RestartPending } from './config_restart';
import { TLS } from './config_sections';
import { ConfigText, type Target } from './config_text';
import { Warnings } from './config_warnings';
import { may, needs } from '../identity';
import '../style/config.css';

type Part = 'form' | 'text' | 'certificates' | 'history';

const PARTS: [Part, string][] = [
  ['form', 'Form'],
  ['text', 'Text'],
  ['certificates', 'Certificates'],
  ['history', 'History'],
];

/** The file is not in force: its reload was rejected, as the state of the server says, or is about to come. */
function Differs(): JSX.Element {
  const isRejected = useReadings().latest?.health?.findings.some((it) => it.name === 'configuration-refused');
  if (isRejected) {
    return (
      <p class="banner" role="alert">
        <Icon name="warn" /> The file differs from the running configuration: its last reload was rejected.
      </p>
    );
  }
  return (
    <div class="waits" role="status">
      <Icon name="clock" />
      <p>The file differs from the running configuration: it waits for the reload.</p>
    </div>
  );
}

/** The form asks what only an admin may. */
const partOf = (it: Part | null, admin: boolean): Part => (admin ? (it ?? 'form') : it === 'history' || it === 'certificates' ? it : 'text');

export function Config({ params }: { params: URLSearchParams }): JSX.Element {
  const admin = may('admin');
  const [part, setPart] = useState<Part>(partOf(params.has('at') ? 'text' : (params.get('part') as Part | null), admin));
  const [turn, again] = useState(0);
  const { data, problem, busy, again: retry, take } = useSaved(turn);
  const waiting = useReadings().latest?.pending;
  const { draft, busy: editing, era } = useDraft();
  const [reviewing, setReviewing] = useState(params.has('review'));
  const [checking, setChecking] = useState(false);
  // The files as they are now, while the draft is merged with them; and whether the draft is the outcome of that.
  const [merging, setMerging] = useState<Configuration | null>(null);
  const [wasMerged, setWasMerged] = useState(false);
  const onDisk = useMemo(() => (data ? saved(data) : []), [data]);
  const files = draft?.files ?? onDisk;
  const text = files.length ? JSON.stringify(texts(files)) : '';
  // The difference is one to the files, so it is requested again after a file has changed.
  const hashes = onDisk.map((it) => it.base).join(' ');
  const checkKey = `${hashes} ${text}`;
  const settled = useDebounced(checkKey, 250);
  const checked = useFetched(admin && data && settled === checkKey ? checkKey : null, async (signal) => ({ of: checkKey, ...(await request<Checked>('/api/v1/config/check', { method: 'POST', json: JSON.parse(text), signal })) }));
  const changed = draft !== null && data !== null && draft.files.some(isChanged);
  const problems = checked.data?.problems ?? [];
  const fresh = checked.data?.of === checkKey;
  // The keys of the text as it is now: an edit by those of an earlier text would be one of another route. Of a text that cannot be read, the
  // form shows the last that could.
  const known = useRef<Read | null>(null);
  if (fresh && checked.data?.document) known.current = { document: checked.data.document, siteFiles: checked.data.site_files };
  else if (draft?.read) known.current = draft.read;
  else if (data?.document && (draft === null || known.current === null)) known.current = { document: data.document, siteFiles: data.site_files };
  const { document, siteFiles } = known.current ?? { document: {}, siteFiles: [] };
  const [chosen, setFile] = useState<number | null>(null);
  // A link to a line names its file by the end of its path.
  // A finding names both: `at=FILE:LINE`.
  const [, atFile, atLine] = /^(.*):(\d+)$/.exec(params.get('at') ?? '') ?? [];
  const linkedFile = (atFile ?? params.get('file'))?.split('/').at(-1);
  const linkedLine = atLine ?? params.get('line');
  const linked = files.findIndex((it) => linkedFile === it.name.split('/').at(-1));
  const file = chosen ?? Math.max(linked, 0);
  const shown = files[file] ?? files[0];
  const [target, setTarget] = useState<Target | null>(linkedLine ? { line: Number(linkedLine), column: null } : null);
  /** The name of a file, as problems have it. */
  const fileOf = (it: DraftFile | undefined): string | null => data?.included.find((one) => one.path === it?.path)?.file ?? null;
  const show = (it: ConfigProblem): void => {
    const found = files.findIndex((one) => fileOf(one) === it.file);
    if (found < 0 || it.line === null) return;
    setFile(found);
    setTarget({ line: it.line, column: it.column ?? 1 });
    setPart('text');
  };

  const write = (it: DraftFile[]): void => setDraft({ files: it });
  const isBehind = draft !== null && data !== null && isOutdated(draft.files, onDisk);
  /** Shows the merge of the draft with the files as they are now. */
  const merge = async (): Promise<void> => setMerging(await configuration());
  const takeMerged = (it: DraftFile[], current: Configuration): void => {
    // In one step: a check of the new text against the old file would enable Apply for a moment.
    setDraft({ files: it });
    take(current);
    setMerging(null);
    setWasMerged(true);
    setReviewing(it.some(isChanged));
    if (!it.some(isChanged)) showToast('The file has all changes of the draft.');
  };
  useEffect(() => {
    if (draft === null) setWasMerged(false);
  }, [draft === null]);
  // A review that is asked for while larder still checks begins once it has.
  useEffect(() => {
    if (!reviewing || editing || !data || (changed && !fresh)) return;
    setReviewing(false);
    if (isBehind) void merge().catch((error) => showToast(problemOf(error).message, true));
    else setChecking(changed && problems.length === 0);
  }, [reviewing, editing, changed, fresh, data]);

  if (!data) {
    return (
      <>
        <Head title="Configuration" />
        {busy ? <Skeleton /> : <Failed problem={problem} again={retry} />}
      </>
    );
  }
  // The state ends first, within a second of the restart.
  const keys = waiting?.length === 0 ? [] : data.pending;
  const done = async (said: string): Promise<void> => {
    const current = await configuration().catch(() => null);
    await written();
    // In one step: the form has at no moment the keys of the file before.
    settle(draft, current && saved(current));
    if (current) take(current);
    else again((it) => it + 1);
    setChecking(false);
    setWasMerged(false);
    showToast(said);
  };
  return (
    <>
      <Head title="Configuration" sub={data.path ?? 'no file'}>
        <Segments
          label="Part"
          of={admin ? PARTS : PARTS.filter((it) => it[0] !== 'form')}
          now={part}
          choose={(it) => {
            setPart(it);
            setTarget(null);
            note('config', { part: it });
          }}
        />
      </Head>
      {!admin && (
        <p class="hint">
          <Icon name="help" /> {needs('admin')} to change it. Secrets and comments are hidden.
        </p>
      )}
      {admin && !data.editable && (
        <p class="hint">
          <Icon name="help" /> {data.why ?? 'This configuration cannot be changed here.'}
        </p>
      )}
      {keys.length > 0 && <RestartPending keys={keys} values={data.pending_values} fails={data.next_start} undo={part === 'history' ? null : () => setPart('history')} done={() => again((it) => it + 1)} />}
      {waitsForReload(data) && <Differs />}
      {admin && isBehind && (
        <div class="waits" role="status">
          <Icon name="undo" />
          <p>
            <b>The file changed after this draft began.</b> Both are merged by lines before the draft is applied.
          </p>
          <button class="link" onClick={() => void merge().catch((error) => showToast(problemOf(error).message, true))}>
            Merge …
          </button>
        </div>
      )}
      {admin && part !== 'history' && part !== 'certificates' && (
        <div class="apply" data-state={!fresh ? 'busy' : problems.length ? 'bad' : changed ? 'changed' : 'same'}>
          <p role="status">
            {!fresh && changed
              ? 'Checking …'
              : problems.length
                ? `${problems.length} ${problems.length === 1 ? 'problem' : 'problems'}`
                : changed
                  ? 'Changed and valid'
                  : 'Same as the file'}
          </p>
          <button class="button" disabled={!changed} onClick={() => setDraft(null)}>
            Discard
          </button>
          <button class="button primary" disabled={!(changed || editing) || (fresh && problems.length > 0) || !data.editable} onClick={() => setReviewing(true)}>
            Review and apply …
          </button>
        </div>
      )}
      <Failed problem={checked.problem} />
      {((!admin && params.get('section') === TLS) || part === 'certificates') && <Certificates alone={part === 'certificates'} />}
      {part === 'form' && <ConfigForm config={data} document={document} files={files} siteFiles={siteFiles} problems={problems} write={write} linked={params.get('section')} era={era} />}
      {part === 'text' && files.length > 1 && (
        <label class="field file-choice">
          <span>File</span>
          <select value={String(files.indexOf(shown!))} onChange={(event) => {
                setTarget(null);
                setFile(Number(event.currentTarget.value));
              }}>
            {files.map((it, number) => (
              <option key={it.name} value={String(number)}>
                {it.name}
                {isChanged(it) ? ' (changed)' : ''}
              </option>
            ))}
          </select>
        </label>
      )}
      {part === 'text' && shown && (
        <ConfigText
          text={shown.text}
          key={shown.path ?? ''}
          keys={data.keys}
          target={target}
          problems={fresh ? problems : []}
          file={fileOf(shown)}
          show={show}
          write={(it) => write(files.map((one) => (one === shown ? { ...one, text: it } : one)))}
          editable={admin && data.editable && (data.included.find((it) => it.path === shown.path)?.editable ?? true)}
        />
      )}
      {part === 'form' && problems.length > 0 && <Problems of={problems} show={show} />}
      {part === 'history' && <History config={data} drafted={draft !== null || editing} done={done} />}
      {checking && checked.data && draft && (
        <Apply
          draft={draft}
          checked={checked.data}
          show={(it) => {
            setChecking(false);
            show(it);
          }}
          fresh={fresh}
          wasMerged={wasMerged}
          isInForce={!waitsForReload(data)}
          merge={async () => {
            await merge();
            setChecking(false);
          }}
          close={() => setChecking(false)}
          done={done}
        />
      )}
      {merging && draft && <Merge draft={draft.files} current={merging} close={() => setMerging(null)} done={(it) => takeMerged(it, merging)} />}
    </>
  );
}

/** The sentence after "in force" about the keys that wait. */
const waitingFor = (keys: string[]): string => (keys.length === 0 ? '' : ` ${keys.join(', ')} ${keys.length === 1 ? 'takes' : 'take'} effect at the next restart.`);

/** The differences of several files, each with its name; one of the main file alone needs none. */
function Diffs({ of, name }: { of: Checked; name: string }): JSX.Element {
  const isSame = (it: DiffLine[]): boolean => it.every((line) => line.op === ' ');
  if (of.included.length === 0) return <Diff of={of.diff} />;
  const files = [{ file: name, diff: of.diff }, ...of.included].filter((it) => !isSame(it.diff));
  return (
    <>
      {files.map((it) => (
        <section key={it.file} aria-label={it.file}>
          <h3 class="mono diff-file">{it.file}</h3>
          <Diff of={it.diff} />
        </section>
      ))}
    </>
  );
}

interface ApplyProps {
  draft: Draft;
  checked: Checked;
  /** Shows the place of a problem in the editor. */
  show: (it: ConfigProblem) => void;
  /** Whether `checked` is of the draft as it is now. */
  fresh: boolean;
  /** Whether the draft is the outcome of a merge. */
  wasMerged: boolean;
  /** Whether the running configuration is that of the file. */
  isInForce: boolean;
  /** Leads to the merge with the files as they are now. */
  merge: () => Promise<void>;
  close: () => void;
  /** Reads the files that are in force now. */
  done: (said: string) => Promise<void>;
}

function Apply({ draft, checked, show, fresh, wasMerged, isInForce, merge, close, done }: ApplyProps): JSX.Element {
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const needsStart = checked.restart.length > 0;
  const main = draft.files[0]!;
  const text = JSON.stringify(texts(draft.files));
  const trial = useTrial(fresh && checked.problems.length === 0 ? text : null, () => JSON.parse(text));
  const isStale = problem?.status === 409 && problem.where === 'base';
  const fail = (error: unknown): void => setProblem(error instanceof Problem ? error : new Problem(0, String(error)));
  const toMerge = async (): Promise<void> => {
    setBusy(true);
    try {
      await merge();
    } catch (error) {
      fail(error);
      setBusy(false);
    }
  };
  const apply = async (): Promise<void> => {
    setBusy(true);
    try {
      const { pending } = await put<{ pending: string[] }>('/api/v1/config', { base: main.base, text: main.text, included: draft.files.slice(1).filter(isChanged).map(({ path, text, base }) => ({ path, text, base })) });
      await done(`The new configuration is in force.${waitingFor(pending)}`);
    } catch (error) {
      fail(error);
      setBusy(false);
    }
  };
  return (
    <Dialog
      title="Apply changes"
      close={close}
      wide
      foot={
        <>
          <button class="button" onClick={close}>
            Cancel
          </button>
          {isStale ? (
            <button class="button primary" disabled={busy} onClick={() => void toMerge()}>
              Merge with the file …
            </button>
          ) : (
            <button class="button primary" data-first disabled={busy || !trial.permits} onClick={() => void apply()}>
              Apply
            </button>
          )}
        </>
      }
    >
      {wasMerged && (
        <p class="hint" role="status">
          <Icon name="undo" /> The draft is merged with the changed file. The difference is that to the file as it is now.
        </p>
      )}
      {!isInForce && (
        <p class="hint">
          <Icon name="clock" /> The file is not in force. The difference is that to the file, not to the running configuration.
        </p>
      )}
      {trial.shown}
      <Diffs of={checked} name={main.name} />
      {checked.problems.length > 0 && <Problems of={checked.problems} show={show} />}
      <Warnings checked={checked} files={draft.files} show={show} />
      {needsStart && (
        <div class="waits">
          <Icon name="clock" />
          <p>
            <Keys of={checked.restart} /> {checked.restart.length === 1 ? 'takes' : 'take'} effect at the next restart. All other changes take effect now.
          </p>
        </div>
      )}
      <Refused problem={problem} show={show} />
    </Dialog>
  );
}

/** The reasons why a text was rejected: each problem with its place if it has one, and otherwise the sentence for all of them. */
function Refused({ problem, show }: { problem: Problem | null; show?: (it: ConfigProblem) => void }): JSX.Element {
  const found = problem?.status === 422 ? ((problem.body as { problems?: ConfigProblem[] }).problems ?? []) : [];
  if (found.length === 0) return <Failed problem={problem} />;
  return (
    <div role="alert">
      <Problems of={found} show={show} />
    </div>
  );
}

type Past = Configuration['history'][number];

/** `drafted`: there is a draft, which a rollback discards. */
function History({ config, drafted, done }: { config: Configuration; drafted: boolean; done: (said: string) => Promise<void> }): JSX.Element {
  const [asking, ask] = useState<Past | null>(null);
  if (config.history.length === 0) return <p class="hint">No changes yet. Every applied change is kept here and can be rolled back.</p>;
  return (
    <>
      <div class="scroll" tabIndex={0} role="region" aria-label="History">
        <table class="table">
          <thead>
            <tr>
              <th scope="col">Changed</th>
              <th scope="col" class="wide-only">
                By
              </th>
              <th scope="col">Change</th>
              <th scope="col">
                <span class="away">The configuration before the change</span>
              </th>
            </tr>
          </thead>
          <tbody>
            {config.history.map((it) => (
              <tr key={it.id}>
                <th scope="row">{format.moment(it.time)}</th>
                <td class="wide-only">{it.by}</td>
                <td>{it.change || 'kept by an earlier version, without a summary'}</td>
                <td class="num">
                  <Act of="admin" class="button" aria-label={`${config.editable ? 'Roll back …' : 'Difference …'} To before the change of ${format.moment(it.time)}`} onClick={() => ask(it)}>
                    <Icon name="undo" /> {config.editable ? 'Roll back …' : 'Difference …'}
                  </Act>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {asking && <RollBack to={asking} config={config} drafted={drafted} close={() => ask(null)} done={done} />}
    </>
  );
}

interface RollBackProps {
  to: Past;
  config: Configuration;
  drafted: boolean;
  close: () => void;
  /** Reads the files that are in force now. */
  done: (said: string) => Promise<void>;
}

/** What would change, before it does. */
function RollBack({ to, config, drafted, close, done }: RollBackProps): JSX.Element {
  const checked = useFetched(`${config.hash} ${to.id}`, () => post<Checked>('/api/v1/config/check', { to: to.id }));
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const it = checked.data;
  const needsStart = (it?.restart.length ?? 0) > 0;
  const isSame = it !== null && [it.diff, ...it.included.map((one) => one.diff)].every((diff) => diff.every((line) => line.op === ' '));
  const trial = useTrial(it && it.problems.length === 0 && !isSame ? `${config.hash} ${to.id}` : null, () => ({ to: to.id }));
  const back = async (): Promise<void> => {
    setBusy(true);
    try {
      // Only the difference that was shown is applied: not if another client changed the file meanwhile.
      const { pending } = await post<{ pending: string[] }>('/api/v1/config/rollback', { to: to.id, base: config.hash });
      await done(`The configuration before the change of ${format.moment(to.time)} is in force again.${waitingFor(pending)}`);
      close();
    } catch (error) {
      setProblem(error instanceof Problem ? error : new Problem(0, String(error)));
      setBusy(false);
    }
  };
  return (
    <Dialog
      title="Roll back to before this change"
      close={close}
      wide
      foot={
        <>
          <button class="button" onClick={close}>
            {drafted ? 'Keep the draft' : 'Cancel'}
          </button>
          <button class="button primary" data-first disabled={busy || !config.editable || !trial.permits} onClick={() => void back()}>
            {drafted ? 'Discard and roll back' : 'Roll back'}
          </button>
        </>
      }
    >
      <p>
        The file gets the text that was in force until {format.moment(to.time)}, when {to.by} changed it{to.change ? <> ({to.change})</> : ''}. This change and all later ones are undone, as the difference shows.
      </p>
      {drafted && <p>Unapplied changes are discarded.</p>}
      {trial.shown}
      {it ? isSame ? <p class="hint">The file is identical.</p> : <Diffs of={it} name={saved(config)[0]!.name} /> : checked.busy && <Skeleton />}
      {it && it.problems.length > 0 && <Problems of={it.problems} />}
      {needsStart && (
        <div class="waits">
          <Icon name="clock" />
          <p>
            <Keys of={it!.restart} /> {it!.restart.length === 1 ? 'takes' : 'take'} effect at the next restart. All other changes take effect now.
          </p>
        </div>
      )}
      <Failed problem={checked.problem} />
      <Refused problem={problem} />
    </Dialog>
  );
}

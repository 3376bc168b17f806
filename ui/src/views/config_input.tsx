// The control of one value of the configuration, by the kind of its key: a choice, a line, several lines, a list with a row for
// each member, a table of names and values, a secret.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Icon } from '../parts/icons';
import type { Key, Setting, Settings } from '../types';
import type { Edit } from './config_draft';
import { type Field, isPairs, isTable, plain, shape } from './config_sections';

interface Props {
  id: string;
  it: Field;
  value: Setting | undefined;
  /** What is wrong with it, by row; that of the field itself is at the empty text. */
  bad: Map<string, string>;
  editable: boolean;
  era: number;
  /** Called while the operator types, and when the value is complete. */
  writes: (now: boolean) => void;
  edit: (...set: Edit[]) => void;
}

/** Which control a key has, and a value that is there. */
export function control(key: Key, value: Setting | undefined): 'choice' | 'pairs' | 'rows' | 'secret' | 'lines' | 'line' {
  if (key.kind === 'bool' || key.words) return 'choice';
  if (isPairs(key) && (value === undefined || isTable(value))) return 'pairs';
  const isList = key.kind === 'list' || Array.isArray(value);
  // Commas separate the members of a list in one line: a member with a comma has a row of its own, and so has a secret.
  if (isList && (key.secret || [value ?? []].flat().some((it) => typeof it === 'string' && it.includes(',')))) return 'rows';
  if (key.secret) return 'secret';
  return key.lines || (typeof value === 'string' && value.includes('\n')) ? 'lines' : 'line';
}

export function Input(props: Props): JSX.Element {
  switch (control(props.it.key, props.value)) {
    case 'choice':
      return <Choice {...props} />;
    case 'pairs':
      return <Pairs {...props} />;
    case 'rows':
      return <Rows {...props} />;
    case 'secret':
      return <OneSecret {...props} />;
    case 'lines':
      return <Line {...props} lines />;
    case 'line':
      return <Line {...props} />;
  }
}

const none = (key: Key): string => (key.default === null ? 'not given' : plain(key.default));

function Choice({ id, it, value, bad, editable, edit }: Props): JSX.Element {
  const isBool = it.key.kind === 'bool';
  const choices = isBool ? ['true', 'false'] : (it.key.words ?? []);
  const shown = value === undefined ? '' : shape(value);
  return (
    <select
      id={id}
      aria-invalid={bad.has('')}
      aria-describedby={`${id} kind`}
      disabled={!editable}
      value={shown}
      onChange={(event) => {
        const chosen = event.currentTarget.value;
        edit({ path: it.path, value: chosen === '' ? null : isBool ? chosen === 'true' : chosen });
      }}
    >
      <option value="">{it.key.default === null ? 'not given' : `default: ${plain(it.key.default)}`}</option>
      {choices.map((one) => (
        <option key={one}>{one}</option>
      ))}
      {shown !== '' && !choices.includes(shown) && <option>{shown}</option>}
    </select>
  );
}

/**
 * A state that ends with the draft: in another era it is the first again. That is seen when it is read, and takes no effect: one
 * runs after a control is drawn, and would drop what is written in it by then.
 */
function useOfEra<T>(era: number, first: T): [T, (to: T | ((it: T) => T)) => void] {
  const [held, hold] = useState({ era, it: first });
  const of = (before: typeof held): T => (before.era === era ? before.it : first);
  return [of(held), (to) => hold((before) => ({ era, it: to instanceof Function ? to(of(before)) : to }))];
}

/**
 * What is written in a control, from the first letter until larder has read it and the control is left; null is what the draft
 * says.
 */
function useWritten(shown: string, era: number): [string | null, (it: string | null) => void, { current: boolean }] {
  const [written, setWritten] = useOfEra<string | null>(era, null);
  const isHere = useRef(false);
  useEffect(() => {
    if (!isHere.current) setWritten(null);
  }, [shown]);
  return [written, setWritten, isHere];
}

function Line({ id, it, value, bad, editable, era, writes, edit, lines }: Props & { lines?: boolean }): JSX.Element {
  const { kind } = it.key;
  const shown = value === undefined ? '' : shape(value);
  const [written, setWritten, isHere] = useWritten(shown, era);
  const isList = kind === 'list' || Array.isArray(value);
  const read = (text: string): Setting | null => {
    if (text.trim() === '') return null;
    if (lines) return text;
    if (isList) return text.split(/[,\n]/).map((one) => one.trim()).filter((one) => one !== '');
    const isNumber = /^-?\d[\d_]*$/.test(text.trim()) && kind === 'integer';
    return isNumber ? Number(text.trim().replaceAll('_', '')) : text.trim();
  };
  const common = {
    id,
    class: 'mono',
    'aria-invalid': bad.has(''),
    'aria-describedby': `${id} kind`,
    readOnly: !editable,
    spellcheck: false,
    placeholder: none(it.key),
    value: written ?? shown,
    onFocus: () => (isHere.current = true),
    onInput: (event: JSX.TargetedInputEvent<HTMLInputElement | HTMLTextAreaElement>) => {
      const text = event.currentTarget.value;
      setWritten(text);
      writes(true);
      edit({ path: it.path, value: read(text) });
    },
    onBlur: () => {
      isHere.current = false;
      writes(false);
      if (written !== null && shape(read(written) ?? '') === shown) setWritten(null);
    },
  };
  if (lines) return <textarea {...common} rows={Math.min(12, Math.max(3, (written ?? shown).split('\n').length))} />;
  return <input {...common} autocomplete="off" onKeyDown={(event) => event.key === 'Enter' && writes(false)} />;
}

/** Of a secret that names its file or a variable, that is shown; any other only is there or is not. */
const isReference = (it: string): boolean => it.startsWith('file:') || /^\$\{[^}]*\}$/.test(it);

/** Fields and variables with such a name hide the value that an operator types. The server hides the values that it sends by a rule of its own. */
const SECRET_NAME = /pass|pwd|\bpw\b|key|token|secret|cred|auth|bearer|hmac|salt|priv|dsn|sign|cookie|session|csrf|jwt|webhook|verif|crypt/i;

/** Whether the value of a row is hidden; that of a row without a name may become one that is. */
const isHidden = (name: string, value: string): boolean => value.startsWith('hidden:') || name === '' || SECRET_NAME.test(name);

interface SecretProps {
  id?: string;
  label?: string;
  value: string;
  /** What of it may be shown: the user of a password. */
  shown?: string;
  bad: boolean;
  editable: boolean;
  era: number;
  set: (it: string) => void;
}

/** A secret: that there is one is shown, and it can be replaced. */
function Secret({ id, label, value, shown = '', bad, editable, era, set }: SecretProps): JSX.Element {
  const [replacing, setReplacing] = useOfEra(era, false);
  const [written, setWritten] = useState('');
  const box = useRef<HTMLInputElement>(null);
  useEffect(() => {
    if (replacing) box.current?.focus();
  }, [replacing]);
  const isSet = value !== '' && !isReference(value);
  if (isSet && !replacing) {
    return (
      <span class="secret">
        <span class="mono">{shown}</span>
        <span class="chip">set</span>
        {editable && (
          <button id={id} type="button" class="link" aria-label={`Replace ${label ?? 'the secret'}`} onClick={() => (setWritten(''), setReplacing(true))}>
            Replace …
          </button>
        )}
      </span>
    );
  }
  const leave = (): void => {
    const text = written.trim();
    setReplacing(false);
    setWritten('');
    if (text !== '') set(text);
  };
  const isPlain = isReference(replacing ? written : value) || /^(f|fi|fil|file|file:.*|\$.*)$/.test(written);
  return (
    <input
      id={id}
      ref={box}
      class="mono"
      // What is written is no more for others to read than what is there.
      type={replacing ? (isPlain ? 'text' : 'password') : 'text'}
      aria-label={label}
      aria-invalid={bad}
      readOnly={!editable}
      spellcheck={false}
      autocomplete="new-password"
      placeholder="file:/path, or the value"
      value={replacing ? written : value}
      onFocus={() => !replacing && (setWritten(value), setReplacing(true))}
      onInput={(event) => setWritten(event.currentTarget.value)}
      onBlur={leave}
      onKeyDown={(event) => {
        if (event.key === 'Enter') leave();
        if (event.key === 'Escape') setReplacing(false);
      }}
    />
  );
}

function OneSecret({ id, it, value, bad, editable, era, edit }: Props): JSX.Element {
  return <Secret id={id} value={typeof value === 'string' ? value : ''} bad={bad.has('')} editable={editable} era={era} set={(text) => edit({ path: it.path, value: text })} />;
}

interface EntryProps {
  id?: string;
  label: string;
  placeholder?: string;
  value: string;
  bad: boolean;
  editable: boolean;
  era: number;
  set: (it: string) => void;
}

/**
 * A line that is set once it is complete, when the operator leaves it. The section is drawn again at each answer of larder: what
 * is written so far is held here, or it would be lost to the value of the draft.
 */
function Entry({ id, label, placeholder, value, bad, editable, era, set }: EntryProps): JSX.Element {
  const [written, setWritten] = useOfEra<string | null>(era, null);
  return (
    <input
      id={id}
      class="mono"
      aria-label={label}
      aria-invalid={bad}
      readOnly={!editable}
      spellcheck={false}
      autocomplete="off"
      placeholder={placeholder}
      value={written ?? value}
      onInput={(event) => setWritten(event.currentTarget.value)}
      onChange={(event) => {
        setWritten(null);
        set(event.currentTarget.value.trim());
      }}
    />
  );
}

/** A list with a row for each member. */
function Rows({ id, it, value, bad, editable, era, edit }: Props): JSX.Element {
  const all = [value ?? []].flat().map(shape);
  const [fresh, setFresh] = useOfEra(era, 0);
  const rows = [...all, ...Array.from({ length: Math.max(fresh, all.length === 0 ? 1 : 0) }, () => '')];
  const put = (at: number, text: string | null): void => {
    const next = text === null ? all.filter((_, other) => other !== at) : at < all.length ? all.map((one, other) => (other === at ? text : one)) : [...all, text];
    if (at >= all.length) setFresh((before) => Math.max(0, before - 1));
    // A member that nothing was written in is only shown.
    if (text === null && at >= all.length) return;
    edit({ path: it.path, value: next.length ? next : null });
  };
  return (
    <div class="pairs" role="group" aria-label={it.name}>
      {rows.map((one, at) => (
        <div class="row-of-list" key={at}>
          {it.key.secret ? (
            <Secret
              {...(at === 0 ? { id } : {})}
              label={`${it.name}, row ${at + 1}`}
              value={one}
              shown={it.name.endsWith('basic.users') && !isReference(one) ? one.split(':')[0]! : ''}
              bad={bad.has('')}
              editable={editable}
              era={era}
              set={(text) => put(at, text)}
            />
          ) : (
            <Entry
              {...(at === 0 ? { id } : {})}
              label={`${it.name}, row ${at + 1}`}
              value={one}
              bad={bad.has('')}
              editable={editable}
              era={era}
              set={(text) => text !== '' && put(at, text)}
            />
          )}
          {editable && (one !== '' || rows.length > 1) && (
            <button type="button" class="tool" aria-label={`Remove row ${at + 1} of ${it.name}`} title="Remove this row" onClick={() => put(at, null)}>
              <Icon name="close" />
            </button>
          )}
        </div>
      ))}
      {editable && (
        <button type="button" class="button small" aria-label={`Add row to ${it.name}`} onClick={() => setFresh((before) => Math.max(before, all.length === 0 ? 1 : 0) + 1)}>
          <Icon name="plus" size={13} /> Add row
        </button>
      )}
    </div>
  );
}

interface PairRow {
  id: number;
  name: string;
  value: string;
  /** What is written, and is not in the draft yet. */
  isNew: boolean;
}

let ids = 0;

/** A table with free names: a row for each. */
function Pairs({ id, it, value, bad, editable, era, writes, edit }: Props): JSX.Element {
  const given = isTable(value) ? Object.entries(value).map(([name, one]): [string, string] => [name, shape(one)]) : [];
  const [rows, setRows] = useState<PairRow[]>([]);
  const here = useRef(-1);
  const ofEra = useRef(era);
  const box = useRef<HTMLDivElement>(null);
  // The rows follow the draft; that which one writes in keeps its place.
  useEffect(() => {
    setRows((before) => {
      const names = new Set(given.map(([name]) => name));
      // What is not in the draft goes with the draft.
      const holds = (row: PairRow): boolean => row.isNew && ofEra.current === era;
      const kept = before.filter((row) => holds(row) || names.has(row.name)).map((row) => {
        const now = given.find(([name]) => name === row.name);
        if (!now) return row;
        return { ...row, isNew: false, value: row.id === here.current ? row.value : now[1] };
      });
      const more = given.filter(([name]) => !kept.some((row) => row.name === name)).map(([name, text]) => ({ id: (ids += 1), name, value: text, isNew: false }));
      const all = [...kept, ...more];
      return all.length ? all : [{ id: (ids += 1), name: '', value: '', isNew: true }];
    });
    ofEra.current = era;
  }, [JSON.stringify(given), era]);
  const change = (row: PairRow, of: Partial<PairRow>): PairRow => {
    const next = { ...row, ...of };
    setRows((before) => before.map((one) => (one.id === row.id ? next : one)));
    return next;
  };
  const isTaken = (row: PairRow): boolean => row.name !== '' && rows.some((one) => one.id !== row.id && one.name === row.name);
  // Once both are written it is in the draft; a name alone is not.
  const commit = (row: PairRow): void => {
    if (row.isNew && row.name !== '' && row.value !== '' && !isTaken(row)) edit({ path: [...it.path, row.name], value: row.value });
  };
  const rename = (row: PairRow, name: string): void => {
    if (row.isNew) return commit(change(row, { name }));
    if (name === '' || name === row.name || rows.some((one) => one.name === name)) return;
    change(row, { name });
    edit({ path: [...it.path, row.name], value: null }, { path: [...it.path, name], value: row.value });
  };
  const remove = (row: PairRow): void => {
    const others = rows.filter((one) => one.id !== row.id);
    setRows(others);
    if (!row.isNew) edit(others.every((one) => one.isNew) ? { path: it.path, value: null } : { path: [...it.path, row.name], value: null });
    box.current?.querySelector<HTMLElement>('.button')?.focus();
  };
  const write = (row: PairRow, text: string): void => {
    change(row, { value: text });
    writes(true);
    if (!row.isNew && text.trim() !== '') edit({ path: [...it.path, row.name], value: text });
  };
  return (
    <div class="pairs" role="group" aria-label={it.name} ref={box}>
      {rows.map((row, number) => {
        const problem = isTaken(row) ? 'The name is used twice.' : bad.get(row.name);
        const label = row.name === '' ? `row ${number + 1}` : row.name;
        return (
          <div class="pair" key={row.id}>
            <Entry
              {...(number === 0 ? { id } : {})}
              label={`Name, ${label} of ${it.name}`}
              placeholder="name"
              value={row.name}
              bad={problem !== undefined}
              editable={editable}
              era={era}
              set={(text) => rename(row, text)}
            />
            {it.key.secret && isHidden(row.name, row.value) ? (
              <Secret
                label={`Value of ${label}`}
                value={row.value}
                bad={problem !== undefined}
                editable={editable}
                era={era}
                set={(text) => {
                  const next = change(row, { value: text });
                  if (row.isNew) commit(next);
                  else edit({ path: [...it.path, row.name], value: text });
                }}
              />
            ) : (
              <input
                class="mono"
                aria-label={`Value of ${label}`}
                aria-invalid={problem !== undefined}
                readOnly={!editable}
                spellcheck={false}
                autocomplete="off"
                placeholder="value"
                value={row.value}
                onFocus={() => (here.current = row.id)}
                onInput={(event) => write(row, event.currentTarget.value)}
                onBlur={() => {
                  here.current = -1;
                  writes(false);
                  commit(row);
                }}
                onKeyDown={(event) => {
                  if (event.key !== 'Enter') return;
                  writes(false);
                  commit(row);
                }}
              />
            )}
            {editable && (
              <button type="button" class="tool" aria-label={`Remove ${label} of ${it.name}`} title="Remove this row" onClick={() => remove(row)}>
                <Icon name="close" />
              </button>
            )}
            {problem !== undefined && (
              <p class="bad" role="status">
                {problem}
              </p>
            )}
          </div>
        );
      })}
      {editable && (
        <button type="button" class="button small" aria-label={`Add row to ${it.name}`} onClick={() => setRows((before) => [...before, { id: (ids += 1), name: '', value: '', isNew: true }])}>
          <Icon name="plus" size={13} /> Add row
        </button>
      )}
    </div>
  );
}


/** A value for people: of a table its rows, of a secret that it is set. */
export function Shown({ it, of }: { it: Key | null; of: Setting | null }): JSX.Element {
  if (of === null || (it?.secret && !isTable(of))) return <span class="chip">set</span>;
  if (isTable(of)) {
    return (
      <span class="shown">
        {Object.entries(of as Settings).map(([name, one]) => (
          <span key={name}>
            <b>{name}</b> {it?.secret && isHidden(name, shape(one)) && !isReference(shape(one)) ? <span class="chip">set</span> : shape(one)}
          </span>
        ))}
      </span>
    );
  }
  return <span class="shown">{shape(of)}</span>;
}

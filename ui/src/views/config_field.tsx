// One key of the configuration: its name and its help, its control, where its value comes from, and what can be done with it.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Icon } from '../parts/icons';
import { Codes } from '../parts/linked';
import type { ConfigProblem, Key, Layer, Setting } from '../types';
import type { Edit } from './config_draft';
import { Input, Shown, control } from './config_input';
import { type Field, rowOf } from './config_sections';

/** Where a value comes from, in a word. */
export function word({ from, name }: Layer): string {
  switch (from) {
    case 'own':
      return 'set here';
    case 'block':
      return `block ${name}`;
    case 'site':
      return 'site';
    case 'site-block':
      return `block ${name} of the site`;
    case 'every-route':
      return 'all routes';
    case 'preset':
      return `preset ${name}`;
    case 'flag':
      return `command line, ${name}`;
  }
}

/** The file and line of a value; nothing where it has none. */
export function Place({ of }: { of: Layer }): JSX.Element | null {
  if (of.file === null) return null;
  return (
    <span class="place">
      {of.file}:{of.line}
    </span>
  );
}

/** What is overridden by the value that holds: the nearest is enough. */
export function Overridden({ it, of }: { it: Key | null; of: Layer }): JSX.Element {
  return (
    <span>
      {of.adds ? 'adds to' : of.from === 'flag' ? 'overridden by' : 'overrides'} <span class="chip">{word(of)}</span> <Place of={of} /> <Shown it={it} of={of.value} />
    </span>
  );
}

/** A value of a flag or a preset is text; in a file, a list has brackets. */
export function inFile(key: Key, of: Layer): Setting | null {
  if (of.file !== null || typeof of.value !== 'string') return of.value;
  if (key.kind === 'list') return of.value.split(',').map((it) => it.trim());
  if (key.kind === 'bool') return of.value === 'true';
  return key.kind === 'integer' ? Number(of.value) : of.value;
}

interface Props {
  it: Field;
  value: Setting | undefined;
  /** Of a site, a route or a block: where the key has values, the nearest first. */
  layers: Layer[];
  problems: ConfigProblem[];
  editable: boolean;
  era: number;
  edit: (...set: Edit[]) => void;
}

export function OneField({ it, value, layers, problems, editable, era, edit }: Props): JSX.Element {
  // An incomplete value is usually invalid: the field shows its problem when the value is complete.
  const [writing, setWriting] = useState(false);
  // A secret that is overridden is not copied: it is written.
  const [overriding, setOverriding] = useState(false);
  const bad = new Map(writing ? [] : problems.map((one): [string, string] => [rowOf(one, it) ?? '', one.message]));
  const id = `setting ${it.path.join('.')}`;
  const isOwn = value !== undefined;
  const flag = layers.find((one) => one.from === 'flag');
  const inherited = layers.find((one) => one.from !== 'own' && one.from !== 'flag');
  const own = layers.find((one) => one.from === 'own');
  const shown = !isOwn && inherited !== undefined && !overriding;
  const kind = control(it.key, value);
  const wide = kind === 'pairs' || kind === 'rows' || kind === 'lines';
  return (
    <div class={`setting ${isOwn ? 'given' : ''} ${wide ? 'wide' : ''}`} data-setting={it.name}>
      <div class="setting-text">
        <label for={id}>
          <code>{it.name}</code>
          {it.key.restart && (
            <span class="chip" title="Requires a restart">
              restart
            </span>
          )}
        </label>
        <p><Codes text={it.key.help} /></p>
      </div>
      <div class="setting-value">
        {shown ? (
          <output id={id} class="inherited">
            <Shown it={it.key} of={inherited.value} />
          </output>
        ) : (
          <Input id={id} it={it} value={value} bad={bad} editable={editable} era={era} writes={setWriting} edit={edit} />
        )}
        <p class="setting-kind" id={`${id} kind`}>
          {bad.has('') ? <span class="bad"><Codes text={bad.get('')!} /></span> : shown ? null : (it.key.allowed ?? it.key.kind)}
        </p>
        {(inherited || own || flag) && (
          <p class="from">
            {flag && <Overridden it={it.key} of={flag} />}
            {isOwn && own && (
              <span>
                <span class="chip own">{word(own)}</span> <Place of={own} />
              </span>
            )}
            {inherited && (shown ? (
              <span>
                <span class="chip">{word(inherited)}</span> <Place of={inherited} />
              </span>
            ) : (
              (isOwn || inherited.adds) && <Overridden it={it.key} of={inherited} />
            ))}
          </p>
        )}
      </div>
      {editable && (
        <div class="setting-deed">
          {isOwn && (
            <button
              class={inherited ? 'button small' : 'tool'}
              onClick={() => {
                setOverriding(false);
                edit({ path: it.path, value: null });
              }}
              aria-label={inherited ? `Reset ${it.name}` : `Remove ${it.name}`}
              title={inherited ? `Remove it here: the value of ${word(inherited)} applies` : 'Remove it: the default applies'}
            >
              {inherited ? 'Reset' : <Icon name="close" />}
            </button>
          )}
          {shown && (
            <button
              class="button small"
              aria-label={`${inherited.adds ? 'Add here' : 'Override'} ${it.name}`}
              title={inherited.adds ? 'Add values here; the inherited values stay' : 'Override the inherited value here'}
              onClick={() => {
                // What only adds begins without rows, and so does what may not be seen.
                const copy = it.key.secret || inherited.adds ? null : inFile(it.key, inherited);
                if (copy === null) setOverriding(true);
                else edit({ path: it.path, value: copy });
              }}
            >
              {inherited.adds ? 'Add here' : 'Override'}
            </button>
          )}
        </div>
      )}
    </div>
  );
}

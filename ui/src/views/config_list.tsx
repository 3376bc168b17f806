// A list of sections within a site or a route, such as the cache rules: each member with its fields, in an order that counts.
import type { JSX } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import { Dialog } from '../parts/dialog';
import { Icon } from '../parts/icons';
import type { ConfigProblem, Layer, Settings } from '../types';
import type { Edit } from './config_draft';
import { OneField, Place, word } from './config_field';
import { type SubList, at, isAbout, isTable, members, membersFields, shape } from './config_sections';

interface Props {
  it: SubList;
  root: Settings;
  layers: Layer[];
  problems: ConfigProblem[];
  editable: boolean;
  era: number;
  edit: (...set: Edit[]) => Promise<boolean>;
}

export function OneList({ it, root, layers, problems, editable, era, edit }: Props): JSX.Element | null {
  const all = members(root, it.path);
  // A member of a list: `rule`, `database`, of `tokens` a `token`.
  const what = it.name.slice(it.name.lastIndexOf('.') + 1).replace(/s$/, '');
  const inherited = layers.find((one) => one.from !== 'own');
  const [removing, remove] = useState<number | null>(null);
  // The button that moved a member goes with it.
  const focus = useRef<string | null>(null);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    if (focus.current === null) return;
    box.current?.querySelector<HTMLElement>(focus.current)?.focus();
    focus.current = null;
  });
  const move = async (from: number, to: number): Promise<void> => {
    if (to < 0 || to >= all.length) return;
    if (await edit({ path: [...it.path, from], to })) focus.current = `[data-move="${to} ${to < from ? 'up' : 'down'}"]`;
  };
  const add = (): void => {
    const empty = Object.fromEntries(membersFields(it, 0).slice(0, 1).map((field) => [field.name, '']));
    focus.current = `[data-member="${all.length}"] input`;
    void edit({ path: [...it.path, all.length], value: empty });
  };
  const gone = (number: number): void => {
    remove(null);
    focus.current = '.add-member';
    void edit(all.length === 1 ? { path: it.path, value: null } : { path: [...it.path, number], value: null });
  };
  return (
    <div class="members" ref={box} role="group" aria-label={it.name}>
      <header>
        <h4>
          <code>{it.name}</code> {what === 'rule' && <span class="faint">The first {what} that matches decides.</span>}
        </h4>
        {editable && (
          <button class="button small add-member" onClick={add} aria-label={`Add ${what} to ${it.name}`}>
            <Icon name="plus" size={13} /> Add {what}
          </button>
        )}
      </header>
      {all.length === 0 && inherited && Array.isArray(inherited.value) && (
        <div class="member">
          <p class="from">
            <span>
              <span class="chip">{word(inherited)}</span> <Place of={inherited} />
            </span>
            {editable && (
              <button class="button small" aria-label={`Override ${it.name}`} onClick={() => void edit({ path: it.path, value: inherited.value })}>
                Override
              </button>
            )}
          </p>
          {inherited.value.map((one, number) => (
            <p key={number} class="shown">
              {isTable(one) ? shape(one) : ''}
            </p>
          ))}
        </div>
      )}
      {all.length === 0 && !inherited && <p class="faint">None.</p>}
      {all.map((_, number) => (
        <section class="member" key={number} data-member={number} aria-label={`${what} ${number + 1}`}>
          <header>
            <h5>
              {what} {number + 1}
            </h5>
            {editable && (
              <div class="form-tools">
                <Mover what={`${what} ${number + 1}`} up={number > 0} down={number < all.length - 1} id={number} move={(by) => void move(number, number + by)} />
                <button class="tool" onClick={() => remove(number)} aria-label={`Remove ${what} ${number + 1}`} title="Remove it from the draft">
                  <Icon name="trash" />
                </button>
              </div>
            )}
          </header>
          {membersFields(it, number).map((field) => (
            <OneField
              key={field.path.join('.')}
              it={field}
              value={at(root, field.path)}
              layers={[]}
              problems={problems.filter((one) => isAbout(one, field))}
              editable={editable}
              era={era}
              edit={(...set) => void edit(...set)}
            />
          ))}
        </section>
      ))}
      {removing !== null && <Confirm what={`${what} ${removing + 1}`} close={() => remove(null)} deed={() => gone(removing)} />}
    </div>
  );
}

interface MoverProps {
  what: string;
  up: boolean;
  down: boolean;
  id: number;
  move: (by: number) => void;
}

/** Two buttons that move something; at an end they stay, so that the focus does. */
export function Mover({ what, up, down, id, move }: MoverProps): JSX.Element {
  return (
    <>
      <button class="tool" data-move={`${id} up`} aria-disabled={!up} onClick={() => up && move(-1)} aria-label={`Move ${what} up`} title="Match it earlier (Alt+Up in the list)">
        <Icon name="up" />
      </button>
      <button class="tool" data-move={`${id} down`} aria-disabled={!down} onClick={() => down && move(1)} aria-label={`Move ${what} down`} title="Match it later (Alt+Down in the list)">
        <Icon name="down" />
      </button>
    </>
  );
}

interface ConfirmProps {
  what: string;
  /** What goes with it. */
  more?: string;
  close: () => void;
  deed: () => void;
}

/** Asks before something is removed. */
export function Confirm({ what, more, close, deed }: ConfirmProps): JSX.Element {
  return (
    <Dialog
      title={`Remove ${what}`}
      close={close}
      foot={
        <>
          <button class="button" data-first onClick={close}>
            Cancel
          </button>
          <button class="button danger" onClick={deed}>
            <Icon name="trash" /> Remove
          </button>
        </>
      }
    >
      <p>
        {more ?? 'Its keys are removed.'} Only the draft changes; the file changes when the draft is applied.
      </p>
    </Dialog>
  );
}

// One stored object in full: what it is, its variants with their fields and forms, and what can be done with it.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { get, post } from '../api';
import { Act } from '../parts/act';
import { Skeleton, Failed } from '../parts/basic';
import { Drawer } from '../parts/dialog';
import { Icon } from '../parts/icons';
import { Long } from '../parts/long';
import { Receipts } from '../parts/receipts';
import { showToast } from '../parts/toast';
import * as format from '../format';
import { go, useFetched } from '../hooks';
import type { Purged, Inspected, Variant } from '../types';

interface Props {
  id: string;
  close: () => void;
  purged: () => void;
  lay: (uri: string) => void;
}

export function Inspect({ id, close, purged, lay }: Props): JSX.Element {
  const { data, problem, busy, again } = useFetched<Inspected>(id, (signal) => get(`/api/v1/objects/${encodeURIComponent(id)}`, signal));
  const [done, setDone] = useState<Purged | null>(null);
  const purge = async (soft: boolean): Promise<void> => {
    if (!data) return;
    try {
      setDone(await post<Purged>('/api/v1/purge', soft ? { url: data.url, soft } : { url: data.url }));
      if (soft) again();
      purged();
    } catch (error) {
      showToast(error instanceof Error ? error.message : String(error), true);
    }
  };
  const foot = data && (
    <>
      <Act class="button" onClick={() => lay(data.url)}>
        <Icon name="layers" /> Overlay …
      </Act>
      <button
        class="button"
        onClick={() => {
          close();
          go('explain', { url: data.url });
        }}
      >
        <Icon name="explain" /> Explain
      </button>
      <Act class="button" disabled={done !== null} onClick={() => void purge(true)}>
        Soft purge
      </Act>
      <Act class="button danger" disabled={done !== null} onClick={() => void purge(false)}>
        <Icon name="trash" /> Purge
      </Act>
    </>
  );
  return (
    <Drawer title={data?.url ?? 'Stored object'} over="Stored object" close={close} foot={foot}>
      {done && <Receipts of={done} />}
      <Failed problem={problem} />
      {busy && !data && <Skeleton rows={6} />}
      {data && (done === null || done.strength === 'soft') && <Facts it={data} />}
    </Drawer>
  );
}

function Facts({ it }: { it: Inspected }): JSX.Element {
  const newest = it.variants[0];
  return (
    <>
      <dl class="facts">
        <Fact name="Hits">{format.flat(format.count(it.hits))}</Fact>
        <Fact name="In">{it.tiers.join(', ') || '–'}</Fact>
        {newest && (
          <>
            <Fact name="Status">{newest.status}</Fact>
            <Fact name="Size">{format.flat(format.bytes(newest.bytes))}</Fact>
            <Fact name="Age">{format.flat(format.seconds(newest.age))}</Fact>
            <Fact name="Lifetime">{format.flat(format.seconds(newest.lifetime))}</Fact>
            <Fact name={newest.fresh ? 'Expires in' : 'Stale for'}>{format.flat(format.seconds(Math.abs(newest.expires_in)))}</Fact>
            <Fact name="Stored at">{format.moment(newest.stored_at)}</Fact>
          </>
        )}
      </dl>
      <h3 class="part-title">Key</h3>
      <p class="code-line">
        <Long text={it.key} />
      </p>
      {it.variants.map((variant, at) => (
        <OneVariant key={at} it={variant} at={at} all={it.variants.length} />
      ))}
    </>
  );
}

const Fact = ({ name, children }: { name: string; children: unknown }): JSX.Element => (
  <div>
    <dt>{name}</dt>
    <dd>{children as JSX.Element}</dd>
  </div>
);

function OneVariant({ it, at, all }: { it: Variant; at: number; all: number }): JSX.Element {
  return (
    <section class="variant">
      <h3 class="part-title">
        {all > 1 ? `Variant ${at + 1} of ${all}` : 'Response'}
        <span class="faint">
          {' '}
          {it.selected_by.join(', ') || (it.vary.length ? `Vary: ${it.vary.join(', ')}` : 'for every request')}; {format.flat(format.bytes(it.bytes))} in the {it.body};
          lifetime by {it.source}
          {it.part && `; only the bytes ${it.part[0]} to ${it.part[1]}`}
        </span>
      </h3>
      <table class="fields">
        <caption class="away">Fields of the stored response</caption>
        <tbody>
          {it.fields.map(([name, value], line) => (
            <tr key={line}>
              <th scope="row">{name}</th>
              <td>
                <Long text={value} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {it.forms.length > 0 && (
        <p class="forms">
          {it.forms.map((form) => (
            <span key={form.coding}>
              {form.coding} <b>{format.flat(format.bytes(form.bytes))}</b>
            </span>
          ))}
        </p>
      )}
    </section>
  );
}

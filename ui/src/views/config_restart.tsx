// The keys that wait for a restart, and the restart itself: the new process takes over before this one ends (`larder upgrade`).
import { Fragment, type JSX } from 'preact';
import { useState } from 'preact/hooks';
import { get, post } from '../api';
import { Act } from '../parts/act';
import { Failed } from '../parts/basic';
import { Dialog } from '../parts/dialog';
import { Icon } from '../parts/icons';
import { Long } from '../parts/long';
import { showToast } from '../parts/toast';
import { useFetched, useReadings, useSend } from '../hooks';
import { readings } from '../readings';
import { may } from '../identity';
import type { Config as Configuration, Stats } from '../types';

/** Names of keys, as a sentence lists them. */
export function Keys({ of }: { of: string[] }): JSX.Element {
  return (
    <>
      {of.map((it, at) => (
        <Fragment key={it}>
          {at === 0 ? '' : at === of.length - 1 ? ' and ' : ', '}
          <code>{it}</code>
        </Fragment>
      ))}
    </>
  );
}

interface Props {
  keys: string[];
  /** Of these keys the value in force and that of the file. */
  values: Configuration['pending_values'];
  /** Why the next start would fail; null if it would not. */
  fails: string | null;
  /** Leads to the earlier configurations; null where they are shown. */
  undo: (() => void) | null;
  /** Called once the new process serves. */
  done: () => void;
}

export function RestartPending({ keys, values, fails, undo, done }: Props): JSX.Element {
  const [asking, setAsking] = useState(false);
  return (
    <>
      <div class="waits" role="status">
        <Icon name="clock" />
        <p>
          <b>Restart pending.</b> These values of the saved file take effect at the next restart:
          {values.map((it) => (
            <span key={it.key} class="waits-value">
              <code>{it.key}</code> <Long text={it.running} /> → <Long text={it.file} />
            </span>
          ))}
        </p>
        {may('admin') && undo && (
          <button class="link" onClick={undo}>
            Undo …
          </button>
        )}
        <Act of="admin" class="button" onClick={() => setAsking(true)}>
          Restart …
        </Act>
      </div>
      {asking && (
        <Restart
          keys={keys}
          fails={fails}
          close={() => setAsking(false)}
          done={() => {
            setAsking(false);
            done();
          }}
        />
      )}
    </>
  );
}

function Restart({ keys, fails, close, done }: { keys: string[]; fails: string | null; close: () => void; done: () => void }): JSX.Element {
  const { busy, problem, send } = useSend();
  const { data } = useFetched<Stats>('drained', (signal) => get('/api/v1/stats?detail=routes', signal));
  const drained = (data?.origins ?? []).filter((it) => it.drained_by === 'operator').map((it) => it.name);
  const hasFleet = useReadings().latest?.tiers?.some((it) => it.name === 'fleet' && it.state !== 'off') ?? false;
  const restart = async (): Promise<void> => {
    const { process, version } = await post<{ process: number; version: string }>('/api/v1/upgrade', {});
    readings.look();
    showToast(`larder ${version} serves as process ${process}, with the saved configuration.`);
    done();
  };
  return (
    <Dialog title="Restart larder?" close={close}>
      <ul class="effects">
        <li>
          A new process starts with the saved configuration, and <Keys of={keys} /> {keys.length === 1 ? 'takes' : 'take'} effect. It runs the program that is on disk now.
        </li>
        <li>
          No connection is refused: the new process takes over the sockets{hasFleet ? ' and the disk tier. RAM begins empty, because other nodes may have purged pages meanwhile.' : ', the pages in RAM and the disk tier.'}
        </li>
        <li>Requests in progress finish in this process. Counters begin at zero.</li>
        {drained.length > 0 && (
          <li class="bad">
            {drained.length === 1 ? 'A drained origin receives' : 'Drained origins receive'} requests again: <Keys of={drained} />.
          </li>
        )}
        <li>If the new process cannot start, this one continues, and the reason is shown here.</li>
      </ul>
      {fails !== null && (
        <p class="warn" role="alert">
          <Icon name="warn" /> The new process would not start: {fails}
        </p>
      )}
      <Failed problem={problem} />
      <div class="form-end">
        <button type="button" class="button" onClick={close}>
          Cancel
        </button>
        <button type="button" data-first class="button primary" disabled={busy || fails !== null} onClick={() => void send(restart)}>
          {busy ? 'Restarting …' : 'Restart'}
        </button>
      </div>
    </Dialog>
  );
}

// The login: the page that is shown until the browser has a session.
import type { JSX } from 'preact';
import { useState } from 'preact/hooks';
import { Problem, post, setToken } from './api';
import { Mark } from './parts/icons';
import { sessionFor } from './identity';

export function Login({ problem, enter }: { problem: string | null; enter: () => Promise<void> }): JSX.Element {
  const [text, set] = useState('');
  const [message, setMessage] = useState(problem);
  const [busy, setBusy] = useState(false);

  const submit = async (event: Event): Promise<void> => {
    event.preventDefault();
    // A link or a code can be pasted as well as a token.
    const code = /#login=(\S+)/.exec(text)?.[1];
    const given = text.trim();
    if (!given) return setMessage('Paste a token or a login link.');
    setBusy(true);
    try {
      if (code) {
        setToken((await post<{ token: string }>('/api/v1/login', { code })).token);
        await enter();
      } else {
        await sessionFor(given, setToken);
        await enter();
      }
    } catch (error) {
      setToken(null);
      const unknown = error instanceof Problem && error.status === 401 && !code;
      setMessage(unknown ? 'The token is wrong.' : error instanceof Error ? error.message : String(error));
    } finally {
      setBusy(false);
    }
  };

  return (
    <main class="login">
      <form onSubmit={(event) => void submit(event)}>
        <div class="login-brand">
          <Mark />
          <h1>larder</h1>
        </div>
        <p>Run this command on the machine of larder to get a login link:</p>
        <pre class="login-command">larder login</pre>
        <label class="field">
          <span>Or paste a login link or a token</span>
          <input
            type="password"
            autocomplete="off"
            spellcheck={false}
            value={text}
            autofocus
            aria-invalid={message !== null}
            aria-describedby="login-told"
            onInput={(event) => set(event.currentTarget.value)}
          />
        </label>
        <p id="login-told" class="told" role="alert">
          {message}
        </p>
        <button class="button primary" disabled={busy}>
          {busy ? 'Logging in …' : 'Open'}
        </button>
      </form>
    </main>
  );
}

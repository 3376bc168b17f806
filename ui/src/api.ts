// Asks larder: JSON with the session's token, and its streams. What comes of an answer is not here.

/** A refusal of the API, or a request without an answer (status 0). */
export class Problem extends Error {
  constructor(
    readonly status: number,
    detail: string,
    readonly where: string | null = null,
    readonly body: unknown = null,
  ) {
    super(detail);
  }

  /** The column, counted from 1, that `where` names. */
  get column(): number | null {
    const found = /column (\d+)/.exec(`${this.where ?? ''} ${this.message}`);
    return found ? Number(found[1]) : null;
  }
}

/** What was thrown, as a problem with its sentence. */
export const problemOf = (error: unknown, otherwise = String(error)): Problem => (error instanceof Problem ? error : new Problem(0, otherwise));

const STORAGE_KEY = 'larder.token';
let token: string | null = localStorage.getItem(STORAGE_KEY);
let sessionEnded: () => void = () => {};
let sessionChanged: () => void = () => {};

/** Whether there is a token; it may have expired. */
export const hasToken = (): boolean => token !== null;

/** Called when larder does not know the token any more. */
export const onSessionEnded = (then: () => void): void => {
  sessionEnded = then;
};

/** Called when another tab has logged in. */
export const onSessionChanged = (then: () => void): void => {
  sessionChanged = then;
};

export function setToken(it: string | null, kept = true): void {
  token = it;
  if (it === null) localStorage.removeItem(STORAGE_KEY);
  else if (kept) localStorage.setItem(STORAGE_KEY, it);
}

// Another tab logged in or out: there is one session for all.
addEventListener('storage', (event) => {
  if (event.key !== STORAGE_KEY && event.key !== null) return;
  token = localStorage.getItem(STORAGE_KEY);
  if (token === null) sessionEnded();
  else sessionChanged();
});

interface RequestOptions {
  method?: string;
  json?: unknown;
  body?: BodyInit;
  type?: string;
  signal?: AbortSignal;
}

const authorization = (): string => `Bearer ${token}`;

async function send(path: string, it: RequestOptions): Promise<Response> {
  const headers: Record<string, string> = {};
  if (token !== null) headers['Authorization'] = authorization();
  if (it.json !== undefined) headers['Content-Type'] = 'application/json';
  else if (it.type) headers['Content-Type'] = it.type;
  const init: RequestInit = { method: it.method ?? 'GET', headers, cache: 'no-store', credentials: 'omit' };
  if (it.json !== undefined) init.body = JSON.stringify(it.json);
  else if (it.body !== undefined) init.body = it.body;
  if (it.signal) init.signal = it.signal;
  let response: Response;
  try {
    response = await fetch(path, init);
  } catch (error) {
    if (it.signal?.aborted) throw error;
    throw new Problem(0, 'larder does not respond.');
  }
  if (response.ok) return response;
  const body: unknown = await response.json().catch(() => null);
  const problem = (body ?? {}) as { detail?: unknown; where?: unknown };
  const detail = typeof problem.detail === 'string' ? problem.detail : `larder answered ${response.status}.`;
  // Not where another tab has a newer session: the next question takes that one.
  if (response.status === 401 && path !== '/api/v1/login' && headers['Authorization'] === authorization()) sessionEnded();
  throw new Problem(response.status, detail, typeof problem.where === 'string' ? problem.where : null, body);
}

export async function request<T>(path: string, it: RequestOptions = {}): Promise<T> {
  const response = await send(path, it);
  const text = await response.text();
  return (text === '' ? null : JSON.parse(text)) as T;
}

export const get = <T>(path: string, signal?: AbortSignal): Promise<T> => request<T>(path, signal ? { signal } : {});
export const post = <T>(path: string, json: unknown): Promise<T> => request<T>(path, { method: 'POST', json });
export const put = <T>(path: string, json: unknown): Promise<T> => request<T>(path, { method: 'PUT', json });

/** `?a=1&b=2` of what is there: empty texts, null and undefined are left out. */
export function query(of: Record<string, string | number | null | undefined>): string {
  const pairs = Object.entries(of).filter(([, it]) => it !== '' && it !== null && it !== undefined);
  return pairs.length ? `?${new URLSearchParams(pairs.map(([name, it]) => [name, String(it)]))}` : '';
}

/**
 * Reads server-sent events until the signal ends it; `EventSource` cannot send a token. Resolves when larder ends the stream.
 */
export async function events(
  path: string,
  signal: AbortSignal,
  opened: () => void,
  received: (event: string, data: unknown) => void,
): Promise<void> {
  const response = await send(path, { signal });
  opened();
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    const blocks = (rest + value).split('\n\n');
    rest = blocks.pop() ?? '';
    for (const block of blocks) {
      let event = 'message';
      let data = '';
      for (const line of block.split('\n')) {
        if (line.startsWith('event:')) event = line.slice(6).trim();
        else if (line.startsWith('data:')) data += line.slice(5).trim();
      }
      if (data !== '') received(event, JSON.parse(data));
    }
  }
}

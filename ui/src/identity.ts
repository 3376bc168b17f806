// Who is logged in: the name and the role of the token, which decide what the page offers.
import { get, post } from './api';

export type Role = 'viewer' | 'operator' | 'admin';

export interface Identity {
  /** The name of the token. */
  name: string;
  role: Role;
  /** The number of the session; null where the token itself is used. */
  session: number | null;
}

const ROLES: Role[] = ['viewer', 'operator', 'admin'];

/** Where the latest answer is kept, for a page that is opened while larder does not answer. */
const STORAGE_KEY = 'larder.who';

let current: Identity | null = read();

function read(): Identity | null {
  try {
    return JSON.parse(localStorage.getItem(STORAGE_KEY) ?? 'null') as Identity | null;
  } catch {
    return null;
  }
}

/** Asks larder; before that nothing is offered. */
export async function fetchIdentity(): Promise<void> {
  current = await get<Identity>('/api/v1/whoami');
  localStorage.setItem(STORAGE_KEY, JSON.stringify(current));
}

export const identity = (): Identity | null => current;

/** Whether the client has the rights of a role. */
export const may = (role: Role): boolean => current !== null && ROLES.indexOf(current.role) >= ROLES.indexOf(role);

/** Why something is not offered. */
export const needs = (role: Role): string => `Requires the role ${role}`;

/** A session in place of a token, which the browser keeps at no time; `use` is called with what requests are to send. */
export async function sessionFor(token: string, use: (token: string, kept?: boolean) => void): Promise<void> {
  use(token, false);
  const { code } = await post<{ code: string }>('/api/v1/login-links', {});
  use((await post<{ token: string }>('/api/v1/login', { code })).token);
}

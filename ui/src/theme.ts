// Dark, light, or as the system has it; and the colours that canvases need to know.

export type Theme = 'system' | 'light' | 'dark';
const STORAGE_KEY = 'larder.theme';

export function theme(): Theme {
  const it = localStorage.getItem(STORAGE_KEY);
  return it === 'light' || it === 'dark' ? it : 'system';
}

const listeners = new Set<() => void>();

export function setTheme(it: Theme): void {
  if (it === 'system') localStorage.removeItem(STORAGE_KEY);
  else localStorage.setItem(STORAGE_KEY, it);
  apply();
}

export function apply(): void {
  const it = theme();
  if (it === 'system') delete document.documentElement.dataset['theme'];
  else document.documentElement.dataset['theme'] = it;
  for (const listener of listeners) listener();
}

/** Called when colours change; returns what ends that. */
export function onTheme(then: () => void): () => void {
  const media = matchMedia('(prefers-color-scheme: dark)');
  listeners.add(then);
  media.addEventListener('change', then);
  return () => {
    listeners.delete(then);
    media.removeEventListener('change', then);
  };
}

/** The value of a CSS variable, such as `--accent`. */
export const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Arrow keys through the rows of a list: what can be focused in each is marked with `data-row`.

export function walk(event: KeyboardEvent): void {
  const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
  if (step === 0) return;
  const list = event.currentTarget as HTMLElement;
  const rows = [...list.querySelectorAll<HTMLElement>('[data-row]')];
  const at = rows.indexOf(document.activeElement as HTMLElement);
  const next = rows[at + step];
  if (!next) return;
  event.preventDefault();
  next.focus();
}

/**
 * Where nothing in `view` is focused, an arrow comes to a row of those that are seen: down to the first, up to the last. Whether
 * there was one.
 */
export function enter(view: HTMLElement | null, step: 1 | -1): boolean {
  const now = document.activeElement;
  if (!view || (now !== view && now !== document.body) || document.querySelector('dialog[open]')) return false;
  const rows = [...view.querySelectorAll<HTMLElement>('[data-row]')];
  const seen = rows.filter((it) => {
    const { top, bottom } = it.getBoundingClientRect();
    return top >= 0 && bottom <= innerHeight;
  });
  const row = (step > 0 ? seen[0] : seen.at(-1)) ?? rows[0];
  row?.focus();
  return row !== undefined;
}

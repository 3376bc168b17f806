// The three-way merge of texts by lines: changes that do not touch are joined, those that do are a conflict for a person. Pure;
// what is shown of it is in views/config_merge.

/** A range of lines of the three texts. Lines have their ends. */
export interface Piece {
  /** Unchanged, changed in one of the texts, changed alike in both, or changed differently. */
  kind: 'same' | 'mine' | 'theirs' | 'alike' | 'conflict';
  base: string[];
  mine: string[];
  theirs: string[];
}

/** What becomes of a conflict. */
export type Choice = 'mine' | 'theirs' | 'both';

/** Lines of the base that others replace: those from `from` up to `to`. */
interface Hunk {
  from: number;
  to: number;
  lines: string[];
}

/** Steps that the search for the shortest difference takes at most; beyond, the rest is one change. It bounds time and memory. */
const MOST_STEPS = 1500;

/** The lines of a text, each with its end. */
export const linesOf = (text: string): string[] => text.match(/[^\n]*\n|[^\n]+$/g) ?? [];

/** Pieces that in order make up each of the three texts. */
export function merge3(base: string, mine: string, theirs: string): Piece[] {
  const lines = linesOf(base);
  const [own, others] = [hunks(lines, linesOf(mine)), hunks(lines, linesOf(theirs))];
  const pieces: Piece[] = [];
  let at = 0;
  while (own.length + others.length > 0) {
    const from = Math.min(own[0]?.from ?? Infinity, others[0]?.from ?? Infinity);
    let to = from;
    const taken: [Hunk[], Hunk[]] = [[], []];
    // Changes that overlap or touch are one place, however many of either text there are.
    for (let grew = true; grew; ) {
      grew = false;
      for (const [side, left] of [own, others].entries()) {
        while (left[0] && left[0].from <= to) {
          const it = left.shift()!;
          taken[side as 0 | 1].push(it);
          to = Math.max(to, it.to);
          grew = true;
        }
      }
    }
    same(pieces, lines.slice(at, from));
    pieces.push(pieceOf(lines, from, to, ...taken));
    at = to;
  }
  same(pieces, lines.slice(at));
  return pieces;
}

function same(pieces: Piece[], lines: string[]): void {
  if (lines.length > 0) pieces.push({ kind: 'same', base: lines, mine: lines, theirs: lines });
}

function pieceOf(lines: string[], from: number, to: number, own: Hunk[], others: Hunk[]): Piece {
  const [base, mine, theirs] = [lines.slice(from, to), made(lines, from, to, own), made(lines, from, to, others)];
  const kind = others.length === 0 ? 'mine' : own.length === 0 ? 'theirs' : mine.join('') === theirs.join('') ? 'alike' : 'conflict';
  return { kind, base, mine, theirs };
}

/** The lines from `from` to `to` with changes made. */
function made(lines: string[], from: number, to: number, hunks: Hunk[]): string[] {
  const out: string[] = [];
  let at = from;
  for (const it of hunks) {
    out.push(...lines.slice(at, it.from), ...it.lines);
    at = it.to;
  }
  return [...out, ...lines.slice(at, to)];
}

/** The text of pieces: `choices` has one for each conflict, in order; null while one is missing. */
export function merged(pieces: Piece[], choices: (Choice | null | undefined)[]): string | null {
  let conflict = 0;
  const out: string[] = [];
  for (const it of pieces) {
    if (it.kind !== 'conflict') {
      append(out, it.kind === 'theirs' ? it.theirs : it.mine);
      continue;
    }
    const choice = choices[conflict];
    conflict += 1;
    if (!choice) return null;
    if (choice !== 'theirs') append(out, it.mine);
    if (choice !== 'mine') append(out, it.theirs);
  }
  return out.join('');
}

/** Adds lines; a last line without an end gets one before others follow it. */
function append(out: string[], lines: string[]): void {
  const last = out.at(-1);
  if (lines.length > 0 && last !== undefined && !last.endsWith('\n')) out[out.length - 1] = `${last}\n`;
  out.push(...lines);
}

/** The changes that make `b` of `a`, in order, with at least one equal line between any two. */
function hunks(a: string[], b: string[]): Hunk[] {
  let start = 0;
  while (start < a.length && start < b.length && a[start] === b[start]) start += 1;
  let end = 0;
  while (end < a.length - start && end < b.length - start && a[a.length - 1 - end] === b[b.length - 1 - end]) end += 1;
  const [x, y] = [a.slice(start, a.length - end), b.slice(start, b.length - end)];
  const all: Hunk[] = [];
  let [i, j] = [0, 0];
  for (const [p, q] of [...common(x, y), [x.length, y.length] as const]) {
    if (p > i || q > j) all.push({ from: start + i, to: start + p, lines: y.slice(j, q) });
    [i, j] = [p + 1, q + 1];
  }
  return all;
}

/** The positions of a longest common subsequence (Myers, "An O(ND) difference algorithm"); none beyond the bound. */
function common(a: string[], b: string[]): [number, number][] {
  const most = Math.min(a.length + b.length, MOST_STEPS);
  const middle = most + 1;
  const reach = new Int32Array(2 * most + 3);
  const trace: Int32Array[] = [];
  for (let d = 0; d <= most; d += 1) {
    trace.push(reach.slice(middle - d - 1, middle + d + 2));
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && reach[middle + k - 1]! < reach[middle + k + 1]!) ? reach[middle + k + 1]! : reach[middle + k - 1]! + 1;
      while (x < a.length && x - k < b.length && a[x] === b[x - k]) x += 1;
      reach[middle + k] = x;
      if (x >= a.length && x - k >= b.length) return back(trace, a.length, b.length);
    }
  }
  return [];
}

/** The way back through the steps of the search: the pairs of equal lines. */
function back(trace: Int32Array[], x: number, y: number): [number, number][] {
  const pairs: [number, number][] = [];
  for (let d = trace.length - 1; d >= 0; d -= 1) {
    const reach = trace[d]!;
    // The diagonal k is at k + d + 1.
    const at = (k: number): number => reach[k + d + 1]!;
    const k = x - y;
    const before = k === -d || (k !== d && at(k - 1) < at(k + 1)) ? k + 1 : k - 1;
    const [px, py] = d === 0 ? [0, 0] : [at(before), at(before) - before];
    while (x > px && y > py) {
      x -= 1;
      y -= 1;
      pairs.push([x, y]);
    }
    [x, y] = [px, py];
  }
  return pairs.reverse();
}

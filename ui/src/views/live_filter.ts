// The filter of the live stream: an expression as in `larder tail`, or plain words that the URL has.

const NAMES = 'status|route|site|method|host|path|query|url|scheme|cache|reason|client|user_agent|referer|end|bytes|size|duration_us|origin_us|origin|ttl|header';
/** A name of the language with what may follow it, or an operator between spaces: of a word that is misspelt, larder says so. */
const EXPRESSION = new RegExp(`^[\\s!(]*(${NAMES})\\s*(\\[|[=!<>~]|(contains|in)\\b)|\\s([=!]=|!?~|[<>]=?|&&|\\|\\|)\\s`);

export const quoted = (it: string): string => `"${it.replace(/[\\"]/g, '\\$&')}"`;

/** What is sent to larder. */
export function expression(text: string): string {
  const it = text.trim();
  if (it === '' || EXPRESSION.test(it)) return it;
  return it
    .split(/\s+/)
    .map((word) => `url contains ${quoted(word)}`)
    .join(' && ');
}

/** The conditions that all have to hold. */
export function parts(text: string): string[] {
  const it = expression(text);
  return it === '' ? [] : it.includes('||') ? [/^\([^()]*\)$/.test(it) ? it : `(${it})`] : it.split(/\s*&&\s*/).filter(Boolean);
}

/** The filter with one condition more, or without it if it has it. */
export function toggled(text: string, part: string): string {
  const all = parts(text);
  return (all.includes(part) ? all.filter((it) => it !== part) : [...all, part]).join(' && ');
}

// A sentence of larder with its links: a place in the configuration leads to its line in the editor, and a command of the command line to
// the view that shows the same. Names are between backticks.
import type { ComponentChildren, JSX } from 'preact';

/** The views for commands: the text of the link, and its address. Commands without a view stay as they are. */
const VIEWS: Record<string, [string, string]> = {
  tail: ['Live', 'live'],
  top: ['Top', 'top'],
  worst: ['a selected range of the chart', 'overview'],
  stats: ['Overview', 'overview'],
  check: ['Configuration, Text', 'config?part=text'],
  overlay: ['Objects, Overlays', 'objects?show=overlays'],
  'origin drain': ['Origins', 'overview'],
  'origin restore': ['Origins', 'overview'],
  'tls list': ['the list of certificates', 'config?section=tls.'],
};

/** A file of a configuration and its line. */
const PLACE = /([\w./@+-]+\.(?:toml|conf)):(\d+)(?::\d+)?/;

/** A key of the configuration, alone or with its value; not a host or a file. */
const KEY = /^((?:[a-z][a-z0-9_]*\.)+[a-z][a-z0-9_]*)(?: = .+)?$/;
const NO_KEY = /\.(toml|conf|test|com|net|org|md|php|example|service|socket|json|html|js|css)$/;

/** Opens the view of a link again, where the address is that of the link already. */
export const again = (href: string): boolean => location.hash === href && dispatchEvent(new HashChangeEvent('hashchange'));

/** A link to a line in the editor of the page. */
export function LineLink({ file, line, title, children }: { file: string; line: string; title: string; children: ComponentChildren }): JSX.Element {
  const href = `#/config?${new URLSearchParams({ part: 'text', file, line }).toString()}`;
  return (
    <a class="link" href={href} title={title} onClick={() => again(href)}>
      {children}
    </a>
  );
}

function Code({ text }: { text: string }): JSX.Element {
  const [, name = '', filter] = /^larder ([a-z ]+?)(?: '(.+)')?$/.exec(text) ?? [];
  const view = VIEWS[name];
  const key = KEY.exec(text)?.[1];
  if (key && !NO_KEY.test(key)) {
    return (
      <a class="key" href={`#/help?key=${encodeURIComponent(key)}`} title="About this key">
        <code>{text}</code>
      </a>
    );
  }
  if (!view || (filter && name !== 'tail')) return <code>{text}</code>;
  return (
    <a href={`#/${view[1]}${filter ? `?filter=${encodeURIComponent(filter)}` : ''}`} title={`On the command line: ${text}`}>
      {view[0]}
      {filter && (
        <>
          {' with '}
          <code>{filter}</code>
        </>
      )}
    </a>
  );
}

function Plain({ text }: { text: string }): JSX.Element {
  const found = PLACE.exec(text);
  if (!found) return <>{text}</>;
  const [place, file, line] = found;
  const end = found.index + place.length;
  return (
    <>
      {text.slice(0, found.index)}
      <LineLink file={file!} line={line!} title="Open this line in the editor">
        {place}
      </LineLink>
      <Plain text={text.slice(end)} />
    </>
  );
}

/** A text within a link or a button: names between backticks are code. */
export function Codes({ text }: { text: string }): JSX.Element {
  return <>{text.split('`').map((part, at) => (at % 2 ? <code key={at}>{part}</code> : part))}</>;
}

export function Linked({ text }: { text: string }): JSX.Element {
  return <>{text.split('`').map((part, at) => (at % 2 ? <Code key={at} text={part} /> : <Plain key={at} text={part} />))}</>;
}

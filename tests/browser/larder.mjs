// The programs that the tests of the page need: an origin, the real larder in front of it, and clients that ask it. All of
// them listen on free ports of 127.0.0.1, and end with `stop`.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import http from 'node:http';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const BINARY = process.env.LARDER ?? join(dirname(fileURLToPath(import.meta.url)), '../../target/debug/larder');

/** Milliseconds after which anything that is waited for has failed. */
export const TIMEOUT = 120_000;

/** Waits until `it` gives something that is true, and returns that. */
export async function until(what, it, patience = TIMEOUT) {
  const end = Date.now() + patience;
  for (;;) {
    const found = await it();
    if (found) return found;
    if (Date.now() > end) throw new Error(`in ${patience} ms it never came to be: ${what}`);
    await new Promise((then) => setTimeout(then, 50));
  }
}

/** Fields that would like to be more than text, and one that does not end. */
export const HOSTILE = {
  'X-Script': '<script>document.title = "taken"</script><img src=x onerror="document.title = 1">',
  'X-Quotes': `"unfinished, and 'more' of it; a="b\\"`,
  'X-Long': 'w'.repeat(3000),
  'Cache-Tag': '<b>bold</b>, "quoted"',
};

/** An origin: pages that may be kept, one that may not, one that fails, and one that takes its time. */
async function startOrigin() {
  const server = http.createServer((request, response) => {
    const { pathname } = new URL(request.url, 'http://origin');
    const send = (status, fields, body) => {
      response.writeHead(status, { 'Content-Type': 'text/html; charset=utf-8', ...fields });
      response.end(body);
    };
    const page = `<p>The page at ${pathname}, made at ${process.hrtime.bigint()}.</p>`.padEnd(900, ' ');
    if (pathname.startsWith('/private/')) return send(200, { 'Cache-Control': 'no-store' }, page);
    if (pathname.startsWith('/broken/') || pathname.startsWith('/api/broken')) return send(503, { 'Cache-Control': 'no-store' }, 'The kitchen is shut.');
    if (pathname.startsWith('/tagged/')) return send(200, { 'Cache-Control': 'max-age=600', 'Cache-Tag': 'kitchen' }, page);
    if (pathname.startsWith('/validated/')) {
      const fields = { 'Cache-Control': 'no-cache', ETag: '"one"' };
      return request.headers['if-none-match'] === '"one"' ? (response.writeHead(304, fields), response.end()) : send(200, fields, page);
    }
    if (pathname.startsWith('/silent/')) return send(200, {}, page);
    if (pathname.startsWith('/session/')) return send(200, { 'Cache-Control': 'max-age=600', 'Set-Cookie': 'session=s3cret' }, page);
    if (pathname.startsWith('/hostile/')) return send(200, { 'Cache-Control': 'max-age=600', ...HOSTILE }, page);
    send(200, { 'Cache-Control': 'max-age=600' }, page);
  });
  await new Promise((then) => server.listen(0, '127.0.0.1', then));
  return server;
}

/** Sites that nobody asks for, each with a route of its own. */
const SITES = (count, origin) =>
  Array.from({ length: count }, (_, at) => `
[[site]]
hosts = ["shop-${at}.example"]

[[site.route]]
name = "shop-${at}"
path = "/*"
proxy = { to = ["${origin}"] }
`).join('');

const CONFIGURATION = (origin, folder) => `# The kitchen's larder.
listen = ["127.0.0.1:0"]
workers = 1

[admin]
listen = "127.0.0.1:0"
token_file = "${folder}/token"

[cache.ram]
size = "64MiB" # what this machine can spare

[cache.disk]
path = "${folder}/disk"
size = "64MiB"
segment_size = "4MiB"

[[site]]
hosts = ["*"]

[[site.route]]
name = "api"
path = "/api/*"
proxy = { to = ["${origin}"] }

[[site.route]]
name = "pages"
path = "/*"
proxy = { to = ["${origin}"] }
# A minute is long enough for the cook.
cache = { default_ttl = "60s" }
`;

/** The program itself, once it listens. */
export async function run(folder, file, more = {}) {
  const { LARDER_ADMIN_TOKEN: _, ...own } = process.env;
  const env = { ...own, XDG_RUNTIME_DIR: folder, XDG_STATE_HOME: join(folder, 'state'), ...more };
  const child = spawn(BINARY, ['run', '-c', file], { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
  let said = '';
  child.stdout.on('data', (bytes) => (said += bytes));
  child.stderr.on('data', (bytes) => (said += bytes));
  const ended = new Promise((then) => child.on('close', then));
  let gone = false;
  void ended.then(() => (gone = true));
  const find = (pattern) => pattern.exec(said)?.[1];
  // A process that was replaced has named its successor, which writes to the same pipes.
  const send = (signal) => {
    for (const [, successor] of said.matchAll(/\bupgraded\b.*?process=(\d+)/g)) {
      try {
        process.kill(Number(successor), signal);
      } catch {
        // It has ended.
      }
    }
    child.kill(signal);
  };
  const stop = async () => {
    if (!gone) send('SIGTERM');
    const late = setTimeout(() => send('SIGKILL'), 5000);
    await ended;
    clearTimeout(late);
  };
  try {
    await until('larder says where it listens', () => {
      if (gone) throw new Error(`larder ended at its start:\n${said}`);
      return find(/listening on (http:\S+)/) && find(/prints a (link)/);
    });
  } catch (error) {
    await stop();
    throw new Error(`${error.message}\n${said}`);
  }
  const link = execFileSync(BINARY, ['login'], { cwd: folder, env, encoding: 'utf8' }).trim();
  return { child, stop, site: find(/listening on (http:\S+)/), link };
}

/**
 * Starts the origin and larder, with as many sites more as are asked for; `link` logs a browser in. `head` is written at the
 * top of the configuration, `files` are further files beside it, by name; both are made of the origin's address. `env` is more environment.
 */
export async function start({ sites = 0, head = () => '', files = () => ({}), env = {} } = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'larder-page-'));
  const origin = await startOrigin();
  const file = join(folder, 'larder.toml');
  const address = `http://127.0.0.1:${origin.address().port}`;
  writeFileSync(file, head(address) + CONFIGURATION(address, folder) + SITES(sites, address));
  for (const [name, text] of Object.entries(files(address))) {
    mkdirSync(dirname(join(folder, name)), { recursive: true });
    writeFileSync(join(folder, name), text);
  }
  const close = () => {
    origin.closeAllConnections();
    origin.close();
    rmSync(folder, { recursive: true, force: true });
  };
  let now = await run(folder, file, env).catch((error) => {
    close();
    throw error;
  });
  const { site, link } = now;
  const admin = new URL(link).origin;
  return {
    site,
    link,
    admin,
    token: () => readFileSync(join(folder, 'token'), 'utf8').trim(),
    configuration: () => readFileSync(file, 'utf8'),
    /** The text of a file beside it. */
    included: (name) => readFileSync(join(folder, name), 'utf8'),
    /** Writes the file as somebody with an editor does. */
    configure: (text) => writeFileSync(file, text),
    pid: () => now.child.pid,
    pause: () => now.child.kill('SIGSTOP'),
    goOn: () => now.child.kill('SIGCONT'),
    /** Ends it; `again` starts another one in its place, at the same addresses, which gives its login link. */
    end: () => now.stop(),
    again: async ({ token } = {}) => {
      const fixed = (text, of) => text.replace('127.0.0.1:0', new URL(of).host);
      writeFileSync(file, readFileSync(file, 'utf8').split('[admin]').map((part, at) => fixed(part, at ? admin : site)).join('[admin]'));
      if (token) writeFileSync(join(folder, 'token'), token, { mode: 0o600 });
      now = await run(folder, file, env);
      return now.link;
    },
    stop: async () => {
      await now.stop();
      close();
    },
  };
}

/** One request on a connection of its own: status, fields, body. */
export function ask(url, fields = {}) {
  return new Promise((then, fail) => {
    const request = http.get(url, { agent: false, headers: fields, timeout: TIMEOUT }, (response) => {
      let body = '';
      response.setEncoding('utf8');
      response.on('data', (it) => (body += it));
      response.on('end', () => then({ status: response.statusCode, cache: response.headers['cache-status'] ?? '', body }));
    });
    request.on('timeout', () => request.destroy(new Error(`${url} did not answer`)));
    request.on('error', fail);
  });
}

/** Clients that ask without end, until `stop`: a few pages much, many a little, and what is not kept. */
export function load(site) {
  const agent = new http.Agent({ keepAlive: true, maxSockets: 4 });
  let ends = false;
  let sent = 0;
  const path = () => {
    const dice = Math.random();
    if (dice < 0.7) return `/pages/${Math.floor(Math.random() ** 3 * 60)}`;
    if (dice < 0.8) return `/tagged/${Math.floor(Math.random() * 20)}`;
    if (dice < 0.9) return `/api/items/${Math.floor(Math.random() * 30)}`;
    if (dice < 0.95) return '/private/basket';
    return dice < 0.98 ? '/broken/oven' : `/pages/new-${sent}`;
  };
  const client = async () => {
    while (!ends) {
      sent += 1;
      await new Promise((then) => {
        const request = http.get(site + path(), { agent }, (response) => response.resume().on('end', then).on('error', then));
        request.on('error', () => setTimeout(then, 100));
      });
      // Two busy cores have a browser to draw with, too.
      await new Promise((then) => setTimeout(then, Math.random() * 12));
    }
  };
  const clients = Array.from({ length: 4 }, client);
  return {
    stop: async () => {
      ends = true;
      await Promise.all(clients);
      agent.destroy();
    },
  };
}

// What the API answers, as docs of `GET /api/v1/openapi.json` have it. Bytes are numbers of bytes, times unix seconds unless the name
// says otherwise.

export type Counts = Record<string, number>;

export interface Histogram {
  count: number;
  sum_us: number;
  max_us: number;
  p50_us: number;
  p90_us: number;
  p99_us: number;
  p999_us: number;
  /** Upper bound in microseconds and count of each bucket that is not empty. */
  buckets: [number, number][];
}

/** The state of the server, the worst finding first. */
export interface ServerState {
  word: 'healthy' | 'degraded' | 'failing';
  findings: Finding[];
  /** Further ones. */
  left_out: number;
}

/** Its sentence is `what` since `since` (`evidence`); `effect`. */
export interface Finding {
  name: string;
  severity: 'failing' | 'degraded' | 'notice';
  what: string;
  since: number | null;
  /** How often it has begun lately, and the first time if that is several times. */
  times?: number;
  first?: number | null;
  evidence: string;
  effect: string;
  remedy: string;
  view: string;
}

/** A certificate in use, or a name without one. */
export interface Certificate {
  names: string[];
  state: 'valid' | 'expiring' | 'expired' | 'not-yet-valid' | 'missing';
  source: 'file' | 'acme' | 'self-signed';
  file?: string;
  /** The name of the CA that issued it. */
  issuer?: string | null;
  from: number | null;
  until: number | null;
  renews?: number | null;
  next_attempt?: number;
  in_progress?: boolean;
  /** The URL of the CA's directory. */
  authority?: string | null;
  failures?: number;
  error?: string | null;
}

export interface Stats {
  version: number;
  health?: ServerState;
  now: number;
  now_us?: number;
  uptime?: number;
  listen: string[];
  /** Keys of the file that take effect at the next restart. */
  pending?: string[];
  certificates?: Certificate[];
  node?: string | null;
  nodes?: { say?: string } | null;
  statistics?: 'on' | 'off';
  counters: Counts;
  latency?: { all: Histogram; hit: Histogram; miss: Histogram; pass: Histogram };
  /** The sums of all routes. */
  totals?: { errors_4xx: number; errors_5xx: number; could_be_hits: number; revalidated: number };
  /** These and the origins are empty in a reading of the totals. */
  routes?: RouteStats[];
  tiers?: { name: string; state: string; hits: number; bytes_served: number; objects?: number; used_bytes?: number; budget_bytes?: number; device_full?: boolean }[];
  origins?: Origin[];
  saved?: { origin_us: number };
  memory?: { rss_bytes?: number; attributed_bytes: number; parts: { tier: string; purpose: string; bytes: number }[] };
  ram: { used_bytes: number; usable_bytes: number; budget_bytes: number };
}

/** A route; several routes of a site may have one name. */
export interface RouteStats {
  name: string;
  path: string;
  methods: string[];
  when: string;
  listeners: string[];
  site: number;
  site_name?: string;
  kind: string;
  /** Positions in the list of origins. */
  origins?: number[];
  counters: Counts;
  latency: Histogram;
  could_be_hits?: number;
}

/** What larder keeps of the last days in one step: `samples` have the values of `columns`. */
export interface Kept {
  now: number;
  step: number;
  columns: string[];
  samples: number[][];
  marks: Mark[];
  kept?: { in: 'file' | 'ram'; path?: string; bytes?: number; why?: string };
}

/** The figures of a route in a time. */
export interface RouteFigures {
  requests: number;
  errors_5xx: number;
  errors_4xx: number;
  hits: number;
  misses: number;
  passes: number;
  origin_requests: number;
  origin_us: number;
}

/** A slow or failed request; `at` is Unix seconds. */
export interface WorstRequest {
  id: string;
  at: number;
  method: string;
  url: string;
  route: string;
  status: number;
  /** The origin broke the response off. */
  broken: boolean;
  duration_us: number;
  origin_us: number;
  cache: string;
  reason: string;
  origin: string;
  request_id: string;
  /** Why the origin gave no valid response; empty if it gave one. */
  failure: string;
}

/** A time against the time before it. */
export interface Difference {
  from: number;
  to: number;
  kept_from: number | null;
  now: { seconds: number };
  before: { seconds: number };
  routes: { name: string; now: RouteFigures; before: RouteFigures; reasons: { reason: string; now: number; before: number; origin_us: number }[] }[];
  urls: { url: string; now: number; before: number; misses: number; misses_before: number }[];
  slow: WorstRequest[];
  failed: WorstRequest[];
}

/** An event; `at` is Unix seconds. */
export interface Mark {
  at: number;
  kind: 'start' | 'stop' | 'upgrade' | 'reload' | 'refused' | 'purge' | 'down' | 'up' | 'fault' | 'over' | 'drain' | 'restore' | 'certificate';
  what: string;
  /** The time of the last of several events with this text, and their number. */
  last?: number;
  count?: number;
}

export interface Origin {
  name: string;
  /** Positions in the list of routes. */
  routes: number[];
  /** `up` is well; `failing` has no alternative; `slow_start` and `probing` come back; `ejected`, `unhealthy` and `drained` get nothing new. */
  state?: string;
  /** Until it is tried again, where it is ejected. */
  ejected_ms?: number | null;
  /** `HTTP/1.1` or `HTTP/2.0`, once there was a connection. */
  protocol?: string | null;
  /** `configuration` or `operator`, where it is drained. */
  drained_by?: string | null;
  in_flight?: number;
  counters: Counts;
  latency: Histogram;
}

export interface StoredObject {
  id: string;
  url: string;
  key: string;
  status: number;
  bytes: number;
  variants: number;
  age: number;
  lifetime: number;
  expires_in: number;
  fresh: boolean;
  hits: number;
  tags: number;
  content_type: string | null;
  tiers: string[];
  stored_at: number;
}

/** One object in full; its newest variant is the first. */
export interface Inspected {
  id: string;
  url: string;
  key: string;
  hits: number;
  tiers: string[];
  variants: Variant[];
}

export interface Variant {
  vary: string[];
  /** What the request had in the fields of `vary`. */
  selected_by: string[];
  status: number;
  bytes: number;
  part: [number, number] | null;
  fields: [string, string][];
  age: number;
  lifetime: number;
  source: string;
  expires_in: number;
  fresh: boolean;
  stored_at: number;
  etag: string | null;
  tags: number;
  forms: { coding: string; bytes: number }[];
  body: string;
}

/** `total` and `matched` are of RAM; what is on disk alone is looked through a part at a time. */
export interface ObjectPage {
  total: number;
  matched: number;
  took_us: number;
  disk: { objects: number; looked_at: number; left: number } | null;
  next: string | null;
  objects: StoredObject[];
}

export interface Purged {
  scope: Record<string, string | boolean>;
  strength: string;
  seq: number;
  complete: boolean;
  took_us: number;
  receipts: { of: string; state: string; count?: number; count_is?: 'exact' | 'more' | 'estimate'; after_ms?: number; detail?: string }[];
}

export interface PurgePreview {
  tiers: { of: string; count?: number; bytes?: number; count_is?: 'exact' | 'more' | 'estimate'; detail?: string }[];
  hint: string | null;
}

/** A node of the fleet; what its status has is null if that is not known. */
export interface FleetNode {
  id: string;
  name: string;
  self: boolean;
  presence: 'live' | 'found' | 'silent' | 'left' | 'unknown';
  since_ms: number | null;
  since_is_exact: boolean;
  reported: number;
  status: 'known' | 'awaited' | 'older-version' | 'later-version' | 'damaged';
  state: ServerState['word'] | null;
  finding: string | null;
  version: string | null;
  uptime: number | null;
  requests_per_second: number | null;
  hit_ratio: number | null;
  in_sync: boolean | null;
  /** Seconds by which its clock is ahead. */
  clock_off: number | null;
  lags: ({ entries: number; ms: number } | null)[];
  differs: string[];
}

export interface Nodes {
  shared: boolean;
  why: string | null;
  read_ms?: number | null;
  damaged_records?: number;
  servers: { name: string; followed: boolean; in_use: boolean; entries: number | null }[];
  nodes: FleetNode[];
}

export interface Overlay {
  uri: string;
  status: number;
  bytes: number;
  content_type: string | null;
  set_at: number;
  expires: number | null;
  hits: number;
  by: string;
}

export interface Rule {
  source: string;
  rule: string;
  evidence: string;
  outcome: 'passed' | 'decided';
  where: string[];
}

/** A change that shares nothing private. */
export interface Change {
  by: 'configuration' | 'application' | 'server';
  sentence: string;
  settings?: string[];
  restart?: boolean;
  edits?: { path: (string | number)[]; value: Setting }[];
  diff?: { file: string; line: number; lines: DiffLine[] }[];
}

export interface Advice {
  /** Its time, Unix seconds. */
  now: number;
  findings: {
    name: string;
    sentence: string;
    route: string | null;
    /** The routes with the same changes. */
    routes: string[];
    requests: number;
    /** Requests to the origin, or bytes of the counted responses. */
    saves: 'requests' | 'bytes';
    /** The time in which the requests were counted. */
    seconds: number;
    per_hour: number;
    origin_us: number;
    from: string;
    changes: Change[];
  }[];
}

export interface Explanation {
  summary: { answer: string; judgement: 'right' | 'once' | 'could-be-cached' | 'fault' | 'by-rule'; because: string; changes: Change[]; /** Every recorded request failed. */ fails: boolean };
  url?: string | null;
  pages?: string[];
  site?: number | null;
  route?: string;
  key?: { text: string; recipe: string };
  tiers?: { tier: string; holds: string; count?: number }[];
  bypass?: string | null;
  stored?: {
    status: number;
    bytes: number;
    variant: string | null;
    age: string;
    lifetime: string;
    freshness: string;
    part: string | null;
    forms: string | null;
  } | null;
  rules?: Rule[];
  verdict: { name: string; sentence: string; status?: number | null };
  last_refusal?: { seconds_ago: number; status: number; sentence: string; rules: Rule[]; change: string | null } | null;
  change?: string | null;
  settings?: { route: string; given: { key: string; where: string }[] } | null;
  where?: string;
  matched?: {
    path?: string;
    when?: string | null;
    where?: Record<string, string | null>;
    passed_over: { route: string; sentence: string; where: string }[];
  } | null;
  access?: { name: string; key: string; sentence: string; where?: string | null };
  file?: { root: string; path: string | null; key: string; member: string | null; page: string | null; where: string | null };
  tls?: { min_version: string; client_auth: string; where: Record<string, string> };
  script?: { name: string | null; sentence: string; key: string; where: string } | null;
  sticky?: { cookie: string; origin: string | null; sentence: string; where: string } | null;
  sql?: {
    database: string;
    place: string;
    grade: string;
    sentence: string;
    where: string;
    rows: { rows: string; grade: string; sentence: string; tag: string }[];
  } | null;
  nodes?: { say?: string } | null;
  then?: RequestRecord;
}

export interface RequestRecord {
  id: string;
  time_us: number;
  client: string;
  method: string;
  url: string;
  host: string;
  path: string;
  status: number;
  bytes: number;
  duration_us: number | null;
  route: string;
  site: string;
  cache: string;
  /** Why an origin was asked. */
  reason?: string | null;
  ttl: number | null;
  /** The origin that was asked, as in the configuration. */
  origin: string | null;
  origin_us: number | null;
  origin_protocol: string | null;
  end: string;
  user_agent: string | null;
  referer: string | null;
  stages?: Record<string, number>;
  /** Why its head was rejected: then neither method nor URL is known. */
  rejected?: string;
}

export type ReasonClass = 'needed' | 'by-configuration' | 'by-request' | 'by-response' | 'could-be-hit' | 'shared';

/** A row of the closed list of reasons; code is between backticks. */
export interface Reason {
  name: string;
  class: ReasonClass;
  sentence: string;
  /** Empty where none would be right. */
  change: string;
}

export interface WhyRoute {
  name: string;
  site: string;
  path: string;
  methods: string[];
  when: string;
  /** The time in which these were counted: since the last change of its settings of the cache, if that is shorter than the time of all. */
  seconds: number;
  requests: number;
  hits: number;
  origin_requests: number;
  reasons: WhyReason[];
}

export interface WhyReason {
  reason: string;
  requests: number;
  /** Those of them that could have been hits. */
  could_be_hits?: number;
  origin_us: number;
  /** The judgement about recent requests, where cookies are the reason. */
  evidence?: string | null;
  example: { time: number; method: string; url: string } | null;
}

export interface Why {
  now: number;
  uptime: number;
  /** The time in which all of these were counted. */
  seconds: number;
  statistics?: 'on' | 'off';
  /** Requests that an origin got a second time, each of which has one reason. */
  retries?: number;
  reasons: Reason[];
  routes: WhyRoute[];
}

export type Order = 'requests' | 'misses' | 'bytes' | 'origin_time';

export type TopSubject = 'urls' | 'clients';

export interface Top {
  of: TopSubject;
  by: Order;
  total: number;
  since: number;
  entries: { url?: string; client?: string; value: number; error: number }[];
}

export interface Trace {
  id: string;
  start_us: number;
  route: string;
  method: string;
  url: string;
  status: number;
  bytes: number;
  cache: string;
  total_us: number;
  stages: Record<string, number>;
}

export interface Traces {
  /** `for`: seconds for which an operator records at this rate; `set`: the rate without that. */
  sampling: { route: string; every: number; for?: number; set?: number }[];
  stages: string[];
  traces: Trace[];
}

/** A value of the configuration, as JSON. */
export type Setting = string | number | boolean | Setting[] | Settings;
export interface Settings {
  [name: string]: Setting;
}

export interface Key {
  key: string;
  kind: string;
  /** The sentence that says what it may be. */
  allowed?: string;
  words?: string[];
  /** As it stands in the file. */
  default: string | null;
  help: string;
  example?: string | null;
  restart: boolean;
  /** As `key`, with `[]` behind each list. */
  pattern: string;
  /** Its value is not shown; of a table, the values that are secrets. */
  secret: boolean;
  /** Its value may have several lines. */
  lines: boolean;
  /** Of a key of sites and routes. */
  phase: Phase | null;
}

export type Phase = 'match' | 'admit' | 'rewrite' | 'answer' | 'cache' | 'finish';

/** A value of a key, and where it comes from; `value` is null for a secret, and secrets of a table are hidden. */
export interface Layer {
  from: 'flag' | 'own' | 'block' | 'site' | 'site-block' | 'every-route' | 'preset';
  /** Of the block, the preset or the flag. */
  name: string | null;
  file: string | null;
  line: number | null;
  value: Setting | null;
  /** Nearer values add to it instead of replacing it. */
  adds: boolean;
}

/** Of each key, the nearest first. */
export type Layers = Record<string, Layer[]>;

export interface ConfigProblem {
  /** The included file of the line; null for the main file. */
  file: string | null;
  line: number | null;
  column: number | null;
  key: string | null;
  /** The site, or the route of a site, that it is in. */
  within: (string | number)[];
  message: string;
}

export interface Config {
  path: string | null;
  editable: boolean;
  why: string | null;
  text: string;
  /** Files that the text includes. */
  included: { file: string; path: string; text: string; hash: string; editable: boolean; why: string | null }[];
  /** The file of each site: 0 is the main one, 1 the first of `included`. */
  site_files: number[];
  hash: string;
  running_hash: string | null;
  /** Keys that the file has otherwise than what runs, and that only a start takes over. */
  pending: string[];
  /** Of these keys the value in force and that of the file; secrets are hidden. */
  pending_values: { key: string; running: string; file: string }[];
  /** Why a start with the files as they are now would fail. */
  next_start: string | null;
  /** The values of all files; null where the main text is malformed. */
  document: Settings | null;
  keys: Key[];
  history: { id: string; time: number; by: string; change: string }[];
}

export interface Checked {
  ok: boolean;
  problems: ConfigProblem[];
  warnings?: ConfigProblem[];
  restart: string[];
  document: Settings | null;
  diff: DiffLine[];
  /** Included files that differ from the saved ones. */
  included: { file: string; path: string; diff: DiffLine[] }[];
  site_files: number[];
}

export interface DiffLine {
  op: string;
  text: string;
}

/** A recorded request in the result of a trial. */
export interface TriedExample {
  time: number;
  method: string;
  url: string;
  status: number;
  from: string | null;
  to: string | null;
  key: string | null;
  where: string | null;
}

/** What a configuration would do with recent requests. */
export interface Tried {
  file: string | null;
  records: number;
  requests: number;
  left_out: number;
  from: number | null;
  to: number | null;
  complete: boolean;
  took_us: number;
  hit_ratio: { measured: number | null; running: number | null; changed: number | null };
  changes: { kind: 'route' | 'status' | 'open' | 'key' | 'storage' | 'lifetime'; requests: number; urls: number; examples: TriedExample[] }[];
  shared: { reason: 'set-cookie' | 'private' | 'opened' | 'differed' | 'changes'; sentence: string; requests: number; routes: { route: string; requests: number }[]; examples: TriedExample[] }[];
  danger: boolean;
  unknown: { fact: string; sentence: string; requests: number }[];
  /** Changed keys of RAM and disk, whose effect is not in the ratio. */
  not_modelled: string[];
  /** Changed keys of exchanges with origins, whose effect recorded responses do not show. */
  not_judged: string[];
  /** Why stored responses are validated before use now, which the prediction leaves out. */
  doubt: string | null;
}

/** A browser that is logged in. */
export interface Session {
  id: number;
  /** The name of the token with which it began. */
  name: string;
  role: string;
  from: string;
  login: number;
  used: number;
  expires: number;
  /** Whether it is that of this page. */
  own: boolean;
}

/** A token of the admin. */
export interface Token {
  name: string;
  role: string;
  used: number | null;
  from: string | null;
  sessions: number;
}

/** An entry of the audit log. */
export interface AuditEntry {
  time: number;
  refused: boolean;
  who: string;
  role: string | null;
  session: number | null;
  from: string;
  method: string | null;
  path: string | null;
  query: string | null;
  body: string | null;
  status: number;
  why: string | null;
}

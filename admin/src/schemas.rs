//! JSON schemas of requests and responses of the endpoints; a subject with many of them has its own file.

use super::config::change;
use super::server_state::server_state;

/// `GET /api/v1/openapi.json`.
pub const DESCRIPTION: &str = r#"{"type":"object","required":["openapi","info","security","paths","components"],"properties":{
"openapi":{"enum":["3.1.0"]},"info":{"type":"object","additionalProperties":true},"security":{"type":"array","items":{}},
"paths":{"type":"object","additionalProperties":true},"components":{"type":"object","additionalProperties":true}}}"#;

/// `POST /api/v1/login`.
pub const CODE: &str = r##"{"type":"object","additionalProperties":false,"required":["code"],"properties":{
"code":{"type":"string","description":"the part of a login link after \"#login=\""}}}"##;

/// A session.
pub const SESSION: &str = r#"{"type":"object","required":["token","expires","session","name","role"],"properties":{
"token":{"type":"string"},"expires":{"type":"integer"},"session":{"type":"integer"},"name":{"type":"string"},"role":{"enum":["viewer","operator","admin"]}}}"#;

/// `GET /api/v1/audit`.
pub const AUDIT: &str = r#"{"type":"object","required":["entries","file"],"properties":{
"file":{"type":["string","null"],"description":"the file of admin.audit, which has all entries"},
"entries":{"type":"array","description":"the latest first: at most 500 changes, 100 rejected requests of clients with a token, and 100 of others","items":{"type":"object",
"required":["time","refused","who","role","session","from","method","path","query","body","status","why"],"properties":{
"time":{"type":"integer"},"refused":{"type":"boolean"},"who":{"type":"string","description":"the name of the token; a client of the Unix socket, or without a token, has the name as in the log"},
"role":{"type":["string","null"]},"session":{"type":["integer","null"]},"from":{"type":"string"},"method":{"type":["string","null"]},"path":{"type":["string","null"]},
"query":{"type":["string","null"]},"body":{"type":["string","null"]},"status":{"type":"integer"},"why":{"type":["string","null"]}}}}}}"#;

/// A login link.
pub const LINK: &str = r#"{"type":"object","required":["link","code","expires"],"properties":{
"link":{"type":"string"},"code":{"type":"string"},"expires":{"type":"integer"}}}"#;

/// `POST /api/v1/logout`.
pub const ENDED: &str = r#"{"type":"object","required":["ended"],"properties":{"ended":{"type":"integer"}}}"#;

/// A histogram of durations.
macro_rules! latency {
    () => {
        r#"{"type":"object","required":["count","sum_us","max_us","p50_us","p90_us","p99_us","p999_us","buckets"],"properties":{
"count":{"type":"integer"},"sum_us":{"type":"integer"},"max_us":{"type":"integer"},"p50_us":{"type":"integer"},"p90_us":{"type":"integer"},
"p99_us":{"type":"integer"},"p999_us":{"type":"integer"},
"buckets":{"type":"array","description":"pairs: a bound that all of a bucket are below, microseconds, and how many they are","items":{"type":"array","minItems":2,"maxItems":2,"items":{"type":"integer"}}}}}"#
    };
}

/// The state of the node in its fleet.
macro_rules! nodes {
    () => {
        r#"{"type":["object","null"],"description":"how the node stands to the others of its fleet; null without one","required":["in_sync","servers","followed","lease_left_ms","say"],
"properties":{"in_sync":{"type":"boolean"},"servers":{"type":"integer"},"followed":{"type":"integer"},"lease_left_ms":{"type":"integer"},"say":{"type":"string"}}}"#
    };
}

/// The state of an origin: the properties.
macro_rules! origin {
    () => {
        r#""name":{"type":"string"},
"state":{"type":"string","enum":["up","failing","slow_start","ejected","probing","unhealthy","drained"]},"ejected_ms":{"type":["integer","null"]},
"protocol":{"type":["string","null"],"description":"the protocol of the connection opened last, chosen by the origin if both were offered; null before the first connection","enum":["HTTP/1.1","HTTP/2.0","FastCGI","SCGI","uWSGI",null]},
"drained_by":{"type":["string","null"],"description":"source of the drain, if drained","enum":["configuration","operator",null]},
"in_flight":{"type":"integer"},"ejections":{"type":"integer"}"#
    };
}

/// Numbers by the names of their table.
macro_rules! counters {
    () => {
        r#"{"type":"object","additionalProperties":{"type":"integer"}}"#
    };
}

/// One certificate.
macro_rules! certificate {
    () => {
        r#"{"type":"object","required":["names","source","state","from","until"],"properties":{"names":{"type":"array","items":{"type":"string"}},"state":{"type":"string","enum":["valid","expiring","expired","not-yet-valid","missing"],"description":"expiring: within 14 days, or in the last sixth of a shorter lifetime that tls.acme renews"},"source":{"type":"string","enum":["file","acme","self-signed"]},"file":{"type":"string"},"issuer":{"type":["string","null"],"description":"the organization and common name of the CA"},"from":{"type":["integer","null"],"description":"start of its validity, Unix time; null without a certificate"},"until":{"type":["integer","null"]},"renews":{"type":["integer","null"],"description":"planned renewal, Unix time"},"next_attempt":{"type":"integer","description":"the next attempt to get one, Unix time"},"in_progress":{"type":"boolean"},"authority":{"type":["string","null"],"description":"directory of the CA"},"failures":{"type":"integer","description":"consecutive failures"},"error":{"type":["string","null"]}}}"#
    };
}

/// The statistics.
pub const STATS: &str = concat!(
    r#"{"type":"object",
"required":["version","now","listen","pending","health","counters","latency","totals","sites","routes","tiers","origins","saved","privileges","memory","ram"],"properties":{
"version":{"type":"integer"},"now":{"type":"integer"},"now_us":{"type":"integer"},"uptime":{"type":"integer"},
"listen":{"type":"array","items":{"type":"string"}},
"pending":{"type":"array","description":"keys of the file that take effect at the next restart","items":{"type":"string"}},
"statistics":{"type":"string","enum":["on","off"]},
"history":{"type":"object","required":["in"],"description":"whether the history outlives this process","properties":{"in":{"enum":["file","ram"]},"path":{"type":"string"},"bytes":{"type":"integer"},"why":{"type":"string"}}},
"privileges":{"type":"object","required":["uid","gid","groups","capabilities","no_new_privileges","system_call_filter","landlock"],"properties":{"uid":{"type":"integer"},"gid":{"type":"integer"},
"groups":{"type":"array","items":{"type":"integer"}},"capabilities":{"type":"array","items":{"type":"string"}},"no_new_privileges":{"type":"boolean"},"system_call_filter":{"type":"boolean"},"landlock":{"type":["integer","null"],"description":"the version of the interface by which Landlock restricts the process to the paths of its configuration; null without such rules"}}},
"health":"#,
    server_state!(),
    r#",
"nodes":"#,
    nodes!(),
    r#",
"counters":"#,
    counters!(),
    r#","latency":{"type":"object","required":["all","hit","miss","pass","other"],"additionalProperties":"#,
    latency!(),
    r#"},
"totals":{"type":"object","description":"sums of all routes","required":["errors_4xx","errors_5xx","could_be_hits","revalidated"],"properties":{"revalidated":{"type":"integer","description":"misses that the origin answered with 304: the response came from the cache"},"errors_4xx":{"type":"integer"},"errors_5xx":{"type":"integer"},"could_be_hits":{"type":"integer","description":"requests with a reason of the class could-be-hit, and those withheld for cookies that change no page, as recent requests show"}}},
"sites":{"type":"array","items":{"type":"object","required":["name","routes","counters","latency"],"properties":{"name":{"type":"string"},
"routes":{"type":"array","description":"positions in routes","items":{"type":"integer"}},"counters":"#,
    counters!(),
    r#","latency":"#,
    latency!(),
    r#"}}},
"routes":{"type":"array","items":{"type":"object","required":["name","path","methods","when","listeners","site","site_name","kind","origin","counters","latency","saved_us","reasons","could_be_hits"],"properties":{
"name":{"type":"string"},"path":{"type":"string"},"methods":{"type":"array","items":{"type":"string"}},"when":{"type":"string","description":"the condition; empty without one"},
"listeners":{"type":"array","description":"empty for all","items":{"type":"string"}},"site":{"type":"integer"},"site_name":{"type":"string"},
"kind":{"type":"string","enum":["proxy","files","sql","answer"]},"origin":{"type":["integer","null"]},"origins":{"type":"array","items":{"type":"integer"}},"saved_us":{"type":"integer"},
"reasons":{"type":"object","description":"requests that reached the origin, by reason","additionalProperties":{"type":"object","required":["requests","origin_us"],"properties":{"requests":{"type":"integer"},"origin_us":{"type":"integer"}}}},"could_be_hits":{"type":"integer","description":"those of them that could have been hits"},"counters":"#,
    counters!(),
    r#","latency":"#,
    latency!(),
    r#"}}},
"tiers":{"type":"array","items":{"type":"object","required":["name","state","hits","bytes_served","saved_us"],"properties":{
"name":{"type":"string","enum":["ram","disk","fleet"]},"state":{"type":"string","enum":["on","off","failed"]},"why":{"type":["string","null"]},
"hits":{"type":"integer"},"bytes_served":{"type":"integer"},"saved_us":{"type":"integer"},"objects":{"type":"integer"},"used_bytes":{"type":"integer"},
"budget_bytes":{"type":"integer"},"queued_bytes":{"type":"integer"},"reads_off":{"type":"boolean"},"device_full":{"type":"boolean"},"servers":{"type":"integer"}}}},
"origins":{"type":"array","items":{"type":"object","required":["name","routes","state","in_flight","ejections","counters","latency"],"properties":{"#,
    origin!(),
    r#",
"routes":{"type":"array","items":{"type":"integer"}},"counters":"#,
    counters!(),
    r#","latency":"#,
    latency!(),
    r#"}}},
"certificates":{"type":"array","items":"#,
    certificate!(),
    r#"},
"saved":{"type":"object","required":["origin_us"],"properties":{"origin_us":{"type":"integer"}}},
"memory":{"type":"object","required":["rss_bytes","parts","attributed_bytes"],"properties":{"rss_bytes":{"type":"integer"},"attributed_bytes":{"type":"integer"},"parts":{"type":"array","items":{"type":"object","required":["tier","purpose","bytes"],"properties":{"tier":{"type":"string"},"purpose":{"type":"string"},"bytes":{"type":"integer"}}}}}},
"ram":{"type":"object","required":["used_bytes","usable_bytes","budget_bytes"],"properties":{"used_bytes":{"type":"integer"},"usable_bytes":{"type":"integer"},"budget_bytes":{"type":"integer"}}}}}"#
);

/// Every certificate.
pub const CERTIFICATES: &str = concat!(
    r#"{"type":"object","required":["certificates","folder_error"],"properties":{"folder_error":{"type":["string","null"],"description":"why the folder of tls.acme cannot be used"},"certificates":{"type":"array","items":"#,
    certificate!(),
    r#"}}}"#
);

/// The JSON schema of the state of all origins.
pub const ORIGINS: &str = concat!(
    r#"{"type":"object","required":["origins"],"properties":{"origins":{"type":"array","items":{"type":"object","required":["name","state","drained_by","protocol","in_flight","ejections"],"properties":{"#,
    origin!(),
    r#"}}}}}"#
);

/// One origin that was drained or restored.
pub const ORIGIN: &str = concat!(
    r#"{"type":"object","required":["name","state","drained_by","in_flight","ejections","routes_without"],"properties":{"#,
    origin!(),
    r#","routes_without":{"type":"array","description":"those of its routes of which every origin is drained or down","items":{"type":"string"}}}}"#
);

/// The question to explain.
pub const QUESTION: &str = r#"{"type":"object","additionalProperties":false,"properties":{
"ask":{"type":"string","description":"in place of url or id: a path, a URL with or without its scheme, a tag (tag:NAME), or the id of a past request"},"url":{"type":"string"},"method":{"type":"string"},"client":{"type":"string","description":"the address of the client, or unix; default: 127.0.0.1"},"listener":{"type":"string","description":"the listener, as in listen"},"server_name":{"type":"string","description":"the name in the TLS handshake; default: the host"},"id":{"type":"string","description":"id of a past request; without other fields"},
"headers":{"type":"array","items":{"type":"array","minItems":2,"maxItems":2,"items":{"type":"string"}}}}}"#;

/// The evaluated rules, in their order.
macro_rules! rules {
    () => {
        r#"{"type":"array","items":{"type":"object","required":["rule","outcome"],"properties":{"source":{"type":"string"},"rule":{"type":"string"},"evidence":{"type":"string"},"outcome":{"type":"string","enum":["passed","decided"]},"where":{"type":"array","items":{"type":"string"}}}}}"#
    };
}

/// The explanation.
pub const EXPLANATION: &str = concat!(
    r#"{"type":"object","required":["verdict"],"properties":{
"summary":{"type":"object","description":"the answer, whether it is right, and changes that share nothing private","required":["answer","judgement","because","changes","fails"],"properties":{"answer":{"type":"string"},"fails":{"type":"boolean","description":"every recorded request for the URL failed: until the application is repaired, an overlay can answer it"},"judgement":{"enum":["right","once","could-be-cached","fault","by-rule"]},"because":{"type":"string"},"changes":{"type":"array","items":"#,
    change!(),
    r#"}}},"reason":{"type":["string","null"],"description":"why an origin is asked: a name of /api/v1/why"},"tier":{"type":"string","description":"the tier of the stored response"},
"url":{"type":["string","null"],"description":"the URL that was explained, if the question had `ask`"},"pages":{"type":"array","description":"for a tag: stored pages","items":{"type":"string"}},
"site":{"type":["integer","null"]},"route":{"type":["string","null"]},
"where":{"type":"string","description":"the line of the key that decides before the cache"},
"matched":{"type":["object","null"],"description":"the path, methods, condition and listeners that chose the route, its captures, and the earlier routes that were passed over","additionalProperties":true},
"access":{"type":"object","description":"the rule of access that decides; no password is verified, no service is asked, and no request is counted","required":["name","key","sentence"],"properties":{"name":{"type":"string","enum":["refused","depends","admitted"]},"key":{"type":"string"},"sentence":{"type":"string"},"where":{"type":["string","null"]},"admits":{"type":"string","description":"of a rule that refuses the request: the requests that it admits"}}},
"file":{"type":"object","description":"over files: the file beneath the root, the member of files.try and the key that decide, and the page sent with 404","required":["root","path","key","member","page","where"],"properties":{"root":{"type":"string"},"path":{"type":["string","null"]},"key":{"type":"string"},"member":{"type":["string","null"]},"page":{"type":["string","null"]},"where":{"type":["string","null"]}}},
"tls":{"type":"object","description":"the TLS rules of the site, where some site has rules of its own","required":["min_version","client_auth","where"],"properties":{"min_version":{"type":"string"},"client_auth":{"type":"string"},"where":{"type":"object","additionalProperties":{"type":"string"}}}},
"sticky":{"type":["object","null"],"description":"the origin to which the sticky cookie of the request binds its client","required":["cookie","origin","sentence","where"],"properties":{"cookie":{"type":"string"},"origin":{"type":["string","null"]},"sentence":{"type":"string"},"where":{"type":"string"}}},
"sql":{"type":["object","null"],"description":"the database of a query, and the changes of rows that purge the page","required":["database","place","grade","sentence","rows","where"],"properties":{"database":{"type":"string"},"place":{"type":"string"},"grade":{"type":"string","enum":["none","database","table","column","row"],"description":"the least exact of rows"},"sentence":{"type":"string"},"where":{"type":"string"},"rows":{"type":"array","items":{"type":"object","required":["rows","grade","sentence","tag"],"properties":{"rows":{"type":"string"},"grade":{"type":"string"},"sentence":{"type":"string"},"tag":{"type":"string"}}}}}},
"script":{"type":["object","null"],"description":"the PHP script that answers, or why none does","required":["name","sentence","key","where"],"properties":{"name":{"type":["string","null"]},"sentence":{"type":"string"},"key":{"type":"string"},"where":{"type":"string"}}},
"budget":{"type":["object","null"],"description":"the budget of the route (`access.budget`), and the seconds until it admits a request of this client","required":["limit","scope","exceeded_for"],"properties":{"limit":{"type":"string"},"scope":{"type":"string"},"exceeded_for":{"type":["integer","null"]}}},
"key":{"type":"object","required":["text","recipe"],"properties":{"text":{"type":"string"},"recipe":{"type":"string"}}},
"tiers":{"type":"array","items":{"type":"object","required":["tier","holds"],"properties":{"tier":{"type":"string"},"holds":{"type":"string"},"count":{"type":"integer"},"status":{"type":"integer"},"seconds":{"type":"integer"}}}},
"bypass":{"type":["string","null"],"description":"why the cache is not used"},
"origin_request":{"type":["object","null"],"description":"the target that an origin gets in place of the client's, and the places of the keys","required":["target","changes","where"],"properties":{"target":{"type":"string"},"changes":{"type":"string"},"where":{"type":"array","items":{"type":"string"}}}},
"stored":{"type":["object","null"],"required":["status","bytes","variant","age","lifetime","freshness","part","forms"],"properties":{
"status":{"type":"integer"},"bytes":{"type":"integer"},"variant":{"type":"string"},"age":{"type":"string"},"lifetime":{"type":"string"},
"freshness":{"type":"string"},"part":{"type":["string","null"]},"forms":{"type":["string","null"]}}},
"rules":"#,
    rules!(),
    r#","last_refusal":{"type":["object","null"],"description":"the last response for this key that was not stored, or the reason why no valid one came","required":["seconds_ago","status","sentence","rules","change"],"properties":{
"seconds_ago":{"type":"integer"},"status":{"type":"integer"},"sentence":{"type":"string"},"change":{"type":["string","null"]},"rules":"#,
    rules!(),
    r#"}},
"change":{"type":["string","null"],"description":"the smallest that makes another verdict"},
"then":{"type":"object","description":"for a past request: how it was served","additionalProperties":true},
"withheld":{"type":"array","description":"for a past request: fields whose values are not recorded","items":{"type":"string"}},
"settings":{"type":["object","null"],"description":"the settings of the route, with their places in the configuration","required":["route","given"],"properties":{"route":{"type":"string"},
"given":{"type":"array","items":{"type":"object","required":["key","where"],"properties":{"key":{"type":"string"},"where":{"type":"string"}}}}}},
"nodes":"#,
    nodes!(),
    r#",
"origins":{"type":"array","description":"the route's, and how they are","items":{"type":"object","required":["name","state","in_flight","ejections"],"properties":{"#,
    origin!(),
    r#"}}},
"verdict":{"type":"object","required":["name","sentence"],"properties":{"name":{"type":"string"},"sentence":{"type":"string"},"status":{"type":["integer","null"]}}}}}"#
);

/// The purge.
pub const PURGE: &str = r#"{"type":"object","additionalProperties":false,"properties":{
"url":{"type":"string"},"prefix":{"type":"string"},"tag":{"type":"string"},"where":{"type":"string"},"all":{"type":"boolean"},
"soft":{"type":"boolean"},"validate":{"type":"boolean"},"hard":{"type":"boolean"},"host":{"type":"string"},"wait":{"type":"boolean"}}}"#;

/// Its result.
pub const PURGED: &str = r#"{"type":"object","required":["seq","scope","strength","complete","receipts"],"properties":{
"seq":{"type":"integer"},"scope":{"type":"object","description":"the target of the purge, under its kind: url, prefix, tag, where or all","additionalProperties":true},"strength":{"type":"string"},"complete":{"type":"boolean"},"took_us":{"type":"integer","description":"microseconds; with wait, until no node can use a purged response"},
"receipts":{"type":"array","items":{"type":"object","required":["of","state"],"properties":{"of":{"type":"string"},"state":{"type":"string","enum":["applied","logged","unresponsive","uncertain"]},"detail":{"type":"string"},"count":{"type":"integer","description":"responses in this tier that the purge matched; if they were not counted, detail gives the reason"},"count_is":{"type":"string","enum":["exact","more","estimate"],"description":"more: there are at least as many; estimate: from a sample of the records"},"count_is_exact":{"type":"boolean"},"after_ms":{"type":"integer","description":"of a node: milliseconds until it was known to have applied the purge"},"nodes":{"type":"object","description":"of the fleet, with wait: the nodes that have applied the purge, of all that run","required":["past","of","after_ms"],"properties":{"past":{"type":"integer"},"of":{"type":"integer"},"after_ms":{"type":"integer"}}}}}}}}"#;

/// An overlay.
macro_rules! overlay {
    () => {
        r#"{"type":"object","required":["uri","status","bytes","set_at","expires","hits","by"],"properties":{
"uri":{"type":"string"},"status":{"type":"integer"},"bytes":{"type":"integer"},"content_type":{"type":["string","null"]},
"etag":{"type":"string"},"set_at":{"type":"integer"},"expires":{"type":["integer","null"]},"hits":{"type":"integer"},"by":{"type":"string"}}}"#
    };
}

/// An overlay.
pub const OVERLAY: &str = overlay!();

/// All overlays.
pub const OVERLAYS: &str = concat!(
    r#"{"type":"object","required":["overlays","bytes","limit_bytes"],"properties":{"overlays":{"type":"array","items":"#,
    overlay!(),
    r#"},"bytes":{"type":"integer"},"limit_bytes":{"type":"integer"}}}"#
);

/// Traces.
pub const TRACES: &str = r#"{"type":"object","required":["sampling","stages","traces"],"properties":{
"sampling":{"type":"array","items":{"type":"object","required":["route","every"],"properties":{"route":{"type":"string"},"every":{"type":"integer"},
"for":{"type":"integer","description":"seconds for which a recording sets this rate; absent if the rate is permanent"},
"set":{"type":"integer","description":"with for: the rate without the recording"}}}},
"stages":{"type":"array","items":{"type":"string"}},
"traces":{"type":"array","items":{"type":"object","required":["id","start_us","route","method","url","status","total_us","stages"],"properties":{
"id":{"type":"string"},"start_us":{"type":"integer"},"route":{"type":"string"},"method":{"type":"string"},"url":{"type":"string"},
"status":{"type":"integer"},"bytes":{"type":"integer"},"cache":{"type":"string"},"total_us":{"type":"integer"},"stages":{"type":"object","additionalProperties":{"type":"integer"}},
"steps":{"type":"array","items":{"type":"object","required":["machine","step","at_us"],"properties":{"machine":{"type":"string","enum":["request","fill"]},"step":{"type":"string"},"at_us":{"type":"integer"}}}}}}}}}"#;

/// The sampling rate of a route.
pub const EVERY: &str = r#"{"type":"object","additionalProperties":false,"required":["route","every"],"properties":{
"route":{"type":"string","description":"the name of a route, or \"*\" for all"},
"every":{"type":"integer","minimum":0,"maximum":4294967295,"description":"traces one of this many requests; 0 disables tracing"},
"for":{"type":"integer","minimum":0,"maximum":86400,"description":"seconds for which at least this rate applies, across reloads and with other owners; 0 ends it now; default: until the next reload or restart"},
"owner":{"type":"string","description":"with for: an owner name of at most 64 bytes; the same owner renews or ends it, and of several owners the highest rate applies"}}}"#;

/// The sampling rates of all routes.
pub const SAMPLING: &str = r#"{"type":"object","required":["sampling","until"],"properties":{
"sampling":{"type":"array","items":{"type":"object","required":["route","every"],"properties":{"route":{"type":"string"},"every":{"type":"integer"},
"for":{"type":"integer","description":"seconds for which a recording sets this rate; absent if the rate is permanent"},
"set":{"type":"integer","description":"with for: the rate without the recording"}}}},
"until":{"type":"string"}}}"#;

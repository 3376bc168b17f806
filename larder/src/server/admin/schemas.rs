//! What the endpoints of this folder take and give, as JSON schemas; a subject with many of them has its own beside it.

/// `GET /api/v1/openapi.json`.
pub const DESCRIPTION: &str = r#"{"type":"object","required":["openapi","info","security","paths","components"],"properties":{
"openapi":{"enum":["3.1.0"]},"info":{"type":"object"},"security":{"type":"array"},"paths":{"type":"object"},"components":{"type":"object"}}}"#;

/// `POST /api/v1/login`.
pub const CODE: &str = r##"{"type":"object","additionalProperties":false,"required":["code"],"properties":{
"code":{"type":"string","description":"what a login link has after \"#login=\""}}}"##;

/// A session.
pub const SESSION: &str = r#"{"type":"object","required":["token","expires","session"],"properties":{
"token":{"type":"string"},"expires":{"type":"integer"},"session":{"type":"integer"}}}"#;

/// A login link.
pub const LINK: &str = r#"{"type":"object","required":["link","code","expires"],"properties":{
"link":{"type":"string"},"code":{"type":"string"},"expires":{"type":"integer"}}}"#;

/// `POST /api/v1/logout`.
pub const ENDED: &str = r#"{"type":"object","required":["ended"],"properties":{"ended":{"type":"integer"}}}"#;

/// The statistics.
pub const STATS: &str = r#"{"type":"object",
"required":["version","now","listen","counters","ram"],"properties":{
"version":{"type":"integer"},"now":{"type":"integer"},"now_us":{"type":"integer"},"uptime":{"type":"integer"},
"listen":{"type":"array","items":{"type":"string"}},
"statistics":{"type":"string","enum":["on","off"]},
"counters":{"type":"object","additionalProperties":{"type":"integer"}},
"latency":{"type":"object","additionalProperties":{"type":"object"}},
"sites":{"type":"array","items":{"type":"object","required":["name","counters"],"properties":{"name":{"type":"string"},"counters":{"type":"object","additionalProperties":{"type":"integer"}}}}},
"routes":{"type":"array","items":{"type":"object","required":["name","site","kind","counters"],"properties":{"name":{"type":"string"},"site":{"type":"integer"},"kind":{"type":"string","enum":["proxy","files"]},"counters":{"type":"object","additionalProperties":{"type":"integer"}}}}},
"tiers":{"type":"array","items":{"type":"object","required":["name","state"],"properties":{"name":{"type":"string","enum":["ram","disk","fleet"]},"state":{"type":"string"}}}},
"origins":{"type":"array","items":{"type":"object","required":["name","routes","counters","latency"],"properties":{"name":{"type":"string"},"counters":{"type":"object","additionalProperties":{"type":"integer"}}}}},
"saved":{"type":"object","required":["origin_us"],"properties":{"origin_us":{"type":"integer"}}},
"memory":{"type":"object","required":["rss_bytes","parts","attributed_bytes"],"properties":{"rss_bytes":{"type":"integer"},"attributed_bytes":{"type":"integer"},"parts":{"type":"array","items":{"type":"object","required":["tier","purpose","bytes"],"properties":{"tier":{"type":"string"},"purpose":{"type":"string"},"bytes":{"type":"integer"}}}}}},
"ram":{"type":"object","required":["used_bytes","budget_bytes"],"properties":{"used_bytes":{"type":"integer"},"budget_bytes":{"type":"integer"}}}}}"#;

/// The request that is asked about.
pub const QUESTION: &str = r#"{"type":"object","additionalProperties":false,"properties":{
"url":{"type":"string"},"method":{"type":"string"},"id":{"type":"string","description":"of a request of the past; without all else"},
"headers":{"type":"array","items":{"type":"array","minItems":2,"maxItems":2,"items":{"type":"string"}}}}}"#;

/// What is explained.
pub const EXPLANATION: &str = r#"{"type":"object","required":["verdict"],"properties":{
"site":{"type":"integer"},"route":{"type":"string"},
"key":{"type":"object","required":["text","recipe"],"properties":{"text":{"type":"string"},"recipe":{"type":"string"}}},
"tiers":{"type":"array","items":{"type":"object","required":["tier","holds"],"properties":{"tier":{"type":"string"},"holds":{"type":"string"},"count":{"type":"integer"},"status":{"type":"integer"},"seconds":{"type":"integer"}}}},
"rules":{"type":"array","items":{"type":"object","required":["rule","outcome"],"properties":{"source":{"type":"string"},"rule":{"type":"string"},"evidence":{"type":"string"},"outcome":{"type":"string","enum":["passed","decided"]},"where":{"type":"array","items":{"type":"string"}}}}},
"verdict":{"type":"object","required":["name","sentence"],"properties":{"name":{"type":"string"},"sentence":{"type":"string"},"status":{"type":["integer","null"]}}}}}"#;

/// What is purged.
pub const PURGE: &str = r#"{"type":"object","additionalProperties":false,"properties":{
"url":{"type":"string"},"prefix":{"type":"string"},"tag":{"type":"string"},"where":{"type":"string"},"all":{"type":"boolean"},
"soft":{"type":"boolean"},"validate":{"type":"boolean"},"hard":{"type":"boolean"},"host":{"type":"string"},"wait":{"type":"boolean"}}}"#;

/// What became of it.
pub const PURGED: &str = r#"{"type":"object","required":["seq","scope","strength","complete","receipts"],"properties":{
"seq":{"type":"integer"},"scope":{"type":"object"},"strength":{"type":"string"},"complete":{"type":"boolean"},
"receipts":{"type":"array","items":{"type":"object","required":["of","state"],"properties":{"of":{"type":"string"},"state":{"type":"string","enum":["past","logged","silent","uncertain"]},"detail":{"type":"string"}}}}}}"#;

/// An overlay.
pub const OVERLAY: &str = r#"{"type":"object","required":["uri","status","bytes","set_at","expires","hits","by"],"properties":{
"uri":{"type":"string"},"status":{"type":"integer"},"bytes":{"type":"integer"},"content_type":{"type":["string","null"]},
"set_at":{"type":"integer"},"expires":{"type":["integer","null"]},"hits":{"type":"integer"},"by":{"type":"string"}}}"#;

/// All overlays.
pub const OVERLAYS: &str = r#"{"type":"object","required":["overlays","bytes","limit_bytes"],"properties":{
"overlays":{"type":"array","items":{"type":"object","required":["uri","bytes"],"properties":{"uri":{"type":"string"},"bytes":{"type":"integer"}}}},
"bytes":{"type":"integer"},"limit_bytes":{"type":"integer"}}}"#;

/// Traces.
pub const TRACES: &str = r#"{"type":"object","required":["sampling","stages","traces"],"properties":{
"sampling":{"type":"array","items":{"type":"object","required":["route","every"],"properties":{"route":{"type":"string"},"every":{"type":"integer"}}}},
"stages":{"type":"array","items":{"type":"string"}},
"traces":{"type":"array","items":{"type":"object","required":["id","start_us","route","method","url","status","total_us","stages"],"properties":{"stages":{"type":"object","additionalProperties":{"type":"integer"}}}}}}}"#;

/// How often a route is traced.
pub const EVERY: &str = r#"{"type":"object","additionalProperties":false,"required":["route","every"],"properties":{
"route":{"type":"string","description":"the name of a route, or \"*\" for all"},
"every":{"type":"integer","minimum":0,"maximum":4294967295,"description":"one request of so many is traced; 0 is none"}}}"#;

/// How often every route is traced.
pub const SAMPLING: &str = r#"{"type":"object","required":["sampling","until"],"properties":{
"sampling":{"type":"array","items":{"type":"object","required":["route","every"],"properties":{"route":{"type":"string"},"every":{"type":"integer"}}}},
"until":{"type":"string"}}}"#;

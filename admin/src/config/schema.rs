//! The JSON schemas of the endpoints of the configuration.

/// The response of `GET /api/v1/config`.
pub const TOLD: &str = r#"{"type":"object","required":["path","editable","why","text","included","site_files","hash","running_hash","pending","document","flags","keys","history","pending_values","next_start"],
"properties":{"path":{"type":["string","null"]},"editable":{"type":"boolean"},"why":{"type":["string","null"]},"text":{"type":"string"},
"included":{"type":"array","description":"files that the text includes","items":{"type":"object","required":["file","path","document","text","hash","editable","why"],"properties":{"file":{"type":"string"},"path":{"type":"string"},"document":{"type":["object","null"],"additionalProperties":true},"text":{"type":"string"},"hash":{"type":"string"},"editable":{"type":"boolean"},"why":{"type":["string","null"]}}}},
"site_files":{"type":"array","description":"the file of each site: 0 is the main file, 1 the first of `included`","items":{"type":"integer"}},
"hash":{"type":"string"},"running_hash":{"type":["string","null"]},"pending":{"type":"array","items":{"type":"string"}},"next_start":{"type":["string","null"],"description":"why a start with the files as they are now would fail, as last examined"},"pending_values":{"type":"array","description":"of the keys in pending: the value in force and that of the file; secrets are hidden","items":{"type":"object","required":["key","running","file"],"properties":{"key":{"type":"string"},"running":{"type":"string"},"file":{"type":"string"}}}},"document":{"type":["object","null"],"description":"the keys of all files","additionalProperties":true},
"flags":{"type":"array","items":{"type":"object","required":["key","flag","value"],"properties":{"key":{"type":"string"},"flag":{"type":"string"},"value":{}}}},
"keys":{"type":"array","items":{"type":"object","required":["key","pattern","kind","allowed","default","help","example","restart","secret","lines","phase"],"properties":{"key":{"type":"string"},"pattern":{"type":"string"},"kind":{"type":"string"},"allowed":{"type":"string"},"default":{"type":["string","null"]},"help":{"type":"string"},"example":{"type":"string"},"restart":{"type":"boolean"},"secret":{"type":"boolean","description":"the value is not displayed; of a table, the values that are secrets"},"lines":{"type":"boolean","description":"the value may have several lines"},"phase":{"type":["string","null"],"description":"phase of a request, for keys of sites and routes","enum":["match","admit","rewrite","answer","cache","finish",null]},"words":{"type":"array","items":{"type":"string"}},"least":{"type":"integer"},"most":{"type":"integer"}}}},
"history":{"type":"array","items":{"type":"object","required":["id","time","by","change"],"properties":{"id":{"type":"string"},"time":{"type":"integer","description":"of its replacement"},"by":{"type":"string"},"change":{"type":"string","description":"the replacement in one line, by keys, sites and routes; no values. Empty if an older larder kept it"}}}}}}"#;

/// The request of a check.
pub const TEXT: &str = r#"{"type":"object","additionalProperties":false,"properties":{
"text":{"type":"string","description":"the whole text of a configuration"},
"included":{"type":"array","maxItems":1000,"description":"texts in place of those of included files","items":{"type":"object","additionalProperties":false,"required":["path","text"],"properties":{"path":{"type":"string","description":"as GET /api/v1/config lists it"},"text":{"type":"string"}}}},
"to":{"type":["string","integer"],"description":"in its place: an id of the history, as GET /api/v1/config lists them"}}}"#;

/// Its response.
pub const CHECKED: &str = r#"{"type":"object","required":["ok","problems","warnings","restart","diff","included","document","site_files"],"properties":{"ok":{"type":"boolean"},
"problems":{"type":"array","items":{"type":"object","required":["file","line","column","key","within","message"],"properties":{"file":{"type":["string","null"],"description":"the file of the line, if included"},"within":{"type":"array","items":{"type":["string","integer"]}},"line":{"type":["integer","null"]},"column":{"type":["integer","null"]},"key":{"type":["string","null"]},"message":{"type":"string"}}}},
"warnings":{"type":"array","items":{"type":"object","required":["file","line","column","key","within","message"],"properties":{"file":{"type":["string","null"],"description":"the file of the line, if included"},"within":{"type":"array","items":{"type":["string","integer"]}},"line":{"type":["integer","null"]},"column":{"type":["integer","null"]},"key":{"type":["string","null"]},"message":{"type":"string"}}}},"restart":{"type":"array","items":{"type":"string"}},
"diff":{"type":"array","items":{"type":"object","required":["op","text"],"properties":{"op":{"enum":[" ","+","-"]},"text":{"type":"string"}}}},
"included":{"type":"array","description":"the differences in included files","items":{"type":"object","required":["file","path","diff"],"properties":{"file":{"type":"string"},"path":{"type":"string"},"diff":{"type":"array","items":{"type":"object","required":["op","text"],"properties":{"op":{"enum":[" ","+","-"]},"text":{"type":"string"}}}}}}},
"site_files":{"type":"array","items":{"type":"integer"}},
"document":{"type":["object","null"],"additionalProperties":true}}}"#;

/// The request of an edit: a value of `null` removes, `to` moves.
pub const EDITS_OF: &str = r#"{"type":"object","additionalProperties":false,"required":["text","set"],"properties":{
"text":{"type":"string","description":"the whole text of a configuration"},
"included":{"type":"array","maxItems":1000,"description":"texts in place of those of included files","items":{"type":"object","additionalProperties":false,"required":["path","text"],"properties":{"path":{"type":"string","description":"as GET /api/v1/config lists it"},"text":{"type":"string"}}}},
"set":{"type":"array","maxItems":1000,"description":"a list of edits","items":{"type":"object","additionalProperties":false,"required":["path"],"properties":{
"path":{"type":"array","minItems":1,"description":"names of sections, and numbers of members of lists","items":{"type":["string","integer"]}},
"value":{"description":"the new value; null removes it"},
"to":{"type":"integer","minimum":0,"description":"the new position of a list member"},
"file":{"type":"integer","minimum":0,"description":"the file of a new part: 0 is the main file, 1 the first of `included`"}}}}}}"#;

/// Its response.
pub const EDITED: &str = r#"{"type":"object","required":["text","included","document","site_files"],"properties":{"text":{"type":"string"},
"included":{"type":"array","description":"the texts of the included files that differ from the saved ones","items":{"type":"object","required":["path","text"],"properties":{"path":{"type":"string"},"text":{"type":"string"}}}},
"site_files":{"type":"array","items":{"type":"integer"}},"document":{"type":["object","null"],"additionalProperties":true}}}"#;

/// The request to put a text in force: the text, and the hash of its base.
pub const TEXT_AND_BASE: &str = r#"{"type":"object","additionalProperties":false,"required":["text","base"],"properties":{
"text":{"type":"string","description":"the whole text of a configuration"},
"base":{"type":"string","description":"the hash of the text that was changed, as GET /api/v1/config gives it"},
"included":{"type":"array","maxItems":1000,"description":"texts of included files that change with it","items":{"type":"object","additionalProperties":false,"required":["path","text","base"],"properties":{"path":{"type":"string","description":"as GET /api/v1/config lists it"},"text":{"type":"string"},"base":{"type":"string","description":"the hash of the text that was changed"}}}}}}"#;

/// The request of a rollback: an id of the history.
pub const BACK_TO: &str = r#"{"type":"object","additionalProperties":false,"required":["to"],"properties":{
"to":{"type":["string","integer"],"description":"an id of the history, as GET /api/v1/config lists them"},
"base":{"type":"string","description":"the hash of the text that is to be replaced"}}}"#;

/// The response if a text came into force: `pending` are its keys that wait for the next start.
pub const IN_FORCE: &str = r#"{"type":"object","required":["hash","pending"],"properties":{"hash":{"type":"string"},"pending":{"type":"array","items":{"type":"string"}}}}"#;

/// The request for the layers of a section.
pub const SECTION_OF: &str = r#"{"type":"object","additionalProperties":false,"required":["text","at"],"properties":{
"text":{"type":"string","description":"the whole text of a configuration"},
"included":{"type":"array","maxItems":1000,"description":"texts in place of those of included files","items":{"type":"object","additionalProperties":false,"required":["path","text"],"properties":{"path":{"type":"string","description":"as GET /api/v1/config lists it"},"text":{"type":"string"}}}},
"at":{"type":"array","minItems":2,"maxItems":4,"description":"a site, a route or a block: [\"site\", 0, \"route\", 1]","items":{"type":["string","integer"]}}}}"#;

/// Its response.
pub const LAYERS: &str = r#"{"type":"object","required":["keys"],"properties":{"keys":{"type":"object","description":"for each key that is set, its values; the first is in force","additionalProperties":{"type":"array","items":{"type":"object","required":["from","name","file","line","value","adds"],"properties":{
"from":{"type":"string","enum":["flag","own","block","site","site-block","every-route","preset"]},"name":{"type":["string","null"],"description":"name of the block, preset or flag"},"file":{"type":["string","null"]},"line":{"type":["integer","null"]},"value":{"description":"null for a secret; in a table, secrets are hidden"},"adds":{"type":"boolean","description":"nearer values add to it instead of replacing it"}}}}}}}"#;

/// A recorded request as an example.
macro_rules! example {
    () => {
        r#"{"type":"object","required":["time","method","url","status","from","to","key","where"],"properties":{
"time":{"type":"integer"},"method":{"type":"string"},"url":{"type":"string"},"status":{"type":"integer"},
"from":{"type":["string","null"]},"to":{"type":["string","null"]},
"key":{"type":["string","null"],"description":"the key of the tried configuration that decides"},"where":{"type":["string","null"],"description":"its file and line"}}}"#
    };
}

/// The result of a trial.
pub const TRIED: &str = concat!(
    r#"{"type":"object","required":["file","records","requests","left_out","from","to","complete","took_us","hit_ratio","changes","shared","danger","unknown","not_modelled","not_judged","doubt"],"properties":{
"file":{"type":["string","null"],"description":"the main file of the running configuration, by whose name the lines of the tried text are given"},
"records":{"type":"integer","description":"recorded requests"},"requests":{"type":"integer","description":"requests that they stand for"},
"left_out":{"type":"integer","description":"requests of that time that were not recorded"},
"from":{"type":["integer","null"]},"to":{"type":["integer","null"]},
"complete":{"type":"boolean","description":"false if the time limit ended the trial before the latest requests"},"took_us":{"type":"integer"},
"hit_ratio":{"type":"object","required":["measured","running","changed"],"description":"from 0 to 1; null without requests","properties":{
"measured":{"type":["number","null"]},"running":{"type":["number","null"],"description":"by the trial, under the running configuration"},"changed":{"type":["number","null"],"description":"by the trial, under the tried one"}}},
"changes":{"type":"array","items":{"type":"object","required":["kind","requests","urls","examples"],"properties":{
"kind":{"enum":["route","status","open","key","storage","lifetime"]},"requests":{"type":"integer"},"urls":{"type":"integer"},
"examples":{"type":"array","description":"the first request of each URL, at most 20","items":"#,
    example!(),
    r#"}}}},
"shared":{"type":"array","description":"responses that are newly shared and must not be","items":{"type":"object","required":["reason","sentence","requests","routes","examples"],"properties":{
"reason":{"enum":["set-cookie","private","opened","differed","changes"]},"sentence":{"type":"string"},"requests":{"type":"integer"},
"routes":{"type":"array","description":"their number for each route, the largest first","items":{"type":"object","required":["route","requests"],"properties":{"route":{"type":"string"},"requests":{"type":"integer"}}}},
"examples":{"type":"array","items":"#,
    example!(),
    r#"}}}},
"danger":{"type":"boolean","description":"whether shared has a response"},
"not_judged":{"type":"array","description":"changed keys whose effect recorded responses do not show, such as time limits of origins, `cache.hit_for_miss`, `cache.compress` and `limits`","items":{"type":"string"}},
"doubt":{"type":["string","null"],"description":"why stored responses are validated before use now, which the predicted hit ratio leaves out, and the remedy"},
"not_modelled":{"type":"array","description":"changed keys of the tiers: the trial takes each to have room for every response, so that their effect is not in the ratio","items":{"type":"string"}},
"unknown":{"type":"array","description":"requests about which a fact is missing","items":{"type":"object","required":["fact","sentence","requests"],"properties":{
"fact":{"enum":["other-origin","response","withheld","files","condition"]},"sentence":{"type":"string"},"requests":{"type":"integer"}}}}}}"#
);

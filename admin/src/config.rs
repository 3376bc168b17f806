//! The endpoints of the configuration: the text of the file with its keys, the effect of a change, edits of a form, and
//! putting a text in force. It is the file that operators edit; it is taken over by the same reload as after SIGHUP.

use super::{Admin, AdminRequest, AdminResponse, problem, problem_at};
use larder_config::diff::{self, DiffLine};
use larder_config::edit::{self, Edit, PathStep, Sections};
use larder_config::kind::ValueKind;
use larder_config::plan::Plan;
use larder_config::store::{ConfigFile, hash};
use larder_config::table::{self, Takes};
use larder_config::{Problem, Source, dotted};
use larder_server::config_watch;
use larder_stdx::clock;
use serde_json::{Value, json};
use tokio::sync::{Mutex, mpsc, oneshot};

/// An order to the main loop about the changed file.
pub struct ConfigOrder {
    /// The action.
    pub deed: ConfigDeed,
    /// Receives the outcome: one sentence for a rejection.
    pub outcome: oneshot::Sender<Result<(), String>>,
}

/// The action for a written text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigDeed {
    /// Take it over at once.
    TakeOver,
    /// Keep it for the next start.
    LeaveForStart,
}

/// The response of `GET /api/v1/config`.
pub const TOLD: &str = r#"{"type":"object","required":["path","editable","why","text","included","hash","running_hash","pending","document","flags","keys","history"],
"properties":{"path":{"type":["string","null"]},"editable":{"type":"boolean"},"why":{"type":["string","null"]},"text":{"type":"string"},
"included":{"type":"array","description":"files that the text includes, edited outside of the admin","items":{"type":"object","required":["file","path","document"],"properties":{"file":{"type":"string"},"path":{"type":"string"},"document":{"type":["object","null"],"additionalProperties":true}}}},
"hash":{"type":"string"},"running_hash":{"type":["string","null"]},"pending":{"type":"array","items":{"type":"string"}},"document":{"type":["object","null"],"additionalProperties":true},
"flags":{"type":"array","items":{"type":"object","required":["key","flag","value"],"properties":{"key":{"type":"string"},"flag":{"type":"string"},"value":{}}}},
"keys":{"type":"array","items":{"type":"object","required":["key","pattern","kind","allowed","default","help","example","restart"],"properties":{"key":{"type":"string"},"pattern":{"type":"string"},"kind":{"type":"string"},"allowed":{"type":"string"},"default":{"type":["string","null"]},"help":{"type":"string"},"example":{"type":"string"},"restart":{"type":"boolean"},"words":{"type":"array","items":{"type":"string"}},"least":{"type":"integer"},"most":{"type":"integer"}}}},
"history":{"type":"array","items":{"type":"object","required":["id","time","by"],"properties":{"id":{"type":"string"},"time":{"type":"integer"},"by":{"type":"string"}}}}}}"#;

/// The request of a check.
pub const TEXT: &str = r#"{"type":"object","additionalProperties":false,"properties":{
"text":{"type":"string","description":"the whole text of a configuration"},
"to":{"type":["string","integer"],"description":"in its place: an id of the history, as GET /api/v1/config lists them"}}}"#;

/// Its response.
pub const CHECKED: &str = r#"{"type":"object","required":["ok","problems","warnings","restart","diff","document"],"properties":{"ok":{"type":"boolean"},
"problems":{"type":"array","items":{"type":"object","required":["line","column","key","within","message"],"properties":{"within":{"type":"array","items":{"type":["string","integer"]}},"line":{"type":["integer","null"]},"column":{"type":["integer","null"]},"key":{"type":["string","null"]},"message":{"type":"string"}}}},
"warnings":{"type":"array","items":{"type":"object","required":["line","column","key","within","message"],"properties":{"within":{"type":"array","items":{"type":["string","integer"]}},"line":{"type":["integer","null"]},"column":{"type":["integer","null"]},"key":{"type":["string","null"]},"message":{"type":"string"}}}},"restart":{"type":"array","items":{"type":"string"}},
"diff":{"type":"array","items":{"type":"object","required":["op","text"],"properties":{"op":{"enum":[" ","+","-"]},"text":{"type":"string"}}}},
"document":{"type":["object","null"],"additionalProperties":true}}}"#;

/// The request of an edit: a value of `null` removes, `to` moves.
pub const EDITS_OF: &str = r#"{"type":"object","additionalProperties":false,"required":["text","set"],"properties":{
"text":{"type":"string","description":"the whole text of a configuration"},
"set":{"type":"array","maxItems":1000,"description":"a list of edits","items":{"type":"object","additionalProperties":false,"required":["path"],"properties":{
"path":{"type":"array","minItems":1,"description":"names of sections, and numbers of members of lists","items":{"type":["string","integer"]}},
"value":{"description":"the new value; null removes it"},
"to":{"type":"integer","minimum":0,"description":"the new position of a list member"}}}}}}"#;

/// Its response.
pub const EDITED: &str = r#"{"type":"object","required":["text","document"],"properties":{"text":{"type":"string"},"document":{"type":["object","null"],"additionalProperties":true}}}"#;

/// The request to put a text in force: the text, and the hash of its base.
pub const TEXT_AND_BASE: &str = r#"{"type":"object","additionalProperties":false,"required":["text","base"],"properties":{
"text":{"type":"string","description":"the whole text of a configuration"},
"base":{"type":"string","description":"the hash of the text that was changed, as GET /api/v1/config gives it"},
"when":{"type":"string","enum":["now","restart"],"description":"handling of a text that changes keys that require a restart: now (default) takes over all others, restart leaves the whole text for the next start"}}}"#;

/// The request of a rollback: an id of the history.
pub const BACK_TO: &str = r#"{"type":"object","additionalProperties":false,"required":["to"],"properties":{
"to":{"type":["string","integer"],"description":"an id of the history, as GET /api/v1/config lists them"},
"base":{"type":"string","description":"the hash of the text that is to be replaced"},
"when":{"type":"string","enum":["now","restart"],"description":"handling of a text that changes keys that require a restart: now (default) takes over all others, restart leaves the whole text for the next start"}}}"#;

/// The response if a text came into force, or waits for the next start: `pending` are the keys that it waits for.
pub const IN_FORCE: &str = r#"{"type":"object","required":["hash","reloaded","pending"],"properties":{"hash":{"type":"string"},"reloaded":{"type":"boolean"},"pending":{"type":"array","items":{"type":"string"}}}}"#;

/// The state of the process for these endpoints.
pub struct Configuring {
    /// The command line of larder.
    plan: Plan,
    /// To the main loop, which reloads.
    orders: mpsc::Sender<ConfigOrder>,
    /// Held while a text is put in force: one after the other.
    turn: Mutex<()>,
}

/// The reason why a text is not in force. The file has its old one, unless the sentence states otherwise.
#[derive(Debug, PartialEq, Eq)]
enum NotSwapped {
    /// The file cannot be written.
    Write(String),
    /// It was written, and the reload rejected it.
    Reload(String),
}

impl Configuring {
    /// For a larder started by `plan`; orders to `orders` are to be executed.
    #[must_use]
    pub fn new(plan: Plan, orders: mpsc::Sender<ConfigOrder>) -> Self {
        Self { plan, orders, turn: Mutex::new(()) }
    }

    /// The file, or the reason why there is none to edit.
    fn store(&self) -> Result<ConfigFile, String> {
        let file = self.plan.file().ok_or(
            "larder was started without a configuration file; create one and start larder with `larder run -c FILE`.",
        )?;
        Ok(ConfigFile::at(&file))
    }

    /// The file, if it can be edited.
    fn editable(&self) -> Result<ConfigFile, String> {
        let store = self.store()?;
        store.why_not().map_or(Ok(store), Err)
    }

    /// Replaces `old` by `text` and orders `deed`; after a rejection, `old` is restored.
    async fn swap(
        &self,
        store: &ConfigFile,
        old: &str,
        text: &str,
        by: &str,
        deed: ConfigDeed,
    ) -> Result<(), NotSwapped> {
        let kept = store.keep(old, by, clock::wall().0).map_err(NotSwapped::Write)?;
        if let Err(why) = store.replace(text) {
            store.forget(kept);
            return Err(NotSwapped::Write(why));
        }
        let Err(why) = self.order(deed).await else { return Ok(()) };
        let now = match store.replace(old) {
            Ok(()) => "The file is unchanged.".to_owned(),
            Err(why) => format!("The file could not be restored: {why}"),
        };
        store.forget(kept);
        Err(NotSwapped::Reload(format!("{why} {now}")))
    }

    /// Sends an order to the main loop.
    async fn order(&self, deed: ConfigDeed) -> Result<(), String> {
        let (sender, outcome) = oneshot::channel();
        let stopping = "larder is stopping.";
        self.orders.send(ConfigOrder { deed, outcome: sender }).await.map_err(|_| stopping)?;
        outcome.await.map_err(|_| stopping)?
    }
}

impl Admin {
    /// `GET /api/v1/config`.
    pub(super) fn config(&self) -> AdminResponse {
        let plan = &self.configuring.plan;
        let store = self.configuring.store();
        let text = store.as_ref().map(ConfigFile::read).unwrap_or(Ok(String::new()));
        let why = match (&self.configuring.editable(), &text) {
            (Err(why), _) | (_, Err(why)) => Some(why.clone()),
            _ => None,
        };
        let text = text.unwrap_or_default();
        let past =
            |it: larder_config::store::Past| json!({ "id": it.id.to_string(), "time": it.time, "by": it.by });
        let history: Vec<Value> = store.iter().flat_map(|it| it.history()).map(past).collect();
        let running = self.live.borrow().config.text.as_ref().map(|it| hash(it));
        let now = hash(&text);
        let pending = self.checked(&text).restart;
        let flags: Vec<Value> = plan
            .settings()
            .iter()
            .map(|it| json!({ "key": it.path, "flag": it.flag, "value": it.text }))
            .collect();
        AdminResponse::Json(
            200,
            json!({
                "path": plan.file().map(|it| std::path::absolute(&it).unwrap_or(it)),
                "editable": why.is_none(), "why": why,
                "text": text, "included": included(plan), "hash": now, "running_hash": running, "pending": pending,
                "document": edit::as_json(&text).ok(),
                "flags": flags,
                "keys": keys(),
                "history": history,
            }),
        )
    }

    /// `POST /api/v1/config/check`.
    pub(super) fn check_config(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let past;
        let text = match (asked.json["text"].as_str(), &asked.json["to"]) {
            (Some(text), Value::Null) => text,
            (None, to) if !to.is_null() => match self.past(to) {
                Ok(text) => {
                    past = text;
                    &past
                }
                Err(refusal) => return refusal,
            },
            _ => {
                let detail = "Send either \"text\", or \"to\" with an id of the history.";
                return problem_at(400, detail, "text");
            }
        };
        let now = self.configuring.store().and_then(|it| it.read()).unwrap_or_default();
        let checked = self.checked(text);
        let lines: Vec<Value> = diff::lines(&now, text).into_iter().map(line_json).collect();
        AdminResponse::Json(
            200,
            json!({
                "ok": checked.problems.is_empty(), "problems": checked.problems, "warnings": checked.warnings,
                "restart": checked.restart, "diff": lines, "document": edit::as_json(text).ok(),
            }),
        )
    }

    /// `POST /api/v1/config/edit`.
    pub(super) fn edit_config(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let text = asked.json["text"].as_str().unwrap_or_default();
        let edits = asked.json["set"].as_array().into_iter().flatten();
        let edits: Result<Vec<Edit>, String> = edits.map(Edit::read).collect();
        match edits.and_then(|it| edit::apply(text, &it)) {
            Ok(text) => {
                AdminResponse::Json(200, json!({ "text": text, "document": edit::as_json(&text).ok() }))
            }
            Err(detail) => problem_at(400, detail, "set"),
        }
    }

    /// `PUT /api/v1/config`.
    pub(super) async fn put_config(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let by = asked.by();
        let text = asked.json["text"].as_str().unwrap_or_default();
        match needing_start(asked.json) {
            Ok(then) => self.put_in_force(text, asked.json["base"].as_str(), &by, then).await,
            Err(refusal) => refusal,
        }
    }

    /// `POST /api/v1/config/rollback`.
    pub(super) async fn roll_back(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let by = asked.by();
        let then = match needing_start(asked.json) {
            Ok(then) => then,
            Err(refusal) => return refusal,
        };
        match self.past(&asked.json["to"]) {
            Ok(text) => self.put_in_force(&text, asked.json["base"].as_str(), &by, then).await,
            Err(refusal) => refusal,
        }
    }

    /// The text of the history with the id `to`.
    ///
    /// # Errors
    /// There is none.
    fn past(&self, to: &Value) -> Result<String, AdminResponse> {
        let id = match to {
            Value::String(it) => it.parse().ok(),
            it => it.as_u64(),
        };
        let id = id.ok_or_else(|| {
            problem_at(400, "\"to\" is not an id of the history; GET /api/v1/config lists the ids.", "to")
        })?;
        let store = self.configuring.store().map_err(|why| problem_at(409, why, "path"))?;
        store.past(id).ok_or_else(|| {
            let detail = format!("The history has no configuration {id}; GET /api/v1/config lists the ids.");
            problem_at(404, detail, "to")
        })
    }

    /// Replaces the file's text, if it is still `base`, and has it taken over, or kept for the next start if it needs one
    /// and `then` permits that. After a rejection, the old text is restored.
    async fn put_in_force(
        &self,
        text: &str,
        base: Option<&str>,
        by: &str,
        then: NeedingStart,
    ) -> AdminResponse {
        let _turn = self.configuring.turn.lock().await;
        let read = self.configuring.editable().and_then(|it| it.read().map(|text| (it, text)));
        let (store, old) = match read {
            Ok(it) => it,
            Err(why) => return problem_at(409, why, "path"),
        };
        if base.is_some_and(|it| it != hash(&old)) {
            let detail =
                "The file was changed in the meantime; read it again and apply the change to the new text.";
            return AdminResponse::Json(
                409,
                json!({ "status": 409, "detail": detail, "where": "base", "hash": hash(&old) }),
            );
        }
        let checked = self.checked(text);
        let deed = match (checked.problems.is_empty(), checked.restart.is_empty(), then) {
            (true, false, NeedingStart::Waits) => ConfigDeed::LeaveForStart,
            (true, ..) => ConfigDeed::TakeOver,
            (false, ..) => return checked.refusal(),
        };
        match self.configuring.swap(&store, &old, text, by, deed).await {
            Ok(()) => {
                let reloaded = deed == ConfigDeed::TakeOver;
                AdminResponse::Json(
                    200,
                    json!({ "hash": hash(text), "reloaded": reloaded, "pending": checked.restart }),
                )
            }
            Err(NotSwapped::Write(why)) => problem(500, why),
            Err(NotSwapped::Reload(why)) => {
                let row = json!({ "line": null, "column": null, "key": null, "within": [], "message": why });
                AdminResponse::Json(
                    422,
                    json!({ "status": 422, "detail": why, "where": "text", "problems": [row] }),
                )
            }
        }
    }

    /// Reads a text like the reload.
    fn checked(&self, text: &str) -> CheckedConfig {
        let live = self.live.borrow().clone();
        let sections = Sections::of(text);
        let main = self.configuring.plan.file().map(|it| it.display().to_string());
        let told = |it: &Problem| problem_json(it, &sections, main.as_deref());
        match self.configuring.plan.read(text) {
            Ok(new) => {
                let restart = config_watch::at_start(&live.config, &new);
                CheckedConfig {
                    problems: Vec::new(),
                    warnings: new.warnings.iter().map(told).collect(),
                    restart,
                }
            }
            Err(rejected) => CheckedConfig {
                problems: rejected.0.iter().map(told).collect(),
                warnings: Vec::new(),
                restart: Vec::new(),
            },
        }
    }
}

/// The treatment of a text that changes a key which requires a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NeedingStart {
    /// The other keys are taken over.
    Partly,
    /// It is written, and waits as a whole.
    Waits,
}

/// The value of `when`.
fn needing_start(asked: &Value) -> Result<NeedingStart, AdminResponse> {
    match asked.get("when").map(Value::as_str) {
        None | Some(Some("now")) => Ok(NeedingStart::Partly),
        Some(Some("restart")) => Ok(NeedingStart::Waits),
        Some(_) => Err(problem_at(
            400,
            "\"when\" must be \"now\" or \"restart\"; \"restart\" leaves a text that changes keys which require a \
             restart for the next start.",
            "when",
        )),
    }
}

/// The result of checking a text.
struct CheckedConfig {
    problems: Vec<Value>,
    warnings: Vec<Value>,
    /// Changed keys that require a restart.
    restart: Vec<&'static str>,
}

impl CheckedConfig {
    /// The response if it cannot be put in force.
    fn refusal(self) -> AdminResponse {
        let problems = self.problems;
        let first = problems.first().map(|it| {
            let place = it["line"].as_u64().map_or(String::new(), |line| format!("line {line}: "));
            let key = it["key"].as_str().map_or(String::new(), |key| format!("{key}: "));
            format!("{place}{key}{}", it["message"].as_str().unwrap_or_default())
        });
        let place = problems.first().and_then(|it| Some((it["line"].as_u64()?, it["column"].as_u64()?)));
        let place =
            place.map_or_else(|| "text".to_owned(), |(line, column)| format!("line {line}, column {column}"));
        let detail = match (first, problems.len()) {
            (Some(first), 1) => first,
            (Some(first), count) => format!("{first} (and {} more)", count - 1),
            (None, _) => "The text is not a valid configuration.".to_owned(),
        };
        AdminResponse::Json(
            422,
            json!({ "status": 422, "detail": detail, "where": place, "problems": problems }),
        )
    }
}

/// Place, key, and text: as on the command line.
/// `main` is the file of the text; a place in an included file is part of the message.
fn problem_json(it: &Problem, sections: &Sections, main: Option<&str>) -> Value {
    let is_main = |file: &str| main.is_none_or(|it| it == file);
    let (line, column) = match &it.source {
        Source::Line { file, line, column } if is_main(file) => (Some(*line), Some(*column)),
        _ => (None, None),
    };
    let message = match &it.source {
        Source::Flag(flag) => format!("{flag}: {}", it.text),
        source @ Source::Line { file, .. } if !is_main(file) => format!("{source}: {}", it.text),
        _ => it.text.clone(),
    };
    let key = Some(&it.key).filter(|it| !it.is_empty());
    let steps: Vec<Value> = line.map_or(&[][..], |it| sections.with(it)).iter().map(step_json).collect();
    json!({ "line": line, "column": column, "key": key, "within": steps, "message": message })
}

fn step_json(it: &PathStep) -> Value {
    match it {
        PathStep::Name(name) => name.as_str().into(),
        PathStep::At(number) => (*number).into(),
    }
}

fn line_json(it: DiffLine<'_>) -> Value {
    let (op, text) = match it {
        DiffLine::Same(it) => (" ", it),
        DiffLine::Gone(it) => ("-", it),
        DiffLine::New(it) => ("+", it),
    };
    json!({ "op": op, "text": text })
}

/// The included files of the configuration, as they are on disk.
fn included(plan: &Plan) -> Vec<Value> {
    let row = |it: &larder_config::include::IncludedFile| json!({ "file": it.name, "path": it.path, "document": edit::as_json(&it.text).ok() });
    plan.included().iter().map(row).collect()
}

/// Every key, for forms: from the table.
fn keys() -> Vec<Value> {
    let row = |pattern: String| {
        let key = table::find(&pattern)?;
        let mut told = kind_json(key.kind);
        told["key"] = dotted(&pattern).into();
        told["pattern"] = pattern.into();
        told["default"] = key.default.into();
        told["help"] = key.help.into();
        told["example"] = key.example.into();
        told["restart"] = (key.takes == Takes::AtStart).into();
        Some(told)
    };
    table::patterns().filter_map(row).collect()
}

/// The permitted values of a key: its kind as a word, the sentence of messages, and bounds or words if any.
fn kind_json(kind: ValueKind) -> Value {
    let name = match kind {
        ValueKind::Bool => "bool",
        ValueKind::Integer { .. } => "integer",
        ValueKind::Size { .. } => "size",
        ValueKind::SizeOrOff { .. } => "size-or-off",
        ValueKind::Time { .. } => "time",
        ValueKind::TimeOrOff { .. } => "time-or-off",
        ValueKind::Seconds { .. } => "seconds",
        ValueKind::SecondsOrOff { .. } => "seconds-or-off",
        ValueKind::OneOf(_) => "one-of",
        ValueKind::One(_) => "text",
        ValueKind::List(_) => "list",
        ValueKind::StatusTtls { .. } => "status-ttls",
        ValueKind::Pairs { .. } => "pairs",
    };
    let mut told = json!({ "key": "", "kind": name, "allowed": kind.allowed() });
    match kind {
        ValueKind::Integer { least, most } => (told["least"], told["most"]) = (least.into(), most.into()),
        ValueKind::OneOf(words) => told["words"] = words.into(),
        _ => {}
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_config::plan::PlanBase;

    /// What becomes of a file when the reload answers `outcome`; and what the reload found in it.
    fn swapped(
        deed: ConfigDeed,
        outcome: Result<(), String>,
    ) -> (Result<(), NotSwapped>, String, String, usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("larder.toml");
        std::fs::write(&path, "old").unwrap();
        let plan = Plan::new(PlanBase::File(path.clone()), Vec::new());
        let (orders, mut inbox) = mpsc::channel(1);
        let configuring = Configuring::new(plan, orders);
        let store = configuring.editable().unwrap();
        let reload = async {
            let order: ConfigOrder = inbox.recv().await.unwrap();
            assert_eq!(deed, order.deed);
            let met = store.read().unwrap();
            order.outcome.send(outcome).unwrap();
            met
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let both = async { tokio::join!(configuring.swap(&store, "old", "new", "me", deed), reload) };
        let (swapped, met) = runtime.block_on(both);
        (swapped, met, store.read().unwrap(), store.history().len())
    }

    #[test]
    fn what_the_reload_refuses_is_taken_back() {
        let taken = (Ok(()), "new".to_owned(), "new".to_owned(), 1);
        for deed in [ConfigDeed::TakeOver, ConfigDeed::LeaveForStart] {
            assert_eq!(taken, swapped(deed, Ok(())));
            let why = NotSwapped::Reload("No. The file is unchanged.".to_owned());
            assert_eq!(
                (Err(why), "new".to_owned(), "old".to_owned(), 0),
                swapped(deed, Err("No.".to_owned()))
            );
        }
    }
}

//! The endpoints of the configuration: the text of the file with its keys, the effect of a change, edits of a form, and
//! putting a text in force. It is the file that operators edit; it is taken over by the same reload as after SIGHUP.

mod advised;
mod check;
mod config_file;
mod evidence;
mod hidden;
mod keys;
mod maintenance;
mod parsed_record;
mod schema;
mod texts;
mod trial;

pub(crate) use advised::{AdvisedTexts, advised, change};
pub use maintenance::{MaintenanceState, OF_HOST, SITES};
pub use schema::{
    BACK_TO, CHECKED, EDITED, EDITS_OF, IN_FORCE, LAYERS, SECTION_OF, TEXT, TEXT_AND_BASE, TOLD, TRIED,
};

use super::{Admin, AdminRequest, AdminResponse, problem, problem_at};
use check::CheckedConfig;
use config_file::{ConfigFile, KeptChange, hash};
pub(crate) use evidence::{RecentFaults, RouteEvidence};
use larder_config::Values;
use larder_config::admin_role::AdminRole;
use larder_config::diff::DiffLine;
use larder_config::edit::{Edit, PathStep};
use larder_config::hide::{SecretCover, without_comments};
use larder_config::include::IncludedTexts;
use larder_config::plan::Plan;
use larder_stdx::clock;
pub(crate) use parsed_record::RoutePlace;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::sync::Arc;
use texts::{AskedTexts, TextFiles};
use tokio::sync::{Mutex, mpsc, oneshot};

/// An order to the main loop to take over the changed file.
pub struct ConfigOrder {
    /// Receives the outcome: one sentence for a rejection.
    pub outcome: oneshot::Sender<Result<(), String>>,
}

/// The state of the process for these endpoints.
pub struct Configuring {
    /// The command line of larder.
    plan: Arc<Plan>,
    /// To the main loop, which reloads.
    orders: mpsc::Sender<ConfigOrder>,
    /// Held while a text is put in force: one after the other.
    turn: Mutex<()>,
    /// Held by the thread that checks or tries texts: one at a time.
    readings: Arc<Mutex<()>>,
    /// Hides the secrets of texts.
    cover: Arc<SecretCover>,
}

/// A file, and its text before and after a change.
struct FileChange {
    file: ConfigFile,
    /// Its path, as requests name it.
    path: PathBuf,
    old: String,
    new: String,
}

impl FileChange {
    /// Writes a text, unless it is there.
    fn write(&self, text: &str) -> Result<(), String> {
        if self.old == self.new { Ok(()) } else { self.file.replace(text) }
    }
}

/// The texts before the changes.
fn old_texts(changes: &[FileChange]) -> AskedTexts {
    let text = changes.first().map(|it| it.old.clone()).unwrap_or_default();
    let others = changes.iter().skip(1).map(|it| (it.path.clone(), it.old.as_str().into()));
    AskedTexts { text, others: others.collect() }
}

/// Gives files their old texts back.
fn restore(changes: &[FileChange]) -> Result<(), String> {
    let failed: Vec<String> = changes.iter().filter_map(|it| it.write(&it.old).err()).collect();
    match failed.is_empty() {
        true => Ok(()),
        false => Err(format!("The file could not be restored: {}", failed.join(" "))),
    }
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
        Self {
            plan: plan.into(),
            orders,
            turn: Mutex::default(),
            readings: Arc::default(),
            cover: Arc::default(),
        }
    }

    /// The values of the configuration as its file is now; none without a file.
    pub(crate) fn values(&self) -> Values {
        let text = self.store().and_then(|it| it.read()).unwrap_or_default();
        self.plan.values(&text, &IncludedTexts::new())
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

    /// Replaces the texts of files and has them taken over; after a rejection, the old ones are restored. The first change is that
    /// of the main file, which has the history.
    async fn swap(&self, changes: &[FileChange], kept: &KeptChange<'_>) -> Result<(), NotSwapped> {
        let Some((main, others)) = changes.split_first() else { return Ok(()) };
        let earlier: Vec<(PathBuf, String)> =
            others.iter().map(|it| (it.path.clone(), it.old.clone())).collect();
        let kept = main.file.keep(&main.old, &earlier, kept).map_err(NotSwapped::Write)?;
        for (number, it) in changes.iter().enumerate() {
            if let Err(why) = it.write(&it.new) {
                let restored = restore(&changes[..number]);
                main.file.forget(kept);
                return Err(NotSwapped::Write(
                    restored.err().map_or(why.clone(), |it| format!("{why} {it}")),
                ));
            }
        }
        let Err(why) = self.reload().await else { return Ok(()) };
        let now = match (restore(changes), others.len()) {
            (Ok(()), 0) => "The file is unchanged.".to_owned(),
            (Ok(()), _) => "The files are unchanged.".to_owned(),
            (Err(why), _) => why,
        };
        main.file.forget(kept);
        Err(NotSwapped::Reload(format!("{why} {now}")))
    }

    /// Has the main loop take over the file.
    async fn reload(&self) -> Result<(), String> {
        let (sender, outcome) = oneshot::channel();
        let stopping = "larder is stopping.";
        self.orders.send(ConfigOrder { outcome: sender }).await.map_err(|_| stopping)?;
        outcome.await.map_err(|_| stopping)?
    }
}

impl Admin {
    /// `GET /api/v1/config`.
    pub(super) async fn config(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let plan = &self.configuring.plan;
        let store = self.configuring.store();
        let text = store.as_ref().map(ConfigFile::read).unwrap_or(Ok(String::new()));
        let why = match (&self.configuring.editable(), &text) {
            (Err(why), _) | (_, Err(why)) => Some(why.clone()),
            _ => None,
        };
        let is_admin = asked.requester.may(AdminRole::Admin);
        let cover = match is_admin {
            true => self.configuring.cover.clone(),
            false => Arc::new(self.configuring.cover.for_viewers()),
        };
        let saved = text.unwrap_or_default();
        let text = cover.hide(&saved).text;
        let past = |it: config_file::Past| {
            // The addresses of clients are of the audit log.
            let by = if is_admin { &*it.by } else { it.by.split(" from ").next().unwrap_or_default() };
            json!({ "id": it.id.to_string(), "time": it.time, "by": by, "change": it.change })
        };
        let history: Vec<Value> = store.iter().flat_map(|it| it.history()).map(past).collect();
        let asked = AskedTexts { text: text.clone(), others: Default::default() };
        let real = AskedTexts { text: saved, others: Default::default() };
        let none_waits = self.server_state.waiting().is_empty();
        let covering = cover.clone();
        let read = self.apart(move |it| {
            let files = asked.files(&it.plan, &covering);
            // The reload has judged the texts in force.
            let is_judged = none_waits && files.are_in_force(&it.live.config, &real.text);
            let checked = if is_judged { CheckedConfig::default() } else { it.checked(&files, &real) };
            let shown = files.keys();
            (files, checked, shown)
        });
        let (files, checked, shown) = match read.await {
            Ok(it) => it,
            Err(refusal) => return refusal,
        };
        let running = self.running_hash(&files, &cover);
        let now = hash(&text);
        let main = plan.file().map(|it| it.display().to_string());
        let flags: Vec<Value> = plan.settings().iter().map(|it| hidden::flag_json(&cover, it)).collect();
        let mut included = texts::included(&files.included, main.as_deref());
        let (mut text, mut now, mut running) = (text, now, running);
        if !is_admin {
            // A hash of comments would be a means to guess them.
            let is_running = running.as_ref() == Some(&now);
            text = without_comments(&text);
            now = hash(&text);
            running = if is_running { Some(now.clone()) } else { Some(String::new()) };
            included.iter_mut().for_each(texts::hide_comments);
        }
        AdminResponse::Json(
            200,
            json!({
                "path": plan.file().map(|it| std::path::absolute(&it).unwrap_or(it)),
                "editable": why.is_none(), "why": why,
                "text": text, "included": included, "site_files": shown.site_files, "hash": now, "running_hash": running,
                "pending": checked.restart, "pending_values": checked.restart_values,
                "next_start": self.server_state.next_start(),
                "document": shown.document,
                "flags": flags,
                "keys": keys::keys(),
                "history": history,
            }),
        )
    }

    /// The texts that a request is about, without and with their secrets: its own, or those of the history.
    ///
    /// # Errors
    /// It names neither or both, or there are none.
    fn asked_texts(&self, asked: &AdminRequest<'_>) -> Result<(AskedTexts, AskedTexts), AdminResponse> {
        match (asked.json["text"].as_str(), &asked.json["to"]) {
            (Some(_), Value::Null) => {
                let asked = AskedTexts::of(asked.json);
                let real = self.configuring.revealed(&asked);
                Ok((asked, real))
            }
            (None, to) if !to.is_null() => {
                self.past(to).map(|past| (past.hidden(&self.configuring.cover), past))
            }
            _ => {
                let detail = "Send either \"text\", or \"to\" with an id of the history.";
                Err(problem_at(400, detail, "text"))
            }
        }
    }

    /// `POST /api/v1/config/edit`.
    pub(super) async fn edit_config(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let edits = asked.json["set"].as_array().into_iter().flatten();
        let edits: Result<Vec<Edit>, String> = edits.map(Edit::read).collect();
        // Placeholders are texts like others here: the result goes back to the client.
        let asked = AskedTexts::of(asked.json);
        let edited = self.apart(move |it| {
            let mut files = asked.files(&it.plan, &it.cover);
            edits.and_then(|it| files.texts.apply(&it))?;
            if let Some(refusal) = files.refusal() {
                return Err(refusal);
            }
            let included: Vec<Value> =
                files.changed(&it.cover).map(|it| json!({ "path": it.0.path, "text": it.1 })).collect();
            let keys = files.keys();
            Ok(json!({
                "text": files.texts.texts[0], "included": included, "document": keys.document,
                "site_files": keys.site_files,
            }))
        });
        match edited.await {
            Ok(Ok(result)) => AdminResponse::Json(200, result),
            Ok(Err(detail)) => problem_at(400, detail, "set"),
            Err(refusal) => refusal,
        }
    }

    /// `POST /api/v1/config/layers`.
    pub(super) async fn config_layers(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let (texts, at) = (AskedTexts::of(asked.json), asked.json["at"].clone());
        let read = self.apart(move |it| texts::layers(&it.plan, &it.cover, texts, &at));
        match read.await {
            Ok(Ok(result)) => AdminResponse::Json(200, result),
            Ok(Err(refusal)) | Err(refusal) => refusal,
        }
    }

    /// `PUT /api/v1/config`.
    pub(super) async fn put_config(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let by = asked.by();
        let base_of =
            |it: &Value| Some((PathBuf::from(it["path"].as_str()?), it["base"].as_str()?.to_owned()));
        let mut bases: Vec<_> =
            asked.json["included"].as_array().into_iter().flatten().filter_map(base_of).collect();
        bases.extend(asked.json["base"].as_str().map(|it| (PathBuf::new(), it.to_owned())));
        let real = self.configuring.revealed(&AskedTexts::of(asked.json));
        self.put_in_force(real, &bases, &by).await
    }

    /// `POST /api/v1/config/rollback`.
    pub(super) async fn roll_back(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let by = asked.by();
        match self.past(&asked.json["to"]) {
            Ok(past) => {
                let base = asked.json["base"].as_str().map(|it| (PathBuf::new(), it.to_owned()));
                self.put_in_force(past, base.as_slice(), &by).await
            }
            Err(refusal) => refusal,
        }
    }

    /// The texts of the history with the id `to`.
    ///
    /// # Errors
    /// There are none.
    fn past(&self, to: &Value) -> Result<AskedTexts, AdminResponse> {
        let id = match to {
            Value::String(it) => it.parse().ok(),
            it => it.as_u64(),
        };
        let id = id.ok_or_else(|| {
            problem_at(400, "\"to\" is not an id of the history; GET /api/v1/config lists the ids.", "to")
        })?;
        let store = self.configuring.store().map_err(|why| problem_at(409, why, "path"))?;
        let text = store.past(id).ok_or_else(|| {
            let detail = format!("The history has no configuration {id}; GET /api/v1/config lists the ids.");
            problem_at(404, detail, "to")
        })?;
        let others = store.past_included(id).into_iter().map(|it| (it.0, it.1.into())).collect();
        Ok(AskedTexts { text, others })
    }

    /// Replaces the texts of the files, if they are still those of `bases`, and has them taken over; keys that require a restart wait
    /// for one. After a rejection, the old texts are restored. The base of the main file has no path.
    async fn put_in_force(&self, real: AskedTexts, bases: &[(PathBuf, String)], by: &str) -> AdminResponse {
        let _turn = self.configuring.turn.lock().await;
        let before = match self.changes(&real) {
            Ok(it) => it,
            Err(refusal) => return refusal,
        };
        // A hash of a text with its secrets would be a means to guess them.
        let cover = &self.configuring.cover;
        let hash = |it: &str| hash(&cover.hide(it).text);
        let base = |it: &FileChange| bases.iter().find(|base| base.0 == it.path).map(|it| it.1.as_str());
        if let Some(it) = before.iter().find(|it| base(it).is_some_and(|base| base != hash(&it.old))) {
            return changed_meanwhile(it, &hash(&it.old));
        }
        let old = old_texts(&before);
        let read = self.apart(move |it| (it.checked_hidden(&real), it.summary(&old, &real), real));
        let (checked, summary, real) = match read.await {
            Ok(it) => it,
            Err(refusal) => return refusal,
        };
        if !checked.problems.is_empty() {
            return checked.refusal();
        }
        let is_bound = self.live.borrow().config.service_user.is_some();
        if let Some(key) = checked.restart.iter().find(|it| is_bound && PRIVILEGES.contains(it)) {
            let detail =
                format!("{key} decides what the next start as root may do: change it in the file, as root.");
            return problem_at(403, detail, "text");
        }
        let kept = KeptChange { by, time: clock::wall().0, summary: &summary };
        // An editor may have saved a file during the check.
        let changes = match self.changes(&real) {
            Ok(it) => it,
            Err(refusal) => return refusal,
        };
        if let Some((now, _)) = changes.iter().zip(&before).find(|(now, before)| now.old != before.old) {
            return changed_meanwhile(now, &hash(&now.old));
        }
        match self.configuring.swap(&changes, &kept).await {
            Ok(()) => {
                AdminResponse::Json(200, json!({ "hash": hash(&real.text), "pending": checked.restart }))
            }
            Err(NotSwapped::Write(why)) => problem(500, why),
            Err(NotSwapped::Reload(why)) => {
                let row = json!({
                    "file": null, "line": null, "column": null, "key": null, "within": [], "message": why,
                });
                AdminResponse::Json(
                    422,
                    json!({ "status": 422, "detail": why, "where": "text", "problems": [row] }),
                )
            }
        }
    }

    /// The changes of files that a request asks for; the first is that of the main file.
    ///
    /// # Errors
    /// A file cannot be edited, or is not of the configuration.
    fn changes(&self, asked: &AskedTexts) -> Result<Vec<FileChange>, AdminResponse> {
        let store = self.configuring.editable().map_err(|why| problem_at(409, why, "path"))?;
        let old = store.read().map_err(|why| problem_at(409, why, "path"))?;
        let mut changes =
            vec![FileChange { file: store, path: PathBuf::new(), old, new: asked.text.clone() }];
        let saved = self.configuring.plan.included();
        for (path, text) in &asked.others {
            let shown = path.display();
            if !saved.iter().any(|it| it.path == *path) {
                let detail = format!(
                    "{shown} is not a file that the saved configuration includes; save its include first."
                );
                return Err(problem_at(409, detail, "included"));
            }
            let file = ConfigFile::at(path);
            if let Some(why) = file.why_not() {
                return Err(problem_at(409, why, "included"));
            }
            let old = file.read().map_err(|why| problem_at(409, why, "included"))?;
            changes.push(FileChange { file, path: path.clone(), old, new: text.to_string() });
        }
        Ok(changes)
    }

    /// The hash of the main text in force; none if an included file differs from it.
    fn running_hash(&self, files: &TextFiles, cover: &SecretCover) -> Option<String> {
        let live = self.live.borrow();
        let running = cover.hide(live.config.text.as_ref()?).text;
        let same = |it: &larder_config::include::IncludedFile| {
            let text = cover.hide(&it.text).text;
            files.included.iter().any(|one| one.path == it.path && *one.text == *text)
        };
        let is_same =
            live.config.included.len() == files.included.len() && live.config.included.iter().all(same);
        Some(if is_same { hash(&running) } else { hash(&format!("{running}, of other included files")) })
    }
}

/// The refusal of a change whose base is not the text of its file any more.
fn changed_meanwhile(it: &FileChange, hash: &str) -> AdminResponse {
    let file = match it.path.as_os_str().is_empty() {
        true => "The file".to_owned(),
        false => it.path.display().to_string(),
    };
    let detail =
        format!("{file} was changed in the meantime; read it again and apply the change to the new text.");
    AdminResponse::Json(409, json!({ "status": 409, "detail": detail, "where": "base", "hash": hash }))
}

/// Keys that would give an operator of the admin more rights than larder has, where root starts it with `user`.
const PRIVILEGES: [&str; 4] = ["user", "group", "sandbox", "sandbox_paths"];

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

#[cfg(test)]
mod tests {
    use super::*;
    use larder_config::plan::PlanBase;
    use std::path::Path;

    /// The content of a file after the reload answered `outcome`, and the content that the reload found.
    fn swapped(outcome: Result<(), String>) -> (Result<(), NotSwapped>, String, String, usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("larder.toml");
        std::fs::write(&path, "old").unwrap();
        let plan = Plan::new(PlanBase::File(path.clone()), Vec::new());
        let (orders, mut inbox) = mpsc::channel(1);
        let configuring = Configuring::new(plan, orders);
        let store = configuring.editable().unwrap();
        let other = folder.path().join("other.toml");
        std::fs::write(&other, "old other").unwrap();
        let change = |path: &Path, old: &str, new: &str| FileChange {
            file: ConfigFile::at(path),
            path: path.to_owned(),
            old: old.to_owned(),
            new: new.to_owned(),
        };
        let changes = [change(&path, "old", "new"), change(&other, "old other", "new other")];
        let reload = async {
            let order: ConfigOrder = inbox.recv().await.unwrap();
            let met = store.read().unwrap();
            assert_eq!("new other", std::fs::read_to_string(&other).unwrap());
            order.outcome.send(outcome).unwrap();
            met
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let kept = KeptChange { by: "me", time: 1, summary: "" };
        let both = async { tokio::join!(configuring.swap(&changes, &kept), reload) };
        let (swapped, met) = runtime.block_on(both);
        let expect = if swapped.is_ok() { "new other" } else { "old other" };
        assert_eq!(expect, std::fs::read_to_string(&other).unwrap());
        (swapped, met, store.read().unwrap(), store.history().len())
    }

    #[test]
    fn a_configuration_that_the_reload_rejects_is_reverted() {
        let taken = (Ok(()), "new".to_owned(), "new".to_owned(), 1);
        assert_eq!(taken, swapped(Ok(())));
        let why = NotSwapped::Reload("No. The files are unchanged.".to_owned());
        assert_eq!((Err(why), "new".to_owned(), "old".to_owned(), 0), swapped(Err("No.".to_owned())));
    }
}

//! A proposed change as edits of the operator's files, with the difference that it makes there. Nothing is written.

use super::super::Admin;
use super::texts::{self, AskedTexts};
use super::{PathStep, line_json, step_json};
use larder_config::diff::{self, DiffLine};
use larder_config::edit::{Edit, EditChange, EditedCopies};
use larder_config::hide::without_comments;
use larder_config::table::{self, Takes};
use larder_semantics::advice::{SafeChange, SafeSetting, SettingValue};
use serde_json::{Value, json};

/// Unchanged lines that are shown before and after a difference.
const AROUND: usize = 2;

/// The schema of one change.
macro_rules! change {
    () => {
        r#"{"type":"object","required":["by","sentence"],"properties":{
"by":{"enum":["configuration","application","server"],"description":"the place of the change"},"sentence":{"type":"string"},
"settings":{"type":"array","description":"the keys, as in a file","items":{"type":"string"}},
"restart":{"type":"boolean","description":"whether the change takes effect at a restart"},
"edits":{"type":"array","description":"for POST /api/v1/config/edit","items":{"type":"object","required":["path","value"],"properties":{"path":{"type":"array"},"value":{}}}},
"diff":{"type":"array","description":"the difference in each file; empty without a configuration file","items":{"type":"object","required":["file","line","lines"],"properties":{
"file":{"type":"string"},"line":{"type":"integer","description":"of the first changed line"},
"lines":{"type":"array","items":{"type":"object","required":["op","text"],"properties":{"op":{"enum":[" ","+","-"]},"text":{"type":"string"}}}}}}}}}"#
    };
}
pub(crate) use change;

/// The operator's files without secrets and comments, in which proposals are shown: a viewer reads them as well.
pub(crate) struct AdvisedTexts {
    copies: EditedCopies,
    /// The name of each file.
    names: Vec<String>,
}

impl Admin {
    /// The operator's files as they are now, for any number of proposals; none without a file.
    pub(crate) fn advised_texts(&self) -> Option<AdvisedTexts> {
        let (plan, cover) = (&self.configuring.plan, &self.configuring.cover.for_viewers());
        let text = self.configuring.store().and_then(|it| it.read()).ok()?;
        let main = plan.file().map(|it| it.display().to_string());
        let mut files =
            AskedTexts { text: cover.hide(&text).text, others: Default::default() }.files(plan, cover);
        files.texts.texts.iter_mut().for_each(|it| *it = without_comments(it));
        let own = main.as_deref().map_or_else(String::new, |it| texts::short(it, Some(it)));
        let included = files.included.iter().map(|it| texts::short(&it.name, main.as_deref()));
        let names = std::iter::once(own).chain(included).collect();
        Some(AdvisedTexts { copies: EditedCopies::of(files.texts), names })
    }
}

/// A change as JSON, for the routes at `places`: the site of each, and its number among the routes of the site's section; for the server
/// without one.
pub(crate) fn advised(change: &SafeChange, places: &[(usize, usize)], texts: Option<&AdvisedTexts>) -> Value {
    let (sentence, settings) = match change {
        SafeChange::Application { sentence } => {
            return json!({ "by": "application", "sentence": sentence });
        }
        SafeChange::Server { sentence } => return json!({ "by": "server", "sentence": sentence }),
        SafeChange::Configuration { sentence, settings } => (sentence, settings),
    };
    let edits: Vec<(Vec<PathStep>, Value)> =
        settings.iter().flat_map(|it| paths_of(it, places).map(|path| (path, value_of(it)))).collect();
    let as_json = |path: &[PathStep]| -> Value { path.iter().map(step_json).collect() };
    let restarts = |it: &SafeSetting| table::find(it.key()).is_some_and(|it| it.takes == Takes::AtStart);
    let list: Vec<Value> =
        edits.iter().map(|(path, value)| json!({ "path": as_json(path), "value": value })).collect();
    json!({
        "by": "configuration", "sentence": sentence,
        "settings": settings.iter().map(line_of).collect::<Vec<_>>(),
        "restart": settings.iter().any(restarts), "edits": list,
        "diff": texts.map_or_else(Vec::new, |it| it.difference(edits)),
    })
}

impl AdvisedTexts {
    /// The difference that edits make; empty if they cannot be made in the files.
    fn difference(&self, edits: Vec<(Vec<PathStep>, Value)>) -> Vec<Value> {
        let edit = |(path, value)| Edit { path, change: EditChange::Set(value), file: None };
        let edits: Vec<Edit> = edits.into_iter().map(edit).collect();
        let changed = self.copies.edited(&edits).unwrap_or_default();
        changed.iter().filter_map(|(file, old, new)| hunk(self.names.get(*file)?, old, new)).collect()
    }
}

/// The changed lines with those around, and the line of the first.
fn hunk(file: &str, old: &str, new: &str) -> Option<Value> {
    let all = diff::lines(old, new);
    let is_changed = |it: &DiffLine<'_>| !matches!(it, DiffLine::Same(_));
    let (first, last) = (all.iter().position(is_changed)?, all.iter().rposition(is_changed)?);
    let line = all[..first].len() + 1;
    let shown = &all[first.saturating_sub(AROUND)..all.len().min(last + 1 + AROUND)];
    let lines: Vec<Value> = shown.iter().map(|it| line_json(*it)).collect();
    Some(json!({ "file": file, "line": line, "lines": lines }))
}

/// The places of a setting.
fn paths_of(setting: &SafeSetting, places: &[(usize, usize)]) -> impl Iterator<Item = Vec<PathStep>> {
    let name = |it: &str| PathStep::Name(it.to_owned());
    let of_route = |(site, route): &(usize, usize)| {
        vec![name("site"), PathStep::At(*site), name("route"), PathStep::At(*route)]
    };
    let mut paths: Vec<Vec<PathStep>> = match setting.is_of_server() {
        true => Vec::new(),
        false => places.iter().map(of_route).collect(),
    };
    if paths.is_empty() {
        paths.push(Vec::new());
    }
    paths.iter_mut().for_each(|it| it.extend(setting.key().split('.').map(name)));
    paths.into_iter()
}

fn value_of(setting: &SafeSetting) -> Value {
    match setting.value() {
        SettingValue::Text(it) => it.into(),
        SettingValue::List(all) => all.into(),
        SettingValue::Switch(is_on) => is_on.into(),
        SettingValue::Table(all) => all.into_iter().map(|(name, it)| (name, Value::from(it))).collect(),
    }
}

/// A setting as a line of a file. A JSON text or list is one of TOML as well.
fn line_of(setting: &SafeSetting) -> String {
    if let SettingValue::Table(all) = setting.value() {
        let all: Vec<String> =
            all.iter().map(|(name, it)| format!("{name} = {}", Value::from(&**it))).collect();
        return format!("{} = {{ {} }}", setting.key(), all.join(", "));
    }
    format!("{} = {}", setting.key(), value_of(setting))
}

//! Edits of a configuration file by a form: one key, one site, one route at a time, in the text of the file. `toml_edit`
//! reports the positions; comments, order and notation outside of an edit are unchanged. The validity of the result as a
//! configuration is not checked here.

mod copies;
mod files;
mod node;
mod text;

pub use copies::EditedCopies;
pub use files::{ConfigTexts, ParsedTexts};
use node::TomlNode;
use serde_json::Value as Json;
pub(crate) use text::quoted;
use toml_edit::Document;

/// One step of a path: into a section, or to a member of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PathStep {
    /// By name.
    Name(String),
    /// By position, counted from 0.
    At(usize),
}

/// The change to the named part.
#[derive(Clone, Debug, PartialEq)]
pub enum EditChange {
    /// It gets this value; a missing part is created, and a list gets a member at its end.
    Set(Json),
    /// It is removed; a missing part is not an error.
    Remove,
    /// A list member moves to this position.
    Move(usize),
}

/// One edit.
#[derive(Clone, Debug, PartialEq)]
pub struct Edit {
    /// The edited part; not empty.
    pub path: Vec<PathStep>,
    /// The change.
    pub change: EditChange,
    /// The number of the file for a new part, if the configuration has several: 0 is the main file.
    pub file: Option<usize>,
}

impl Edit {
    /// Parses `{"path": ["site", 0, "hosts"], "value": …}`, where `null` removes, or `{"path": …, "to": 2}`.
    ///
    /// # Errors
    /// One sentence.
    pub fn read(json: &Json) -> Result<Self, String> {
        let bad = || {
            "An edit is {\"path\": [\"site\", 0, \"hosts\"], \"value\": …}, null to remove, or \"to\": 1 to move."
                .to_owned()
        };
        let step = |it: &Json| match it {
            Json::String(name) => Some(PathStep::Name(name.clone())),
            Json::Number(at) => at.as_u64().and_then(|it| usize::try_from(it).ok()).map(PathStep::At),
            _ => None,
        };
        let path: Option<Vec<PathStep>> =
            json["path"].as_array().and_then(|it| it.iter().map(step).collect());
        let path = path.filter(|it| !it.is_empty()).ok_or_else(bad)?;
        let change = match (json.get("value"), json.get("to")) {
            (Some(Json::Null), None) => EditChange::Remove,
            (Some(value), None) => EditChange::Set(value.clone()),
            (None, Some(to)) => {
                let to = to.as_u64().and_then(|it| usize::try_from(it).ok());
                EditChange::Move(to.ok_or_else(bad)?)
            }
            _ => return Err(bad()),
        };
        let file = match json.get("file") {
            None | Some(Json::Null) => None,
            Some(it) => Some(it.as_u64().and_then(|it| usize::try_from(it).ok()).ok_or_else(bad)?),
        };
        Ok(Self { path, change, file })
    }
}

/// The site and route of each line of a text.
pub struct Sections {
    /// The line of each header, and its site and route.
    starts: Vec<(u32, Vec<PathStep>)>,
}

impl Sections {
    /// The sections of this text; none if it is invalid TOML.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let headers = Document::parse(text).map(|it| TomlNode::Table(it.as_table()).headers());
        let (mut line, mut at, mut starts) = (1u32, 0, Vec::new());
        for header in headers.unwrap_or_default() {
            let lines = text[at..header.start].matches('\n').count();
            line = line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
            at = header.start;
            let last =
                header.path.iter().rposition(|it| matches!(it, PathStep::At(_))).map_or(0, |it| it + 1);
            starts.push((line, header.path[..last].to_vec()));
        }
        Self { starts }
    }

    /// The site, or the route of a site, whose section has this line, counted from 1; empty for a line outside.
    #[must_use]
    pub fn with(&self, line: u32) -> &[PathStep] {
        let next = self.starts.partition_point(|it| it.0 <= line);
        next.checked_sub(1).map_or(&[], |it| &self.starts[it].1)
    }
}

/// Applies all edits in order; if one fails there is no result.
///
/// # Errors
/// One sentence: the text is not TOML, the path does not exist, or the edit is not possible automatically.
pub fn apply(text: &str, edits: &[Edit]) -> Result<String, String> {
    let (mark, text) = match text.strip_prefix('\u{feff}') {
        Some(rest) => ("\u{feff}", rest),
        None => ("", text),
    };
    let mut text = text.to_owned();
    for edit in edits {
        text = one(text, edit)?;
    }
    Ok(format!("{mark}{text}"))
}

/// The values of a text, as JSON; dates are their text.
///
/// # Errors
/// It is not TOML.
pub fn as_json(text: &str) -> Result<Json, String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let document = Document::parse(text).map_err(|it| format!("The text is not TOML: {}.", it.message()))?;
    Ok(TomlNode::Table(document.as_table()).json())
}

fn one(text: String, edit: &Edit) -> Result<String, String> {
    let mut expected = as_json(&text)?;
    expect(&mut expected, edit)?;
    let edited = match &edit.change {
        EditChange::Set(value) => text::set(text, &edit.path, value)?,
        EditChange::Remove => text::remove(text, &edit.path)?,
        EditChange::Move(to) => text::move_to(text, &edit.path, *to)?,
    };
    // For any notation of the text: an unintended change is never returned.
    let found = as_json(&edited).ok();
    if found.map(pruned) != Some(pruned(expected)) {
        return Err(format!(
            "{} is written in a form that the editor does not change; edit the text.",
            spell(&edit.path)
        ));
    }
    Ok(edited)
}

/// Applies the same edit to the values.
fn expect(root: &mut Json, edit: &Edit) -> Result<(), String> {
    let (last, way) = edit.path.split_last().ok_or("The path is empty.")?;
    let mut at = root;
    for (depth, step) in way.iter().enumerate() {
        let nothing = || format!("{} does not exist.", spell(&edit.path[..=depth]));
        let fresh = match edit.path.get(depth + 1) {
            Some(PathStep::At(_)) => Json::Array(Vec::new()),
            _ => Json::Object(serde_json::Map::new()),
        };
        at = match (step, at) {
            (PathStep::Name(name), Json::Object(map)) => match edit.change {
                EditChange::Set(_) => map.entry(name.clone()).or_insert(fresh),
                _ => match map.get_mut(name) {
                    Some(it) => it,
                    None if edit.change == EditChange::Remove => return Ok(()),
                    None => return Err(nothing()),
                },
            },
            (PathStep::At(number), Json::Array(list)) => list.get_mut(*number).ok_or_else(nothing)?,
            _ => return Err(nothing()),
        };
    }
    let nothing = || format!("{} does not exist.", spell(&edit.path));
    match (&edit.change, last, at) {
        (EditChange::Set(value), PathStep::Name(name), Json::Object(map)) => {
            map.insert(name.clone(), value.clone());
        }
        (EditChange::Set(value), PathStep::At(number), Json::Array(list)) if *number == list.len() => {
            list.push(value.clone());
        }
        (EditChange::Set(value), PathStep::At(number), Json::Array(list)) => {
            *list.get_mut(*number).ok_or_else(nothing)? = value.clone();
        }
        (EditChange::Remove, PathStep::Name(name), Json::Object(map)) => {
            map.remove(name);
        }
        (EditChange::Remove, PathStep::At(number), Json::Array(list)) if *number < list.len() => {
            list.remove(*number);
        }
        (EditChange::Move(to), PathStep::At(number), Json::Array(list))
            if *number < list.len() && *to < list.len() =>
        {
            let it = list.remove(*number);
            list.insert(*to, it);
        }
        _ => return Err(nothing()),
    }
    Ok(())
}

/// Without empty sections: a section without keys may be kept or removed.
fn pruned(json: Json) -> Json {
    let is_empty = |it: &Json| it.is_null() || it.as_object().is_some_and(serde_json::Map::is_empty);
    match json {
        Json::Object(map) => Json::Object(
            map.into_iter().map(|it| (it.0, pruned(it.1))).filter(|it| !is_empty(&it.1)).collect(),
        ),
        Json::Array(list) => Json::Array(list.into_iter().map(pruned).collect()),
        it => it,
    }
}

/// The steps of a path in the notation of messages: `site[0].route[1].path`.
#[must_use]
pub fn steps(path: &str) -> Vec<PathStep> {
    let mut out = Vec::new();
    for part in path.split('.') {
        let (name, numbers) = part.split_once('[').unwrap_or((part, ""));
        out.push(PathStep::Name(name.to_owned()));
        out.extend(numbers.split(['[', ']']).filter_map(|it| it.parse().ok()).map(PathStep::At));
    }
    out
}

/// A path in the notation of messages: `site[0].route[1].path`.
#[must_use]
pub fn spell(path: &[PathStep]) -> String {
    let mut out = String::new();
    for step in path {
        match step {
            PathStep::Name(name) if out.is_empty() => out.push_str(name),
            PathStep::Name(name) => out.push_str(&format!(".{name}")),
            PathStep::At(number) => out.push_str(&format!("[{number}]")),
        }
    }
    out
}

#[cfg(test)]
mod tests;

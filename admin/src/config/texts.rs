//! The texts of a request about the configuration, of the main file and of included files, and their keys for forms.

use super::super::AdminResponse;
use super::super::problem_at;
use super::config_file::{ConfigFile, hash};
use larder_config::edit::{self, ConfigTexts, PathStep, Sections};
use larder_config::hide::{SecretCover, without_comments};
use larder_config::include::{IncludedFile, IncludedTexts};
use larder_config::inherit::{self, LayeredValue};
use larder_config::kind::{ValueKind, is_block_name};
use larder_config::plan::Plan;
use larder_config::table;
use larder_config::{Config, Source};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The texts of a request. A client has placeholders in place of secrets.
pub(super) struct AskedTexts {
    /// That of the main file.
    pub text: String,
    /// Those of included files, in place of the saved ones.
    pub others: IncludedTexts,
}

/// The same, with the files that they include.
pub(super) struct TextFiles {
    /// The texts in reading order.
    pub texts: ConfigTexts,
    /// The included files, in the same order.
    pub included: Vec<IncludedFile>,
    /// The texts that are read for them.
    pub others: IncludedTexts,
    /// Those of the saved configuration, as they are on disk.
    saved: Vec<IncludedFile>,
    /// Those that the saved configuration does not include.
    hidden: BTreeSet<PathBuf>,
}

/// The keys of the texts, for the forms.
pub(super) struct FormKeys {
    /// The keys of all files; null if the main text is not TOML.
    pub document: Value,
    /// The number of the file that has each site.
    pub site_files: Vec<usize>,
}

impl AskedTexts {
    /// The texts of a request with `text` and `included`.
    pub fn of(json: &Value) -> Self {
        let text = json["text"].as_str().unwrap_or_default().to_owned();
        let row = |it: &Value| Some((PathBuf::from(it["path"].as_str()?), it["text"].as_str()?.into()));
        Self { text, others: json["included"].as_array().into_iter().flatten().filter_map(row).collect() }
    }

    /// Without their secrets.
    pub fn hidden(&self, cover: &SecretCover) -> Self {
        let others = self.others.iter().map(|it| (it.0.clone(), cover.hide(it.1).text.into()));
        Self { text: cover.hide(&self.text).text, others: others.collect() }
    }

    /// With the files that the text includes, without the secrets of the saved ones. A file that the saved configuration
    /// does not include is empty here: its content is not for a form until the include is saved.
    pub fn files(self, plan: &Plan, cover: &SecretCover) -> TextFiles {
        let saved = plan.included();
        let Self { text, mut others } = self;
        let mut hidden = BTreeSet::new();
        let mut included = plan.values(&text, &others).included;
        for it in &mut included {
            if !saved.iter().any(|one| one.path == it.path) {
                hidden.insert(it.path.clone());
                others.insert(it.path.clone(), "".into());
                it.text = "".into();
            } else if !others.contains_key(&it.path) {
                it.text = cover.hide(&it.text).text.into();
            }
        }
        let all = std::iter::once(text).chain(included.iter().map(|it| it.text.to_string()));
        TextFiles { texts: ConfigTexts { texts: all.collect() }, included, others, saved, hidden }
    }
}

impl TextFiles {
    /// The texts of included files that are not the saved ones, and the saved ones without their secrets.
    pub fn changed(&self, cover: &SecretCover) -> impl Iterator<Item = (&IncludedFile, &str, String)> {
        self.pairs().filter(|it| !self.hidden.contains(&it.0.path)).filter_map(|(file, text)| {
            let saved = cover.hide(&ConfigFile::at(&file.path).read().unwrap_or_default()).text;
            (saved != *text).then_some((file, text.as_str(), saved))
        })
    }

    /// The sentence about an edit of a file that the saved configuration does not include.
    pub fn refusal(&self) -> Option<String> {
        let edited = |it: &(&IncludedFile, &String)| self.hidden.contains(&it.0.path) && !it.1.is_empty();
        let (file, _) = self.pairs().find(edited)?;
        Some(format!("The saved configuration does not include {} yet; save its include first.", file.name))
    }

    fn pairs(&self) -> impl Iterator<Item = (&IncludedFile, &String)> {
        self.included.iter().zip(self.texts.texts.iter().skip(1))
    }

    /// The keys of all files.
    pub fn keys(&self) -> FormKeys {
        let parsed = self.texts.parsed();
        let site_files = parsed.files_of_sites();
        let document = if parsed.is_main_toml() { parsed.document() } else { Value::Null };
        FormKeys { document, site_files }
    }

    /// Whether `config` was read from the saved files as they are now; `text` is that of the main file.
    pub fn are_in_force(&self, config: &Config, text: &str) -> bool {
        config.text.as_deref() == Some(text) && config.included == self.saved
    }

    /// The site or route of each line, for each file.
    pub fn sections(&self) -> Vec<Sections> {
        self.texts.texts.iter().map(|it| Sections::of(it)).collect()
    }

    /// The number of the file of a source: 0 is the main file.
    pub fn number(&self, file: &str, main: Option<&str>) -> Option<usize> {
        if main.is_none_or(|it| it == file) {
            return Some(0);
        }
        self.included.iter().position(|it| it.name == file).map(|it| it + 1)
    }
}

/// The included files of the configuration, as they are on disk.
pub(super) fn included(files: &[IncludedFile], main: Option<&str>) -> Vec<Value> {
    let row = |it: &IncludedFile| {
        let why = ConfigFile::at(&it.path).why_not();
        json!({
            "file": short(&it.name, main), "path": it.path, "document": edit::as_json(&it.text).ok(), "text": &*it.text,
            "hash": hash(&it.text), "editable": why.is_none(), "why": why,
        })
    };
    files.iter().map(row).collect()
}

/// Hides the comments of an included file.
pub(super) fn hide_comments(row: &mut Value) {
    let text = without_comments(row["text"].as_str().unwrap_or_default());
    row["hash"] = hash(&text).into();
    row["text"] = text.into();
}

/// The layers of the site, route or block at `at`.
///
/// # Errors
/// There is no such section.
pub(super) fn layers(
    plan: &Plan,
    cover: &SecretCover,
    asked: AskedTexts,
    at: &Value,
) -> Result<Value, AdminResponse> {
    let TextFiles { texts, others, .. } = asked.files(plan, cover);
    let values = plan.values(&texts.texts[0], &others);
    let flags = plan.settings();
    let number = |it: &Value| it.as_u64().and_then(|it| usize::try_from(it).ok());
    let steps: Vec<&Value> = at.as_array().into_iter().flatten().collect();
    let (found, pattern) = match steps[..] {
        [site, at] if site == "site" && number(at).is_some() => {
            (inherit::of_section(&values, flags, &format!("site[{at}]")), table::SITE)
        }
        [block, name] if block == "block" && name.as_str().is_some_and(is_block_name) => {
            let name = name.as_str().unwrap_or_default();
            (inherit::of_section(&values, flags, &format!("block.{name}")), table::ROUTE)
        }
        [site, at, route, of] if site == "site" && route == "route" => match (number(at), number(of)) {
            (Some(site), Some(route)) => (inherit::of_route(&values, flags, site, route), table::ROUTE),
            _ => return Err(no_section()),
        },
        _ => return Err(no_section()),
    };
    let document = texts.document();
    let main = plan.file().map(|it| it.display().to_string());
    let row = |key: &str, it: &LayeredValue| {
        let kind = table::find(&format!("{pattern}{key}")).map(|it| it.kind);
        let is_secret = kind.as_ref().is_some_and(ValueKind::is_secret);
        // In a file, the secrets of a table are hidden one by one.
        let is_table = matches!(kind, Some(ValueKind::Pairs { .. })) && it.path.is_some();
        let value = match (&it.path, &it.text) {
            _ if is_secret && !is_table => Value::Null,
            (Some(path), _) => value_at(&document, path),
            (None, text) => text.clone().into(),
        };
        let (from, name) = it.layer.label();
        let (file, line) = match &it.source {
            Source::Line { file, line, .. } => (Some(short(file, main.as_deref())), Some(*line)),
            _ => (None, None),
        };
        json!({ "from": from, "name": name, "file": file, "line": line, "value": value, "adds": it.adds })
    };
    let keys: serde_json::Map<String, Value> =
        found.iter().map(|(key, all)| (key.clone(), all.iter().map(|it| row(key, it)).collect())).collect();
    Ok(json!({ "keys": keys }))
}

fn no_section() -> AdminResponse {
    problem_at(400, "\"at\" is a site, a route or a block, such as [\"site\", 0, \"route\", 1].", "at")
}

/// The value at a path such as `site[0].cors.origins`.
fn value_at(document: &Value, path: &str) -> Value {
    let step = |at: &Value, it: &PathStep| match it {
        PathStep::Name(name) => at[name.as_str()].clone(),
        PathStep::At(number) => at[*number].clone(),
    };
    edit::steps(path).iter().fold(document.clone(), |at, it| step(&at, it))
}

/// A file as forms name it: without the directory of the main file.
pub(super) fn short(file: &str, main: Option<&str>) -> String {
    let folder = main.and_then(|it| Path::new(it).parent());
    let rest = folder.and_then(|it| Path::new(file).strip_prefix(it).ok());
    rest.map_or_else(|| file.to_owned(), |it| it.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_config::files_in_force::FilesInForce;
    use larder_config::plan::PlanBase;

    /// Only texts that are exactly those in force need no second check: a changed secret looks the same without its value.
    #[test]
    fn texts_are_in_force_if_no_file_differs_from_the_one_that_was_read() {
        let folder = tempfile::tempdir().unwrap();
        let (main, part) = (folder.path().join("larder.toml"), folder.path().join("part.toml"));
        let text = "include = [\"part.toml\"]\n[[admin.tokens]]\nname = \"a\"\nrole = \"viewer\"\ntoken = \"0123456789abcdef0123456789abcdef0123\"\n";
        let site = "[[site]]\nhosts = [\"a\"]\n[[site.route]]\npath = \"/*\"\nrespond = { status = 204 }\n";
        std::fs::write(&main, text).unwrap();
        std::fs::write(&part, site).unwrap();
        let (plan, cover) = (Plan::new(PlanBase::File(main), Vec::new()), SecretCover::default());
        let config = plan.load_over(&FilesInForce::default()).unwrap();
        let are_in_force = |text: &str| {
            let asked = AskedTexts { text: text.to_owned(), others: IncludedTexts::new() };
            asked.hidden(&cover).files(&plan, &cover).are_in_force(&config, text)
        };
        assert!(are_in_force(text));
        assert!(!are_in_force(&text.replace("0123\"", "0124\"")), "a secret");
        std::fs::write(&part, site.replace("204", "404")).unwrap();
        assert!(!are_in_force(text), "an included file");
    }
}

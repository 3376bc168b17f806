//! The texts of a configuration of several files, seen as one document: paths count the members of all files, and each
//! edit is made in the file that has its part.

use super::{Edit, EditChange, PathStep, apply, as_json, spell};
use serde_json::Value as Json;

/// The texts: the main file, and the files that it includes, in the order in which they are read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConfigTexts {
    /// The text of each file; the first is that of the main file.
    pub texts: Vec<String>,
}

impl ConfigTexts {
    /// All files as one document: lists of sections follow one another, and of a key in two files the first counts.
    /// A file that is not TOML has no keys here.
    #[must_use]
    pub fn document(&self) -> Json {
        self.parsed().document()
    }

    /// The keys of each file, parsed once for many readings.
    #[must_use]
    pub fn parsed(&self) -> ParsedTexts {
        ParsedTexts(self.documents())
    }

    /// Makes edits whose paths are of the whole. A new member of a list in several files, and a key of a section that
    /// no file has, is for `edit.file`, otherwise for the main file.
    ///
    /// # Errors
    /// One sentence; nothing was edited then.
    pub fn apply(&mut self, edits: &[Edit]) -> Result<(), String> {
        let mut texts = self.clone();
        for edit in edits {
            let (file, path) = texts.locate(&texts.documents(), edit)?;
            let change = match &edit.change {
                EditChange::Move(to) => EditChange::Move(texts.position(file, &edit.path, *to)?),
                change => change.clone(),
            };
            texts.texts[file] = apply(&texts.texts[file], &[Edit { path, change, file: None }])?;
        }
        *self = texts;
        Ok(())
    }

    pub(super) fn documents(&self) -> Vec<Json> {
        self.texts.iter().map(|it| as_json(it).unwrap_or(Json::Null)).collect()
    }

    /// The file of an edit, and its path there.
    pub(super) fn locate(&self, documents: &[Json], edit: &Edit) -> Result<(usize, Vec<PathStep>), String> {
        if let Some(file) = edit.file.filter(|it| *it >= documents.len()) {
            return Err(format!("There is no file {file}; the configuration has {}.", documents.len()));
        }
        let Some(first) = edit.path.iter().position(|it| matches!(it, PathStep::At(_))) else {
            return Ok((self.with_deepest(documents, edit), edit.path.clone()));
        };
        let (list, mut path) = (&edit.path[..first], edit.path.clone());
        let PathStep::At(number) = edit.path[first] else { return Err("The path is empty.".to_owned()) };
        let mut before = 0;
        for (file, document) in documents.iter().enumerate() {
            let own = length(document, list);
            if number < before + own {
                path[first] = PathStep::At(number - before);
                return Ok((file, path));
            }
            before += own;
        }
        // A new member, or one that does not exist.
        let file = edit.file.unwrap_or_else(|| self.with_deepest(documents, edit));
        path[first] = PathStep::At(length(&documents[file], list) + (number - before));
        Ok((file, path))
    }

    /// The file that has most of the path; of two the first.
    fn with_deepest(&self, documents: &[Json], edit: &Edit) -> usize {
        let depth = |it: &Json| {
            let mut at = it;
            edit.path.iter().take_while(|step| walk(&mut at, step)).count()
        };
        let deepest = documents.iter().map(depth).max().unwrap_or(0);
        match edit.file {
            Some(file) if deepest < edit.path.len() => file,
            _ if deepest == 0 => 0,
            _ => documents.iter().position(|it| depth(it) == deepest).unwrap_or(0),
        }
    }

    /// The position `to` of the whole, in the list of this file.
    fn position(&self, file: usize, path: &[PathStep], to: usize) -> Result<usize, String> {
        let is_at = |it: &PathStep| matches!(it, PathStep::At(_));
        // Within a site: all members are in its file.
        if path.iter().filter(|it| is_at(it)).count() != 1 {
            return Ok(to);
        }
        let list = &path[..path.len() - 1];
        let documents = self.documents();
        let before = documents.iter().take(file).map(|it| length(it, list)).sum::<usize>();
        let own = length(&documents[file], list);
        to.checked_sub(before).filter(|it| *it < own).ok_or_else(|| {
            format!("{} moves within its file only; edit the texts of both files.", spell(path))
        })
    }
}

/// The keys of each file of a configuration.
pub struct ParsedTexts(Vec<Json>);

impl ParsedTexts {
    /// Whether the main file is TOML.
    #[must_use]
    pub fn is_main_toml(&self) -> bool {
        self.0.first().is_some_and(Json::is_object)
    }

    /// The number of the file that has each site.
    #[must_use]
    pub fn files_of_sites(&self) -> Vec<usize> {
        let count = |it: &Json| it["site"].as_array().map_or(0, Vec::len);
        self.0.iter().enumerate().flat_map(|(file, it)| std::iter::repeat_n(file, count(it))).collect()
    }

    /// As [`ConfigTexts::document`].
    #[must_use]
    pub fn document(self) -> Json {
        let mut whole = Json::Object(serde_json::Map::new());
        self.0.into_iter().for_each(|it| merge(&mut whole, it));
        whole
    }

    /// A path within a file, as a path of the whole.
    #[must_use]
    pub fn path_of_whole(&self, file: usize, path: &[PathStep]) -> Vec<PathStep> {
        let mut out = path.to_vec();
        let Some(first) = path.iter().position(|it| matches!(it, PathStep::At(_))) else { return out };
        let before = self.0.iter().take(file).map(|it| length(it, &path[..first])).sum::<usize>();
        if let PathStep::At(number) = &mut out[first] {
            *number += before;
        }
        out
    }
}

/// One step into a document; `false` if it does not exist.
fn walk(at: &mut &Json, step: &PathStep) -> bool {
    let next = match step {
        PathStep::Name(name) => at.get(name),
        PathStep::At(number) => at.get(number),
    };
    next.is_some_and(|it| {
        *at = it;
        true
    })
}

/// The members of a list; 0 if there is no list.
fn length(document: &Json, list: &[PathStep]) -> usize {
    let mut at = document;
    if list.iter().all(|step| walk(&mut at, step)) { at.as_array().map_or(0, Vec::len) } else { 0 }
}

fn merge(whole: &mut Json, other: Json) {
    match (whole, other) {
        (Json::Object(whole), Json::Object(other)) => {
            for (name, value) in other {
                match whole.get_mut(&name) {
                    Some(it) => merge(it, value),
                    None => drop(whole.insert(name, value)),
                }
            }
        }
        (Json::Array(whole), Json::Array(other)) if whole.iter().chain(&other).all(Json::is_object) => {
            whole.extend(other);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn texts(all: &[&str]) -> ConfigTexts {
        ConfigTexts { texts: all.iter().map(|it| (*it).to_owned()).collect() }
    }

    fn edit(json: Json) -> Edit {
        Edit::read(&json).unwrap()
    }

    const MAIN: &str = "workers = 1\n[cache.ram]\nsize = \"1GiB\"\n[[site]]\nhosts = \"a\"\n";
    const SHOP: &str = "[cache]\nmax_ttl = \"1d\" # a day\n[[site]]\nhosts = \"b\"\n[[site.route]]\npath = \"/x\"\n[[site]]\nhosts = \"c\"\n";

    #[test]
    fn files_are_one_document() {
        let all = texts(&[MAIN, "not TOML =", SHOP]);
        let document = all.document();
        assert_eq!(
            json!([{ "hosts": "a" }, { "hosts": "b", "route": [{ "path": "/x" }] }, { "hosts": "c" }]),
            document["site"]
        );
        assert_eq!(json!({ "ram": { "size": "1GiB" }, "max_ttl": "1d" }), document["cache"]);
        assert_eq!(vec![0, 2, 2], all.parsed().files_of_sites());
        let path = edit(json!({ "path": ["site", 1, "route", 0], "value": null })).path;
        assert_eq!("site[2].route[0]", spell(&all.parsed().path_of_whole(2, &path)));
        assert_eq!("site[1].route[0]", spell(&all.parsed().path_of_whole(0, &path)));
    }

    #[test]
    fn an_edit_is_made_in_the_file_of_its_part() {
        #[track_caller]
        fn check(json: Json, main: &str, shop: &str) {
            let mut all = texts(&[MAIN, SHOP]);
            all.apply(&[edit(json.clone())]).unwrap_or_else(|it| panic!("{json}: {it}"));
            assert_eq!(texts(&[main, shop]), all, "{json}");
        }
        check(json!({ "path": ["cache", "max_ttl"], "value": "2d" }), MAIN, &SHOP.replace("1d", "2d"));
        check(
            json!({ "path": ["cache", "max_ttl"], "value": null }),
            MAIN,
            &SHOP.replace("max_ttl = \"1d\" # a day", "# a day"),
        );
        check(json!({ "path": ["workers"], "value": 2 }), &MAIN.replace("= 1", "= 2"), SHOP);
        check(
            json!({ "path": ["site", 1, "route", 0, "path"], "value": "/y" }),
            MAIN,
            &SHOP.replace("/x", "/y"),
        );
        check(json!({ "path": ["site", 0, "hosts"], "value": "z" }), &MAIN.replace("\"a\"", "\"z\""), SHOP);
        let new = "\n[[site]]\nhosts = \"d\"\n";
        check(json!({ "path": ["site", 3], "value": { "hosts": "d" } }), &format!("{MAIN}{new}"), SHOP);
        check(
            json!({ "path": ["site", 3], "value": { "hosts": "d" }, "file": 1 }),
            MAIN,
            &format!("{SHOP}{new}"),
        );
        let swapped = "[cache]\nmax_ttl = \"1d\" # a day\n[[site]]\nhosts = \"c\"\n[[site]]\nhosts = \"b\"\n[[site.route]]\npath = \"/x\"\n";
        check(json!({ "path": ["site", 2], "to": 1 }), MAIN, swapped);
        // A section that no file has is for the main file, one that a file has for that.
        check(
            json!({ "path": ["log", "access"], "value": "-" }),
            &format!("{MAIN}\n[log]\naccess = \"-\"\n"),
            SHOP,
        );
    }

    #[test]
    fn an_edit_without_a_place_changes_nothing() {
        #[track_caller]
        fn refused(json: Json, expect: &str) {
            let mut all = texts(&[MAIN, SHOP]);
            let first = edit(json!({ "path": ["workers"], "value": 9 }));
            let why = all.apply(&[first, edit(json.clone())]).unwrap_err();
            assert!(why.contains(expect), "{json}: {why}");
            assert_eq!(texts(&[MAIN, SHOP]), all, "the edits before it are not made either");
        }
        refused(json!({ "path": ["site", 1], "to": 0 }), "site[1] moves within its file only");
        refused(json!({ "path": ["site", 0], "to": 2 }), "site[0] moves within its file only");
        refused(json!({ "path": ["site", 9, "hosts"], "value": "x" }), "does not exist");
        refused(
            json!({ "path": ["site", 3], "value": {}, "file": 7 }),
            "There is no file 7; the configuration has 2.",
        );
    }
}

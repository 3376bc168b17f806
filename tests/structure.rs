//! The structure that can be read off the source: modules inside a crate form no circle beyond those listed here, and a type
//! name means one thing in the whole workspace. Layers, sizes and first lines are in `tidy`.

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Every crate of the workspace, by its folder.
const CRATES: [&str; 16] = [
    "stdx",
    "counters",
    "semantics",
    "wire",
    "transport",
    "store",
    "origin",
    "database",
    "files",
    "gateway",
    "observe",
    "config",
    "server",
    "admin",
    "commands",
    "larder",
];

/// The modules that import each other in a circle today. The list may only become shorter.
const CIRCLES: &[(&str, &[&str])] =
    &[("transport", &["handler", "http1", "http2"]), ("store", &["disk", "fill", "ram"])];

/// Type names that mean different things in several places, and why that is right. The list may only become shorter.
const SHARED_NAMES: &[(&str, &str)] = &[];

/// A pattern whose classes are those of ASCII: the workspace's `regex` has no tables of Unicode.
fn pattern(text: &str) -> Regex {
    let text = text.replace(r"\w", "[A-Za-z0-9_]").replace(r"\s", r"[ \t\n]").replace(r"\b", r"(?-u:\b)");
    Regex::new(&text).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The source files of a crate without its tests: the path of each module, and its text without comments and inner tests.
fn modules(name: &str) -> Vec<(Vec<String>, String)> {
    let source = root().join(name).join("src");
    let mut folders = vec![source.clone()];
    let mut found = Vec::new();
    let tests = pattern(r"(?m)^#\[cfg\((?:all\()?test[^\n]*\n(?:pub(?:\(\w+\))? )?mod \w+ \{");
    let comments = pattern(r"//[^\n]*");
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let relative = path.strip_prefix(&source).unwrap().with_extension("");
                let mut place: Vec<String> =
                    relative.components().map(|it| it.as_os_str().to_string_lossy().into_owned()).collect();
                place.retain(|it| it != "mod");
                if place.iter().any(|it| matches!(it.as_str(), "tests" | "model")) {
                    continue;
                }
                let text = std::fs::read_to_string(&path).unwrap();
                let text = tests.split(&text).next().unwrap_or_default();
                found.push((place, comments.replace_all(text, "").into_owned()));
            }
        }
    }
    found
}

/// Which module at the top of a crate imports which.
fn imports(name: &str) -> BTreeMap<String, BTreeSet<String>> {
    let modules = modules(name);
    let is_root = |it: &str| matches!(it, "lib" | "main");
    // A name that the root of the crate re-exports is its module's.
    let re_export = pattern(r"\bpub(?:\(crate\))? use (?:crate::)?(\w+)::(?:\{([^;]*?)\}|(\w+));");
    let name = pattern(r"\w+");
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    for (_, text) in modules.iter().filter(|it| is_root(&it.0[0])) {
        for it in re_export.captures_iter(text) {
            let names = it.get(2).or(it.get(3)).map_or("", |it| it.as_str());
            owners.extend(name.find_iter(names).map(|one| (one.as_str().to_owned(), it[1].to_owned())));
        }
    }
    let tops: BTreeSet<String> = modules.iter().map(|it| it.0[0].clone()).filter(|it| !is_root(it)).collect();
    let from_crate = pattern(r"\bcrate::(?:\{([^;]*?)\};|(\w+))");
    let from_super = pattern(r"((?:super::)+)(?:\{([^;]*?)\};|(\w+))");
    let first_words = pattern(r"(?:^|,)\s*(\w+)");
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (place, text) in modules.iter().filter(|it| !is_root(&it.0[0])) {
        let mut named: Vec<String> = Vec::new();
        let mut add = |list: Option<regex::Match<'_>>, word: Option<regex::Match<'_>>| {
            named.extend(word.map(|it| it.as_str().to_owned()));
            if let Some(list) = list {
                named.extend(first_words.captures_iter(list.as_str()).map(|it| it[1].to_owned()));
            }
        };
        for it in from_crate.captures_iter(text) {
            add(it.get(1), it.get(2));
        }
        for it in from_super.captures_iter(text) {
            if it[1].matches("super").count() == place.len() {
                add(it.get(2), it.get(3));
            }
        }
        let mine = all.entry(place[0].clone()).or_default();
        let named = named.into_iter().map(|it| owners.get(&it).cloned().unwrap_or(it));
        mine.extend(named.filter(|it| tops.contains(it) && *it != place[0]));
    }
    all
}

/// The modules from which a way leads back to themselves.
fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<String> {
    let reaches_itself = |start: &String| {
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        let mut left: Vec<&String> = imports[start].iter().collect();
        while let Some(module) = left.pop() {
            if module == start {
                return true;
            }
            if seen.insert(module) {
                left.extend(imports.get(module).into_iter().flatten());
            }
        }
        false
    };
    imports.keys().filter(|it| reaches_itself(it)).cloned().collect()
}

#[test]
fn the_circle_check_finds_every_circle() {
    let edges = [("a", "b"), ("b", "c"), ("c", "b"), ("d", "a")];
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in edges {
        imports.entry(from.to_owned()).or_default().insert(to.to_owned());
    }
    assert_eq!(BTreeSet::from(["b".to_owned(), "c".to_owned()]), circles(&imports));
    assert!(self::imports("gateway").values().any(|it| !it.is_empty()));
}

#[test]
fn modules_form_no_circle_that_is_not_listed() {
    let mut wrong = Vec::new();
    for name in CRATES {
        let found = circles(&imports(name));
        let listed: BTreeSet<String> =
            CIRCLES.iter().filter(|it| it.0 == name).flat_map(|it| it.1).map(|it| (*it).to_owned()).collect();
        let new: Vec<&String> = found.difference(&listed).collect();
        if !new.is_empty() {
            wrong.push(format!("{name}: {new:?} are in a circle; move what ties them to a module below"));
        }
        let gone: Vec<&String> = listed.difference(&found).collect();
        if !gone.is_empty() {
            wrong.push(format!("{name}: {gone:?} are in no circle any more; take them off the list CIRCLES"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_type_name_means_one_thing() {
    let types = pattern(r"(?m)^ *(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|union) (\w+)");
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for name in CRATES {
        for (place, text) in modules(name) {
            for it in types.captures_iter(&text) {
                found.entry(it[1].to_owned()).or_default().push(format!("{name}::{}", place.join("::")));
            }
        }
    }
    let listed = |it: &str| SHARED_NAMES.iter().any(|row| row.0 == it);
    let shared: Vec<_> = found.iter().filter(|it| it.1.len() > 1 && !listed(it.0)).collect();
    assert!(
        shared.is_empty(),
        "each of these names is several types; give all but one a name that says more: {shared:#?}"
    );
    let gone: Vec<_> =
        SHARED_NAMES.iter().filter(|it| found.get(it.0).is_none_or(|all| all.len() < 2)).collect();
    assert!(gone.is_empty(), "take these off the list SHARED_NAMES: {gone:?}");
}

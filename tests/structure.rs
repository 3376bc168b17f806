//! The structure that can be read off the source: modules inside a crate form no circle beyond those listed here, and a type
//! name means one thing in the whole workspace. Layers, sizes and first lines are in `tidy`.

use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Every crate of the workspace, by its folder.
const CRATES: [&str; 18] = [
    "stdx",
    "counters",
    "semantics",
    "wire",
    "transport",
    "purge_log",
    "store",
    "origin",
    "database",
    "files",
    "gateway",
    "observe",
    "config",
    "server",
    "worker",
    "admin",
    "commands",
    "larder",
];

/// The modules that import each other in a circle today, with the folder that they share. The list may only become shorter.
///
/// A circle is one among the modules of one folder: a folder counts there as one module with all that is below it. A parent
/// (`mod.rs`) that calls its children and gives them its own types is no circle. A name that a parent imports or re-exports
/// is the child's that defines it.
const CIRCLES: &[(&str, &[&str])] = &[
    // The error log is written by a sink, and a sink reports its failures to the error log.
    ("observe/log", &["error", "sink"]),
    ("store", &["disk", "fill", "ram"]),
    ("transport", &["handler", "http1", "http2"]),
    // A connection owns the parts that read and write it.
    ("transport/http1", &["connection", "reply", "request_body", "tunnel"]),
    ("transport/http2", &["connection", "frames"]),
    ("transport/http3", &["connection", "early_data", "endpoint_waker", "output", "requests", "uni_streams"]),
];

/// The most modules that a circle may have.
const LARGEST_CIRCLE: usize = 6;

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

/// The paths of an import or an expression: `a::{b, c::d as e}` is `a::b` and `a::c::d`, each with the name that it has here.
fn paths<'a>(text: &mut &'a str, before: &[&'a str], found: &mut Vec<(Vec<&'a str>, &'a str)>) {
    let mut path = before.to_vec();
    loop {
        *text = text.trim_start();
        let end = text.find(|it: char| !it.is_ascii_alphanumeric() && it != '_').unwrap_or(text.len());
        if end > 0 {
            path.push(&text[..end]);
            *text = &text[end..];
        } else if let Some(rest) = text.strip_prefix('{') {
            *text = rest;
            while !text.is_empty() && !text.starts_with('}') {
                paths(text, &path, found);
                *text = text.trim_start().strip_prefix(',').unwrap_or(text).trim_start();
                if text.starts_with(|it: char| !it.is_ascii_alphanumeric() && !"_{}".contains(it)) {
                    *text = text.get(1..).unwrap_or_default();
                }
            }
            *text = text.strip_prefix('}').unwrap_or(text);
            return;
        }
        match text.strip_prefix("::") {
            Some(rest) => *text = rest,
            None => break,
        }
    }
    let first = path.first().copied();
    path.retain(|it| *it != "self" || first == Some("self"));
    let mut name = path.last().copied().unwrap_or_default();
    if let Some(rest) = text.strip_prefix(" as ") {
        let end = rest.find(|it: char| !it.is_ascii_alphanumeric() && it != '_').unwrap_or(rest.len());
        (name, *text) = (&rest[..end], &rest[end..]);
    }
    found.push((path, name));
}

/// The modules of a crate, and what each name that they import stands for.
struct Imports {
    modules: BTreeMap<Vec<String>, String>,
    names: BTreeMap<(Vec<String>, String), Vec<String>>,
}

impl Imports {
    fn of(name: &str) -> Self {
        Self::named(modules(name).into_iter().map(|(place, text)| (Self::place(place), text)).collect())
    }

    /// Reads the imports of every module.
    fn named(modules: BTreeMap<Vec<String>, String>) -> Self {
        let mut all = Self { modules, names: BTreeMap::new() };
        let import = pattern(r"\buse ");
        for (place, text) in &all.modules {
            for it in import.find_iter(text) {
                let mut found = Vec::new();
                paths(&mut &text[it.end()..], &[], &mut found);
                for (path, name) in found {
                    let absolute = all.absolute(place, &path);
                    all.names.extend(absolute.map(|it| ((place.clone(), name.to_owned()), it)));
                }
            }
        }
        all
    }

    /// The root of a crate has the empty path.
    fn place(mut place: Vec<String>) -> Vec<String> {
        place.retain(|it| !matches!(it.as_str(), "lib" | "main"));
        place
    }

    /// A path from the root of the crate; none for one that leads out of the crate.
    fn absolute(&self, place: &[String], path: &[&str]) -> Option<Vec<String>> {
        let mut from = place.to_vec();
        let mut left = path;
        match left.first()? {
            &"crate" => (from, left) = (Vec::new(), &left[1..]),
            &"self" | &"super" => {
                while let Some(one) = left.first().filter(|it| matches!(**it, "self" | "super")) {
                    if *one == "super" {
                        from.pop();
                    }
                    left = &left[1..];
                }
            }
            child => {
                from.push((*child).to_owned());
                self.modules.get(&from)?;
                left = &left[1..];
            }
        }
        from.extend(left.iter().map(|it| (*it).to_owned()));
        Some(from)
    }

    /// The module that defines what `path` names.
    fn home(&self, path: &[String], depth: usize) -> Vec<String> {
        let mut at: Vec<String> = Vec::new();
        for (index, step) in path.iter().enumerate() {
            let mut below = at.clone();
            below.push(step.clone());
            if self.modules.contains_key(&below) {
                at = below;
            } else if let Some(target) = self.names.get(&(at.clone(), step.clone())).filter(|_| depth < 9) {
                let mut target = target.clone();
                target.extend_from_slice(&path[index + 1..]);
                return self.home(&target, depth + 1);
            } else {
                return at;
            }
        }
        at
    }

    /// Which module of each folder imports which of the same folder.
    fn by_folder(&self) -> BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>> {
        let start = pattern(r"\b(?:crate|super|self)::|\buse ");
        let mut all: BTreeMap<Vec<String>, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
        for (place, text) in &self.modules {
            let mut found = Vec::new();
            for it in start.find_iter(text) {
                let from = if it.as_str() == "use " { it.end() } else { it.start() };
                paths(&mut &text[from..], &[], &mut found);
            }
            for path in found.iter().filter_map(|it| self.absolute(place, &it.0)) {
                let home = self.home(&path, 0);
                let same = place.iter().zip(&home).take_while(|it| it.0 == it.1).count();
                if same < place.len() && same < home.len() {
                    let folder = all.entry(place[..same].to_vec()).or_default();
                    folder.entry(place[same].clone()).or_default().insert(home[same].clone());
                }
            }
        }
        all
    }
}

/// The circles: the groups of modules in which each leads to each.
fn circles(imports: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<BTreeSet<String>> {
    let reached = |start: &String| {
        let mut seen: BTreeSet<&String> = BTreeSet::new();
        let mut left: Vec<&String> = imports.get(start).into_iter().flatten().collect();
        while let Some(module) = left.pop() {
            if seen.insert(module) {
                left.extend(imports.get(module).into_iter().flatten());
            }
        }
        seen
    };
    let all: BTreeMap<&String, BTreeSet<&String>> = imports.keys().map(|it| (it, reached(it))).collect();
    let mut found = BTreeSet::new();
    for (start, to) in &all {
        let circle: BTreeSet<String> = to
            .iter()
            .filter(|it| all.get(*it).is_some_and(|back| back.contains(start)))
            .map(|it| (*it).clone())
            .collect();
        found.extend((!circle.is_empty()).then_some(circle));
    }
    found
}

#[test]
fn the_circle_check_finds_every_circle() {
    let edges = [("a", "b"), ("b", "c"), ("c", "b"), ("d", "a"), ("d", "e"), ("e", "d")];
    let mut imports: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in edges {
        imports.entry(from.to_owned()).or_default().insert(to.to_owned());
    }
    let group = |names: [&str; 2]| BTreeSet::from(names.map(str::to_owned));
    assert_eq!(BTreeSet::from([group(["b", "c"]), group(["d", "e"])]), circles(&imports));
    assert!(Imports::of("gateway").by_folder().values().any(|it| !it.is_empty()));
}

#[test]
fn an_import_leads_to_the_module_that_defines_the_name() {
    let module = |place: &str, text: &str| {
        (place.split('/').filter(|it| !it.is_empty()).map(str::to_owned).collect::<Vec<_>>(), text.to_owned())
    };
    let all = [
        module("", "pub use a::b::{Deep, Other as Renamed};"),
        module("a", "pub mod b;\nuse c::Own;\nstruct Parents;"),
        module("a/b", "use crate::{d::Low, std::{fmt::{self}, io}};\nuse super::{Own, Parents};"),
        module("a/c", "fn f() -> super::b::Deep { crate::Renamed::new() }"),
        module("d", "use crate::Renamed;"),
    ];
    let all = Imports::named(all.into());
    let edges: Vec<String> = all
        .by_folder()
        .iter()
        .flat_map(|(folder, edges)| {
            edges.iter().map(move |it| format!("{}: {} -> {:?}", folder.join("/"), it.0, it.1))
        })
        .collect();
    let expected = [r#": a -> {"d"}"#, r#": d -> {"a"}"#, r#"a: b -> {"c"}"#, r#"a: c -> {"b"}"#];
    assert_eq!(expected[..], edges[..]);
}

#[test]
fn modules_form_no_circle_that_is_not_listed() {
    let mut found: BTreeSet<(String, BTreeSet<String>)> = BTreeSet::new();
    for name in CRATES {
        for (mut folder, imports) in Imports::of(name).by_folder() {
            folder.insert(0, name.to_owned());
            found.extend(circles(&imports).into_iter().map(|it| (folder.join("/"), it)));
        }
    }
    let listed: BTreeSet<(String, BTreeSet<String>)> = CIRCLES
        .iter()
        .map(|it| (it.0.to_owned(), it.1.iter().map(|it| (*it).to_owned()).collect()))
        .collect();
    let mut wrong: Vec<String> = found
        .difference(&listed)
        .map(|it| format!("{}: {:?} are in a circle; move what ties them to a module below", it.0, it.1))
        .collect();
    wrong.extend(
        listed
            .difference(&found)
            .map(|it| format!("{}: {:?} is no circle; shorten the list CIRCLES", it.0, it.1)),
    );
    wrong.extend(
        listed
            .iter()
            .filter(|it| it.1.len() > LARGEST_CIRCLE)
            .map(|it| format!("{}: a circle of {}", it.0, it.1.len())),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_type_name_means_one_thing() {
    // An alias within a block is the associated type of a trait.
    let types = pattern(
        r"(?m)^(?: *(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|union)|(?:pub(?:\([^)]*\))? )?type) (\w+)",
    );
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

//! The invariants of ARCHITECTURE.md that can be read off the source: layers, purity, size, and the first lines of every
//! file. Ordinary tests, so that `cargo test` runs everything.

use std::path::{Path, PathBuf};

#[path = "words.rs"]
mod words;

/// Each crate's rank; a dependency must have a strictly lower one, so no cycle can exist.
const RANKS: &[(&str, u8)] = &[
    ("stdx", 0),
    ("counters", 1),
    ("semantics", 1),
    ("wire", 2),
    ("transport", 3),
    ("purge_log", 3),
    ("store", 4),
    ("origin", 4),
    ("database", 4),
    ("files", 4),
    ("gateway", 5),
    ("observe", 6),
    ("config", 7),
    ("server", 8),
    ("worker", 9),
    ("admin", 9),
    ("commands", 9),
    ("larder", 10),
];

/// Crates that do I/O or run tasks: not for ranks 0 to 2.
const DOES_IO: &[&str] = &["tokio", "mio", "socket2", "rustls", "rustix", "hyper"];

/// The longest file that is not a table or a test, lines.
const MAX_LINES: usize = 700;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// Every Rust file of a folder of the repository, with its text.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut found = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "rs") {
                let text = std::fs::read_to_string(&path).unwrap();
                found.push((path, text));
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has sources");
    found
}

fn dependencies(name: &str) -> Vec<String> {
    let manifest = std::fs::read_to_string(root().join(name).join("Cargo.toml")).unwrap();
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[dependencies]" {
            found.extend(line.split(['.', ' ', '=']).next().filter(|it| !it.is_empty()).map(str::to_owned));
        }
    }
    found
}

/// The dependencies that the rank of `name` forbids, with the reason.
fn forbidden<'a>(name: &str, dependencies: &[&'a str]) -> Vec<(&'a str, &'static str)> {
    let rank = |name: &str| RANKS.iter().find(|it| it.0 == name).map(|it| it.1);
    let own = rank(name);
    let is_pure = own.is_some_and(|it| it <= 2);
    let why = |it: &str| match it.strip_prefix("larder-").map(rank) {
        Some(below) if below >= own => Some("is not below it"),
        // The clock that goes on while the machine is suspended; std has none. Its features are looked at below.
        None if (name, it) == ("stdx", "rustix") => None,
        None if is_pure && DOES_IO.contains(&it) => Some("does I/O"),
        _ => None,
    };
    dependencies.iter().filter_map(|it| why(it).map(|why| (*it, why))).collect()
}

#[test]
fn the_layer_check_finds_every_violation() {
    assert!(forbidden("gateway", &["larder-store", "larder-origin", "bytes"]).is_empty());
    assert_eq!(
        [("larder-origin", "is not below it")],
        forbidden("store", &["larder-origin", "larder-wire"])[..]
    );
    assert_eq!([("tokio", "does I/O")], forbidden("wire", &["larder-semantics", "tokio"])[..]);
    assert!(forbidden("transport", &["larder-wire", "tokio"]).is_empty());
}

#[test]
fn every_crate_depends_only_on_lower_ones() {
    for (name, _) in RANKS {
        let dependencies = dependencies(name);
        let names: Vec<&str> = dependencies.iter().map(String::as_str).collect();
        let found = forbidden(name, &names);
        assert!(found.is_empty(), "{name}: {found:?}");
    }
}

#[test]
fn of_rustix_the_lowest_rank_has_the_clock_alone() {
    let manifest = std::fs::read_to_string(root().join("stdx/Cargo.toml")).unwrap();
    let line = manifest.lines().find(|it| it.starts_with("rustix")).unwrap();
    assert_eq!("rustix = { workspace = true, features = [\"time\"] }", line);
}

#[test]
fn the_lower_ranks_do_not_wait() {
    for name in ["stdx", "counters", "semantics", "wire"] {
        for (path, text) in sources(name) {
            assert!(!text.contains("async fn") && !text.contains(".await"), "{} waits", path.display());
        }
    }
}

#[test]
fn timers_are_in_ranks_3_and_4() {
    for (name, _) in RANKS.iter().filter(|it| !matches!(it.1, 0 | 3 | 4)) {
        for (path, text) in sources(name) {
            let text = text.split("#[cfg(test)]").next().unwrap_or_default();
            let is_test = path.components().any(|it| {
                matches!(it.as_os_str().to_str(), Some("tests" | "tests.rs" | "examples" | "benches"))
            });
            assert!(is_test || !text.contains("Instant::now()"), "{} reads a clock", path.display());
        }
    }
}

#[test]
fn every_file_begins_with_its_description_and_is_not_too_long() {
    for (name, _) in RANKS {
        for (path, text) in sources(name) {
            let shown = path.strip_prefix(root()).unwrap().display().to_string();
            let is_test = shown.contains("tests");
            assert!(is_test || text.starts_with("//! "), "{shown} does not begin with what it is");
            let is_table = shown.ends_with("table.rs") || is_test;
            let lines = text.lines().count();
            assert!(is_table || lines <= MAX_LINES, "{shown} has {lines} lines");
        }
    }
}

/// The functions of a file whose body has more than `most` lines, without empty lines, comments and nested functions' signatures.
fn long_functions(text: &str, most: usize) -> Vec<&str> {
    let lines: Vec<&str> = text.lines().collect();
    let is_code = |it: &&str| !it.trim().is_empty() && !it.trim_start().starts_with("//");
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let own = line.trim_start();
        let is_function =
            ["fn ", "pub fn ", "pub(crate) fn ", "pub(super) fn ", "async fn ", "pub async fn "]
                .iter()
                .any(|it| own.starts_with(it));
        if !is_function || own.ends_with('}') {
            continue;
        }
        let indent = &line[..line.len() - own.len()];
        let is_end = |it: &&str| it.strip_prefix(indent) == Some("}");
        let rest = &lines[at..];
        let begin = rest.iter().position(|it| it.ends_with('{')).map_or(0, |it| it + 1);
        let end = rest.iter().position(is_end).unwrap_or(begin);
        if rest.get(begin..end).unwrap_or_default().iter().filter(|it| is_code(it)).count() > most {
            found.push(own);
        }
    }
    found
}

/// The limit of `clippy.toml` for functions in which clippy takes a "/*" of a string for the beginning of a comment, and counts
/// no line after it.
#[test]
fn a_function_with_the_beginning_of_a_comment_in_a_string_has_at_most_75_lines() {
    let body = "    let it = \"/static/*\";\n".repeat(76);
    let text = format!("fn short() {{\n}}\n\nfn long() {{\n{body}}}\n");
    assert_eq!(["fn long() {"], long_functions(&text, 75)[..]);
    for (name, _) in RANKS {
        for (path, text) in sources(name).into_iter().filter(|it| it.1.contains("/*")) {
            if path.components().any(|it| it.as_os_str() == "src")
                && !path.to_string_lossy().contains("tests")
            {
                let found = long_functions(&text, 75);
                assert!(found.is_empty(), "{}: {found:?}", path.display());
            }
        }
    }
}

#[test]
fn no_crate_module_is_a_heap_of_things() {
    for (name, _) in RANKS {
        for (path, _) in sources(name) {
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            let heap = ["utils", "util", "common", "helpers", "helper", "manager", "prelude", "misc"];
            assert!(!heap.contains(&stem.as_str()), "{}", path.display());
        }
    }
}

#[test]
fn every_byte_format_has_a_fuzz_target_of_its_name() {
    // These are written and not read: no one's bytes.
    let is_written = |it: &str| matches!(it, "lib" | "ready_head" | "scgi" | "uwsgi");
    let files = std::fs::read_dir(root().join("wire/src")).unwrap().flatten().map(|it| it.path());
    let files = files.filter(|it| it.extension().is_some_and(|it| it == "rs"));
    let names: Vec<String> = files.map(|it| it.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    let top: Vec<&str> = names.iter().map(String::as_str).filter(|it| !is_written(it)).collect();
    let targets = root().join("fuzz/fuzz_targets");
    for (folder, modules) in [
        ("http1", &["request", "response", "chunked"][..]),
        ("http2", &["frame", "head"]),
        ("http3", &["frame", "head"]),
        ("memcached", &["meta", "binary"]),
        ("", &top),
    ] {
        for module in modules {
            let name = format!("{folder}_{module}");
            let target = targets.join(format!("{}.rs", name.trim_start_matches('_')));
            assert!(root().join("wire/src").join(folder).join(format!("{module}.rs")).exists(), "{name}");
            assert!(target.exists(), "{} is missing", target.display());
        }
    }
}

#[test]
fn decisions_are_made_in_semantics_alone() {
    // The words of a caching decision stand nowhere but where it is made, shown or configured.
    for name in ["transport", "store", "origin", "files"] {
        for (path, text) in
            sources(name).into_iter().filter(|it| !it.0.components().any(|it| it.as_os_str() == "tests"))
        {
            let text = text.split("#[cfg(test)]").next().unwrap_or_default().to_owned();
            for word in ["must-revalidate", "s-maxage", "max-age", "stale-while-revalidate"] {
                assert!(!text.contains(word), "{} decides about {word}", path.display());
            }
        }
    }
}

#[test]
fn every_link_in_the_documents_leads_somewhere() {
    let mut pages: Vec<PathBuf> = vec!["README.md".into(), "ARCHITECTURE.md".into(), "CHANGELOG.md".into()];
    for folder in ["docs", "docs/decisions", "docs/generated"] {
        let found = std::fs::read_dir(root().join(folder)).unwrap().flatten().map(|it| it.path());
        pages.extend(found.filter(|it| it.extension().is_some_and(|it| it == "md")));
    }
    for page in pages {
        let page = root().join(page);
        let text = std::fs::read_to_string(&page).unwrap();
        for rest in text.split("](").skip(1) {
            let link = rest.split([')', '#']).next().unwrap_or("");
            if !link.is_empty() && !link.contains("://") {
                let target = page.parent().unwrap().join(link);
                assert!(target.exists(), "{} links to {link}", page.display());
            }
        }
    }
}

#[test]
fn every_decision_is_in_the_list() {
    let folder = root().join("docs/decisions");
    let list = std::fs::read_to_string(folder.join("README.md")).unwrap();
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        assert!(name == "README.md" || list.contains(&format!("({name})")), "{name} is not in the list");
    }
}

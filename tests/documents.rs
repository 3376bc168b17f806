//! The generated documents (`docs/generated/`) agree with the tables, and ARCHITECTURE.md names what exists. Other tests
//! cover the tables themselves. `LARDER_BLESS=1 cargo test -p larder --test documents` rewrites the documents.

use regex::Regex;
use std::path::{Path, PathBuf};

/// Compares a generated document with the one in the repository, or rewrites that.
#[track_caller]
fn is_current(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/generated").join(name);
    if std::env::var_os("LARDER_BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == text,
        "docs/generated/{name} is out of date: LARDER_BLESS=1 cargo test -p larder --test documents"
    );
}

#[test]
fn configuration() {
    is_current("config.md", &larder_config::generated::manual());
    is_current("config.schema.json", &larder_config::generated::schema());
}

#[test]
fn commands() {
    is_current("cli.md", &larder_commands::cli::help::manual());
}

#[test]
fn counters() {
    is_current("counters.md", &larder_counters::manual());
}

#[test]
fn log() {
    is_current("log.md", &larder_observe::log::fields::manual());
}

/// The part of a document between two markers is what the code draws, or is rewritten.
#[track_caller]
fn is_drawn(document: &str, name: &str, drawing: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(document);
    let text = std::fs::read_to_string(&path).unwrap();
    let (begin, end) = (format!("<!-- drawn: {name} -->\n"), format!("<!-- drawn: end of {name} -->\n"));
    let (before, rest) = text.split_once(&begin).expect("the marker of the drawing");
    let (found, after) = rest.split_once(&end).expect("the marker behind the drawing");
    if std::env::var_os("LARDER_BLESS").is_some() {
        std::fs::write(&path, [before, &begin, drawing, &end, after].concat()).unwrap();
        return;
    }
    assert!(
        found == drawing,
        "the drawing of {name} in {document} is out of date: LARDER_BLESS=1 cargo test -p larder --test documents"
    );
}

/// One test: both write the same file.
#[test]
fn machines() {
    is_drawn("ARCHITECTURE.md", "the request machine", &larder_gateway::request::machine::drawing());
    is_drawn("ARCHITECTURE.md", "the fill machine", &larder_gateway::fill::machine::drawing());
}

#[test]
fn findings() {
    is_drawn("docs/guide/reading-the-page.md", "findings", &larder_semantics::server_state::manual());
}

#[test]
fn reasons() {
    is_drawn("docs/guide/why-is-my-hit-ratio-low.md", "reasons", &larder_semantics::miss_reason::manual());
}

#[test]
fn admin_api() {
    is_current("openapi.json", &format!("{:#}\n", larder_admin::openapi::describe()));
}

/// The root of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The alternatives of a path with braces: `a/{b,c}.rs` is `a/b.rs` and `a/c.rs`.
fn alternatives(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (list, after) = rest.split_once('}').expect("a closing brace");
    list.split(',').flat_map(|it| alternatives(&[before, it, after].concat())).collect()
}

/// The place of a path that ARCHITECTURE.md names: from the root of the repository, or from a folder on the way to a path that
/// was named before it.
fn find_path(path: &str, before: &[PathBuf]) -> Option<PathBuf> {
    let folders = before.iter().rev().flat_map(|it| {
        let own = it.with_extension("");
        let all: Vec<PathBuf> = own.ancestors().map(Path::to_owned).collect();
        all
    });
    let places = std::iter::once(PathBuf::new()).chain(folders).map(|it| it.join(path));
    let exists = |it: &PathBuf| match it.to_str() {
        Some(name) if name.contains('*') => {
            let (folder, file) = name.rsplit_once('/').unwrap_or((".", name));
            let (start, end) = file.split_once('*').unwrap_or((file, ""));
            let mut files = std::fs::read_dir(root().join(folder)).into_iter().flatten().flatten();
            files.any(|it| {
                let it = it.file_name().to_string_lossy().into_owned();
                it.starts_with(start) && it.ends_with(end)
            })
        }
        _ => root().join(it).exists(),
    };
    places.into_iter().find(exists)
}

/// The text of a file, or of all files below a folder.
fn text_below(path: &Path) -> String {
    if path.is_file() {
        return std::fs::read_to_string(path).unwrap_or_default();
    }
    std::fs::read_dir(path).into_iter().flatten().flatten().map(|it| text_below(&it.path())).collect()
}

/// Whether a text has this identifier; of `A::b` each part, of `a_…` its beginning.
fn has_item(text: &str, item: &str) -> bool {
    let end = if item.ends_with('…') { "" } else { r"(?-u:\b)" };
    let is_word = |part: &str| Regex::new(&format!(r"(?-u:\b){part}{end}")).unwrap().is_match(text);
    item.trim_end_matches('…').split("::").all(is_word)
}

/// What ARCHITECTURE.md names and the source does not have: paths, and items that are said to be in a path.
fn missing_in_source(document: &str) -> Vec<String> {
    let quoted = Regex::new(r"`([^`]+)`").unwrap();
    let is_path = Regex::new(r"^[a-z0-9_.{},*/-]+(?:/|\.(?:rs|tsx|ts|mjs|md))$").unwrap();
    let is_item = Regex::new(r"^[A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)*…?$").unwrap();
    let mut missing = Vec::new();
    let mut named: Vec<PathBuf> = Vec::new();
    for (number, line) in document.lines().enumerate() {
        let number = number + 1;
        // A short path belongs to a path before it in its paragraph, or in its row of a table.
        if line.is_empty() || line.starts_with('|') {
            named.clear();
        }
        // Items before the word "in", and the end of the latest.
        let (mut items, mut end): (Vec<&str>, usize) = (Vec::new(), 0);
        // Items that follow a path and a colon are in that path.
        let (mut is_after_path, mut is_listed) = (false, false);
        for it in quoted.captures_iter(line) {
            let (whole, name) = (it.get(0).unwrap(), it.get(1).unwrap().as_str());
            let between = &line[end..whole.start()];
            end = whole.end();
            if is_item.is_match(name) {
                is_listed = is_after_path && between == ": " || is_listed && between == ", ";
                is_after_path = false;
                if let (true, Some(place)) = (is_listed, named.last())
                    && !has_item(&text_below(&root().join(place)), name)
                {
                    missing.push(format!("line {number}: `{name}` is not in `{}`", place.display()));
                }
                if !matches!(between, ", " | " and " | " of ") {
                    items.clear();
                }
                items.push(name);
            } else if is_path.is_match(name) {
                (is_after_path, is_listed) = (true, false);
                for path in alternatives(name) {
                    match find_path(&path, &named) {
                        Some(place) => named.push(place),
                        None => missing.push(format!("line {number}: `{path}` does not exist")),
                    }
                }
                if between == " in " && !items.is_empty() {
                    let text = named.last().map(|it| text_below(&root().join(it))).unwrap_or_default();
                    let absent = items.iter().filter(|it| !has_item(&text, it));
                    missing.extend(absent.map(|it| format!("line {number}: `{it}` is not in `{name}`")));
                }
                items.clear();
            } else {
                (is_after_path, is_listed) = (false, false);
                items.clear();
            }
        }
    }
    missing
}

#[test]
fn the_check_of_architecture_finds_missing_names() {
    let document = "`Regex` in `tests/documents.rs`; `tidy.rs`, `{structure,absent}.rs`\n\
                    `AbsentHere`, `text_below` in `tests/tidy.rs`; `wire/src/`; `http1/chunked.rs`; `tests/absent/`\n\n\
                    `tests/tidy.rs`: `the_lower_…`, `absent_…`";
    let found = missing_in_source(document);
    let expected = [
        "line 1: `absent.rs` does not exist",
        "line 2: `AbsentHere` is not in `tests/tidy.rs`",
        "line 2: `text_below` is not in `tests/tidy.rs`",
        "line 2: `tests/absent/` does not exist",
        "line 4: `absent_…` is not in `tests/tidy.rs`",
    ];
    assert_eq!(expected, found[..]);
}

#[test]
fn architecture_names_only_existing_files_and_items() {
    let document = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let missing = missing_in_source(&document);
    assert!(missing.is_empty(), "ARCHITECTURE.md: {}", missing.join("\n"));
}

/// A type with a member (`Type::member`) that ARCHITECTURE.md names exists somewhere in the source.
#[test]
fn architecture_names_members_that_exist() {
    let document = std::fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let folders = std::fs::read_dir(root()).unwrap().flatten().map(|it| it.path().join("src"));
    let source: String = folders.map(|it| text_below(&it)).collect();
    let member = Regex::new(r"`([A-Za-z_][A-Za-z0-9_]*(?:::[A-Za-z_][A-Za-z0-9_]*)+)`").unwrap();
    let named = member.captures_iter(&document).map(|it| it.get(1).unwrap().as_str());
    let missing: Vec<&str> = named.filter(|it| !has_item(&source, it)).collect();
    assert!(missing.is_empty(), "ARCHITECTURE.md names items that do not exist: {missing:?}");
}

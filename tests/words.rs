//! Words that plain technical English does without: the subject of a clause is a thing of the field, not a pronoun. Checked
//! in the documents, the generated manuals (keys, counters, events, commands), the page, string literals of the sources, and
//! the documentation and comments of the crates in [`DOCUMENTED`], and the module documentation of their tests.

use super::{root, sources};
use regex::Regex;
use std::sync::LazyLock;

/// Refused in every case. Matched as whole words.
const REFUSED: &[&str] = &[
    "whoever",
    "nobody",
    "somebody",
    "anybody",
    "anew",
    "in vain",
    "left alone",
    "is told",
    "are told",
    "is said",
    "so many",
    "so much",
    "so long",
    "beside",
    "or else",
    "serves on",
];

/// A pronoun as the subject at the start of a clause: at the start of the text, after `.`, `;`, `:`, `?`, `!`, `(`, or after a
/// comma and a conjunction.
static SUBJECTS: LazyLock<Regex> = LazyLock::new(|| {
    let clause = r"(?:^|[.;:!?]\**\s+|\(|,\s+(?:(?:and|but|or|so|then)\s+)?)";
    Regex::new(&format!(r"(?-u){clause}\**(who|whom|whoever|what|nobody|somebody|others)\b")).unwrap()
});

/// `else` for *otherwise*; "nothing else" and the like are refused by no rule.
static ELSE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?-u)(?:^|(\w+)\s+|[\s(,;:])else\b").unwrap());

/// Words after which `else` is an adjective.
const BEFORE_ELSE: &[&str] = &[
    "anything",
    "everything",
    "nothing",
    "something",
    "anyone",
    "everyone",
    "no one",
    "anywhere",
    "somewhere",
    "nowhere",
];

/// Folders with documents for operators and developers, the generated manuals included.
const DOCUMENTS: &[&str] = &["", "docs", "docs/decisions", "docs/generated", "docs/guide"];

/// Crates and folders whose literals are read by users. The demo's pages are a story, not messages.
const LITERALS: &[&str] = &[
    "admin/src",
    "commands/src",
    "config/src",
    "database/src",
    "files/src",
    "gateway/src",
    "larder/src",
    "observe/src",
    "origin/src",
    "purge_log/src",
    "semantics/src",
    "server/src",
    "worker/src",
    "store/src",
    "transport/src",
    "wire/src",
];

/// Crates whose documentation (`//!`, `///`) is checked. The list may only become longer.
const DOCUMENTED: &[&str] = &[
    "stdx/src",
    "counters/src",
    "semantics/src",
    "files/src",
    "observe/src",
    "commands/src",
    "config/src",
    "transport/src",
    "wire/src",
    "purge_log/src",
    "store/src",
    "origin/src",
    "gateway/src",
    "admin/src",
    "server/src",
    "worker/src",
    "larder/src",
    "bench/src",
];

/// Folders in which every module's own documentation (`//!`) is checked, that of tests too.
const MODULES: &[&str] = &["tests", "fuzz/laws"];

/// The first refused word of a text, or a refused subject or `else`. Code in backticks is not looked at.
fn refused(text: &str) -> Option<String> {
    let text = text.split('`').step_by(2).collect::<Vec<_>>().join("x").to_lowercase();
    let text = text.trim_start_matches(|it: char| " *-#|.".contains(it) || it.is_ascii_digit());
    let subject = || SUBJECTS.captures(text).map(|it| format!("{} as a subject", &it[1]));
    let bare = |it: &regex::Captures<'_>| it.get(1).is_none_or(|word| !BEFORE_ELSE.contains(&word.as_str()));
    let otherwise = || ELSE.captures_iter(text).find(bare).map(|_| "else".to_owned());
    refused_word(text).map(str::to_owned).or_else(subject).or_else(otherwise)
}

/// The first of [`REFUSED`] in a text.
fn refused_word(text: &str) -> Option<&'static str> {
    let text = text.to_lowercase();
    let is_word = |it: Option<char>| it.is_some_and(|it| it.is_alphanumeric() || it == '_' || it == '-');
    REFUSED.iter().copied().find(|word| {
        text.match_indices(word).any(|(at, _)| {
            !is_word(text[..at].chars().next_back()) && !is_word(text[at + word.len()..].chars().next())
        })
    })
}

/// A comment, a character, a raw string or a string: they decide where a literal begins and ends.
static LITERAL: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r##"(?s)//[^\n]*|'(?:\\[^']+|[^\\'])'|(?-u:\b)r#"(?<raw>.*?)"#|(?-u:\b)r"(?<plain>[^"]*)"|"(?<text>(?:\\.|[^"\\])*)""##).unwrap()
});

/// The end of a line within a literal that a backslash continues.
static CONTINUED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\\\n[ \n]*").unwrap());

/// The literals of a source text that are sentences, of at least three words: the number of the line of each, and its text.
fn sentences(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for it in LITERAL.captures_iter(source) {
        let Some(text) = it.name("raw").or(it.name("plain")).or(it.name("text")) else { continue };
        let line = source[..text.start()].matches('\n').count() + 1;
        let text = CONTINUED.replace_all(text.as_str(), "").into_owned();
        if text.split_whitespace().count() >= 3 && !is_code(&text) {
            found.push((line, text));
        }
    }
    found
}

/// Whether a literal is a program: a query of a database, or a script of a shell.
fn is_code(text: &str) -> bool {
    text.starts_with("SELECT ") || text.contains("$(")
}

/// The documentation of a line: the text after `///` or `//!`.
fn documentation(line: &str) -> Option<&str> {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).map(str::trim_start)
}

/// The comment of a line that is no documentation: the text after `//`, unless that is in a literal, such as a URL.
fn comment(line: &str) -> Option<&str> {
    let (before, text) = line.split_once("//")?;
    let is_comment =
        !before.ends_with(':') && before.matches('"').count() % 2 == 0 && !text.starts_with(['/', '!']);
    is_comment.then(|| text.trim_start())
}

/// A comment of a TypeScript file.
static PAGE_COMMENT: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?s)/\*.*?\*/|(?-u:\B)//[^\n]*").unwrap());

/// A text of the page: a literal, or the text between two tags or expressions.
static PAGE_TEXT: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r#""(?<literal>(?:\\.|[^"\\\n])*)"|`(?<template>(?:\\.|[^`\\\n])*)`|[>}](?<inner>[^<>{}=;"`]+)"#,
    )
    .unwrap()
});

/// An expression in a template.
static EXPRESSION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\$\{[^}]*\}").unwrap());

/// The texts of a file of the page that are sentences, of at least three words: the number of the line of each, and its text.
fn page_texts(source: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let blank = |it: &regex::Captures<'_>| "\n".repeat(it[0].matches('\n').count());
    let source = PAGE_COMMENT.replace_all(source, blank);
    for it in PAGE_TEXT.captures_iter(&source) {
        let Some(text) = it.name("literal").or(it.name("template")).or(it.name("inner")) else { continue };
        let line = source[..text.start()].matches('\n').count() + 1;
        let words: Vec<&str> = text.as_str().split_whitespace().collect();
        let is_code = ["function", "async", "else", "export", "const", "return"]
            .iter()
            .any(|it| words.first() == Some(it));
        if words.len() >= 3 && !is_code {
            found.push((line, EXPRESSION.replace_all(&words.join(" "), "x").into_owned()));
        }
    }
    found
}

/// The start of the test module that ends a file; one in a file of its own is not.
fn test_module(text: &str) -> Option<usize> {
    let begins = |at: usize| text[at..].lines().skip(1).find(|it| !it.starts_with("#["));
    let mut places = text.match_indices("#[cfg(test)]\n").map(|it| it.0);
    places.find(|at| begins(*at).is_some_and(|it| it.contains("mod ") && it.ends_with('{')))
}

/// Every source file of the folders outside of tests, without its test module: the name and the text.
fn outside_of_tests(folders: &[&str]) -> Vec<(String, String)> {
    let found = folders.iter().flat_map(|it| sources(it)).map(|(path, text)| {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        (name, text[..test_module(&text).unwrap_or(text.len())].to_owned())
    });
    found.filter(|(name, _)| !name.contains("test") && !name.ends_with("model.rs")).collect()
}

#[test]
fn the_word_check_finds_every_refused_word() {
    let check = |word: Option<&str>, text: &str| assert_eq!(word, refused(text).as_deref(), "{text}");
    check(Some("nobody"), "Without it, nobody is served.");
    check(Some("is told"), "The client IS TOLD so.");
    check(None, "`who` is `nobody` without a token; renewed, besides");
    check(Some("what as a subject"), "What an origin sends is forwarded.");
    check(Some("what as a subject"), "* **What an origin sends** is forwarded.");
    check(Some("others as a subject"), "One is full, and others wait.");
    check(Some("who as a subject"), "Purges: who may send them.");
    check(None, "It reports what was found, and the other clients who wait.");
    check(Some("else"), "the name, else the first host");
    check(Some("else"), "Else it waits.");
    check(None, "nothing else is sent; elsewhere it is");
    let only = |text: &str| sentences(text).into_iter().map(|it| it.1).collect::<Vec<_>>();
    assert_eq!(vec!["one two three"], only("f('\"', \"one two three\", \"short\") // \""));
    assert_eq!(vec!["one two three four"], only("f(\"one two \\\n    three four\")"));
    assert_eq!(vec!["a \"b\" c d"], only("f(r#\"a \"b\" c d\"#)"));
    assert_eq!(vec!["x \\\" y z"], only("f(\"x \\\" y z\")"));
    assert!(sentences("  // says \"one two three\"").is_empty());
    assert!(sentences("execute(\"SELECT CASE WHEN a THEN b ELSE c END\")").is_empty());
    assert_eq!(Some("A thing."), documentation("    /// A thing."));
    assert_eq!(None, documentation("    // A thing."));
    assert_eq!(Some("A thing."), comment("    a(); // A thing."));
    assert_eq!(None, comment("    a(\"http://h\"); /// A thing."));
    let only = |text: &str| page_texts(text).into_iter().map(|it| it.1).collect::<Vec<_>>();
    assert_eq!(vec!["What was different:"], only("<h2>\n  What was different:{' '}\n</h2>"));
    assert_eq!(vec!["What x did"], only("const a = `What ${it.name} did`; // What it does."));
    assert!(only("} else if (what) { /** What it is. */ } function a(what: string, b: number) {").is_empty());
    assert_eq!(None, test_module("#[cfg(test)]\nmod tests;\n\n/// A thing.\npub mod thing {"));
    assert_eq!(Some(2), test_module("x\n#[cfg(test)]\n#[path = \"x\"]\npub mod tests {\n"));
}

#[test]
fn documents_have_no_refused_words() {
    let mut found = Vec::new();
    for folder in DOCUMENTS {
        for entry in std::fs::read_dir(root().join(folder)).unwrap().flatten() {
            let name = entry.file_name().display().to_string();
            if !name.ends_with(".md") {
                continue;
            }
            let text = std::fs::read_to_string(entry.path()).unwrap();
            let bad = text.lines().enumerate().filter_map(|(at, line)| Some((at, refused(line)?)));
            found.extend(bad.map(|(at, word)| format!("{folder}/{name}:{}: {word:?}", at + 1)));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn messages_have_no_refused_words() {
    let mut found = Vec::new();
    for (name, text) in outside_of_tests(LITERALS).iter().filter(|it| !it.0.contains("/demo/")) {
        let words = sentences(text).into_iter().filter_map(|(line, it)| Some((line, refused(&it)?)));
        found.extend(words.map(|(line, word)| format!("{name}:{line}: {word:?}")));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn documentation_and_comments_have_no_refused_words() {
    let mut found = Vec::new();
    for (name, text) in outside_of_tests(DOCUMENTED) {
        let said = |it| documentation(it).or_else(|| comment(it));
        let words = text.lines().enumerate().filter_map(|(at, it)| Some((at, refused(said(it)?)?)));
        found.extend(words.map(|(at, word)| format!("{name}:{}: {word:?}", at + 1)));
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn documentation_of_modules_has_no_refused_words() {
    let mut found = Vec::new();
    let crates = DOCUMENTED.iter().map(|it| it.trim_end_matches("/src"));
    for (path, text) in crates.chain(MODULES.iter().copied()).flat_map(sources) {
        let lines = text.lines().filter_map(|it| it.strip_prefix("//!"));
        found.extend(
            lines.filter_map(|it| Some(format!("{}: {:?}", path.display(), refused(it.trim_start())?))),
        );
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_page_has_no_refused_words() {
    let mut found = Vec::new();
    let mut folders = vec![root().join("ui/src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|it| it == "tsx" || it == "ts" || it == "css") {
                let text = std::fs::read_to_string(&path).unwrap();
                let words = text.lines().enumerate().filter_map(|(at, it)| Some((at + 1, refused_word(it)?)));
                found.extend(words.map(|(at, word)| format!("{}:{at}: {word:?}", path.display())));
                let texts = page_texts(&text).into_iter().filter_map(|(at, it)| Some((at, refused(&it)?)));
                found.extend(texts.map(|(at, word)| format!("{}:{at}: {word:?}", path.display())));
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

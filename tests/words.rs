//! Words that no sentence for an operator may have: the subject of a clause is a thing of the field, not a person. Checked
//! in the documents, the generated manuals (keys, counters, events, commands), the page, and string literals of the sources.

use super::{root, sources};

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
];

/// Text that has a refused word, and why it may.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("`nobody`", "the value of `who` in the audit log and the API"),
    ("setanew", "a variable of the page"),
    ("const [anew", "a variable of the page"),
    ("{anew &&", "a variable of the page"),
];

/// Documents for operators, the generated manuals included.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "docs/operations.md",
    "docs/mod_mcpage.md",
    "docs/statistics.md",
    "docs/fleet-envelope.md",
    "docs/trace-format.md",
    "docs/generated/config.md",
    "docs/generated/counters.md",
    "docs/generated/log.md",
    "docs/generated/cli.md",
];

/// Crates and folders whose literals are read by users. The demo's pages are a story, not messages.
const LITERALS: &[&str] = &[
    "admin/src",
    "commands/src",
    "config/src",
    "files/src",
    "gateway/src",
    "larder/src",
    "observe/src",
    "origin/src",
    "semantics/src",
    "server/src",
    "store/src",
    "transport/src",
    "wire/src",
];

/// The first refused word of a text, if it has one.
fn refused(text: &str) -> Option<&'static str> {
    let text = EXCEPTIONS.iter().fold(text.to_lowercase(), |text, it| text.replace(it.0, ""));
    let is_word = |it: Option<char>| it.is_some_and(|it| it.is_alphanumeric() || it == '_' || it == '-');
    REFUSED.iter().copied().find(|word| {
        text.match_indices(word).any(|(at, _)| {
            !is_word(text[..at].chars().next_back()) && !is_word(text[at + word.len()..].chars().next())
        })
    })
}

/// The literals of a line that are sentences: at least three words.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let is_comment = line.trim_start().starts_with("//");
    let parts = line.split('"').skip(1).step_by(2);
    parts.filter(move |it| !is_comment && it.split_whitespace().count() >= 3)
}

#[test]
fn the_word_check_finds_what_it_should() {
    assert_eq!(Some("nobody"), refused("Without it, nobody is served."));
    assert_eq!(Some("is told"), refused("The client IS TOLD so."));
    assert_eq!(None, refused("`who` is `nobody` without a token; renewed, besides"));
    assert_eq!(vec!["one two three"], sentences("f(\"one two three\", \"short\") // \"").collect::<Vec<_>>());
    assert_eq!(0, sentences("  // says \"one two three\"").count());
}

#[test]
fn what_operators_read_has_no_refused_words() {
    let mut found = Vec::new();
    for name in DOCUMENTS {
        let text = std::fs::read_to_string(root().join(name)).unwrap();
        let bad = text.lines().enumerate().filter_map(|(at, line)| Some((at, refused(line)?)));
        found.extend(bad.map(|(at, word)| format!("{name}:{}: {word:?}", at + 1)));
    }
    for (path, text) in LITERALS.iter().flat_map(|it| sources(it)) {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        if name.contains("tests") || name.contains("/demo/") || name.ends_with("model.rs") {
            continue;
        }
        let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        for (at, line) in text.lines().enumerate() {
            let words = sentences(line).filter_map(refused);
            found.extend(words.map(|word| format!("{name}:{}: {word:?}", at + 1)));
        }
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
            } else if path.extension().is_some_and(|it| it == "tsx" || it == "ts") {
                let text = std::fs::read_to_string(&path).unwrap();
                for (at, line) in text.lines().enumerate() {
                    let line = line.split("//").next().unwrap_or_default().trim_start();
                    if !line.starts_with(['*', '/'])
                        && !line.starts_with("{/*")
                        && let Some(word) = refused(line)
                    {
                        found.push(format!("{}:{}: {word:?}", path.display(), at + 1));
                    }
                }
            }
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

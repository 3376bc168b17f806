//! From the text of a file to checked values by key: types, ranges and names. Relations between values are not here.

use super::foreign;
use super::kind::{ConfigValue, TextForm, ValueKind};
use super::problem::{Problem, Source, nearest};
use super::table;
use std::collections::BTreeMap;
use std::sync::Arc;
use toml_edit::{Array, Document, Item, TableLike};

/// Every given value, by its path (`site[0].route[1].cache.default_ttl`), and the errors.
#[derive(Debug, Default)]
pub struct Values {
    /// The values, without sections.
    pub given: BTreeMap<String, (ConfigValue, Source)>,
    /// The start of each section, by its path (`site[0].route[1]`).
    pub sections: BTreeMap<String, Source>,
    /// The errors.
    pub problems: Vec<Problem>,
}

impl Values {
    /// Parses the text of a file; `file` is its name in messages.
    #[must_use]
    pub fn read(text: &str, file: &str) -> Values {
        let mut walk = ValueWalk { text, file: Arc::from(file), values: Values::default() };
        match Document::parse(text) {
            Ok(document) => walk.table("", "", document.as_table()),
            Err(error) => {
                let at = error.span().map_or(0, |it| it.start);
                let text = format!("not TOML: {}", error.message());
                walk.report(at, "", text);
            }
        }
        walk.values
    }

    /// Sets a value in the notation of a flag, or of a file, overriding the file's value.
    pub fn set(&mut self, path: &str, text: &str, flag: &str) {
        let source = Source::Flag(Arc::from(flag));
        let Some(key) = table::find(&pattern_of(path)) else {
            debug_assert!(false, "a flag names the unknown key {path}");
            return;
        };
        // An access-log format has braces, too, but is not a table.
        let fits = |it: &Item| !(matches!(key.kind, ValueKind::One(_)) && it.is_inline_table());
        let read = match as_in_a_file(text).filter(fits).map(|it| check(&key.kind, &it)) {
            Some(read) => read,
            None => key.kind.parse(text),
        };
        let value = read.unwrap_or_else(|allowed| {
            let hint = without_unit(&key.kind, text);
            let text = format!("found {text:?}{hint}; allowed: {allowed}");
            self.problems.push(Problem { source: source.clone(), key: key.path.to_owned(), text });
            ConfigValue::Wrong
        });
        self.given.insert(path.to_owned(), (value, source));
    }

    /// The number of members of the list of sections at `path`: `site` or `site[0].route`.
    #[must_use]
    pub fn count(&self, path: &str) -> usize {
        (0..).take_while(|it| self.sections.contains_key(&format!("{path}[{it}]"))).count()
    }
}

/// The value of a flag in the notation of a file: in quotes, brackets or braces. `None` if it is plain.
fn as_in_a_file(text: &str) -> Option<Item> {
    // An IPv6 address has brackets, too, but is not TOML.
    let line = text.trim_start().starts_with(['"', '\'', '[', '{']).then(|| format!("value = {text}"))?;
    let document = Document::parse(line.as_str()).ok()?;
    let table = document.as_table();
    table.get("value").filter(|_| table.len() == 1).cloned()
}

/// Converts a list in the notation of a file to one with only commas between its members; a plain list is unchanged.
#[must_use]
pub fn plain_list(text: &str) -> String {
    match as_in_a_file(text) {
        Some(Item::Value(toml_edit::Value::Array(array))) => {
            texts(&array).map_or_else(|| text.to_owned(), |it| it.join(","))
        }
        Some(Item::Value(value)) => value.as_str().unwrap_or(text).to_owned(),
        _ => text.to_owned(),
    }
}

/// The pattern of `site[0].route[12].path` in the table: `site[].route[].path`.
pub fn pattern_of(path: &str) -> String {
    let mut is_within = false;
    let keeps = |it: &char| {
        is_within = *it == '[' || is_within && *it != ']';
        !is_within || !it.is_ascii_digit()
    };
    path.chars().filter(keeps).collect()
}

/// A pattern for display: `site.route.path`.
#[must_use]
pub fn dotted(pattern: &str) -> String {
    pattern.replace("[]", "")
}

/// Line and character of a byte, both counted from 1.
fn position(text: &str, at: usize) -> (u32, u32) {
    let before = &text.as_bytes()[..at.min(text.len())];
    let line = 1 + before.iter().filter(|it| **it == b'\n').count();
    let start = before.iter().rposition(|it| *it == b'\n').map_or(0, |it| it + 1);
    let column = 1 + String::from_utf8_lossy(&before[start..]).chars().count();
    let number = |it| u32::try_from(it).unwrap_or(u32::MAX);
    (number(line), number(column))
}

struct ValueWalk<'t> {
    text: &'t str,
    file: Arc<str>,
    values: Values,
}

impl ValueWalk<'_> {
    fn source(&self, at: usize) -> Source {
        let (line, column) = position(self.text, at);
        Source::Line { file: self.file.clone(), line, column }
    }

    fn report(&mut self, at: usize, pattern: &str, text: String) {
        let source = self.source(at);
        self.values.problems.push(Problem { source, key: dotted(pattern), text });
    }

    /// `path` and `pattern` differ only in the numbers between brackets.
    fn table(&mut self, path: &str, pattern: &str, table: &dyn TableLike) {
        for (name, item) in table.iter() {
            let join = |it: &str| if it.is_empty() { name.to_owned() } else { format!("{it}.{name}") };
            let key_at = table.get_key_value(name).and_then(|it| it.0.span());
            let at = key_at.or_else(|| item.span()).map_or(0, |it| it.start);
            self.entry(&join(path), &join(pattern), at, item);
        }
    }

    fn entry(&mut self, path: &str, pattern: &str, at: usize, item: &Item) {
        if let Some(key) = table::find(pattern) {
            let source = self.source(at);
            let value = check(&key.kind, item).unwrap_or_else(|allowed| {
                let found = self.found(item);
                let hint = without_unit(&key.kind, found.trim_matches('"'));
                self.report(at, pattern, format!("found {found}{hint}; allowed: {allowed}"));
                ConfigValue::Wrong
            });
            self.values.given.insert(path.to_owned(), (value, source));
        } else if table::is_section(&format!("{pattern}[]")) {
            self.list(path, pattern, at, item);
        } else if table::is_section(pattern) {
            let source = self.source(at);
            self.values.sections.insert(path.to_owned(), source);
            match item.as_table_like() {
                Some(table) => self.table(path, pattern, table),
                None => {
                    let found = self.found(item);
                    self.report(
                        at,
                        pattern,
                        format!("expected a section, [{}]; found {found}", dotted(pattern)),
                    );
                }
            }
        } else {
            self.report(at, pattern, unknown(pattern));
        }
    }

    /// A list of sections: `[[site]]`, or an array of inline tables.
    fn list(&mut self, path: &str, pattern: &str, at: usize, item: &Item) {
        let members: Option<Vec<(usize, &dyn TableLike)>> = match item {
            Item::ArrayOfTables(tables) => Some(
                tables.iter().map(|it| (it.span().map_or(at, |it| it.start), it as &dyn TableLike)).collect(),
            ),
            Item::Value(value) => value.as_array().and_then(|array| inline_tables(array, at)),
            _ => None,
        };
        let Some(members) = members else {
            let found = self.found(item);
            self.report(
                at,
                pattern,
                format!("expected sections that begin with [[{}]]; found {found}", dotted(pattern)),
            );
            return;
        };
        for (index, (at, table)) in members.into_iter().enumerate() {
            let path = format!("{path}[{index}]");
            let source = self.source(at);
            self.values.sections.insert(path.clone(), source);
            self.table(&path, &format!("{pattern}[]"), table);
        }
    }

    /// A value in the notation of the file, truncated if long.
    fn found(&self, item: &Item) -> String {
        let raw = match item {
            Item::Table(_) => "a section",
            Item::ArrayOfTables(_) => "a list of sections",
            _ => item.span().and_then(|it| self.text.get(it)).unwrap_or("nothing"),
        };
        let line = raw.lines().next().unwrap_or("");
        match line.char_indices().nth(60) {
            Some((cut, _)) => format!("{}…", &line[..cut]),
            None if line.len() < raw.len() => format!("{line}…"),
            None => line.to_owned(),
        }
    }
}

/// The members of an array of inline tables; `None` if it has any other member.
fn inline_tables(array: &Array, at: usize) -> Option<Vec<(usize, &dyn TableLike)>> {
    let mut tables: Vec<(usize, &dyn TableLike)> = Vec::new();
    for value in array {
        tables.push((span_start(value, at), value.as_inline_table()?));
    }
    Some(tables)
}

fn span_start(value: &toml_edit::Value, or: usize) -> usize {
    value.span().map_or(or, |it| it.start)
}

/// Converts a TOML item to its key's kind.
fn check(kind: &ValueKind, item: &Item) -> Result<ConfigValue, String> {
    let allowed = || kind.allowed();
    match (kind, item) {
        (ValueKind::Bool, Item::Value(value)) => value.as_bool().map(ConfigValue::Bool).ok_or_else(allowed),
        (ValueKind::Integer { .. }, Item::Value(value)) => {
            kind.parse(&value.as_integer().ok_or_else(allowed)?.to_string())
        }
        (ValueKind::Size { .. }, Item::Value(value)) => match value.as_integer() {
            Some(bytes) => kind.parse(&bytes.to_string()),
            None => kind.parse(value.as_str().ok_or_else(allowed)?),
        },
        (ValueKind::List(TextForm::FailureStatus), Item::Value(toml_edit::Value::Array(array))) => {
            let numbers: Option<Vec<_>> = array.iter().map(status).collect();
            kind.parse_list(numbers.ok_or_else(allowed)?.iter().map(String::as_str))
        }
        (ValueKind::List(_), Item::Value(toml_edit::Value::Array(array))) => {
            kind.parse_list(texts(array).ok_or_else(allowed)?.into_iter())
        }
        (ValueKind::List(_), Item::Value(value)) => {
            kind.parse_list(std::iter::once(value.as_str().ok_or_else(allowed)?))
        }
        (ValueKind::StatusTtls { .. }, item) => {
            let table = item.as_table_like().ok_or_else(allowed)?;
            let pair = |(status, item): (&str, &Item)| kind.parse_status_ttl(status, item.as_str()?);
            let pairs: Option<Vec<_>> = table.iter().map(pair).collect();
            pairs.map(ConfigValue::StatusTtls).ok_or_else(allowed)
        }
        (ValueKind::Pairs { .. }, item) => {
            let table = item.as_table_like().ok_or_else(allowed)?;
            let pairs: Option<Vec<_>> = table.iter().map(|(name, it)| Some((name, it.as_str()?))).collect();
            kind.parse_pairs(pairs.ok_or_else(allowed)?.into_iter())
        }
        (_, item) => kind.parse(item.as_str().ok_or_else(allowed)?),
    }
}

/// The hint for a duration or a size without unit, to be appended to "found 5"; empty otherwise.
fn without_unit(kind: &ValueKind, text: &str) -> String {
    match kind {
        ValueKind::Time { .. }
        | ValueKind::TimeOrOff { .. }
        | ValueKind::Seconds { .. }
        | ValueKind::SecondsOrOff { .. } => larder_stdx::duration::without_unit(text),
        ValueKind::Size { .. } => larder_stdx::size::without_unit(text),
        _ => String::new(),
    }
}

/// A status, as a number or as a text.
fn status(value: &toml_edit::Value) -> Option<String> {
    value.as_integer().map(|it| it.to_string()).or_else(|| value.as_str().map(str::to_owned))
}

fn texts(array: &Array) -> Option<Vec<&str>> {
    array.iter().map(toml_edit::Value::as_str).collect()
}

/// The message for an unknown key: the key for a word of another server, otherwise the most similar one.
fn unknown(pattern: &str) -> String {
    let (section, name) = match pattern.rfind('.') {
        Some(dot) => (&pattern[..=dot], &pattern[dot + 1..]),
        None => ("", pattern),
    };
    let known: Vec<String> = table::patterns().collect();
    let child = |it: &str, section: &str| -> Option<String> {
        let rest = it.strip_prefix(section)?;
        Some(rest.split('.').next().unwrap_or(rest).trim_end_matches("[]").to_owned())
    };
    let mut siblings: Vec<String> = known.iter().filter_map(|it| child(it, section)).collect();
    siblings.dedup();
    let place = if section.is_empty() { "at the top level" } else { "here" };
    let listed = || format!("unknown key; known {place}: {}", siblings.join(", "));
    match foreign::hint(section, name) {
        Some(hint) if hint.is_empty() => return listed(),
        Some(hint) => return format!("unknown key; {hint}"),
        None => {}
    }
    if let Some(near) = nearest(name, siblings.iter().map(String::as_str)) {
        return format!("unknown key; did you mean `{}{near}`?", dotted(section));
    }
    // The right name in the wrong place: prefer a place below this section.
    let named = |it: &&String| it.rsplit('.').next() == Some(name);
    let mut elsewhere: Vec<&String> =
        known.iter().filter(|it| named(it) && it.starts_with(section)).collect();
    if elsewhere.is_empty() {
        elsewhere = known.iter().filter(named).collect();
        // An inherited key is also at the top level.
        elsewhere.truncate(1);
    }
    let is_near = |it: &String| it.strip_prefix(section).is_some_and(|it| it.matches('.').count() == 1);
    // One section below this one it is the intended key, unless it is one common word (size, path); such a word, or a name
    // in a distant section, may be another key: its sentence explains it.
    if let Some(near) = elsewhere.iter().find(|it| is_near(it) && name.contains('_')) {
        return format!("unknown key here; move it to `{}`", dotted(near));
    }
    if !elsewhere.is_empty() {
        return format!("unknown key here; {}", of_that_name(&elsewhere));
    }
    listed()
}

/// Keys with the name of an unknown one, each with its effect.
fn of_that_name(keys: &[&String]) -> String {
    let told = keys.iter().map(|it| {
        let help = table::find(it).map_or("", |it| it.help);
        format!(
            "`{}` is a different key: {}",
            dotted(it),
            help.split(". ").next().unwrap_or(help).trim_end_matches('.')
        )
    });
    told.collect::<Vec<_>>().join("; ")
}

//! From the texts of the files to checked values by key: types, ranges and names. Relations between values are not here.

use super::base_of;
use super::expand::{self, VariableSyntax};
use super::hide;
use super::include::{self, IncludedFile, IncludedTexts, WatchedFiles};
use super::key_path::{dotted, pattern_of};
use super::kind::{BLOCK, ConfigValue, ValueKind, is_block_name};
use super::problem::{Problem, Source};
use super::substituted::SubstitutedValues;
use super::table::{self, Key, ROUTE};
use super::{toml_value, unknown};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use toml_edit::{Array, Document, Item, TableLike};

/// Every given value, by its path (`site[0].route[1].cache.default_ttl`), and the errors.
#[derive(Debug, Default)]
pub struct Values {
    /// The values, without sections.
    pub given: BTreeMap<String, (ConfigValue, Source)>,
    /// The start of each section, by its path (`site[0].route[1]`).
    pub sections: BTreeMap<String, Source>,
    /// The sections with an unknown key or section, which may be a misspelt one.
    pub broken: BTreeSet<String>,
    /// The errors.
    pub problems: Vec<Problem>,
    /// Permitted, but probably mistakes.
    pub warnings: Vec<Problem>,
    /// The directory for the relative paths of each file, in the order in which they were read.
    pub bases: Vec<(Arc<str>, PathBuf)>,
    /// The included files, in the order in which they were read.
    pub included: Vec<IncludedFile>,
    /// The other files that count for the configuration, readable or not.
    pub watched: WatchedFiles,
    /// The texts with variables of the environment, as they are in the file.
    pub variables: Vec<(Source, String)>,
    /// The values of these variables.
    pub substituted: SubstitutedValues,
}

impl Values {
    /// Parses the text of a file, and the files that it includes. `file` is its name in messages, `base` the directory for
    /// its relative paths.
    #[must_use]
    pub fn read(text: &str, file: &str, base: &Path) -> Values {
        Self::read_with(text, file, base, &IncludedTexts::new())
    }

    /// As [`Values::read`], with other texts for some of the included files.
    #[must_use]
    pub fn read_with(text: &str, file: &str, base: &Path, others: &IncludedTexts) -> Values {
        let mut values = Values::default();
        let around = std::fs::metadata(file).map(|it| (it.dev(), it.ino()));
        let chain = around.into_iter().collect();
        Reading { values: &mut values, chain, seen: BTreeMap::new(), others }.file(text, file, base);
        values
    }

    /// The directory for the relative paths of a source; `None` for a flag and a default.
    #[must_use]
    pub fn base(&self, source: &Source) -> Option<&Path> {
        let Source::Line { file, .. } = source else { return None };
        self.bases.iter().find(|it| it.0 == *file).map(|it| it.1.as_path())
    }

    /// The position of a problem among all: by file, then by line.
    #[must_use]
    pub fn order(&self, source: &Source) -> (usize, u32) {
        match source {
            Source::Line { file, line, .. } => {
                (1 + self.bases.iter().position(|it| it.0 == *file).unwrap_or(0), *line)
            }
            Source::Default | Source::Flag(_) | Source::Preset(_) => (0, 0),
        }
    }

    /// Sets a value in the notation of a flag, or of a file, overriding the file's value.
    pub fn set(&mut self, path: &str, text: &str, flag: &str) {
        let source = Source::Flag(Arc::from(flag));
        let Some(key) = table::find(&pattern_of(path)) else {
            debug_assert!(false, "a flag names the unknown key {path}");
            return;
        };
        let expanded = match self.substituted.replaced(text, syntax_of(&key.kind), &source) {
            Ok(expanded) => expanded,
            Err(all) => {
                let problem = |text| Problem { source: source.clone(), key: key.path.to_owned(), text };
                self.problems.extend(all.into_iter().map(problem));
                self.given.insert(path.to_owned(), (ConfigValue::Wrong, source));
                return;
            }
        };
        let (written, text) = (text, &*expanded);
        // An access-log format has braces, too, but is not a table.
        let fits = |it: &Item| !(matches!(key.kind, ValueKind::One(_)) && it.is_inline_table());
        let read = match as_in_a_file(text).filter(fits).map(|it| toml_value::of_item(&key.kind, &it)) {
            Some(read) => read,
            None => key.kind.parse_written(text, written),
        };
        let value = read.unwrap_or_else(|allowed| {
            let hint = without_unit(&key.kind, written);
            let allowed = self.without_values(key, &source, allowed);
            let text = match key.kind.is_secret() {
                true => format!("found another value; allowed: {allowed}"),
                false => format!("found {:?}{hint}; allowed: {allowed}", hide::without_passwords(written)),
            };
            self.problems.push(Problem { source: source.clone(), key: key.path.to_owned(), text });
            ConfigValue::Wrong
        });
        self.given.insert(path.to_owned(), (value, source));
    }

    /// The sentence about a value that is not allowed, without the values of variables. That of a condition quotes what is written.
    fn without_values(&self, key: &Key, source: &Source, allowed: String) -> String {
        match syntax_of(&key.kind) {
            VariableSyntax::Condition => allowed,
            VariableSyntax::Plain => {
                self.substituted.hide(source, &allowed).unwrap_or_else(|_| key.kind.allowed())
            }
        }
    }

    /// The number of members of the list of sections at `path`: `site` or `site[0].route`.
    #[must_use]
    pub fn count(&self, path: &str) -> usize {
        (0..).take_while(|it| self.sections.contains_key(&format!("{path}[{it}]"))).count()
    }
}

/// How the values of variables are written in the text of a key.
fn syntax_of(kind: &ValueKind) -> VariableSyntax {
    match kind {
        ValueKind::One(form) if form.is_condition() => VariableSyntax::Condition,
        _ => VariableSyntax::Plain,
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
            toml_value::texts(&array).map_or_else(|| text.to_owned(), |it| it.join(","))
        }
        Some(Item::Value(value)) => value.as_str().unwrap_or(text).to_owned(),
        _ => text.to_owned(),
    }
}

/// The sections of a route whose value is mostly one key.
const MAIN_KEYS: [(&str, &str); 6] = [
    ("proxy", "to"),
    ("files", "root"),
    ("cgi", "root"),
    ("redirect", "to"),
    ("respond", "body"),
    ("sql", "query"),
];

/// The path of the section around a key.
fn parent(path: &str) -> &str {
    path.rfind('.').map_or("", |dot| &path[..dot])
}

/// The places of a text's bytes, as lines and characters.
struct LineStarts<'t> {
    text: &'t str,
    /// The first byte of each line.
    starts: Vec<usize>,
}

impl<'t> LineStarts<'t> {
    fn of(text: &'t str) -> Self {
        let ends = text.bytes().enumerate().filter(|it| it.1 == b'\n');
        Self { text, starts: std::iter::once(0).chain(ends.map(|it| it.0 + 1)).collect() }
    }

    /// Line and character of a byte, both counted from 1.
    fn position(&self, at: usize) -> (u32, u32) {
        let at = at.min(self.text.len());
        let line = self.starts.partition_point(|it| *it <= at);
        let before = &self.text.as_bytes()[self.starts[line - 1]..at];
        let column = 1 + String::from_utf8_lossy(before).chars().count();
        let number = |it| u32::try_from(it).unwrap_or(u32::MAX);
        (number(line), number(column))
    }
}

/// A configuration while its files are read.
struct Reading<'v> {
    values: &'v mut Values,
    /// The identities of the files around the present one.
    chain: Vec<(u64, u64)>,
    /// The identity of each file, and the place that included it.
    seen: BTreeMap<(u64, u64), Source>,
    /// The texts that are read in place of those on disk.
    others: &'v IncludedTexts,
}

impl Reading<'_> {
    fn file(&mut self, text: &str, name: &str, base: &Path) {
        let file: Arc<str> = Arc::from(name);
        self.values.bases.push((file.clone(), base.to_owned()));
        let lines = LineStarts::of(text);
        let mut walk = ValueWalk { text, lines, file, base, values: self.values, includes: Vec::new() };
        for at in hide::left_over(text) {
            walk.report(at, "", hide::LEFT_OVER.to_owned());
        }
        match Document::parse(text) {
            Ok(document) => walk.table("", "", document.as_table()),
            Err(error) => {
                let span = error.span().unwrap_or_default();
                let text = unknown::not_toml(error.message(), text, span.clone());
                walk.report(span.start, "", text);
            }
        }
        for (pattern, source) in walk.includes {
            self.include(&pattern, &source, base);
        }
    }

    fn include(&mut self, pattern: &str, source: &Source, base: &Path) {
        if include::is_pattern(pattern) {
            self.values.watched.patterns.push((base.to_owned(), pattern.to_owned()));
        } else {
            self.values.watched.files.push(base.join(pattern));
        }
        match include::matches(pattern, base) {
            Ok(found) => found.iter().for_each(|it| self.included(it, source)),
            Err(why) => self.report(source, format!("\"{pattern}\": {why}")),
        }
    }

    fn included(&mut self, path: &Path, source: &Source) {
        if self.values.included.len() == include::MOST_FILES {
            let text = format!("more than {} files are included; merge some", include::MOST_FILES);
            return self.report_once(source, text);
        }
        let (identity, mut file) = match include::read(path) {
            Ok(read) => read,
            Err(why) => return self.report(source, format!("{} {why}", path.display())),
        };
        if self.chain.contains(&identity) {
            return self.report(source, format!("{} includes itself; remove this include", path.display()));
        }
        if self.chain.len() > include::MOST_DEPTH {
            let most = include::MOST_DEPTH;
            return self.report(
                source,
                format!(
                    "{} is the {}th include within another; the limit is {most}",
                    path.display(),
                    most + 1
                ),
            );
        }
        if let Some(first) = self.seen.insert(identity, source.clone()) {
            return self.report(source, format!("{} is included twice; first at {first}", path.display()));
        }
        if let Some(text) = self.others.get(&file.path) {
            file.text = text.clone();
        }
        let (text, name) = (file.text.clone(), file.name.clone());
        self.values.included.push(file);
        self.chain.push(identity);
        self.file(&text, &name, base_of(path));
        self.chain.pop();
    }

    fn report(&mut self, source: &Source, text: String) {
        self.values.problems.push(Problem { source: source.clone(), key: "include".to_owned(), text });
    }

    fn report_once(&mut self, source: &Source, text: String) {
        if !self.values.problems.iter().any(|it| it.text == text) {
            self.report(source, text);
        }
    }
}

struct ValueWalk<'t, 'v> {
    text: &'t str,
    lines: LineStarts<'t>,
    file: Arc<str>,
    /// The directory for relative paths.
    base: &'t Path,
    values: &'v mut Values,
    /// The patterns of `include`, each with its place.
    includes: Vec<(String, Source)>,
}

impl ValueWalk<'_, '_> {
    fn source(&self, at: usize) -> Source {
        let (line, column) = self.lines.position(at);
        Source::Line { file: self.file.clone(), line, column }
    }

    /// Reports an error of the key or section at `path`.
    fn report(&mut self, at: usize, path: &str, text: String) {
        let source = self.source(at);
        self.values.problems.push(Problem { source, key: dotted(&pattern_of(path)), text });
    }

    /// `path` and `pattern` differ only in the numbers between brackets, and in the beginning of a block's path.
    fn table(&mut self, path: &str, pattern: &str, table: &dyn TableLike) {
        for (name, item) in table.iter() {
            let join = |it: &str| if it.is_empty() { name.to_owned() } else { format!("{it}.{name}") };
            let key_at = table.get_key_value(name).and_then(|it| it.0.span());
            let at = key_at.or_else(|| item.span()).map_or(0, |it| it.start);
            match path.is_empty() && name == BLOCK {
                true => self.blocks(at, item),
                false => self.entry(&join(path), &join(pattern), at, item),
            }
        }
    }

    /// The sections `[block.NAME]`, each with the keys of a route.
    fn blocks(&mut self, at: usize, item: &Item) {
        let Some(blocks) = item.as_table_like() else {
            return self.report(
                at,
                BLOCK,
                format!("expected sections, [block.NAME]; found {}", self.found(item)),
            );
        };
        for (name, item) in blocks.iter() {
            let key_at = blocks.get_key_value(name).and_then(|it| it.0.span());
            let at = item.span().or(key_at).map_or(at, |it| it.start);
            let path = format!("{BLOCK}.{name}");
            let Some(table) = item.as_table_like().filter(|_| is_block_name(name)) else {
                let text = "expected a section [block.NAME] with the keys of a route; NAME has letters, digits, \"-\" and \"_\"";
                self.report(at, BLOCK, text.to_owned());
                continue;
            };
            let source = self.source(at);
            if let Some(first) = self.values.sections.get(&path).cloned() {
                self.report(at, &path, format!("the block is defined twice; first at {first}"));
                continue;
            }
            self.values.sections.insert(path.clone(), source);
            self.table(&path, ROUTE.trim_end_matches('.'), table);
        }
    }

    fn entry(&mut self, path: &str, pattern: &str, at: usize, item: &Item) {
        if let Some(key) = table::find(pattern) {
            self.value(key, path, at, item);
        } else if table::is_section(&format!("{pattern}[]")) {
            self.list(path, pattern, at, item);
        } else if table::is_section(pattern) {
            let source = self.source(at);
            match item.as_table_like() {
                Some(table) => {
                    self.values.sections.entry(path.to_owned()).or_insert(source);
                    self.table(path, pattern, table);
                }
                None => {
                    self.values.broken.insert(parent(path).to_owned());
                    let (found, name) = (self.found_of(pattern, item), dotted(&pattern_of(path)));
                    let remedy = self.as_section(pattern, item);
                    self.report(at, path, format!("expected a section, [{name}]; found {found}{remedy}"));
                }
            }
        } else {
            self.values.broken.insert(parent(path).to_owned());
            for it in unknown::keys(pattern, item, &|key| toml_value::of_item(&key.kind, item).is_ok()) {
                let text = match path.strip_prefix("block.").and_then(|it| it.split('.').next()) {
                    Some(name) => it.text.replace("site.route.", &format!("block.{name}.")),
                    None => it.text,
                };
                self.report(it.at.unwrap_or(at), &format!("{path}{}", it.child), text);
            }
        }
    }

    /// The section that was probably meant by a value in its place, to be appended to a sentence.
    fn as_section(&self, pattern: &str, item: &Item) -> String {
        let name = pattern.strip_prefix(ROUTE).unwrap_or(pattern);
        let main = MAIN_KEYS.iter().find(|it| it.0 == name).map(|it| it.1);
        let main = main.filter(|_| item.is_str() || item.is_array());
        let status = (name == "respond" && item.is_integer()).then_some("status");
        if let Some(key) = main.or(status) {
            let found = hide::without_passwords(&self.found(item));
            return format!("; write {name} = {{ {key} = {found} }}");
        }
        let is_list =
            item.is_array_of_tables() || item.as_array().is_some_and(|it| inline_tables(it, 0).is_some());
        if is_list && table::is_section(&format!("{pattern}s[]")) {
            return format!("; further ones are [[{}s]]", dotted(pattern));
        }
        let is_off = matches!(item.as_str(), Some("off" | "none")) || item.as_bool() == Some(false);
        if is_off && name.split('.').next() == Some("access") {
            return "; a route without the rules of its site has access.inherit = false".to_owned();
        }
        let is_below = |it: &String| {
            let name = it.strip_prefix(pattern).and_then(|it| it.strip_prefix('.'));
            name.is_some_and(|it| !it.contains(['.', '[']))
        };
        let key = table::patterns().find(is_below).and_then(|it| Some((table::find(&it)?, it)));
        key.map_or_else(String::new, |(key, path)| {
            let path = path.strip_prefix(ROUTE).map_or_else(|| dotted(&path), str::to_owned);
            format!("; write keys in it, such as {path} = {}", key.example)
        })
    }

    fn value(&mut self, key: &'static Key, path: &str, at: usize, item: &Item) {
        let source = self.source(at);
        if key.path == "include" {
            return self.note_includes(at, item);
        }
        if path.starts_with(BLOCK) && path.ends_with(".use") {
            return self.report(
                at,
                path,
                "a block cannot use another; name both where they are used".to_owned(),
            );
        }
        if let Some((_, first)) = self.values.given.get(path) {
            let text = format!("the key is set twice; first at {first}");
            return self.report(at, path, text);
        }
        self.warn_of_literal(key, at, item);
        let has_variable = |it: &&toml_edit::Value| expand::has_text(it, &|text| text.contains("${"));
        if let Some(span) = item.as_value().filter(has_variable).and_then(toml_edit::Value::span) {
            let text = self.text.get(span).unwrap_or_default();
            self.values.variables.push((source.clone(), text.to_owned()));
        }
        let value = match self.expanded(key, path, at, item) {
            None => ConfigValue::Wrong,
            // The right rows are checked on: all errors are reported.
            Some(expanded) if self.report_rows(key, path, item, &expanded) => {
                let rows = expanded.as_table_like().into_iter().flat_map(TableLike::iter);
                key.kind.sound_rows(rows.filter_map(|(name, it)| Some((name, it.as_str()?))))
            }
            Some(expanded) => match_expanded(&key.kind, item, &expanded).unwrap_or_else(|allowed| {
                let allowed = self.values.without_values(key, &source, allowed);
                let text = self.mismatch(key, item, &allowed);
                self.report(at, path, text);
                ConfigValue::Wrong
            }),
        };
        self.values.given.insert(path.to_owned(), (value, source));
    }

    /// Warns once of a secret in the text of the files.
    fn warn_of_literal(&mut self, key: &Key, at: usize, item: &Item) {
        let text = if key.kind.is_secret() { hide::LITERAL } else { hide::LITERAL_IN_CONDITION };
        if hide::has_literal(key, item) && !self.values.warnings.iter().any(|it| it.text == text) {
            let (source, key) = (self.source(at), dotted(key.path));
            self.values.warnings.push(Problem { source, key, text: text.to_owned() });
        }
    }

    /// Reports each wrong row of a table with free names at its place, with its name as the end of the key. `false`: there
    /// is none.
    fn report_rows(&mut self, key: &Key, path: &str, item: &Item, expanded: &Item) -> bool {
        let (Some(given), Some(expanded)) = (item.as_table_like(), expanded.as_table_like()) else {
            return false;
        };
        let mut found = false;
        for (name, value) in expanded.iter() {
            let Some(text) = value.as_str() else { continue };
            let written = given.get(name).and_then(Item::as_str);
            let shown = match written {
                _ if key.kind.is_secret() && !text.is_empty() => "a value, not shown here".to_owned(),
                written => format!("{:?}", written.unwrap_or(text)),
            };
            let at = given.get_key_value(name).and_then(|it| it.0.span()).map_or(0, |it| it.start);
            for wrong in key.kind.wrong_row(name, text, &shown) {
                let wrong = self.values.substituted.hide(&self.source(at), &wrong);
                let wrong = wrong.unwrap_or_else(|_| format!("{shown}; allowed: {}", key.kind.allowed()));
                self.report(at, &format!("{path}.{name}"), format!("found {wrong}"));
                found = true;
            }
        }
        found
    }

    /// The sentence about a value that its key does not allow.
    fn mismatch(&self, key: &Key, item: &Item, allowed: &str) -> String {
        if key.kind.is_secret() {
            let found = if item.is_table_like() { "a table" } else { "another value" };
            return format!("found {found}; allowed: {allowed}, such as {}", key.example);
        }
        let found = hide::condition_without_secrets(key, item).unwrap_or_else(|| self.found(item));
        let whole = key.kind.allowed();
        let allowed = if hide::shows_a_secret(key, item, allowed) { &whole } else { allowed };
        let hint = without_unit(&key.kind, found.trim_matches('"'));
        hide::without_passwords(&format!("found {found}{hint}; ")) + &format!("allowed: {allowed}")
    }

    /// Collects the patterns of `include`.
    fn note_includes(&mut self, at: usize, item: &Item) {
        let list: Vec<&toml_edit::Value> = match item {
            Item::Value(toml_edit::Value::Array(array)) => array.iter().collect(),
            Item::Value(value) => vec![value],
            _ => Vec::new(),
        };
        let all: Option<Vec<&str>> = list.iter().map(|it| it.as_str()).collect();
        let Some(texts) = all.filter(|_| !list.is_empty() || item.is_array()) else {
            let found = self.found(item);
            return self.report(
                at,
                "include",
                format!("found {found}; allowed: a list of paths and patterns such as \"conf.d/*.toml\""),
            );
        };
        for (value, text) in list.iter().zip(texts) {
            let at = span_start(value, at);
            let source = self.source(at);
            match self.values.substituted.replaced(text, VariableSyntax::Plain, &source) {
                Ok(text) if text.is_empty() || text.contains('\0') => {
                    self.report(at, "include", "the path is empty".to_owned())
                }
                Ok(text) => self.includes.push((text.into_owned(), source)),
                Err(all) => all.into_iter().for_each(|it| self.report(at, "include", it)),
            }
        }
    }

    /// The value with its variables replaced, and its secrets read; `None` after an error.
    fn expanded<'i>(&mut self, key: &Key, path: &str, at: usize, item: &'i Item) -> Option<Cow<'i, Item>> {
        let stands_for = |it: &str| {
            it.contains("${") || key.kind.is_secret() && expand::secret_path(it, self.base).is_some()
        };
        match item {
            Item::Value(value) => match expand::has_text(value, &stands_for) {
                true => self.expanded_value(key, path, at, value).map(|it| Cow::Owned(Item::Value(it))),
                false => Some(Cow::Borrowed(item)),
            },
            Item::Table(table) => {
                let inline = toml_edit::Value::InlineTable(table.clone().into_inline_table());
                match expand::has_text(&inline, &stands_for) {
                    true => self.expanded_value(key, path, at, &inline).map(|it| Cow::Owned(Item::Value(it))),
                    false => Some(Cow::Borrowed(item)),
                }
            }
            _ => Some(Cow::Borrowed(item)),
        }
    }

    fn expanded_value(
        &mut self,
        key: &Key,
        path: &str,
        at: usize,
        value: &toml_edit::Value,
    ) -> Option<toml_edit::Value> {
        let at = span_start(value, at);
        match value {
            toml_edit::Value::String(text) => self.expanded_text(key, path, at, text.value()).map(Into::into),
            toml_edit::Value::Array(array) => {
                // Every member is looked at: all errors are reported.
                let all: Vec<_> = array.iter().map(|it| self.expanded_value(key, path, at, it)).collect();
                all.into_iter().collect::<Option<Array>>().map(toml_edit::Value::Array)
            }
            toml_edit::Value::InlineTable(table) => {
                // The other rows are checked on: all errors are reported.
                let rows = table.iter();
                let rows = rows.filter_map(|(name, it)| {
                    Some((name.to_owned(), self.expanded_value(key, path, at, it)?))
                });
                let rows: toml_edit::InlineTable = rows.collect();
                (!rows.is_empty() || table.is_empty()).then_some(toml_edit::Value::InlineTable(rows))
            }
            other => Some(other.clone()),
        }
    }

    fn expanded_text(&mut self, key: &Key, path: &str, at: usize, text: &str) -> Option<String> {
        let source = self.source(at);
        let text = match self.values.substituted.replaced(text, syntax_of(&key.kind), &source) {
            Ok(text) => text,
            // A sentence about its text would show a part of a secret.
            Err(_) if key.kind.is_secret() && !hide::is_reference(text, key.kind.is_template()) => {
                self.report(at, path, hide::SECRET_VARIABLE.to_owned());
                return None;
            }
            Err(all) => {
                all.into_iter().for_each(|it| self.report(at, path, it));
                return None;
            }
        };
        let Some(file) = expand::secret_path(&text, self.base).filter(|_| key.kind.is_secret()) else {
            return Some(text.into_owned());
        };
        self.values.watched.files.push(file.clone());
        match expand::secret_of(&file) {
            // Its braces are no variables.
            Ok(secret) if key.kind.is_template() => Some(secret.replace('{', "{{").replace('}', "}}")),
            Ok(secret) => Some(secret),
            Err(why) => {
                self.report(at, path, why);
                None
            }
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
            let found = self.found_of(pattern, item);
            let text = format!("expected sections that begin with [[{}]]; found {found}", dotted(pattern));
            return self.report(at, path, text);
        };
        if members.is_empty() && pattern.contains(".access.") {
            return self.report(at, path, "the list is empty; add a section, or remove the key".to_owned());
        }
        // Those of included files follow those of the files before them.
        let first = self.values.count(path);
        for (index, (at, table)) in members.into_iter().enumerate() {
            let path = format!("{path}[{}]", first + index);
            let source = self.source(at);
            self.values.sections.insert(path.clone(), source);
            self.table(&path, &format!("{pattern}[]"), table);
        }
    }

    /// A value in the notation of the file, truncated if long.
    /// The same for the value of a section; a section that may have secrets shows none.
    fn found_of(&self, pattern: &str, item: &Item) -> String {
        let has_secrets = |it: String| {
            let is_below = it.strip_prefix(pattern).is_some_and(|it| it.starts_with(['.', '[']));
            is_below && table::find(&it).is_some_and(|it| it.kind.is_secret())
        };
        match item {
            Item::Value(_) if table::patterns().any(has_secrets) => "a value".to_owned(),
            item => self.found(item),
        }
    }

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

/// Converts an item, `given` in the file, to its key's kind. A text that consisted of variables has the notation of a flag:
/// `"${PORT}"` may be a number, `"${SERVERS}"` a list.
fn match_expanded(kind: &ValueKind, given: &Item, expanded: &Item) -> Result<ConfigValue, String> {
    match (given.as_str(), expanded.as_str()) {
        (Some(given), Some(text)) if given != text && !kind.is_secret() => kind.parse_written(text, given),
        _ => toml_value::of_item(kind, expanded),
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

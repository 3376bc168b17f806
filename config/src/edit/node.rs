//! A node of a parsed document: one view over the types of TOML nodes, with their positions.

use super::PathStep;
use serde_json::Value as Json;
use std::ops::Range;
use toml_edit::{Array, ArrayOfTables, InlineTable, Item, Table, Value};

/// One node.
#[derive(Clone, Copy)]
pub enum TomlNode<'d> {
    /// A section with a header, or the dotted keys of one.
    Table(&'d Table),
    /// `{ … }`.
    Inline(&'d InlineTable),
    /// `[[…]]`.
    Tables(&'d ArrayOfTables),
    /// `[ … ]`.
    Array(&'d Array),
    /// Any other value.
    Plain(&'d Value),
}

/// A header line, `[…]` or `[[…]]`, with its keys.
pub struct TomlHeader {
    /// The offset of the bracket in the text.
    pub start: usize,
    /// The offset after its last value; without values, after the header.
    pub end: usize,
    /// Its path.
    pub path: Vec<PathStep>,
}

impl<'d> TomlNode<'d> {
    fn of(item: &'d Item) -> Option<Self> {
        Some(match item {
            Item::None => return None,
            Item::Table(it) => TomlNode::Table(it),
            Item::ArrayOfTables(it) => TomlNode::Tables(it),
            Item::Value(it) => TomlNode::of_value(it),
        })
    }

    fn of_value(value: &'d Value) -> Self {
        match value {
            Value::Array(it) => TomlNode::Array(it),
            Value::InlineTable(it) => TomlNode::Inline(it),
            it => TomlNode::Plain(it),
        }
    }

    /// One step further.
    pub fn step(self, step: &PathStep) -> Option<Self> {
        match (self, step) {
            (TomlNode::Table(it), PathStep::Name(name)) => it.get(name).and_then(TomlNode::of),
            (TomlNode::Inline(it), PathStep::Name(name)) => it.get(name).map(TomlNode::of_value),
            (TomlNode::Tables(it), PathStep::At(number)) => it.get(*number).map(TomlNode::Table),
            (TomlNode::Array(it), PathStep::At(number)) => it.get(*number).map(TomlNode::of_value),
            _ => None,
        }
    }

    /// Follows the path as far as it exists: the number of steps, and the node.
    pub fn walk(self, path: &[PathStep]) -> (usize, Self) {
        let mut at = self;
        for (depth, step) in path.iter().enumerate() {
            match at.step(step) {
                Some(next) => at = next,
                None => return (depth, at),
            }
        }
        (path.len(), at)
    }

    /// The bytes of a value.
    pub fn span(self) -> Option<Range<usize>> {
        match self {
            TomlNode::Table(it) => it.span(),
            TomlNode::Inline(it) => it.span(),
            TomlNode::Tables(it) => it.span(),
            TomlNode::Array(it) => it.span(),
            TomlNode::Plain(it) => it.span(),
        }
    }

    /// The number of members of a list.
    pub fn len(self) -> usize {
        match self {
            TomlNode::Tables(it) => it.len(),
            TomlNode::Array(it) => it.len(),
            _ => 0,
        }
    }

    /// The bytes of the members of `[ … ]`.
    pub fn members(self) -> Vec<Range<usize>> {
        match self {
            TomlNode::Array(it) => it.iter().filter_map(Value::span).collect(),
            _ => Vec::new(),
        }
    }

    /// The bytes from each key of `{ … }` to the end of its value, in the order of the text.
    pub fn pairs(self) -> Vec<(String, Range<usize>)> {
        let TomlNode::Inline(table) = self else { return Vec::new() };
        let pair = |(name, value): (&str, &Value)| {
            let (key, _) = table.get_key_value(name)?;
            Some((name.to_owned(), key.span()?.start..value.span()?.end))
        };
        let mut pairs: Vec<_> = table.iter().filter_map(pair).collect();
        pairs.sort_by_key(|it| it.1.start);
        pairs
    }

    /// The bytes from the key's name to the end of the value, for each entry of a section without a header of its own;
    /// dotted keys are included.
    pub fn entries(self) -> Vec<Range<usize>> {
        let TomlNode::Table(table) = self else { return Vec::new() };
        let mut all = Vec::new();
        for (name, item) in table.iter() {
            match TomlNode::of(item) {
                Some(inner @ TomlNode::Table(it)) if it.is_dotted() => all.extend(inner.entries()),
                Some(TomlNode::Table(_) | TomlNode::Tables(_)) | None => {}
                Some(value) => {
                    let key = table.get_key_value(name).and_then(|it| it.0.span());
                    all.extend(key.zip(value.span()).map(|(key, value)| key.start..value.end));
                }
            }
        }
        all.sort_by_key(|it| it.start);
        all
    }

    /// The headers of a document, in the order of the text.
    pub fn headers(self) -> Vec<TomlHeader> {
        let mut all = Vec::new();
        self.collect(&mut Vec::new(), &mut all);
        all.sort_by_key(|it| it.start);
        all
    }

    fn collect(self, path: &mut Vec<PathStep>, all: &mut Vec<TomlHeader>) {
        let mut within = |step: PathStep, node: TomlNode<'_>| {
            path.push(step);
            if let TomlNode::Table(it) = node
                && !it.is_dotted()
                && !it.is_implicit()
                && let Some(span) = it.span()
            {
                let end = node.entries().last().map_or(span.end, |it| it.end.max(span.end));
                all.push(TomlHeader { start: span.start, end, path: path.clone() });
            }
            node.collect(path, all);
            path.pop();
        };
        match self {
            TomlNode::Table(it) => {
                for (name, item) in it.iter() {
                    if let Some(node) = TomlNode::of(item) {
                        within(PathStep::Name(name.to_owned()), node);
                    }
                }
            }
            TomlNode::Tables(it) => {
                for (number, table) in it.iter().enumerate() {
                    within(PathStep::At(number), TomlNode::Table(table));
                }
            }
            _ => {}
        }
    }

    /// Its value.
    pub fn json(self) -> Json {
        match self {
            TomlNode::Table(it) => {
                it.iter().filter_map(|it| Some((it.0.to_owned(), TomlNode::of(it.1)?.json()))).collect()
            }
            TomlNode::Inline(it) => {
                it.iter().map(|it| (it.0.to_owned(), TomlNode::of_value(it.1).json())).collect()
            }
            TomlNode::Tables(it) => it.iter().map(|it| TomlNode::Table(it).json()).collect(),
            TomlNode::Array(it) => it.iter().map(|it| TomlNode::of_value(it).json()).collect(),
            TomlNode::Plain(Value::String(it)) => it.value().as_str().into(),
            TomlNode::Plain(Value::Integer(it)) => (*it.value()).into(),
            TomlNode::Plain(Value::Float(it)) => (*it.value()).into(),
            TomlNode::Plain(Value::Boolean(it)) => (*it.value()).into(),
            TomlNode::Plain(Value::Datetime(it)) => it.value().to_string().into(),
            TomlNode::Plain(Value::Array(_) | Value::InlineTable(_)) => Json::Null,
        }
    }
}

//! The values of environment variables in a configuration, which no message shows: it names the variable.

use super::expand::{self, VariableSyntax};
use super::problem::{Problem, Source};
use std::borrow::Cow;
use std::cell::RefCell;
use std::fmt;

/// The length from which a value is replaced in every message; a shorter one, which may be a common word, in those about its line.
const LONG: usize = 8;
/// The length from which a value can be a secret.
const SHORT: usize = 4;
/// The length of a part of a value by which a message about its line shows the value.
const PART: usize = 6;

/// The values that took the place of variables.
#[derive(Clone, Default)]
pub struct SubstitutedValues(Vec<SubstitutedValue>);

/// The names alone: a configuration has these values, and may be shown for debugging.
impl fmt::Debug for SubstitutedValues {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_list().entries(self.0.iter().map(|it| &it.name)).finish()
    }
}

#[derive(Clone, PartialEq, Eq)]
struct SubstitutedValue {
    name: String,
    value: String,
    source: Source,
}

impl SubstitutedValues {
    /// Replaces the variables of a text, as [`expand::variables`] does, and notes their values. `source` is the place of the text.
    pub fn replaced<'t>(
        &mut self,
        text: &'t str,
        syntax: VariableSyntax,
        source: &Source,
    ) -> Result<Cow<'t, str>, Vec<String>> {
        let found = RefCell::new(Vec::new());
        let replaced = expand::variables(text, syntax, &|name| {
            let value = expand::process(name)?;
            found.borrow_mut().push((name.to_owned(), value.to_string_lossy().into_owned()));
            Some(value)
        });
        for (name, value) in found.into_inner().into_iter().filter(|it| it.1.len() >= SHORT) {
            let found = SubstitutedValue { name, value, source: source.clone() };
            // A longer value may contain a shorter one.
            let place = self.0.partition_point(|it| it.value.len() >= found.value.len());
            if !self.0.contains(&found) {
                self.0.insert(place, found);
            }
        }
        replaced
    }

    /// The text of a problem at `source` with the names of the variables for these values.
    fn named(&self, source: &Source, text: &str) -> String {
        let mut shown = text.to_owned();
        for it in self.0.iter().filter(|it| it.value.len() >= LONG || it.source.is_line_of(source)) {
            let name = format!("${{{}}}", it.name);
            shown = shown.replace(&*it.value, &name).replace(&it.value.escape_debug().to_string(), &name);
        }
        shown
    }

    /// The text of a problem at `source` with the names of the variables, if no part of a value is left.
    ///
    /// # Errors
    /// It has a part of a value of its line: the name of the variable.
    pub fn hide(&self, source: &Source, text: &str) -> Result<String, &str> {
        let shown = self.named(source, text);
        let has_part = |it: &&SubstitutedValue| it.source.is_line_of(source) && it.is_partly_in(&shown);
        match self.0.iter().find(has_part) {
            Some(it) => Err(&it.name),
            None => Ok(shown),
        }
    }

    /// The problems without these values. The first `read` were found while the values were read, and quote only what is written.
    pub fn hide_in(&self, problems: &mut [Problem], read: usize) {
        for (at, it) in problems.iter_mut().enumerate().filter(|_| !self.0.is_empty()) {
            it.text = match at < read {
                true => self.named(&it.source, &it.text),
                false => self.hide(&it.source, &it.text).unwrap_or_else(|name| {
                    format!("the reason is not shown, because it contains a part of the value of ${{{name}}}")
                }),
            };
        }
    }
}

impl SubstitutedValue {
    /// Whether a text has a part of the value that the name of the variable has not.
    fn is_partly_in(&self, text: &str) -> bool {
        let (value, text) = (self.value.to_ascii_lowercase(), text.to_ascii_lowercase());
        let text = text.replace(&format!("${{{}}}", self.name.to_ascii_lowercase()), "");
        value.as_bytes().windows(PART).any(|part| text.as_bytes().windows(PART).any(|it| it == part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(line: u32, column: u32) -> Source {
        Source::Line { file: "t.toml".into(), line, column }
    }

    #[test]
    fn values_of_variables_are_not_in_messages() {
        let name = "${CARGO_PKG_NAME}";
        let mut all = SubstitutedValues::default();
        assert_eq!(
            "a larder-config",
            all.replaced(&format!("a {name}"), VariableSyntax::Plain, &line(2, 1)).unwrap()
        );
        let check = |at: u32, text: &str, expect: Result<&str, &str>| {
            assert_eq!(expect.map(str::to_owned), all.hide(&line(at, 7), text));
        };
        check(2, "found \"larder-config\"; allowed: x", Ok("found \"${CARGO_PKG_NAME}\"; allowed: x"));
        check(9, "also larder-config9", Ok("also ${CARGO_PKG_NAME}9"));
        check(2, "write \"LARDER-\"", Err("CARGO_PKG_NAME"));
        check(9, "write \"larder-\"", Ok("write \"larder-\""));
    }
}

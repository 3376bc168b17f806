//! The query of a request to the admin: names and values, validated against the endpoint's row.

use larder_config::problem::nearest;
use larder_server::input_error::InputError;

/// A parameter of the query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name.
    pub name: &'static str,
    /// Its type.
    pub kind: ParameterKind,
    /// Whether it is required.
    pub required: bool,
    /// A few words: its meaning.
    pub help: &'static str,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// Any text.
    Text,
    /// A whole number from the first to the second.
    Integer(i64, i64),
    /// One of these.
    OneOf(&'static [&'static str]),
}

impl Parameter {
    /// Makes it required.
    #[must_use]
    pub const fn required(mut self) -> Self {
        self.required = true;
        self
    }
}

/// A parameter with any text.
pub const fn text(name: &'static str, help: &'static str) -> Parameter {
    Parameter { name, kind: ParameterKind::Text, required: false, help }
}

/// A whole-number parameter.
pub const fn integer(name: &'static str, least: i64, most: i64, help: &'static str) -> Parameter {
    Parameter { name, kind: ParameterKind::Integer(least, most), required: false, help }
}

/// A parameter with one of a few words.
pub const fn one_of(name: &'static str, words: &'static [&'static str], help: &'static str) -> Parameter {
    Parameter { name, kind: ParameterKind::OneOf(words), required: false, help }
}

/// The parameters in order: name and value, decoded (`+` is a space).
///
/// # Errors
/// One sentence: the invalid parameter.
pub fn pairs(query: &str) -> Result<Vec<(String, String)>, InputError> {
    let pair = |it: &str| {
        let (name, value) = it.split_once('=').unwrap_or((it, ""));
        let bad = || {
            let detail = format!("The query contains {it:?}: %XX must decode to valid UTF-8.");
            InputError::at("query", detail)
        };
        Ok((decoded(name).ok_or_else(bad)?, decoded(value).ok_or_else(bad)?))
    };
    query.split('&').filter(|it| !it.is_empty()).map(pair).collect()
}

/// Checks a query against the parameters of its endpoint.
///
/// # Errors
/// The first parameter that is unknown, invalid, or missing.
pub fn check(parameters: &[Parameter], query: &str) -> Result<(), InputError> {
    let mut seen: Vec<String> = Vec::new();
    let pairs = pairs(query)?;
    for (name, value) in pairs {
        let Some(parameter) = parameters.iter().find(|it| it.name == name) else {
            return Err(unknown(parameters, name));
        };
        if seen.contains(&name) {
            return Err(InputError { detail: format!("The parameter {name} is duplicate."), at: name });
        }
        if let Err(allowed) = fits(parameter, &value) {
            let detail = format!("The parameter {name}: found {value:?}; allowed: {allowed}.");
            return Err(InputError { detail, at: name });
        }
        seen.push(name);
    }
    match parameters.iter().find(|it| it.required && !seen.iter().any(|name| name == it.name)) {
        Some(missing) => {
            let detail = format!("The parameter {} is missing: {}.", missing.name, missing.help);
            Err(InputError { detail, at: missing.name.to_owned() })
        }
        None => Ok(()),
    }
}

fn unknown(parameters: &[Parameter], name: String) -> InputError {
    let known: Vec<&str> = parameters.iter().map(|it| it.name).collect();
    let what = match (&known[..], nearest(&name, known.iter().copied())) {
        ([], _) => "this endpoint has no parameters.".to_owned(),
        (_, Some(near)) => format!("did you mean {near}?"),
        (known, None) => format!("known here: {}.", known.join(", ")),
    };
    InputError { detail: format!("The parameter {name:?} is unknown; {what}"), at: name }
}

/// Whether a value matches its parameter.
///
/// # Errors
/// A valid form.
fn fits(parameter: &Parameter, value: &str) -> Result<(), String> {
    match parameter.kind {
        ParameterKind::Text => Ok(()),
        ParameterKind::Integer(least, most) => match value.parse::<i64>() {
            Ok(it) if (least..=most).contains(&it) => Ok(()),
            _ => Err(format!("a whole number from {least} to {most}")),
        },
        ParameterKind::OneOf(words) if words.contains(&value) => Ok(()),
        ParameterKind::OneOf(words) => Err(words.join(", ")),
    }
}

/// `None` if it is not UTF-8, or a `%` is not followed by two hexadecimal digits.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit =
                    || char::from(bytes.next()?).to_digit(16).and_then(|it| u8::try_from(it).ok());
                digit()? << 4 | digit()?
            }
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::super::table::{self, EndpointMatch};
    use super::*;

    #[track_caller]
    fn check_clock(query: &str, expect: Result<(), &str>) {
        let EndpointMatch::Endpoint(endpoint, _) = table::find("POST", "/test/clock") else {
            panic!("no clock")
        };
        assert_eq!(
            expect,
            check(endpoint.query, query).as_ref().map(|_| ()).map_err(|it| &*it.detail),
            "{query}"
        );
    }

    #[test]
    fn a_query_is_checked_against_the_row_of_its_endpoint() {
        check_clock("advance=-5", Ok(()));
        check_clock("&advance=%35&", Ok(()));
        check_clock("", Err("The parameter advance is missing: seconds."));
        check_clock("advance=1&advance=2", Err("The parameter advance is duplicate."));
        check_clock(
            "advance=x",
            Err(
                "The parameter advance: found \"x\"; allowed: a whole number from -1000000000 to 1000000000.",
            ),
        );
        check_clock("advanc=1", Err("The parameter \"advanc\" is unknown; did you mean advance?"));
        check_clock(
            "zzzzzzzzzz",
            Err("The parameter \"zzzzzzzzzz\" is unknown; known here: advance, uptime, hold."),
        );
        let EndpointMatch::Endpoint(stats, _) = table::find("HEAD", "/cache/stats") else {
            panic!("no stats")
        };
        assert_eq!(
            "The parameter \"a\" is unknown; this endpoint has no parameters.",
            check(stats.query, "a").unwrap_err().detail
        );
    }

    #[track_caller]
    fn check_pairs(query: &str, expect: Option<&[(&str, &str)]>) {
        let read = pairs(query).ok();
        let read: Option<Vec<(&str, &str)>> =
            read.as_ref().map(|it| it.iter().map(|it| (it.0.as_str(), it.1.as_str())).collect());
        assert_eq!(expect, read.as_deref(), "{query}");
    }

    #[test]
    fn pairs_are_decoded() {
        check_pairs("", Some(&[]));
        check_pairs("&a=b&", Some(&[("a", "b")]));
        check_pairs("uri=%2Fa%3Fb%3Dc%26d&x", Some(&[("uri", "/a?b=c&d"), ("x", "")]));
        check_pairs("a=b=c+d%2B", Some(&[("a", "b=c d+")]));
        check_pairs("a=%C3%A9", Some(&[("a", "é")]));
        check_pairs("a=%C3", None);
        check_pairs("a=%", None);
        check_pairs("a=%4", None);
        check_pairs("a=%+1", None);
    }
}

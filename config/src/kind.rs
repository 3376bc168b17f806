//! The types of values: units and ranges, and the parser of one value from text. Forms of texts are in `text_form`,
//! hosts in `host`.

mod allowed;
mod host;
mod path_access;
mod text_form;

pub use host::HostPattern;
pub use path_access::PathAccess;
pub use text_form::TextForm;

use super::LogFormat;
use super::access::{AccessMember, ForwardKey, KeyUrl, LimitKey};
use super::address::{self, entrance, origin, socket_address};
use super::member::{self, OriginMember};
use super::memcached_address;
use larder_database::{
    DatabasePlace, PARAMETER_FORM, PLACE_FORMS, REPLICA_FORM, ReplicaSettings, SHOWN_ROWS_FORM, ShownRows,
    SqlParameter, TABLE_COLUMN_FORM, TableColumn,
};
use larder_files::TryMember;
use larder_observe::log::form;
use larder_origin::BodyTest;
use larder_semantics::accept::is_offer;
use larder_semantics::expression::{Expression, ExpressionSubject};
use larder_semantics::field::is_token;
use larder_semantics::language::is_language;
use larder_semantics::miss_budget::TimeShare;
use larder_semantics::network::{Network, Peers};
pub use larder_semantics::pattern::PathPattern;
use larder_semantics::rate::Rate;
use larder_semantics::rewrite;
use larder_semantics::target::is_malformed;
use larder_semantics::template::Template;
use larder_stdx::size::ByteSize;
use larder_wire::jwt::JwtAlgorithm;
use larder_wire::signed_url::SecureLinkText;
use std::time::Duration;

/// The type of a key's value, with its range.
#[derive(Clone, Copy, Debug)]
pub enum ValueKind {
    /// `true` or `false`.
    Bool,
    /// A whole number within the range.
    Integer {
        /// The minimum.
        least: u64,
        /// The maximum.
        most: u64,
    },
    /// One of these whole numbers, in ascending order.
    OneNumber(&'static [u64]),
    /// A number of bytes within the range.
    Size {
        /// The minimum, bytes.
        least: u64,
        /// The maximum, bytes.
        most: u64,
    },
    /// A duration within the range, to the millisecond.
    Time {
        /// The minimum, milliseconds.
        least: u64,
        /// The maximum, milliseconds.
        most: u64,
    },
    /// As `Time`, or `off`.
    TimeOrOff {
        /// The minimum, milliseconds.
        least: u64,
        /// The maximum, milliseconds.
        most: u64,
    },
    /// As `Size`, or `off`.
    SizeOrOff {
        /// The minimum, bytes.
        least: u64,
        /// The maximum, bytes.
        most: u64,
    },
    /// A duration in whole seconds, as for lifetimes (RFC 9111 section 1.2.2).
    Seconds {
        /// The maximum, seconds.
        most: u64,
    },
    /// As `Seconds`, or `off`.
    SecondsOrOff {
        /// The maximum, seconds.
        most: u64,
    },
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One text of a form.
    One(TextForm),
    /// A list of texts of a form; a single text is a list of one.
    List(TextForm),
    /// A table from status to lifetime.
    StatusTtls {
        /// The maximum, seconds.
        most: u64,
    },
    /// A table with free names: from texts of one form to texts of another.
    Pairs {
        /// The form of the names.
        name: TextForm,
        /// The form of the values.
        value: TextForm,
        /// An example, for messages.
        example: &'static str,
    },
}

/// A value that was checked by its key's kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigValue {
    /// Of [`ValueKind::Bool`].
    Bool(bool),
    /// Of [`ValueKind::Integer`], [`ValueKind::OneNumber`] and, in bytes, [`ValueKind::Size`].
    Number(u64),
    /// Of [`ValueKind::Time`] and [`ValueKind::Seconds`].
    Time(Duration),
    /// `off`.
    Off,
    /// Of [`ValueKind::OneOf`] and [`ValueKind::One`].
    Text(String),
    /// Of [`ValueKind::List`].
    Texts(Vec<String>),
    /// Of [`ValueKind::StatusTtls`].
    StatusTtls(Vec<(u16, u32)>),
    /// Of [`ValueKind::Pairs`], in the order of the file.
    Pairs(Vec<(String, String)>),
    /// An invalid value, which has been reported.
    Wrong,
}

impl ValueKind {
    /// Parses a value in the notation of a flag or a default: the members of lists are separated by commas or, if each ends with
    /// a line break, by those.
    ///
    /// # Errors
    /// The allowed values.
    pub fn parse(&self, text: &str) -> Result<ConfigValue, String> {
        self.parse_written(text, text)
    }

    /// The same for a text that is `written` with variables.
    ///
    /// # Errors
    /// As [`ValueKind::parse`].
    pub fn parse_written(&self, text: &str, written: &str) -> Result<ConfigValue, String> {
        let value = match *self {
            ValueKind::Bool => text.parse().ok().map(ConfigValue::Bool),
            ValueKind::Integer { least, most } => {
                text.parse().ok().filter(|it| (least..=most).contains(it)).map(ConfigValue::Number)
            }
            ValueKind::OneNumber(numbers) => {
                text.parse().ok().filter(|it| numbers.contains(it)).map(ConfigValue::Number)
            }
            ValueKind::SizeOrOff { .. } | ValueKind::TimeOrOff { .. } if text == "off" => {
                Some(ConfigValue::Off)
            }
            ValueKind::Size { least, most } | ValueKind::SizeOrOff { least, most } => {
                let bytes = text.parse::<ByteSize>().ok().map(|it| it.0);
                bytes.filter(|it| (least..=most).contains(it)).map(ConfigValue::Number)
            }
            ValueKind::Time { least, most } | ValueKind::TimeOrOff { least, most } => {
                larder_stdx::duration::parse(text)
                    .ok()
                    .filter(|it| (u128::from(least)..=u128::from(most)).contains(&it.as_millis()))
                    .map(ConfigValue::Time)
            }
            ValueKind::SecondsOrOff { .. } if text == "off" => Some(ConfigValue::Off),
            ValueKind::Seconds { most } | ValueKind::SecondsOrOff { most } => {
                seconds(text, most).map(|it| ConfigValue::Time(Duration::from_secs(it.into())))
            }
            ValueKind::OneOf(words) => words.contains(&text).then(|| ConfigValue::Text(text.to_owned())),
            ValueKind::One(form) => {
                return form.check_written(text, written).map(|()| ConfigValue::Text(text.to_owned()));
            }
            ValueKind::List(form) => {
                return match text.strip_suffix('\n') {
                    Some(lines) => list(form, lines.split('\n')),
                    None => list(form, text.split(',').map(str::trim)),
                };
            }
            ValueKind::StatusTtls { most } => {
                let pairs = text.split(',').map(|it| {
                    let (status, lifetime) = it.split_once('=')?;
                    status_ttl(status.trim(), lifetime.trim(), most)
                });
                pairs.collect::<Option<Vec<_>>>().map(ConfigValue::StatusTtls)
            }
            ValueKind::Pairs { .. } => {
                let pairs: Option<Vec<_>> = text.split(',').map(|it| it.split_once('=')).collect();
                let pairs = pairs.ok_or_else(|| self.allowed())?;
                return self.parse_pairs(pairs.into_iter().map(|(name, value)| (name.trim(), value.trim())));
            }
        };
        value.ok_or_else(|| self.allowed())
    }

    /// Parses a list of separate members, as from a TOML array.
    ///
    /// # Errors
    /// The allowed values.
    pub fn parse_list<'a>(&self, texts: impl Iterator<Item = &'a str>) -> Result<ConfigValue, String> {
        match *self {
            ValueKind::List(form) => list(form, texts),
            _ => Err(self.allowed()),
        }
    }

    /// One row of a [`ValueKind::StatusTtls`] table; `None` if the status or the lifetime is invalid.
    #[must_use]
    pub fn parse_status_ttl(&self, status: &str, lifetime: &str) -> Option<(u16, u32)> {
        match *self {
            ValueKind::StatusTtls { most } => status_ttl(status, lifetime, most),
            _ => None,
        }
    }

    /// Parses the rows of a [`ValueKind::Pairs`] table.
    ///
    /// # Errors
    /// The allowed values of the rows that are wrong.
    pub fn parse_pairs<'a>(
        &self,
        pairs: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Result<ConfigValue, String> {
        let ValueKind::Pairs { name, value, .. } = *self else { return Err(self.allowed()) };
        let (mut checked, mut wrong) = (Vec::new(), Vec::new());
        for (left, right) in pairs {
            if let Err(allowed) = name.check(left) {
                wrong.push(format!("as a name in place of \"{left}\", {allowed}"));
            }
            if let Err(allowed) = value.check(right) {
                wrong.push(format!("as the value of \"{left}\", {allowed}"));
            }
            checked.push((left.to_owned(), right.to_owned()));
        }
        if wrong.is_empty() { Ok(ConfigValue::Pairs(checked)) } else { Err(wrong.join("; ")) }
    }

    /// The errors of one row of a [`ValueKind::Pairs`] or [`ValueKind::StatusTtls`] table, each as the end of a sentence that
    /// begins with "found"; `shown` is the value, or a text in its place.
    #[must_use]
    pub fn wrong_row(&self, name: &str, value: &str, shown: &str) -> Vec<String> {
        match *self {
            ValueKind::Pairs { name: of_name, value: of_value, .. } => {
                let wrong_name = of_name.check(name).err();
                let wrong_name = wrong_name.map(|allowed| format!("the name {name:?}; allowed: {allowed}"));
                let wrong_value = of_value.check(value).err();
                let wrong_value = wrong_value.map(|allowed| format!("{shown}; allowed: {allowed}"));
                wrong_name.into_iter().chain(wrong_value).collect()
            }
            ValueKind::StatusTtls { most } if status_ttl(name, value, most).is_none() => {
                let allowed = ValueKind::Seconds { most }.allowed();
                vec![format!("{name} = {shown}; allowed: a status from 200 to 599, and {allowed}")]
            }
            _ => Vec::new(),
        }
    }

    /// The rows of a [`ValueKind::Pairs`] table that are right; `Wrong` if none is.
    #[must_use]
    pub fn sound_rows<'a>(&self, rows: impl Iterator<Item = (&'a str, &'a str)>) -> ConfigValue {
        let mut sound = rows.filter(|it| self.wrong_row(it.0, it.1, "").is_empty()).peekable();
        match sound.peek().is_some() {
            true => self.parse_pairs(sound).unwrap_or(ConfigValue::Wrong),
            false => ConfigValue::Wrong,
        }
    }

    /// Whether a value is a secret: it may be `file:PATH`, and no message shows it.
    #[must_use]
    pub const fn is_secret(&self) -> bool {
        match *self {
            ValueKind::One(form) | ValueKind::List(form) => form.is_secret(),
            ValueKind::Pairs { value, .. } => value.is_secret(),
            _ => false,
        }
    }

    /// Whether a value may have several lines.
    #[must_use]
    pub const fn has_lines(&self) -> bool {
        matches!(*self, ValueKind::One(TextForm::BodyTemplate | TextForm::Sql))
    }

    /// Whether the values are texts with variables that may be secrets.
    #[must_use]
    pub const fn is_template(&self) -> bool {
        matches!(*self, ValueKind::Pairs { value: TextForm::SecretTemplate | TextForm::VariableTemplate, .. })
    }

    /// The allowed values, as the end of a sentence.
    #[must_use]
    pub fn allowed(&self) -> String {
        match *self {
            ValueKind::Bool => "true or false".to_owned(),
            ValueKind::OneNumber(numbers) => {
                let texts: Vec<String> = numbers.iter().map(u64::to_string).collect();
                let (last, rest) = texts.split_last().map_or(("", &[][..]), |it| (it.0.as_str(), it.1));
                format!("{} or {last}", rest.join(", "))
            }
            ValueKind::Integer { least, most } => format!("a whole number from {least} to {most}"),
            ValueKind::Size { least, most } => {
                format!("a size from \"{}\" to \"{}\"", ByteSize(least), ByteSize(most))
            }
            ValueKind::Time { least, most } => {
                format!("a duration from \"{}\" to \"{}\"", spell_millis(least), spell_millis(most))
            }
            ValueKind::SizeOrOff { least, most } => {
                format!("a size from \"{}\" to \"{}\", or \"off\"", ByteSize(least), ByteSize(most))
            }
            ValueKind::TimeOrOff { least, most } => {
                let (least, most) = (spell_millis(least), spell_millis(most));
                format!("a duration from \"{least}\" to \"{most}\", or \"off\"")
            }
            ValueKind::Seconds { most } => {
                format!("a duration in whole seconds such as \"5m\", up to \"{}\"", spell_millis(most * 1000))
            }
            ValueKind::SecondsOrOff { most } => {
                format!(
                    "a duration in whole seconds such as \"5m\", up to \"{}\", or \"off\"",
                    spell_millis(most * 1000)
                )
            }
            ValueKind::OneOf(words) => {
                let quoted: Vec<_> = words.iter().map(|it| format!("\"{it}\"")).collect();
                format!("one of {}", quoted.join(", "))
            }
            ValueKind::One(form) => form.allowed().to_owned(),
            ValueKind::List(form) => format!("a list, each {}", form.allowed()),
            ValueKind::StatusTtls { most } => format!(
                "a table of statuses and durations up to \"{}\", such as {{ 404 = \"10s\" }}",
                spell_millis(most * 1000)
            ),
            ValueKind::Pairs { name, value, example } => {
                let (name, value) = (name.allowed(), value.allowed());
                format!("a table from {name} to {value}, such as {example}")
            }
        }
    }
}

fn spell_millis(millis: u64) -> String {
    larder_stdx::duration::spell(Duration::from_millis(millis))
}

fn seconds(text: &str, most: u64) -> Option<u32> {
    let duration = larder_stdx::duration::parse(text).ok()?;
    let whole = duration.subsec_nanos() == 0 && duration.as_secs() <= most;
    u32::try_from(duration.as_secs()).ok().filter(|_| whole)
}

fn status_ttl(status: &str, lifetime: &str, most: u64) -> Option<(u16, u32)> {
    let status = status.parse().ok().filter(|it| (200..=599).contains(it))?;
    Some((status, seconds(lifetime, most)?))
}

/// The members of a list; the error names those that are wrong.
fn list<'a>(form: TextForm, texts: impl Iterator<Item = &'a str>) -> Result<ConfigValue, String> {
    let texts: Vec<&str> = texts.collect();
    let wrong: Vec<_> =
        (1..).zip(&texts).filter_map(|(number, it)| Some((number, *it, form.check(it).err()?))).collect();
    let Some((_, _, allowed)) = wrong.first() else {
        return Ok(ConfigValue::Texts(texts.into_iter().map(str::to_owned).collect()));
    };
    if texts.len() == 1 {
        return Err(allowed.clone());
    }
    // A secret is not repeated.
    let spell = |(number, it, _): &(usize, &str, String)| match form.is_secret() {
        true => format!("number {number} of the list"),
        false => format!("{it:?}"),
    };
    let wrong_ones: Vec<String> = wrong.iter().map(spell).collect();
    Err(format!("{allowed}; not allowed: {}", wrong_ones.join(", ")))
}

/// The tiers, from the fastest to the slowest.
pub const TIERS: [&str; 3] = ["ram", "disk", "fleet"];

/// The codings that larder produces, as named in the table.
pub const CODINGS: [&str; 3] = ["zstd", "br", "gzip"];

/// The beginning of the paths of blocks.
pub const BLOCK: &str = "block";

/// Whether a text may be the name of a block.
#[must_use]
pub fn is_block_name(text: &str) -> bool {
    let plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_');
    (1..=64).contains(&text.len()) && text.bytes().all(plain)
}

/// Parses a status or a range of statuses: the first and the last.
#[must_use]
pub fn status_range(text: &str) -> Option<(u16, u16)> {
    let status = |it: &str| {
        let is_number = it.len() == 3 && it.bytes().all(|it| it.is_ascii_digit());
        it.parse().ok().filter(|it| is_number && (100..=599).contains(it))
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    Some((status(first)?, status(last)?)).filter(|it| it.0 <= it.1)
}

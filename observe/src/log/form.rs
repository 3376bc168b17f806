//! A custom format of an access-log line: text with `{field}`s. The fields are in `fields`.

use super::escape;
use super::fields::{FIELDS, LogEntry, Since, number};
use super::stamp::Stamp;
use larder_semantics::field::{self, is_token};
use larder_semantics::secret;
use std::io::Write as _;
use std::str::FromStr;
use std::sync::Arc;

/// The most bytes of a format.
const MOST: usize = 4096;

/// The allowed values, as the end of a sentence.
pub const ALLOWED: &str = "\"combined\", \"common\", \"json\", or a template with fields in braces, such as \"{time} {status} \
             {target} {header:X-Forwarded-For}\"";

/// The format of a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// The common log format with referrer and user agent.
    Combined,
    /// The common log format.
    Common,
    /// One JSON object a line.
    Json,
    /// A custom format.
    Own(LogTemplate),
}

impl FromStr for LogFormat {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "combined" => Ok(LogFormat::Combined),
            "common" => Ok(LogFormat::Common),
            "json" => Ok(LogFormat::Json),
            _ => LogTemplate::parse(text).map(LogFormat::Own),
        }
    }
}

impl LogFormat {
    /// Whether the lines need an identifier of each request. JSON lines have one where it is made for something other.
    #[must_use]
    pub fn reads_identifier(&self) -> bool {
        let is_it = |it: &FormatPart| matches!(it, FormatPart::Field { index, .. } if FIELDS[*index].name == "request_id");
        matches!(self, LogFormat::Own(LogTemplate(parts)) if parts.iter().any(is_it))
    }
}

/// Text and fields, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogTemplate(Arc<[FormatPart]>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum FormatPart {
    Text(String),
    /// A field of the table, by its index.
    Field {
        index: usize,
        within_quotes: bool,
    },
    /// The time, as in the common format.
    CommonTime,
    /// All values of a field of the request.
    Header {
        name: String,
        within_quotes: bool,
    },
}

impl LogTemplate {
    /// Parses a format.
    ///
    /// # Errors
    /// The allowed values, as the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MOST {
            return Err(format!("{MOST} bytes at most"));
        }
        if text.chars().any(|it| it.is_control() && it != '\t') {
            return Err("a line without control characters".to_owned());
        }
        let (mut parts, mut plain, mut within_quotes) = (Vec::new(), String::new(), false);
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}', '"']) {
            let (before, from) = rest.split_at(at);
            plain.push_str(before);
            rest = match from.get(..2) {
                Some(pair @ ("{{" | "}}")) => {
                    plain.push_str(&pair[1..]);
                    &from[2..]
                }
                _ if from.starts_with('"') => {
                    within_quotes = !within_quotes;
                    plain.push('"');
                    &from[1..]
                }
                _ => {
                    let (name, behind) = from
                        .strip_prefix('{')
                        .and_then(|it| it.split_once('}'))
                        .ok_or("each \"{\" closed by a \"}\"; double a literal brace")?;
                    if !plain.is_empty() {
                        parts.push(FormatPart::Text(std::mem::take(&mut plain)));
                    }
                    parts.push(FormatPart::parse(name, within_quotes)?);
                    behind
                }
            };
        }
        if parts.is_empty() {
            return Err(ALLOWED.to_owned());
        }
        plain.push_str(rest);
        if !plain.is_empty() {
            parts.push(FormatPart::Text(plain));
        }
        Ok(Self(parts.into()))
    }

    /// Appends the line, without its newline.
    pub fn write(&self, entry: &LogEntry<'_>, stamp: &mut Stamp, out: &mut Vec<u8>) {
        for part in &*self.0 {
            match part {
                FormatPart::Text(it) => out.extend_from_slice(it.as_bytes()),
                FormatPart::Field { index, within_quotes } => {
                    let from = out.len();
                    (FIELDS[*index].plain)(entry, stamp, out);
                    end(from, *within_quotes, out);
                }
                FormatPart::CommonTime => out.extend_from_slice(stamp.common(entry.time)),
                FormatPart::Header { name, within_quotes } => {
                    let from = out.len();
                    for (number, value) in field::all(entry.fields, name).enumerate() {
                        if number > 0 {
                            out.extend_from_slice(b", ");
                        }
                        escape::escaped(&secret::shown(name, value), out);
                    }
                    end(from, *within_quotes, out);
                }
            }
        }
    }
}

impl FormatPart {
    fn parse(name: &str, within_quotes: bool) -> Result<Self, String> {
        if name == "time:common" {
            return Ok(FormatPart::CommonTime);
        }
        if let Some(name) = name.strip_prefix("header:") {
            let fits = is_token(name.as_bytes());
            let header = || FormatPart::Header { name: name.to_owned(), within_quotes };
            return fits
                .then(header)
                .ok_or_else(|| "the name of a header field after \"header:\"".to_owned());
        }
        if let Some(index) = FIELDS.iter().position(|it| it.name == name) {
            return Ok(FormatPart::Field { index, within_quotes });
        }
        let names: Vec<_> = FIELDS.iter().map(|it| it.name).collect();
        Err(format!("for {{{name}}} one of {}, time:common, header:NAME", names.join(", ")))
    }
}

impl LogEntry<'_> {
    /// Appends the line, its newline included.
    pub fn write(&self, format: &LogFormat, stamp: &mut Stamp, out: &mut Vec<u8>) {
        match format {
            LogFormat::Json => {
                for (index, field) in FIELDS.iter().filter(|it| it.since != Since::Template).enumerate() {
                    out.extend_from_slice(if index == 0 { b"{\"" } else { b",\"" });
                    out.extend_from_slice(field.name.as_bytes());
                    out.extend_from_slice(b"\":");
                    (field.json)(self, stamp, out);
                }
                out.push(b'}');
            }
            LogFormat::Common => self.common(stamp, out),
            LogFormat::Combined => {
                self.common(stamp, out);
                out.extend_from_slice(b" \"");
                escape::quoted(&self.referer(), out);
                out.extend_from_slice(b"\" \"");
                escape::quoted(self.user_agent(), out);
                out.push(b'"');
            }
            LogFormat::Own(it) => it.write(self, stamp, out),
        }
        out.push(b'\n');
    }

    fn common(&self, stamp: &mut Stamp, out: &mut Vec<u8>) {
        match self.client {
            Some(ip) => {
                let _ = write!(out, "{ip}");
            }
            None => out.push(b'-'),
        }
        out.extend_from_slice(b" - ");
        let from = out.len();
        escape::escaped(self.user.as_bytes(), out);
        end(from, false, out);
        out.extend_from_slice(b" [");
        out.extend_from_slice(stamp.common(self.time));
        out.extend_from_slice(b"] \"");
        escape::quoted(self.method, out);
        out.push(b' ');
        escape::quoted(self.target, out);
        let _ = write!(out, " {}\" {} ", self.protocol, self.status);
        match self.bytes {
            0 => out.push(b'-'),
            bytes => number(bytes, out),
        }
    }
}

/// Ends a value that began at `from`: an empty one is `-`; outside of quotes it is one word, for any bytes of a client.
fn end(from: usize, within_quotes: bool, out: &mut Vec<u8>) {
    if out.len() == from {
        out.push(b'-');
    } else if !within_quotes && out[from..].contains(&b' ') {
        let value = out.split_off(from);
        for (number, piece) in value.split(|it| *it == b' ').enumerate() {
            if number > 0 {
                out.extend_from_slice(b"\\x20");
            }
            out.extend_from_slice(piece);
        }
    }
}

//! Texts with variables of a request: `https://{host}{uri}`. A literal brace is written twice: `{{`, `}}`.
//!
//! The variables are in `PLAIN` and `NAMED`, and the captures of the route's path pattern: `{1}` to `{9}`, `{name}`.
//!
//! An expansion never contains CR, LF or NUL, nor any other control byte. In a URL ([`Template::expand_url`]), bytes
//! outside of the alphabet of RFC 3986 §2 are percent-encoded, and so are `?`, `#` and `%` of values that are not parts of
//! the received URL: a value cannot end the path. In a host or a query, `&`, `=`, `+`, `/` and `@` of such a value are
//! encoded too: a value is one name or one value.

use crate::captures::MOST_CAPTURES;
use crate::field::is_token;
use crate::request_view::{REQUEST_ID, RequestView};
use larder_stdx::html;
use std::fmt;
use std::io::Write;

/// A parsed text. Equal if the text is.
#[derive(Clone)]
pub struct Template {
    text: Box<str>,
    parts: Box<[Part]>,
}

#[derive(Clone, Debug)]
enum Part {
    Literal(Box<str>),
    Variable(Variable, UrlPart),
}

/// The part of a URL that a variable is in, if the text is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UrlPart {
    Authority,
    Path,
    Query,
}

impl UrlPart {
    /// The part that follows `text`, the literal parts so far.
    fn behind(text: &str) -> Self {
        if text.contains('?') {
            return UrlPart::Query;
        }
        let authority = text.find("//").filter(|it| *it == 0 || text.as_bytes()[*it - 1] == b':');
        match authority {
            Some(at) if !text[at + 2..].contains('/') => UrlPart::Authority,
            _ => UrlPart::Path,
        }
    }
}

/// A part of a request that a template reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateInput<'t> {
    /// Scheme, host, path, query, and the captures of the path.
    Url,
    /// The method.
    Method,
    /// The client's address.
    Client,
    /// The client's country.
    Country,
    /// The client's autonomous system.
    Asn,
    /// The listener.
    Listener,
    /// The identifier in logs.
    RequestId,
    /// The authenticated user.
    User,
    /// The field of this name.
    Header(&'t str),
    /// The cookie of this name.
    Cookie(&'t str),
}

impl std::fmt::Display for TemplateInput<'_> {
    /// As it is written in a template.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateInput::Url => f.write_str("{uri}"),
            TemplateInput::Method => f.write_str("{method}"),
            TemplateInput::Client => f.write_str("{client}"),
            TemplateInput::Country => f.write_str("{country}"),
            TemplateInput::Asn => f.write_str("{asn}"),
            TemplateInput::Listener => f.write_str("{listener}"),
            TemplateInput::RequestId => f.write_str("{request_id}"),
            TemplateInput::User => f.write_str("{remote_user}"),
            TemplateInput::Header(name) => write!(f, "{{header.{name}}}"),
            TemplateInput::Cookie(name) => write!(f, "{{cookie.{name}}}"),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Variable {
    Scheme,
    Host,
    HostWildcard,
    Uri,
    Path,
    Query,
    Method,
    Client,
    Country,
    Asn,
    Listener,
    RequestId,
    User,
    Header(Box<str>),
    Cookie(Box<str>),
    Parameter(Box<str>),
    Number(usize),
    /// A capture, by its name.
    Capture(Box<str>),
}

/// A variable without a name behind a dot: its name, and its value for the manual.
type PlainVariable = (&'static str, Variable, &'static str);

/// The variables without a name of their own.
const PLAIN: &[PlainVariable] = &[
    ("scheme", Variable::Scheme, "`http` or `https`"),
    ("host", Variable::Host, "The host without its port, in lower case."),
    (
        "host.wildcard",
        Variable::HostWildcard,
        "The part of the host that the `*` in the hosts of the site stands for, in lower case.",
    ),
    ("uri", Variable::Uri, "Path and query as received."),
    ("path", Variable::Path, "The path as received."),
    ("query", Variable::Query, "The query as received, without its question mark."),
    ("method", Variable::Method, "The method."),
    ("client", Variable::Client, "The client's address (`clients.trusted`); empty for a Unix socket."),
    (
        "country",
        Variable::Country,
        "The client's country in two letters; empty if unknown (`geoip.database`).",
    ),
    (
        "asn",
        Variable::Asn,
        "The number of the client's autonomous system; empty if unknown (`geoip.asn_database`).",
    ),
    ("listener", Variable::Listener, "The address of the listener, as in `listen`."),
    (
        "request_id",
        Variable::RequestId,
        "The identifier: a new one, or `X-Request-Id` of a proxy of `clients.trusted`. Origins and clients get it where a field is set to it.",
    ),
    (
        "remote_user",
        Variable::User,
        "The authenticated user: the name of `access.basic`, the claim `sub` of `access.jwt`, or the first field of \
         `access.forward.copy`; empty for other requests, and where a text is made before credentials are verified (redirects of a site).",
    ),
];

/// A variable whose name is followed by a dot and a name, and its value for the manual.
type NamedVariable = (&'static str, fn(Box<str>) -> Variable, &'static str);

/// The variables with a name behind a dot.
const NAMED: &[NamedVariable] = &[
    ("header", Variable::Header, "The first line of this request field; empty without one."),
    ("cookie", Variable::Cookie, "The first cookie of this name; empty without one."),
    (
        "query",
        Variable::Parameter,
        "The first parameter of this name in the query, decoded; empty without one.",
    ),
];

/// Every variable as it is written, with its value: rows of the manual.
pub fn manual() -> impl Iterator<Item = (String, &'static str)> {
    let plain = PLAIN.iter().map(|it| (format!("{{{}}}", it.0), it.2));
    let named = NAMED.iter().map(|it| (format!("{{{}.NAME}}", it.0), it.2));
    let captures = (
        "{1}` to `{9}`, `{NAME}".to_owned(),
        "The captures of the path pattern of the route, percent-decoded.",
    );
    plain.chain(named).chain([captures])
}

/// The variables of every request, as the end of a sentence.
pub const VARIABLES: &str = "{scheme}, {host}, {host.wildcard}, {uri}, {path}, {query}, {method}, {client}, {country}, {asn}, {listener}, {request_id}, {remote_user}, \
                             {header.NAME}, {cookie.NAME}, {query.NAME}, or a capture of the route's path";

/// Whether this is the name of a variable of every request.
#[must_use]
pub fn is_variable(name: &str) -> bool {
    PLAIN.iter().any(|it| it.0 == name) || NAMED.iter().any(|it| it.0 == name)
}

/// The names of the variables of every request that have no name of their own behind a dot.
pub fn variables() -> impl Iterator<Item = &'static str> {
    PLAIN.iter().map(|it| it.0)
}

/// Whether a capture may have this name: a letter or `_`, then letters, digits and `_`.
#[must_use]
pub fn is_capture_name(name: &str) -> bool {
    name.starts_with(|it: char| it.is_ascii_alphabetic() || it == '_')
        && name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'_')
}

impl Template {
    /// Parses a text with variables. A name that no request has is one of a capture ([`Template::names`]).
    ///
    /// # Errors
    /// The error and a valid form: one sentence.
    pub fn parse(text: &str) -> Result<Template, String> {
        let (mut parts, mut literal, mut all) = (Vec::new(), String::new(), String::new());
        let mut rest = text;
        while let Some(at) = rest.find(['{', '}']) {
            literal.push_str(&rest[..at]);
            let brace = &rest[at..=at];
            rest = &rest[at + 1..];
            if let Some(behind) = rest.strip_prefix(brace) {
                literal.push_str(brace);
                rest = behind;
                continue;
            }
            let Some((name, behind)) = rest.split_once('}').filter(|_| brace == "{") else {
                return Err(format!(
                    "a {brace:?} without its counterpart; write {brace}{brace} for a literal brace"
                ));
            };
            all.push_str(&literal);
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal).into()));
            }
            parts.push(Part::Variable(variable(name)?, UrlPart::behind(&all)));
            rest = behind;
        }
        literal.push_str(rest);
        if !literal.is_empty() || parts.is_empty() {
            parts.push(Part::Literal(literal.into()));
        }
        Ok(Template { text: text.into(), parts: parts.into() })
    }

    /// As it is written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text, if it has no variable.
    #[must_use]
    pub fn constant(&self) -> Option<&str> {
        match &*self.parts {
            [Part::Literal(text)] => Some(text),
            _ => None,
        }
    }

    /// Whether a part of it is no variable.
    #[must_use]
    pub fn has_literal(&self) -> bool {
        self.parts.iter().any(|it| matches!(it, Part::Literal(text) if !text.is_empty()))
    }

    /// Whether it has a variable with the query of the request, or the beginning of a query of its own.
    #[must_use]
    pub fn has_query(&self) -> bool {
        self.parts.iter().any(|it| match it {
            Part::Literal(text) => text.contains('?'),
            Part::Variable(variable, _) => matches!(variable, Variable::Uri | Variable::Query),
        })
    }

    /// The directory that every path made of it is in: the text before its first variable, to the last slash of that, without
    /// the slash. A directory that goes on in the variable counts as a whole, since the variable `{path}` begins with a slash.
    #[must_use]
    pub fn directory(&self) -> &str {
        let [Part::Literal(text), Part::Variable(next, _), ..] = &*self.parts else { return "" };
        let text = text.split('?').next().unwrap_or_default();
        match next {
            Variable::Path | Variable::Uri => text.trim_end_matches('/'),
            _ => text.rfind('/').map_or("", |at| &text[..at]),
        }
    }

    /// The captures that it needs, by name or by number (`1`).
    pub fn names(&self) -> impl Iterator<Item = &str> {
        const NUMBERS: [&str; MOST_CAPTURES] = ["1", "2", "3", "4", "5", "6", "7", "8", "9"];
        self.parts.iter().filter_map(|it| match it {
            Part::Variable(Variable::Capture(name), _) => Some(&**name),
            Part::Variable(Variable::Number(number), _) => NUMBERS.get(*number - 1).copied(),
            _ => None,
        })
    }

    /// Whether it reads `{host.wildcard}`.
    #[must_use]
    pub fn reads_wildcard(&self) -> bool {
        self.parts.iter().any(|it| matches!(it, Part::Variable(Variable::HostWildcard, _)))
    }

    /// The parts of a request that it reads, in order.
    pub fn inputs(&self) -> impl Iterator<Item = TemplateInput<'_>> {
        self.parts.iter().filter_map(|it| match it {
            Part::Literal(_) => None,
            Part::Variable(variable, _) => Some(variable.input()),
        })
    }

    /// Appends the text for a request, as the value of a field or other plain text: without control bytes.
    pub fn expand(&self, view: &RequestView<'_>, out: &mut Vec<u8>) {
        self.expand_with(view, out, push_plain, push_plain);
    }

    /// Appends the text for a request as the value of `Set-Cookie`: in values, octets that no value of a
    /// cookie has are encoded, so that none begins an attribute (RFC 6265 §4.1.1).
    pub fn expand_cookie(&self, view: &RequestView<'_>, out: &mut Vec<u8>) {
        let is_plain = |it: u8| it.is_ascii_graphic() && !b"\",;\\".contains(&it);
        let push_value = |text: &[u8], out: &mut Vec<u8>| {
            for it in text.iter().copied() {
                match is_plain(it) {
                    true => out.push(it),
                    false => out.extend_from_slice(format!("%{it:02X}").as_bytes()),
                }
            }
        };
        self.expand_with(view, out, push_plain, push_value);
    }

    /// Appends its text as the body of a response of this media type: its own line ends stay, and values are text of that
    /// type: markup in HTML and XML is escaped, and so is the end of a string in JSON and JavaScript.
    pub fn expand_body(&self, view: &RequestView<'_>, media_type: &str, out: &mut Vec<u8>) {
        let kind = media_type.split(';').next().unwrap_or_default().to_ascii_lowercase();
        let push_value: fn(&[u8], &mut Vec<u8>) = match kind.trim() {
            it if it.contains("html") || it.contains("xml") || it.contains("svg") => push_markup,
            it if it.contains("json") || it.contains("javascript") => push_string,
            _ => push_plain,
        };
        self.expand_with(view, out, |text, out| out.extend_from_slice(text), push_value);
    }

    fn expand_with(
        &self,
        view: &RequestView<'_>,
        out: &mut Vec<u8>,
        push_literal: impl Fn(&[u8], &mut Vec<u8>),
        push_value: impl Fn(&[u8], &mut Vec<u8>),
    ) {
        for part in &self.parts {
            match part {
                Part::Literal(text) => push_literal(text.as_bytes(), out),
                Part::Variable(variable, _) => variable.value(view, &mut |it, _| push_value(it, out)),
            }
        }
    }

    /// Appends the text for a request, as a URL or a request target. If the template begins with one slash, or with a
    /// variable, the result never begins with two, which would be another host (RFC 3986 §4.2).
    pub fn expand_url(&self, view: &RequestView<'_>, out: &mut Vec<u8>) {
        let start = out.len();
        for part in &self.parts {
            match part {
                Part::Literal(text) => push_url(text.as_bytes(), None, out),
                Part::Variable(variable, part) => variable.value(view, &mut |it, is_url| {
                    push_url(it, (!is_url).then_some(*part), out);
                }),
            }
        }
        let slashes = out[start..].iter().take_while(|it| **it == b'/').count();
        if slashes > 1 && !self.text.starts_with("//") {
            out.drain(start..start + slashes - 1);
        }
    }
}

fn variable(name: &str) -> Result<Variable, String> {
    if let Some((_, plain, _)) = PLAIN.iter().find(|it| it.0 == name) {
        return Ok(plain.clone());
    }
    let unknown =
        || format!("unknown variable {{{name}}}; expected {VARIABLES}; write {{{{ for a literal brace");
    if let Some((kind, of)) = name.split_once('.') {
        let named = NAMED.iter().find(|it| it.0 == kind).ok_or_else(unknown)?;
        let is_name = is_token(of.as_bytes());
        return if is_name {
            Ok(named.1(of.into()))
        } else {
            Err(format!("{of:?} is not a name, in {{{name}}}"))
        };
    }
    if NAMED.iter().any(|it| it.0 == name) {
        return Err(format!("{{{name}}} needs a name, such as {{{name}.x-name}}"));
    }
    match name.as_bytes() {
        [digit @ b'1'..=b'9'] => Ok(Variable::Number(usize::from(digit - b'0'))),
        _ if is_capture_name(name) => Ok(Variable::Capture(name.into())),
        _ => Err(unknown()),
    }
}

impl Variable {
    fn input(&self) -> TemplateInput<'_> {
        match self {
            Variable::Scheme | Variable::Host | Variable::HostWildcard | Variable::Uri => TemplateInput::Url,
            Variable::Path | Variable::Query => TemplateInput::Url,
            Variable::Parameter(_) | Variable::Number(_) | Variable::Capture(_) => TemplateInput::Url,
            Variable::Method => TemplateInput::Method,
            Variable::Client => TemplateInput::Client,
            Variable::Country => TemplateInput::Country,
            Variable::Asn => TemplateInput::Asn,
            Variable::Listener => TemplateInput::Listener,
            Variable::RequestId => TemplateInput::RequestId,
            Variable::User => TemplateInput::User,
            Variable::Header(name) if name.eq_ignore_ascii_case("host") => TemplateInput::Url,
            Variable::Header(name) => TemplateInput::Header(name),
            Variable::Cookie(name) => TemplateInput::Cookie(name),
        }
    }

    /// Passes the value to `push`, and whether it is a part of the received URL, which is encoded already.
    fn value(&self, view: &RequestView<'_>, push: &mut dyn FnMut(&[u8], bool)) {
        match self {
            Variable::Scheme => push(view.scheme.name().as_bytes(), true),
            Variable::Host => push(view.host().to_ascii_lowercase().as_bytes(), true),
            Variable::HostWildcard => push(view.wildcard().to_ascii_lowercase().as_bytes(), false),
            Variable::Uri => {
                push(view.spelled_path().as_bytes(), true);
                let query = view.query();
                if !query.is_empty() {
                    push(b"?", true);
                    push(query.as_bytes(), true);
                }
            }
            Variable::Path => push(view.spelled_path().as_bytes(), true),
            Variable::Query => push(view.query().as_bytes(), true),
            Variable::Method => push(view.method.as_bytes(), false),
            Variable::Client => {
                if let Some(address) = view.client {
                    let mut text = Vec::with_capacity(45);
                    let _ = write!(text, "{}", address.to_canonical());
                    push(&text, false);
                }
            }
            Variable::Country => view.country().iter().for_each(|it| push(it.bytes(), false)),
            Variable::Asn => {
                view.asn().iter().for_each(|it| push(itoa::Buffer::new().format(*it).as_bytes(), false));
            }
            Variable::Listener => push(view.listener.as_bytes(), false),
            Variable::RequestId => {
                if let Some(value) = crate::field::first(view.fields, REQUEST_ID) {
                    push(value, false);
                }
            }
            Variable::User => push(view.user, false),
            Variable::Header(name) if name.eq_ignore_ascii_case("host") => {
                push(view.authority.as_bytes(), true)
            }
            Variable::Header(name) => {
                if let Some(value) = crate::field::first(view.fields, name) {
                    push(value, false);
                }
            }
            Variable::Cookie(name) => {
                if let Some(value) = view.cookies(name).next() {
                    push(value, false);
                }
            }
            Variable::Parameter(name) => {
                if let Some(value) = view.parameters(name).next() {
                    push(&value, false);
                }
            }
            Variable::Number(number) => push(view.captures.number(*number), false),
            Variable::Capture(name) => push(view.captures.named(name), false),
        }
    }
}

/// Appends a value as text of HTML and XML, in elements and in quoted attributes.
fn push_markup(value: &[u8], out: &mut Vec<u8>) {
    let mut plain = Vec::with_capacity(value.len());
    push_plain(value, &mut plain);
    for it in plain {
        match html::entity(it) {
            Some(entity) => out.extend_from_slice(entity.as_bytes()),
            None => out.push(it),
        }
    }
}

/// Appends a value as the content of a string of JSON and JavaScript (RFC 8259 section 7). `<` is escaped as well, since scripts
/// may be in a page.
fn push_string(value: &[u8], out: &mut Vec<u8>) {
    let mut plain = Vec::with_capacity(value.len());
    push_plain(value, &mut plain);
    for it in plain {
        match it {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', it]),
            b'\'' | b'<' | b'`' | b'$' => {
                let _ = write!(out, "\\u{it:04x}");
            }
            _ => out.push(it),
        }
    }
}

fn push_plain(text: &[u8], out: &mut Vec<u8>) {
    out.extend(text.iter().filter(|it| !it.is_ascii_control()));
}

/// Appends a text to a URL. `within` is the part of the URL for a value; `None` for the template itself and for parts of
/// the received URL, whose escapes and delimiters stay.
fn push_url(text: &[u8], within: Option<UrlPart>, out: &mut Vec<u8>) {
    let is_kept = |it: &u8| match it {
        // RFC 3986 §2.3.
        b'-' | b'.' | b'_' | b'~' => true,
        b'%' | b'?' | b'#' | b'[' | b']' => within.is_none(),
        b'&' | b'=' | b'+' | b'/' | b'@' => matches!(within, None | Some(UrlPart::Path)),
        // RFC 3986 §2.2.
        b'!' | b'$' | b'\'' | b'(' | b')' | b'*' | b',' | b';' | b':' => true,
        _ => it.is_ascii_alphanumeric(),
    };
    let mut rest = text;
    while let Some(at) = rest.iter().position(|it| !is_kept(it)) {
        out.extend_from_slice(&rest[..at]);
        let _ = write!(out, "%{:02X}", rest[at]);
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

impl fmt::Debug for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Template({:?})", self.text)
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Template {}

#[cfg(test)]
mod tests;

//! The forms of texts and their checks. The sentence about the right form is in `allowed`. Types of values are in `super`.

use super::*;
use larder_database::DatabaseServer;
use larder_transport::listener::Listen;
use std::path::PathBuf;

/// The form of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextForm {
    /// `ADDR:PORT` or `unix:PATH`.
    Listen,
    /// `ADDR:PORT`.
    SocketAddress,
    /// `http://HOST:PORT` or `unix:PATH`.
    Origin,
    /// One of several origins, with its weight.
    Member,
    /// One of several php-fpm, with its weight.
    FastCgiMember,
    /// The script of paths that name none, or `off`.
    FrontController,
    /// The name of a variable of an application.
    VariableName,
    /// The input of a hash.
    HashBy,
    /// A status that counts as a failure of an origin.
    FailureStatus,
    /// A host name, `*.NAME` or `*`.
    Host,
    /// A host name.
    HostName,
    /// A pattern of paths (`semantics::pattern`).
    PathPattern,
    /// A condition over requests (`semantics::expression`).
    Condition,
    /// `/prefix`.
    PathPrefix,
    /// A condition over responses that arrive.
    ResponseCondition,
    /// A prefix of request paths that a rewrite removes or adds.
    RewritePrefix,
    /// `HOST` or `HOST:PORT`, as in a `Host` field.
    Authority,
    /// The name of a query parameter.
    ParameterName,
    /// The name of a route.
    RouteName,
    /// The name of a `[block.NAME]`.
    BlockName,
    /// A secret, or `file:PATH` for the one in a file.
    Secret,
    /// A part of the origin's time.
    TimeShare,
    /// The URL of the keys of an issuer, or of the directory of a CA.
    KeyUrl,
    /// The address of a person.
    EmailAddress,
    /// The value of a field with variables, or `file:PATH` for a secret in a file.
    SecretTemplate,
    /// The value of a variable of an application, with variables of the request, or `file:PATH` for a secret in a file.
    VariableTemplate,
    /// A request path with variables.
    PathTemplate,
    /// A status, or a range of them.
    StatusRange,
    /// A text of a body, or a regular expression.
    BodyTest,
    /// A path of the file system that is read.
    Path,
    /// A path of the file system with more than reading.
    PathFor(PathAccess),
    /// A path of a file that is written, or `off`.
    PathOrOff,
    /// A path, `-` or `off`.
    LogTarget,
    /// A condition over finished requests.
    FinishedCondition,
    /// The form of a line of the access log.
    LogFormat,
    /// A member of `files.try`.
    TryMember,
    /// The path of a file beneath a root.
    Page,
    /// The name of a file, without a slash.
    FileName,
    /// A request method.
    Method,
    /// The name of a header field.
    FieldName,
    /// The value of a header field.
    FieldValue,
    /// The name of a cookie.
    CookieName,
    /// The name of a cookie, with at most one `*` for any part of it.
    CookieGlob,
    /// The name of a query parameter, or its beginning and `*`.
    ParameterGlob,
    /// A tier of the cache.
    Tier,
    /// A content coding that larder produces.
    Coding,
    /// A media type, `TYPE/*`, or `+SUFFIX`.
    MediaType,
    /// A media type.
    Offer,
    /// A language tag.
    Language,
    /// A memcached server, and its weight.
    Memcached,
    /// A text with variables, on one line.
    Template,
    /// A text with variables, on one or several lines.
    BodyTemplate,
    /// The origin of a web page (RFC 6454).
    PageOrigin,
    /// A status from 400 to 599, `4xx` or `5xx`.
    ErrorStatus,
    /// A part of a memcached key.
    KeyText,
    /// `ADDR` or `ADDR/BITS`.
    Network,
    /// The same, or `unix`.
    Peer,
    /// `ADDR`, `ADDR/BITS`, `unix`, `country:XX` or `asn:NUMBER`, for access rules.
    AccessAddress,
    /// `N/s`, `N/m`, `N/h` or `N/d`.
    Rate,
    /// The part of a request by which requests are limited.
    LimitKey,
    /// A part of a request by which answers of a service are reused.
    ForwardKey,
    /// A path of a request, with or without a query.
    RequestTarget,
    /// A condition about requests.
    AccessCondition,
    /// A signature algorithm of tokens.
    JwtAlgorithm,
    /// The name or the value of a claim.
    ClaimText,
    /// The place of a database.
    DatabaseUrl,
    /// The place of a replica, and its weight.
    Replica,
    /// A query.
    Sql,
    /// The name of a parameter in a query.
    SqlParameterName,
    /// The source and the type of a parameter.
    SqlParameter,
    /// The rows that a result shows.
    ShownRows,
    /// A column of a table.
    TableColumn,
    /// The text of which nginx makes the MD5 of a link.
    SecureLink,
}

/// Whether a file system has such paths.
fn is_file_path(text: &str) -> bool {
    !text.is_empty() && !text.contains('\0')
}

impl TextForm {
    /// Whether a value may be a secret: `file:PATH` is then replaced by the content of the file, and no message shows the
    /// value.
    #[must_use]
    pub const fn is_secret(self) -> bool {
        matches!(self, TextForm::Secret | TextForm::SecretTemplate | TextForm::VariableTemplate)
    }

    /// The path of the file system that a text of this form names, with the access to it; `None` without one. Sockets to which
    /// larder connects are not among them.
    #[must_use]
    pub fn path_in(self, text: &str) -> Option<(PathBuf, PathAccess)> {
        let path = |access: PathAccess| Some((PathBuf::from(text), access));
        match self {
            TextForm::Path => path(PathAccess::READ),
            TextForm::PathFor(access) => path(access),
            TextForm::PathOrOff if text == "off" => None,
            TextForm::PathOrOff => path(PathAccess::WRITE),
            TextForm::LogTarget if matches!(text, "-" | "off") || text.starts_with("syslog") => None,
            TextForm::LogTarget => path(PathAccess::WRITE),
            TextForm::Listen => match entrance(text)?.at {
                Listen::Unix(path) => Some((std::path::absolute(path).ok()?, PathAccess::WRITE)),
                Listen::Tcp(_) | Listen::Tls(_) => None,
            },
            TextForm::DatabaseUrl => match DatabasePlace::parse(text).ok()?.server {
                DatabaseServer::File(path) => Some((path, PathAccess::WRITE)),
                DatabaseServer::Tcp(..) | DatabaseServer::Unix(_) => None,
            },
            _ => None,
        }
    }

    pub(super) fn check(self, text: &str) -> Result<(), String> {
        self.check_written(text, text)
    }

    /// The same for a text that is `written` with variables: those of a condition are in its errors, not their values.
    pub(super) fn check_written(self, text: &str, written: &str) -> Result<(), String> {
        if let Some(subject) = self.subject() {
            let parsed = Expression::parse_written(subject, text, written);
            return parsed.map(drop).map_err(|it| format!("{}; {it}", self.allowed()));
        }
        let otherwise = || match (self.fits(text), self) {
            (true, _) => Ok(()),
            (false, TextForm::Host) => Err(format!("{}{}", self.allowed(), HostPattern::hint(text))),
            (false, _) => Err(self.allowed().to_owned()),
        };
        self.check_parsed(text).unwrap_or_else(otherwise)
    }

    /// Whether a text has the form, where its mistakes have no sentence of their own.
    fn fits(self, text: &str) -> bool {
        match self {
            TextForm::Condition
            | TextForm::AccessCondition
            | TextForm::FinishedCondition
            | TextForm::ResponseCondition
            | TextForm::Origin
            | TextForm::Member
            | TextForm::FastCgiMember
            | TextForm::Template
            | TextForm::BodyTemplate
            | TextForm::LogFormat
            | TextForm::PathPattern
            | TextForm::SecretTemplate
            | TextForm::VariableTemplate
            | TextForm::BodyTest
            | TextForm::PathTemplate
            | TextForm::SecureLink
            | TextForm::DatabaseUrl
            | TextForm::Replica
            | TextForm::SqlParameter => true,
            TextForm::Sql => !text.trim().is_empty() && !text.contains('\0'),
            TextForm::SqlParameterName => larder_database::is_parameter_name(text),
            TextForm::ShownRows => ShownRows::parse(text).is_some(),
            TextForm::TableColumn => TableColumn::parse(text).is_some(),
            TextForm::HashBy => member::hash_by(text).is_some(),
            TextForm::FailureStatus => is_failure_status(text),
            TextForm::PageOrigin => is_page_origin(text),
            TextForm::ErrorStatus => {
                matches!(text, "4xx" | "5xx") || TextForm::FailureStatus.check(text).is_ok()
            }
            TextForm::Listen => entrance(text).is_some(),
            TextForm::SocketAddress => socket_address(text).is_some(),
            TextForm::Host => HostPattern::parse(text).is_some(),
            TextForm::HostName => !text.starts_with('*') && HostPattern::parse(text).is_some(),
            TextForm::PathPrefix => text.starts_with('/') && !text.contains('*'),
            TextForm::RewritePrefix => rewrite::is_prefix(text),
            TextForm::Authority => address::authority(text).is_some(),
            TextForm::ParameterName => is_parameter_name(text),
            TextForm::RouteName => is_route_name(text),
            TextForm::BlockName => is_block_name(text),
            TextForm::Secret => !text.is_empty(),
            TextForm::KeyUrl => KeyUrl::parse(text).is_some(),
            TextForm::EmailAddress => is_email_address(text),
            TextForm::TimeShare => TimeShare::parse(text).is_some(),
            TextForm::StatusRange => status_range(text).is_some(),
            TextForm::Path | TextForm::PathFor(_) | TextForm::PathOrOff | TextForm::LogTarget => {
                is_file_path(text)
            }
            TextForm::TryMember => TryMember::parse(text).is_ok(),
            TextForm::Page => is_page(text),
            TextForm::FrontController => is_front_controller(text),
            TextForm::VariableName => is_variable_name(text),
            TextForm::FileName => is_file_name(text),
            TextForm::Method | TextForm::FieldName | TextForm::CookieName => is_token(text.as_bytes()),
            TextForm::FieldValue => is_field_value(text),
            TextForm::CookieGlob => is_cookie_glob(text),
            TextForm::Tier => TIERS.contains(&text),
            TextForm::Coding => CODINGS.contains(&text),
            TextForm::MediaType => is_media_type(text),
            TextForm::Offer => is_offer(text),
            TextForm::Language => is_language(text),
            TextForm::Memcached => memcached_address::parse(text).is_some(),
            TextForm::KeyText => is_key_text(text),
            TextForm::Network => Network::parse(text).is_some(),
            TextForm::Peer => Peers::is_one(text),
            TextForm::AccessAddress => AccessMember::parse(text).is_some(),
            TextForm::Rate => Rate::parse(text).is_some(),
            TextForm::JwtAlgorithm => JwtAlgorithm::parse(text).is_some(),
            TextForm::ClaimText => !text.is_empty() && !text.chars().any(char::is_control),
            TextForm::LimitKey => LimitKey::parse(text).is_some(),
            TextForm::ForwardKey => ForwardKey::parse(text).is_some(),
            TextForm::RequestTarget => is_request_target(text),
            TextForm::ParameterGlob => is_parameter_glob(text),
        }
    }

    /// Checks the forms whose mistakes have a sentence of their own; `None` for the others.
    fn check_parsed(self, text: &str) -> Option<Result<(), String>> {
        let more = |why: &dyn std::fmt::Display| format!("{}; {why}", self.allowed());
        Some(match self {
            TextForm::Origin => origin(text).map(drop),
            TextForm::Member => OriginMember::parse(text).map(drop),
            TextForm::FastCgiMember => OriginMember::parse_fastcgi(text).map(drop),
            TextForm::Template | TextForm::VariableTemplate => template(text, false).map_err(|it| more(&it)),
            TextForm::BodyTemplate => template(text, true).map_err(|it| more(&it)),
            TextForm::Rate => Err(more(&format!("write \"{}\"", whole_rate(text)?))),
            TextForm::LogFormat => text.parse::<LogFormat>().map(drop),
            TextForm::PathPattern => PathPattern::parse(text).map(drop).map_err(|it| more(&it)),
            TextForm::SecretTemplate | TextForm::BodyTest | TextForm::PathTemplate => {
                self.check_template(text)
            }
            TextForm::SecureLink => SecureLinkText::parse(text).map(drop).map_err(|it| more(&it)),
            TextForm::DatabaseUrl => DatabasePlace::parse(text).map(drop),
            TextForm::Replica => ReplicaSettings::parse(text).map(drop),
            TextForm::SqlParameter => SqlParameter::parse("name", text).map(drop),
            TextForm::LimitKey if text.starts_with("jwt:") => Err(more(
                &"a limit is judged before credentials, so that it cannot count by a claim of a token",
            )),
            _ => return None,
        })
    }

    /// Whether it is a condition.
    #[must_use]
    pub fn is_condition(self) -> bool {
        self.subject().is_some()
    }

    /// The subject of a condition.
    fn subject(self) -> Option<ExpressionSubject> {
        match self {
            TextForm::Condition | TextForm::AccessCondition => Some(ExpressionSubject::Request),
            TextForm::FinishedCondition => Some(ExpressionSubject::Finished),
            TextForm::ResponseCondition => Some(ExpressionSubject::Response),
            _ => None,
        }
    }

    /// The forms whose texts have a syntax of their own, with the error of its parser.
    fn check_template(self, text: &str) -> Result<(), String> {
        let parsed = match self {
            TextForm::BodyTest => BodyTest::parse(text).map(drop),
            _ => Template::parse(text).map(drop),
        };
        parsed.map_err(|why| format!("{}; {why}", self.allowed()))?;
        let fits = match self {
            TextForm::PathTemplate => {
                text.starts_with(['/', '{']) && !text.starts_with("{{") && !text.contains('#')
            }
            TextForm::SecretTemplate => return self.check_field_value(text),
            _ => !text.is_empty(),
        };
        if fits { Ok(()) } else { Err(self.allowed().to_owned()) }
    }

    /// Checks the value of a request field.
    fn check_field_value(self, text: &str) -> Result<(), String> {
        let why = if text.trim().is_empty() {
            "an empty value removes nothing: name the field in request_headers.remove"
        } else if text.bytes().any(|it| it != b'\t' && it.is_ascii_control()) {
            "a field has one line: remove the line break or control character from the value, or from its file"
        } else {
            return Ok(());
        };
        Err(format!("{}; {why}", self.allowed()))
    }
}

fn is_email_address(text: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_graphic() && !b",<>()\"\\;?#".contains(&it);
    text.split_once('@').is_some_and(|(user, host)| !user.is_empty() && address::is_host(host))
        && text.bytes().all(is_plain)
}

fn is_variable_name(text: &str) -> bool {
    let is_plain = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    text.bytes().all(is_plain) && !text.is_empty() && !text.starts_with(|it: char| it.is_ascii_digit())
}

fn is_front_controller(text: &str) -> bool {
    text == "off" || rewrite::is_prefix(&format!("/{}", text.strip_prefix('/').unwrap_or(text)))
}

fn is_parameter_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|it| it.is_ascii_graphic() && !b"&=#%".contains(&it))
}

fn is_failure_status(text: &str) -> bool {
    text.len() == 3 && text.parse().is_ok_and(|it: u16| (400..=599).contains(&it))
}

fn is_page(text: &str) -> bool {
    let path = format!("/{}", text.strip_prefix('/').unwrap_or(text));
    matches!(TryMember::parse(&path), Ok(TryMember::Fixed(_)))
}

/// A rate with a fraction (`0.5/s`) in a larger unit of which it is a whole number: `30/m`.
fn whole_rate(text: &str) -> Option<String> {
    let (number, unit) = text.split_once('/')?;
    let (whole, fraction) = number.split_once('.')?;
    let digits = u32::try_from(fraction.len()).ok().filter(|it| (1..=6).contains(it))?;
    let scaled: u64 = format!("{whole}{fraction}").parse().ok()?;
    let units = [("s", 1u64), ("m", 60), ("h", 3600), ("d", 86400)];
    let seconds = units.iter().find(|it| it.0 == unit)?.1;
    let larger = units.iter().filter(|it| it.1 > seconds);
    larger
        .map(|it| (it.0, scaled.saturating_mul(it.1 / seconds), 10u64.pow(digits)))
        .find(|(_, times, scale)| *times > 0 && times % scale == 0)
        .map(|(unit, times, scale)| format!("{}/{unit}", times / scale))
        .filter(|it| Rate::parse(it).is_some())
}

fn is_parameter_glob(text: &str) -> bool {
    let name = text.strip_suffix('*').unwrap_or(text);
    !text.is_empty() && !name.contains(['*', '&', '=', '#', ' '])
}

fn is_field_value(text: &str) -> bool {
    !text.is_empty() && text.trim() == text && text.bytes().all(|it| (b' '..=b'~').contains(&it))
}

fn is_request_target(text: &str) -> bool {
    text.starts_with('/') && text.bytes().all(|it| it.is_ascii_graphic()) && !is_malformed(text)
}

fn is_route_name(text: &str) -> bool {
    let plain = |it: u8| it.is_ascii_alphanumeric() || matches!(it, b'-' | b'_' | b'.');
    (1..=64).contains(&text.len()) && text.bytes().all(plain)
}

fn is_media_type(text: &str) -> bool {
    let is_name = |it: &str| {
        let is_part = |it: u8| it.is_ascii_lowercase() || it.is_ascii_digit() || b".+-".contains(&it);
        !it.is_empty() && it.bytes().all(is_part)
    };
    match (text.strip_prefix('+'), text.split_once('/')) {
        (Some(suffix), _) => is_name(suffix),
        (None, Some((kind, "*"))) => is_name(kind),
        (None, Some((kind, name))) => is_name(kind) && is_name(name),
        (None, None) => false,
    }
}
/// The most bytes of a prefix or a namespace: a memcached key has 250, and an MD5 must fit behind it.
const MAX_KEY_TEXT: usize = 100;

/// Checks a text with variables.
fn template(text: &str, has_lines: bool) -> Result<(), String> {
    let is_wrong = |it: u8| it == 127 || it < b' ' && !(has_lines && matches!(it, b'\t' | b'\n' | b'\r'));
    if text.bytes().any(is_wrong) {
        return Err("a text without control characters".to_owned());
    }
    Template::parse(text).map(drop)
}

/// Whether this is the origin of a page, with at most one `*` for subdomains.
fn is_page_origin(text: &str) -> bool {
    let of_scheme = |it: &str| {
        let (host, port) = it.split_once(':').map_or((it, None), |it| (it.0, Some(it.1)));
        host != "*" && HostPattern::parse(host).is_some() && port.is_none_or(|it| it.parse::<u16>().is_ok())
    };
    matches!(text, "*" | "null")
        || text.split_once("://").is_some_and(|(scheme, rest)| is_token(scheme.as_bytes()) && of_scheme(rest))
}

/// Whether this may be a part of a memcached key.
fn is_key_text(text: &str) -> bool {
    (1..=MAX_KEY_TEXT).contains(&text.len()) && text.bytes().all(|it| it.is_ascii_graphic() && it != b'#')
}

/// Whether this is the name of a cookie, with at most one `*` for any part of it.
fn is_cookie_glob(text: &str) -> bool {
    text == "*" || is_token(text.replacen('*', "", 1).as_bytes()) && text.matches('*').count() <= 1
}

/// Whether this may be the name of a file in a directory.
fn is_file_name(text: &str) -> bool {
    !text.is_empty() && text != "." && text != ".." && !text.contains(['/', '\0'])
}

//! The variables of a request for an application behind FastCGI, SCGI, uWSGI or CGI (RFC 3875 §4.1): one list for all four.
//! Their encoding is not here (`wire`), nor is the search for the script.

mod program_path;
#[cfg(test)]
mod tests;

pub use program_path::ProgramPath;

use crate::address_text::AddressText;
use crate::field::FieldList;
use crate::method::Methods;
use crate::path::{self, NORMAL, PathReading};
use crate::pattern::PathPattern;
use crate::request_view::{host_of, path_of};
use crate::scheme::Scheme;
use crate::target::{self, encode};
use std::net::SocketAddr;
use std::sync::Arc;

/// Bytes of a list of variables apart from the fields of the request, about.
const OWN_BYTES: usize = 1024;

/// A request on its way to an application.
#[derive(Clone, Copy, Debug)]
pub struct CgiRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// The target in origin-form, or `*`.
    pub target: &'a str,
    /// The end-to-end fields for the origin, `Host` included.
    pub fields: &'a FieldList,
    /// Bytes of the body; `None` without one.
    pub length: Option<u64>,
    /// The scheme of the client's request.
    pub scheme: Scheme,
    /// The authority of the client's request; may be empty.
    pub authority: &'a str,
    /// The client, behind trusted proxies; `None` if it is unknown, or must not be sent.
    pub client: Option<SocketAddr>,
    /// The local address of the client's connection.
    pub local: Option<SocketAddr>,
    /// The user that larder has authenticated; empty without one.
    pub user: &'a [u8],
    /// The script.
    pub script: &'a Script,
    /// The variables of the route, which replace those of the same name.
    pub more: &'a FieldList,
}

/// The program that answers a request, and the part of the path that belongs to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// The directory of the site as the application sees it; empty where the application knows it.
    pub root: Vec<u8>,
    /// The part of the path that names the script, decoded; empty for an application that is no file.
    pub name: Vec<u8>,
    /// The path behind it, decoded; `None` if there is none.
    pub info: Option<Vec<u8>>,
    /// Variables that replace those of the same name.
    pub more: Arc<[(String, String)]>,
}

impl Script {
    /// For an application that is no file: the whole path, decoded, is information for it. Control bytes stay encoded: NUL, CR and
    /// LF cannot be in every protocol, and as another byte they would make it the path of another route.
    #[must_use]
    pub fn none(target: &str) -> Self {
        let once = PathReading { backslash: false, merge: false, dots: false, ..NORMAL };
        let mut decoded = Vec::new();
        path::read(path_of(target).as_bytes(), once, &mut decoded);
        Self { info: Some(information(&decoded)), ..Self::default() }
    }
}

/// A decoded path as information for a program: with encoded control bytes.
fn information(decoded: &[u8]) -> Vec<u8> {
    if !decoded.iter().any(u8::is_ascii_control) {
        return decoded.to_vec();
    }
    let mut info = Vec::with_capacity(decoded.len());
    for byte in decoded {
        encode(*byte, |it| !it.is_ascii_control(), &mut info);
    }
    info
}

/// The target of a local redirect (RFC 3875 §6.2.2): of a response without `Status` that has only a `Location`, which is a path of this
/// server. Any other `Location` is for the client; `Content-Type` and `Content-Length` are about a body that is not sent.
#[must_use]
pub fn local_redirect(fields: &FieldList) -> Option<&str> {
    let mut lines = fields.iter().filter(|it| !it.is("content-type") && !it.is("content-length"));
    let location = lines.next().filter(|it| it.is("location") && lines.next().is_none())?;
    let path = std::str::from_utf8(location.value).ok()?;
    let is_target = path.bytes().all(|it| it.is_ascii_graphic() && it != b'#') && !target::is_malformed(path);
    (path.starts_with('/') && !path.starts_with("//") && is_target).then_some(path)
}

/// A route before that of a script or program.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EarlierRoute {
    /// Its name, for `explain`.
    pub name: String,
    /// Its paths.
    pub path: PathPattern,
    /// Its methods.
    pub methods: Methods,
}

/// The route that a script belongs to which a request does not name by its own path: the first of the routes `before` its own that has the
/// request's method and the script's path, and not that of the request. Rules of that route would not hold for the request, so the script
/// is not run. Further conditions of the route are taken to hold.
#[must_use]
pub fn other_route<'a>(
    before: &'a [EarlierRoute],
    method: &str,
    request: &[u8],
    script: &[u8],
) -> Option<&'a EarlierRoute> {
    before.iter().find(|it| it.methods.allow(method) && it.path.matches(script) && !it.path.matches(request))
}

/// The variables of a request.
///
/// A field becomes `HTTP_NAME`; several lines of one name become one value (RFC 9110 §5.3). Left out are `Proxy`, which programs
/// take for the configuration of their own client (CVE-2016-5385), and every field with another byte than a letter, a digit or
/// `-` in its name: `Remote_User` and `Remote-User` would be one variable.
#[must_use]
pub fn variables(request: &CgiRequest<'_>) -> FieldList {
    let CgiRequest { fields, script, .. } = request;
    let bytes =
        fields.text().len() + fields.len() * 8 + OWN_BYTES + script.root.len() * 2 + script.name.len() * 3;
    let mut out = FieldList::with_capacity(fields.len() + 24, bytes);
    out.push("GATEWAY_INTERFACE", "CGI/1.1");
    out.push("SERVER_SOFTWARE", "larder");
    out.push("SERVER_PROTOCOL", "HTTP/1.1");
    out.push("REQUEST_METHOD", request.method);
    out.push("REQUEST_URI", request.target);
    out.push("QUERY_STRING", request.target.split_once('?').map_or("", |it| it.1));
    out.push("REQUEST_SCHEME", request.scheme.name());
    if request.scheme == Scheme::Https {
        out.push("HTTPS", "on");
    }
    server(request, &mut out);
    client(request, &mut out);
    of_script(script, &mut out);
    // PHP's own program answers nothing without it.
    out.push("REDIRECT_STATUS", "200");
    if let Some(it) = fields.get("content-type") {
        out.push("CONTENT_TYPE", it);
    }
    if let Some(length) = request.length {
        out.push("CONTENT_LENGTH", itoa::Buffer::new().format(length));
    }
    of_fields(fields, &mut out);
    for (name, value) in script.more.iter() {
        out.set(name, value);
    }
    for it in request.more.iter() {
        out.set(it.name, it.value);
    }
    out
}

/// The server's name and port are those of the client's URL: a page that is shared does not depend on the connection that
/// brought its first request.
fn server(request: &CgiRequest<'_>, out: &mut FieldList) {
    let host = host_of(request.authority);
    let port = request.authority.get(host.len()..).and_then(|it| it.strip_prefix(':'));
    out.push("SERVER_NAME", host);
    out.push("SERVER_PORT", port.filter(|it| !it.is_empty()).unwrap_or(request.scheme.default_port()));
    if let Some(local) = request.local {
        out.push("SERVER_ADDR", AddressText::of(local.ip().to_canonical()).bytes());
    }
}

fn client(request: &CgiRequest<'_>, out: &mut FieldList) {
    match request.client {
        Some(client) => {
            out.push("REMOTE_ADDR", AddressText::of(client.ip().to_canonical()).bytes());
            out.push("REMOTE_PORT", itoa::Buffer::new().format(client.port()));
        }
        // Programs expect an address (RFC 3875 §4.1.8). It is not that of this machine, to which some give more rights.
        None => out.push("REMOTE_ADDR", "0.0.0.0"),
    }
    if !request.user.is_empty() {
        out.push("REMOTE_USER", request.user);
    }
}

fn of_script(script: &Script, out: &mut FieldList) {
    let Script { root, name, info, .. } = script;
    out.push("SCRIPT_NAME", name);
    out.push("DOCUMENT_URI", [name.as_slice(), info.as_deref().unwrap_or_default()].concat());
    if let Some(info) = info {
        out.push("PATH_INFO", info);
    }
    if !name.is_empty() {
        out.push("SCRIPT_FILENAME", [root.as_slice(), name].concat());
    }
    if root.is_empty() {
        return;
    }
    out.push("DOCUMENT_ROOT", root);
    if let Some(info) = info {
        out.push("PATH_TRANSLATED", [root.as_slice(), info].concat());
    }
}

/// The fields as `HTTP_*`, in order of their first lines.
fn of_fields(fields: &FieldList, out: &mut FieldList) {
    let mut name = Vec::with_capacity(64);
    for (at, field) in fields.iter().enumerate() {
        let is_plain = field.name.bytes().all(|it| it.is_ascii_alphanumeric() || it == b'-');
        let is_left_out = ["proxy", "content-length", "content-type"].iter().any(|it| field.is(it));
        let is_only = fields.get_all(field.name).nth(1).is_none();
        if !is_plain || is_left_out || !is_only && fields.iter().take(at).any(|it| it.is(field.name)) {
            continue;
        }
        name.clear();
        name.extend_from_slice(b"HTTP_");
        name.extend_from_slice(field.name.as_bytes());
        name.iter_mut().for_each(|it| *it = if *it == b'-' { b'_' } else { it.to_ascii_uppercase() });
        // It is ASCII.
        let name = std::str::from_utf8(&name).unwrap_or_default();
        match is_only {
            true => out.push(name, field.value),
            false => out.push(name, joined(fields, field.name)),
        }
    }
}

/// The lines of a field as one.
fn joined(fields: &FieldList, name: &str) -> Vec<u8> {
    let between: &[u8] = if name.eq_ignore_ascii_case("cookie") { b"; " } else { b", " };
    let mut value = Vec::new();
    for line in fields.get_all(name) {
        if !value.is_empty() {
            value.extend_from_slice(between);
        }
        value.extend_from_slice(line);
    }
    value
}

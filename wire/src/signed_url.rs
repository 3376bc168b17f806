//! Signed URLs: a query that admits its bearer to one page, or to every page beneath a path, for a time. A signature is an HMAC of
//! a text that has only one spelling; the older form of nginx (`secure_link`, MD5) is verified, and not made.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use larder_semantics::network::Network;
use larder_semantics::path::{self, Decode, PathReading};
use ring::hmac;
use std::borrow::Cow;
use std::net::IpAddr;
use subtle::ConstantTimeEq;

/// The least bytes of a secret.
pub const LEAST_SECRET: usize = 32;
/// Bytes of a signature in the URL: 32 in base64url.
const SIGNATURE: usize = 43;
/// Bytes of an MD5 in the URL: 16 in base64url.
const MD5: usize = 22;

/// The names of the parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedNames {
    /// The end, in seconds since 1970.
    pub expires: String,
    /// The signature.
    pub signature: String,
    /// The path beneath which the signature is valid.
    pub prefix: String,
    /// The network of the client.
    pub ip: String,
}

impl SignedNames {
    /// `expires`, `signature`, `prefix` and `ip`, each after `before`.
    #[must_use]
    pub fn after(before: &str) -> Self {
        let [expires, signature, prefix, ip] =
            ["expires", "signature", "prefix", "ip"].map(|it| format!("{before}{it}"));
        Self { expires, signature, prefix, ip }
    }

    /// `expires` and `md5`, as in the examples of nginx, each after `before`. The others are not used.
    #[must_use]
    pub fn of_nginx(before: &str) -> Self {
        let [expires, signature] = ["expires", "md5"].map(|it| format!("{before}{it}"));
        Self { expires, signature, prefix: String::new(), ip: String::new() }
    }

    fn all(&self) -> [&str; 4] {
        [&self.expires, &self.signature, &self.prefix, &self.ip]
    }

    fn is_one(&self, name: &str) -> bool {
        !name.is_empty() && self.all().contains(&name)
    }
}

/// The reason for which a URL is refused. It is for the log, never for the client, except that it has expired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SignedFault {
    /// It has no signature.
    Unsigned,
    /// The method is neither GET nor HEAD.
    Method,
    /// A parameter occurs twice, in another spelling, or has a value in another form.
    Parameter,
    /// The path has more than one spelling: dot segments, empty segments, escapes of letters or of slashes.
    Path,
    /// The path is not beneath the signed one.
    Outside,
    /// The client is not in the signed network.
    Client,
    /// The signature is that of another URL, or of another secret.
    Signature,
    /// It was valid, and its time is over.
    Expired,
}

impl SignedFault {
    /// The reason, for the log.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            SignedFault::Unsigned => "it has no signature",
            SignedFault::Method => "the method is neither GET nor HEAD",
            SignedFault::Parameter => "a parameter of the signature occurs twice, or is malformed",
            SignedFault::Path => "the path is not in its only form",
            SignedFault::Outside => "the path is not beneath the signed prefix",
            SignedFault::Client => "the client is not in the signed network",
            SignedFault::Signature => "the signature is wrong",
            SignedFault::Expired => "the signature has expired",
        }
    }
}

/// A request with a signed URL.
#[derive(Clone, Copy, Debug)]
pub struct SignedRequest<'a> {
    /// The method.
    pub method: &'a str,
    /// The host, without its port, in any case.
    pub host: &'a str,
    /// Path and query as received.
    pub target: &'a str,
    /// The client's address; `None` over a Unix socket.
    pub client: Option<IpAddr>,
}

/// A target, split into the part that the origin gets and the signature.
struct SignedTarget<'a> {
    path: &'a str,
    /// The query without the parameters of the signature.
    query: Cow<'a, str>,
    expires: Option<&'a str>,
    signature: Option<&'a str>,
    prefix: Option<&'a str>,
    ip: Option<&'a str>,
}

impl<'a> SignedTarget<'a> {
    /// `None` if a parameter of the signature occurs twice or in another spelling.
    fn parse(target: &'a str, names: &SignedNames) -> Option<Self> {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let mut it = Self {
            path,
            query: stripped_query(query, names),
            expires: None,
            signature: None,
            prefix: None,
            ip: None,
        };
        for part in query.split('&') {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let all = [&mut it.expires, &mut it.signature, &mut it.prefix, &mut it.ip];
            match names.all().into_iter().zip(all).find(|it| !it.0.is_empty() && it.0 == name) {
                Some((_, found)) if found.is_none() => *found = Some(value),
                Some(_) => return None,
                // Applications decode names.
                None if names.is_one(&decoded(name)) => return None,
                None => {}
            }
        }
        Some(it)
    }
}

fn decoded(text: &str) -> String {
    let mut out = Vec::new();
    path::read(text.as_bytes(), PathReading { decode: Decode::All, ..path::SPELLED }, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn stripped_query<'a>(query: &'a str, names: &SignedNames) -> Cow<'a, str> {
    let is_own = |part: &&str| names.is_one(part.split('=').next().unwrap_or_default());
    if !query.split('&').any(|it| is_own(&it)) {
        return Cow::Borrowed(query);
    }
    let rest: Vec<&str> = query.split('&').filter(|it| !is_own(it)).collect();
    Cow::Owned(rest.join("&"))
}

/// The target without the parameters of a signature; `None` if it has none.
#[must_use]
pub fn stripped(target: &str, names: &SignedNames) -> Option<String> {
    let (path, query) = target.split_once('?')?;
    match stripped_query(query, names) {
        Cow::Borrowed(_) => None,
        Cow::Owned(rest) if rest.is_empty() => Some(path.to_owned()),
        Cow::Owned(rest) => Some(format!("{path}?{rest}")),
    }
}

/// The decoded form of a path that has only one spelling, apart from the escapes of characters that need one.
fn canonical(path: &str) -> Option<Vec<u8>> {
    let (mut plain, mut normal) = (Vec::new(), Vec::new());
    path::read(path.as_bytes(), PathReading { decode: Decode::All, ..path::SPELLED }, &mut plain);
    path::read(path.as_bytes(), path::NORMAL, &mut normal);
    let mut escapes = path.match_indices('%').map(|it| path.get(it.0 + 1..it.0 + 3));
    let is_needed = |it: Option<&str>| {
        let byte = it.and_then(|it| u8::from_str_radix(it, 16).ok());
        byte.is_some_and(|it| {
            !(it.is_ascii_alphanumeric() || b"-._~/\\".contains(&it) || it.is_ascii_control())
        })
    };
    let is_one = path.starts_with('/') && !path.contains(['\\', '#']) && plain == normal;
    (is_one && escapes.all(is_needed)).then_some(normal)
}

/// Whether every reading of a path is beneath `prefix`, also by servers that drop path parameters or decode twice.
fn is_beneath(path: &[u8], prefix: &[u8]) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| !rest.iter().any(|it| b";%".contains(it)))
}

/// A prefix in its only form: it begins and ends with a slash.
fn prefix_of(text: &str) -> Option<Vec<u8>> {
    canonical(text).filter(|it| it.ends_with(b"/") && !it.iter().any(|it| b";%".contains(it)))
}

/// A network in its only form.
fn network_of(text: &str) -> Option<Network> {
    let (address, bits) = text.split_once('/').map_or((text, None), |it| (it.0, Some(it.1)));
    let is_one = address.parse::<IpAddr>().is_ok_and(|it| it.to_canonical().to_string() == address)
        && bits.is_none_or(|it| it.parse::<u8>().is_ok_and(|number| number.to_string() == it));
    Network::parse(text).filter(|_| is_one && Network::plain(text).is_none())
}

/// Seconds since 1970, without sign and leading zeros.
fn seconds_of(text: &str) -> Option<u64> {
    text.parse::<u64>().ok().filter(|it| it.to_string() == text && text.len() <= 11)
}

/// The signed parts of a URL.
struct SignedParts<'a> {
    host: &'a str,
    /// The whole path with the query, or the prefix.
    covered: Covered<'a>,
    expires: u64,
    ip: Option<&'a str>,
}

enum Covered<'a> {
    Page(&'a [u8], &'a str),
    Prefix(&'a [u8]),
}

impl SignedParts<'_> {
    /// The text of the signature: each part after its length, so that no two URLs have the same text.
    fn text(&self) -> Vec<u8> {
        let (kind, path, query) = match self.covered {
            Covered::Page(path, query) => (&b"page"[..], path, query),
            Covered::Prefix(path) => (&b"prefix"[..], path, ""),
        };
        let (host, expires) = (self.host.to_ascii_lowercase(), self.expires.to_string());
        let ip = self.ip.unwrap_or_default();
        let parts =
            [b"GET", host.as_bytes(), kind, path, query.as_bytes(), expires.as_bytes(), ip.as_bytes()];
        let mut text = b"larder-url-1".to_vec();
        for part in parts {
            text.extend_from_slice(format!("\n{}:", part.len()).as_bytes());
            text.extend_from_slice(part);
        }
        text
    }
}

/// Verifies the URL of a request by one of several secrets; `now` is in seconds since 1970.
///
/// # Errors
/// The first fault. [`SignedFault::Expired`] only if everything else is right.
pub fn verify(
    request: &SignedRequest<'_>,
    names: &SignedNames,
    secrets: &[impl AsRef<[u8]>],
    now: u64,
) -> Result<(), SignedFault> {
    if !matches!(request.method, "GET" | "HEAD") {
        return Err(SignedFault::Method);
    }
    let target = SignedTarget::parse(request.target, names).ok_or(SignedFault::Parameter)?;
    let signature = target.signature.ok_or(SignedFault::Unsigned)?;
    let expires = target.expires.and_then(seconds_of).ok_or(SignedFault::Parameter)?;
    let signature = Some(signature).filter(|it| it.len() == SIGNATURE);
    let signature = signature.and_then(|it| URL_SAFE_NO_PAD.decode(it).ok()).ok_or(SignedFault::Parameter)?;
    let path = canonical(target.path).ok_or(SignedFault::Path)?;
    let prefix = match target.prefix {
        None => None,
        Some(it) => Some(prefix_of(it).ok_or(SignedFault::Parameter)?),
    };
    if let Some(prefix) = &prefix
        && !is_beneath(&path, prefix)
    {
        return Err(SignedFault::Outside);
    }
    if let Some(text) = target.ip {
        let network = network_of(text).ok_or(SignedFault::Parameter)?;
        if !request.client.is_some_and(|it| network.contains(it)) {
            return Err(SignedFault::Client);
        }
    }
    let covered = match &prefix {
        Some(it) => Covered::Prefix(it),
        None => Covered::Page(&path, &target.query),
    };
    let text = SignedParts { host: request.host, covered, expires, ip: target.ip }.text();
    let is_signed = |it: &dyn AsRef<[u8]>| {
        hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, it.as_ref()), &text, &signature).is_ok()
    };
    match secrets.iter().any(|it| is_signed(it)) {
        false => Err(SignedFault::Signature),
        true if now >= expires => Err(SignedFault::Expired),
        true => Ok(()),
    }
}

/// The choices of a signer.
#[derive(Clone, Copy, Debug, Default)]
pub struct SignOptions<'a> {
    /// The end, in seconds since 1970.
    pub expires: u64,
    /// The path beneath which the signature is valid, as in a URL.
    pub prefix: Option<&'a str>,
    /// The network of the client.
    pub ip: Option<&'a str>,
}

/// The target with its signature.
///
/// # Errors
/// The part that cannot be signed, as one sentence.
pub fn sign(
    host: &str,
    target: &str,
    names: &SignedNames,
    secret: &[u8],
    options: &SignOptions<'_>,
) -> Result<String, String> {
    let (spelled, query) = target.split_once('?').map_or((target, None), |it| (it.0, Some(it.1)));
    let all = || names.all().into_iter().filter(|it| !it.is_empty());
    if let Some(name) = all().find(|name| {
        query
            .unwrap_or_default()
            .split('&')
            .any(|it| decoded(it.split('=').next().unwrap_or_default()) == *name)
    }) {
        return Err(format!("the URL has a parameter {name} already; remove it"));
    }
    let path = canonical(spelled)
        .ok_or("the path of the URL is not in its only form: remove dot segments, empty segments, backslashes and needless escapes")?;
    let prefix = match options.prefix {
        None => None,
        Some(it) => Some(prefix_of(it).ok_or(
            "the prefix is not a path that begins and ends with \"/\", without dot segments and \";\"",
        )?),
    };
    if let Some(it) = &prefix
        && !is_beneath(&path, it)
    {
        return Err("the path of the URL is not beneath the prefix".to_owned());
    }
    if let Some(it) = options.ip.filter(|it| network_of(it).is_none()) {
        return Err(format!(
            "\"{it}\" is not an address or a network such as 192.0.2.0/24 in its usual form"
        ));
    }
    let covered = match &prefix {
        Some(it) => Covered::Prefix(it),
        None => Covered::Page(&path, query.unwrap_or_default()),
    };
    let parts = SignedParts { host, covered, expires: options.expires, ip: options.ip };
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let signature = URL_SAFE_NO_PAD.encode(hmac::sign(&key, &parts.text()));
    let mut signed = format!("{spelled}?");
    if let Some(it) = query.filter(|it| !it.is_empty()) {
        signed.push_str(&format!("{it}&"));
    }
    signed.push_str(&format!("{}={}", names.expires, options.expires));
    for (name, value) in [(&names.prefix, options.prefix), (&names.ip, options.ip)] {
        signed.push_str(&value.map_or(String::new(), |it| format!("&{name}={it}")));
    }
    Ok(format!("{signed}&{}={signature}", names.signature))
}

/// The text of which nginx makes an MD5 (`secure_link_md5`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecureLinkText(Vec<SecureLinkPart>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum SecureLinkPart {
    Literal(String),
    Expires,
    Path,
    Client,
    Host,
    Secret,
}

impl SecureLinkText {
    /// Whether a link is valid for one address only.
    #[must_use]
    pub fn reads_client(&self) -> bool {
        self.0.contains(&SecureLinkPart::Client)
    }

    /// Parses a text with `{expires}`, `{path}`, `{client}`, `{host}` and `{secret}`.
    ///
    /// # Errors
    /// The mistake, as the end of a sentence.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (mut parts, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (name, after) = after.split_once('}').ok_or("a \"{\" has no \"}\"")?;
            if !before.is_empty() {
                parts.push(SecureLinkPart::Literal(before.to_owned()));
            }
            parts.push(match name {
                "expires" => SecureLinkPart::Expires,
                "path" => SecureLinkPart::Path,
                "client" => SecureLinkPart::Client,
                "host" => SecureLinkPart::Host,
                "secret" => SecureLinkPart::Secret,
                _ => return Err(format!("\"{{{name}}}\" is not a variable of it")),
            });
            rest = after;
        }
        if rest.contains('}') {
            return Err("a \"}\" has no \"{\"".to_owned());
        }
        if !rest.is_empty() {
            parts.push(SecureLinkPart::Literal(rest.to_owned()));
        }
        for (part, name) in [
            (SecureLinkPart::Expires, "{expires}"),
            (SecureLinkPart::Path, "{path}"),
            (SecureLinkPart::Secret, "{secret}"),
        ] {
            if !parts.contains(&part) {
                return Err(format!("{name} is missing"));
            }
        }
        Ok(Self(parts))
    }

    /// Verifies a URL signed for nginx's `secure_link_md5`; otherwise like the function [`verify`].
    ///
    /// # Errors
    /// The first fault.
    pub fn verify(
        &self,
        request: &SignedRequest<'_>,
        names: &SignedNames,
        secrets: &[impl AsRef<[u8]>],
        now: u64,
    ) -> Result<(), SignedFault> {
        if !matches!(request.method, "GET" | "HEAD") {
            return Err(SignedFault::Method);
        }
        let target = SignedTarget::parse(request.target, names).ok_or(SignedFault::Parameter)?;
        let digest = target.signature.ok_or(SignedFault::Unsigned)?;
        let expires = target.expires.and_then(seconds_of).ok_or(SignedFault::Parameter)?;
        let digest = Some(digest).filter(|it| it.len() == MD5);
        let digest = digest.and_then(|it| URL_SAFE_NO_PAD.decode(it).ok()).ok_or(SignedFault::Parameter)?;
        let path = canonical(target.path).ok_or(SignedFault::Path)?;
        let is_signed = |secret: &[u8]| {
            let mut text = Vec::new();
            for part in &self.0 {
                match part {
                    SecureLinkPart::Literal(it) => text.extend_from_slice(it.as_bytes()),
                    SecureLinkPart::Expires => text.extend_from_slice(expires.to_string().as_bytes()),
                    SecureLinkPart::Path => text.extend_from_slice(&path),
                    SecureLinkPart::Client => {
                        let client = request.client.map(|it| it.to_canonical().to_string());
                        text.extend_from_slice(client.unwrap_or_default().as_bytes());
                    }
                    SecureLinkPart::Host => {
                        text.extend_from_slice(request.host.to_ascii_lowercase().as_bytes())
                    }
                    SecureLinkPart::Secret => text.extend_from_slice(secret),
                }
            }
            bool::from(md5::compute(&text).0[..].ct_eq(&digest))
        };
        match secrets.iter().any(|it| is_signed(it.as_ref())) {
            false => Err(SignedFault::Signature),
            // As nginx, which compares with a smaller number.
            true if now > expires => Err(SignedFault::Expired),
            true => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;

//! Access to the admin: by token, session or Unix socket, never by a request that a foreign web page caused. The token's
//! file is in `larder_config::token`; endpoints without a token are marked in `table`. See
//! docs/decisions/0091-admin-access.md.

use super::{Admin, AdminRequest, AdminResponse, problem, problem_at};
use crate::session_file::{self, KeptSession};
use larder_config::token::{self, Token};
use larder_counters::Counters;
use larder_semantics::field::FieldList;
use larder_stdx::clock;
use larder_transport::Client;
use larder_wire::message::Request;
use serde_json::json;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

/// Seconds for which a login link is valid.
const LINK_LIFE: u64 = 600;
/// The most open login links; beyond, the oldest is invalidated.
const LINKS: usize = 8;
/// The most sessions; beyond, the least recently used one ends.
const SESSIONS: usize = 64;
/// Seconds without use after which a session ends.
const SESSION_IDLE: u64 = 12 * 3600;
/// Seconds after which the last use of a session is written again.
const WRITE_USE: u64 = 600;
/// Seconds after which a session ends in any case.
const SESSION_LIFE: u64 = 7 * 24 * 3600;
/// Consecutive wrong tokens that are answered before the response is only "too many" ...
const GUESSES: u64 = 20;
/// ... and the seconds after which one more is answered.
const GUESS_SECONDS: u64 = 1;

/// The authenticated client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Requester {
    /// None.
    Nobody,
    /// The holder of the token.
    Token,
    /// The session with this number.
    Session(u64),
    /// A client of the admin's Unix socket: the user that runs larder, or root.
    Socket,
}

impl fmt::Display for Requester {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Requester::Nobody => f.write_str("nobody"),
            Requester::Token => f.write_str("token"),
            Requester::Session(number) => write!(f, "session-{number}"),
            Requester::Socket => f.write_str("socket"),
        }
    }
}

/// The reason for rejecting a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRefusal {
    /// The `Host` is not the admin's: a web page with a name of its own for this address (DNS rebinding).
    Host,
    /// The request came through a route of this larder, under any name of its origin: the route is open to all its
    /// clients.
    Circle,
    /// The request was made by a web page of another origin.
    Origin,
    /// The request had no token.
    NoToken,
    /// The credential is neither the token nor a session's.
    WrongToken,
    /// The same, after many of them.
    TooMany,
}

impl AccessRefusal {
    /// Status, sentence, and the field concerned.
    fn told(self) -> (u16, &'static str, &'static str) {
        match self {
            AccessRefusal::Host => (
                421,
                "The Host of this request is not the address of this admin; add the name of a proxy in front of it \
                 to admin.hosts.",
                "Host",
            ),
            AccessRefusal::Circle => (
                403,
                "This request came through a route of this larder; a route must not have the admin as its origin.",
                "CDN-Loop",
            ),
            AccessRefusal::Origin => (
                403,
                "This request was made by a page of another web origin (Origin or Sec-Fetch-Site).",
                "Origin",
            ),
            AccessRefusal::NoToken => (
                401,
                "This request requires the admin's token: send \"Authorization: Bearer TOKEN\"; for the page, \
                 `larder login` prints a link.",
                "Authorization",
            ),
            AccessRefusal::WrongToken => (
                401,
                "This is not the admin's token, or the session has expired; `larder login` prints a new link.",
                "Authorization",
            ),
            AccessRefusal::TooMany => (
                429,
                "Too many requests with a wrong token; a request with the correct token is accepted at any \
                       time.",
                "Authorization",
            ),
        }
    }
}

impl From<AccessRefusal> for AdminResponse {
    fn from(it: AccessRefusal) -> Self {
        let (status, sentence, field) = it.told();
        problem_at(status, sentence, field)
    }
}

/// A one-time login for a browser.
struct LoginLink {
    code: Token,
    until: u64,
}

/// A logged-in browser.
struct BrowserSession {
    number: u64,
    /// Of its token, which is with the browser alone.
    fingerprint: String,
    /// The time of its last use.
    used: u64,
    born: u64,
}

impl BrowserSession {
    fn until(&self) -> u64 {
        (self.used + SESSION_IDLE).min(self.born + SESSION_LIFE)
    }
}

/// The access state of the admin.
pub struct AdminAccess {
    token: Token,
    /// The address of the page for a browser on this machine: `http://127.0.0.1:9180`.
    page: String,
    links: RefCell<VecDeque<LoginLink>>,
    /// In the order of their last use.
    sessions: RefCell<VecDeque<BrowserSession>>,
    /// The number of sessions so far.
    numbered: Cell<u64>,
    /// The file that has them over a restart, and the time of the last write.
    kept: RefCell<Option<(PathBuf, u64)>>,
    /// The remaining wrong tokens, and the time of that count.
    guesses: Cell<(u64, u64)>,
    counters: Arc<Counters>,
}

impl AdminAccess {
    /// Accepts `token`. `first` is the first address of the admin.
    pub fn new(token: Token, first: Option<SocketAddr>, counters: Arc<Counters>) -> Self {
        let page = first.map_or_else(|| "http://localhost".to_owned(), |it| format!("http://{}", near(it)));
        Self {
            token,
            page,
            links: RefCell::default(),
            sessions: RefCell::default(),
            numbered: Cell::new(0),
            kept: RefCell::default(),
            guesses: Cell::new((GUESSES, clock::wall().0)),
            counters,
        }
    }

    /// Takes up the sessions in the file at `path`, and keeps them there from now on. Without a folder for it, sessions end with the
    /// process.
    pub fn keep_sessions(&self, path: PathBuf) {
        let now = clock::wall().0;
        let mut all: Vec<BrowserSession> = session_file::read(&path, &self.token.fingerprint())
            .into_iter()
            .map(|it| BrowserSession {
                number: it.number,
                fingerprint: it.fingerprint,
                used: it.used,
                born: it.born,
            })
            .filter(|it| it.born <= now && it.used <= now && now < it.until())
            .take(SESSIONS)
            .collect();
        all.sort_by_key(|it| it.used);
        self.numbered.set(all.iter().map(|it| it.number).max().unwrap_or(0));
        self.sessions.replace(all.into());
        self.kept.replace(Some((path, now)));
    }

    /// Writes the sessions into their file. If it cannot be written, they end with the process.
    fn write_sessions(&self) {
        let mut kept = self.kept.borrow_mut();
        let Some((path, written)) = &mut *kept else { return };
        *written = clock::wall().0;
        let all: Vec<KeptSession> = self
            .sessions
            .borrow()
            .iter()
            .map(|it| KeptSession {
                number: it.number,
                fingerprint: it.fingerprint.clone(),
                used: it.used,
                born: it.born,
            })
            .collect();
        let _ = session_file::write(path, &self.token.fingerprint(), &all);
    }

    /// Authenticates a client; called once for each request.
    ///
    /// # Errors
    /// The client is rejected.
    pub fn who(&self, request: &Request, client: &Client) -> Result<Requester, AccessRefusal> {
        let mut shown = request.fields.get_all("authorization");
        let (Some(first), None) = (shown.next(), shown.next()) else {
            return if is_direct(request, client) {
                Ok(Requester::Socket)
            } else {
                Err(AccessRefusal::NoToken)
            };
        };
        let first = String::from_utf8_lossy(first);
        let Some(shown) = first.split_once(' ').filter(|it| it.0.eq_ignore_ascii_case("bearer")) else {
            return Err(AccessRefusal::NoToken);
        };
        // The right one first: no number of wrong ones locks it out.
        let shown = shown.1.trim();
        match self.token.is(shown) {
            true => Ok(Requester::Token),
            false => self.session(shown).ok_or_else(|| self.wrong()),
        }
    }

    fn session(&self, shown: &str) -> Option<Requester> {
        let now = clock::wall().0;
        let mut sessions = self.sessions.borrow_mut();
        sessions.retain(|it| now < it.until());
        // All are compared, so that the time reveals nothing; of a fingerprint it would not help.
        let shown = token::fingerprint(shown);
        let found = sessions
            .iter()
            .enumerate()
            .fold(None, |found, (at, it)| if it.fingerprint == shown { Some(at) } else { found })?;
        let mut session = sessions.remove(found)?;
        session.used = now;
        let who = Requester::Session(session.number);
        sessions.push_back(session);
        drop(sessions);
        let is_due = self.kept.borrow().as_ref().is_some_and(|it| now.saturating_sub(it.1) >= WRITE_USE);
        if is_due {
            self.write_sessions();
        }
        Some(who)
    }

    /// Counts a wrong token.
    fn wrong(&self) -> AccessRefusal {
        self.counters.admin_wrong_tokens.add_shared(1);
        let now = clock::wall().0;
        let (left, since) = self.guesses.get();
        let more = now.saturating_sub(since) / GUESS_SECONDS;
        let left = left.saturating_add(more).min(GUESSES);
        self.guesses.set((left.saturating_sub(1), if more > 0 || now < since { now } else { since }));
        match left {
            0 => {
                self.counters.admin_throttled.add_shared(1);
                AccessRefusal::TooMany
            }
            _ => AccessRefusal::WrongToken,
        }
    }

    /// A new login link: its code, and its expiry.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn link(&self) -> std::io::Result<(String, u64)> {
        let code = Token::random::<16>()?;
        let (text, until) = (code.text().to_owned(), clock::wall().0 + LINK_LIFE);
        let mut links = self.links.borrow_mut();
        if links.len() >= LINKS {
            links.pop_front();
            self.counters.admin_links_full.add_shared(1);
        }
        links.push_back(LoginLink { code, until });
        Ok((text, until))
    }

    /// The page with a new login link, for a browser on this machine.
    pub fn link_here(&self) -> Option<String> {
        self.link().ok().map(|(code, _)| format!("{}/#login={code}", self.page))
    }

    /// Redeems a code: it is valid once. Returns the new session's token, and its expiry without use.
    fn login(&self, code: &str) -> Result<std::io::Result<(String, u64, u64)>, AccessRefusal> {
        let now = clock::wall().0;
        let mut links = self.links.borrow_mut();
        links.retain(|it| now < it.until);
        let found = links.iter().enumerate().fold(
            None,
            |found, (at, it)| {
                if it.code.is(code) { Some(at) } else { found }
            },
        );
        let Some(found) = found else { return Err(self.wrong()) };
        links.remove(found);
        let token = match Token::random::<32>() {
            Ok(it) => it,
            Err(error) => return Ok(Err(error)),
        };
        let mut sessions = self.sessions.borrow_mut();
        sessions.retain(|it| now < it.until());
        if sessions.len() >= SESSIONS {
            sessions.pop_front();
            self.counters.admin_sessions_full.add_shared(1);
        }
        let number = self.numbered.get() + 1;
        self.numbered.set(number);
        let session = BrowserSession { number, fingerprint: token.fingerprint(), used: now, born: now };
        let made = (token.text().to_owned(), session.until(), number);
        sessions.push_back(session);
        drop(sessions);
        self.write_sessions();
        Ok(Ok(made))
    }

    /// Whether an accepted client would still be accepted.
    pub fn lives(&self, who: &Requester) -> bool {
        let Requester::Session(number) = who else { return true };
        let now = clock::wall().0;
        self.sessions.borrow().iter().any(|it| it.number == *number && now < it.until())
    }

    /// Ends a session.
    fn logout(&self, number: u64) {
        self.sessions.borrow_mut().retain(|it| it.number != number);
        self.write_sessions();
    }
}

/// The address for a browser on this machine.
fn near(it: SocketAddr) -> SocketAddr {
    match it.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => SocketAddr::from(([127, 0, 0, 1], it.port())),
        IpAddr::V6(ip) if ip.is_unspecified() => {
            SocketAddr::new(IpAddr::V6(std::net::Ipv6Addr::LOCALHOST), it.port())
        }
        _ => it,
    }
}

/// Whether a request over the Unix socket is from its direct client: a proxy, recognised by its fields, sends other
/// clients' requests.
fn is_direct(request: &Request, client: &Client) -> bool {
    const OF_OTHERS: [&str; 6] =
        ["authorization", "forwarded", "x-forwarded-for", "x-real-ip", "via", "origin"];
    client.local.is_none() && client.peer.is_none() && !OF_OTHERS.iter().any(|it| request.fields.contains(it))
}

/// Whether the request is meant for the admin: its `Host` is the admin's address or a configured name, and no page of
/// another origin made it.
///
/// # Errors
/// The foreign part.
pub fn is_for_us(request: &Request, client: &Client, hosts: &[String]) -> Result<(), AccessRefusal> {
    let local = client.local;
    if let Some(local) = local
        && !names_us(&request.authority, local, hosts)
    {
        return Err(AccessRefusal::Host);
    }
    let same = |it: &[u8]| {
        let it = String::from_utf8_lossy(it);
        let (scheme, authority) = it.split_once("://").unwrap_or(("", &it));
        let named = is_named(authority, hosts);
        match scheme {
            "http" => named || local.is_some_and(|local| names_us(authority, local, hosts)),
            // The admin has no TLS: only a proxy before it may have it.
            "https" => named,
            _ => false,
        }
    };
    if !request.fields.get_all("origin").all(same) {
        return Err(AccessRefusal::Origin);
    }
    // Browsers send the source of every request; a link to the page may come from anywhere.
    let reads = matches!(&*request.method, "GET" | "HEAD");
    let from_us = |it: &[u8]| matches!(it, b"same-origin" | b"none");
    match reads || request.fields.get_all("sec-fetch-site").all(from_us) {
        true => Ok(()),
        false => Err(AccessRefusal::Origin),
    }
}

/// Whether an authority is `local`, or a name of this machine for itself with the same port.
fn names_us(authority: &str, local: SocketAddr, hosts: &[String]) -> bool {
    let Some((host, port)) = parts(authority) else { return false };
    let ours = host.eq_ignore_ascii_case("localhost")
        || host
            .parse()
            .is_ok_and(|ip: IpAddr| ip == local.ip().to_canonical() || ip.to_canonical().is_loopback());
    (ours && port.unwrap_or(80) == local.port()) || is_named(authority, hosts)
}

/// Whether the configuration has the host of an authority, with any port.
fn is_named(authority: &str, hosts: &[String]) -> bool {
    parts(authority).is_some_and(|(host, _)| hosts.iter().any(|it| it.eq_ignore_ascii_case(host)))
}

/// Host, without the brackets of IPv6, and port.
fn parts(authority: &str) -> Option<(&str, Option<u16>)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    match rest.strip_prefix(':') {
        Some(port) => Some((host, Some(port.parse().ok()?))),
        None => rest.is_empty().then_some((host, None)),
    }
}

impl Admin {
    /// `POST /api/v1/login`.
    pub(super) fn login(&self, asked: AdminRequest<'_>) -> AdminResponse {
        match self.access.login(asked.json["code"].as_str().unwrap_or_default()) {
            Ok(Ok((token, expires, session))) => {
                AdminResponse::Json(200, json!({ "token": token, "expires": expires, "session": session }))
            }
            Ok(Err(error)) => problem(
                503,
                format!("The system provides no random bytes: {}.", larder_stdx::error::plain(&error)),
            ),
            Err(AccessRefusal::TooMany) => AccessRefusal::TooMany.into(),
            Err(_) => problem_at(
                403,
                "This login link was already used, or is older than 10 minutes; `larder login` prints a new one.",
                "code",
            ),
        }
    }

    /// `POST /api/v1/login-links`.
    pub(super) fn login_link(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let (code, expires) = match self.access.link() {
            Ok(it) => it,
            Err(error) => {
                return problem(
                    503,
                    format!("The system provides no random bytes: {}.", larder_stdx::error::plain(&error)),
                );
            }
        };
        let authority = &asked.request.authority;
        let page = match asked.client.local {
            None => self.access.page.clone(),
            Some(_) if is_named(authority, &self.live.borrow().config.admin.hosts) => {
                format!("https://{authority}")
            }
            Some(_) => format!("http://{authority}"),
        };
        AdminResponse::Json(
            200,
            json!({ "link": format!("{page}/#login={code}"), "code": code, "expires": expires }),
        )
    }

    /// `POST /api/v1/logout`.
    pub(super) fn logout(&self, asked: AdminRequest<'_>) -> AdminResponse {
        match asked.who {
            Requester::Session(number) => {
                self.access.logout(*number);
                AdminResponse::Json(200, json!({ "ended": number }))
            }
            _ => problem_at(
                409,
                "Only a session can be ended; the token stays valid until its file is removed and larder is \
                 restarted.",
                "Authorization",
            ),
        }
    }
}

/// The fields of every response: not cacheable, not in a frame, loading nothing. A page sets its own policy for loading.
pub fn guards() -> FieldList {
    let mut fields = FieldList::new();
    fields.push("Cache-Control", "no-store");
    fields.push("X-Content-Type-Options", "nosniff");
    fields.push("X-Frame-Options", "DENY");
    fields.push("Referrer-Policy", "no-referrer");
    fields.push("Cross-Origin-Resource-Policy", "same-origin");
    fields.push("Cross-Origin-Opener-Policy", "same-origin");
    fields.push(
        "Content-Security-Policy",
        "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    );
    fields
}

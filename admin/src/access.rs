//! Access to the admin: by token, session or Unix socket, never by a request that a foreign web page caused. The admin's own token
//! is in `larder_config::token`; the role that an endpoint needs is in `table`. See docs/decisions/0091-admin-access.md and 0209-roles.md.

use super::{AdminResponse, problem_at};
use crate::requester::Requester;
use crate::session_file::{self, KeptSession};
use larder_config::admin_role::{ADMIN_NAME, AdminRole, NamedToken};
use larder_config::token::{self, Token};
use larder_counters::Counters;
use larder_semantics::field::FieldList;
use larder_stdx::clock;
use larder_transport::Client;
use larder_wire::message::Request;
use serde_json::{Value, json};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::Notify;

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
/// Consecutive wrong tokens that are answered before the response is only "too many".
const MOST_WRONG_TOKENS: u64 = 20;
/// After the last of them, the seconds until one more is answered.
const WRONG_TOKEN_SECONDS: u64 = 1;

/// The reason for rejecting a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessRefusal {
    /// The `Host` is not the admin's: a web page with a name of its own for this address (DNS rebinding).
    Host,
    /// The request came through a route of this larder, under any name of its origin: the route is open to all its
    /// clients.
    Loop,
    /// The request was made by a web page of another origin.
    Origin,
    /// The request had no token.
    NoToken,
    /// The credential is neither a token nor a session's.
    WrongToken,
    /// The same, after many of them.
    TooMany,
}

impl AccessRefusal {
    /// Status, sentence, and the field concerned.
    fn response(self) -> (u16, &'static str, &'static str) {
        match self {
            AccessRefusal::Host => (
                421,
                "The Host of this request is not the address of this admin; add the name of a proxy in front of it \
                 to admin.hosts.",
                "Host",
            ),
            AccessRefusal::Loop => (
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
                "This request requires the admin's token, or one of admin.tokens: send \"Authorization: Bearer TOKEN\"; for the page, \
                 `larder login` prints a link.",
                "Authorization",
            ),
            AccessRefusal::WrongToken => (
                401,
                "This is neither the admin's token nor one of admin.tokens, or the session has ended; `larder login` prints a \
                 new link.",
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
        let (status, sentence, field) = it.response();
        problem_at(status, sentence, field)
    }
}

/// A one-time login for a browser.
struct LoginLink {
    code: Token,
    until: u64,
    /// The token of its requester, for the session.
    of: Rc<NamedToken>,
}

/// A logged-in browser.
struct BrowserSession {
    number: u64,
    /// Of its own token, which is with the browser alone.
    fingerprint: String,
    /// The token with which it began.
    of: Rc<NamedToken>,
    /// The address of its login.
    from: String,
    /// The time of its last use.
    used: u64,
    born: u64,
}

impl BrowserSession {
    fn until(&self) -> u64 {
        (self.used + SESSION_IDLE).min(self.born + SESSION_LIFE)
    }

    fn requester(&self) -> Requester {
        Requester::Session(self.number, self.of.clone())
    }
}

/// A token, and its last use by a client or by one of its sessions.
struct UsedToken {
    of: Rc<NamedToken>,
    /// Time and address; `None` since the start of larder.
    last: RefCell<Option<(u64, String)>>,
}

impl UsedToken {
    fn new(it: NamedToken) -> Self {
        Self { of: Rc::new(it), last: RefCell::default() }
    }
}

/// The access state of the admin.
pub struct AdminAccess {
    /// The admin's own token is the first.
    tokens: RefCell<Vec<UsedToken>>,
    /// The address of the page for a browser on this machine: `http://127.0.0.1:9180`.
    page: String,
    links: RefCell<VecDeque<LoginLink>>,
    /// In the order of their last use.
    sessions: RefCell<VecDeque<BrowserSession>>,
    /// The number of sessions so far.
    numbered: Cell<u64>,
    /// The file that has them over a restart, and the time of the last write.
    kept: RefCell<Option<(PathBuf, u64)>>,
    /// Why the file still has sessions that have ended: it could be neither written nor removed.
    unwritten: RefCell<Option<String>>,
    /// Wakes streams after a session or a token has ended.
    ended: Notify,
    /// The remaining wrong tokens, and the time of that count.
    wrong_tokens_left: Cell<(u64, u64)>,
    counters: Arc<Counters>,
}

impl AdminAccess {
    /// Accepts `token`, as that of an admin, and the `named` tokens. `first` is the first address of the admin.
    pub fn new(
        token: &Token,
        named: &[NamedToken],
        first: Option<SocketAddr>,
        counters: Arc<Counters>,
    ) -> Self {
        let page =
            first.map_or_else(|| "http://localhost".to_owned(), |it| format!("http://{}", local_address(it)));
        let own = NamedToken {
            name: ADMIN_NAME.to_owned(),
            role: AdminRole::Admin,
            fingerprint: token.fingerprint(),
        };
        let tokens = std::iter::once(own).chain(named.iter().cloned()).map(UsedToken::new);
        Self {
            tokens: RefCell::new(tokens.collect()),
            page,
            links: RefCell::default(),
            sessions: RefCell::default(),
            numbered: Cell::new(0),
            kept: RefCell::default(),
            unwritten: RefCell::default(),
            ended: Notify::new(),
            wrong_tokens_left: Cell::new((MOST_WRONG_TOKENS, clock::wall().0)),
            counters,
        }
    }

    /// Accepts these named tokens from now on. Sessions and login links of a token that is no longer among them, or has another role, end.
    pub fn set_tokens(&self, named: &[NamedToken]) {
        let mut tokens = self.tokens.borrow_mut();
        let mut before = std::mem::take(&mut *tokens).into_iter();
        let mut all: Vec<UsedToken> = before.next().into_iter().collect();
        let mut before: Vec<UsedToken> = before.collect();
        for it in named {
            all.push(match before.iter().position(|one| *one.of == *it) {
                Some(at) => before.swap_remove(at),
                None => UsedToken::new(it.clone()),
            });
        }
        *tokens = all;
        drop(tokens);
        self.links.borrow_mut().retain(|it| self.has(&it.of));
        self.end_where(|it| !self.has(&it.of));
        self.ended.notify_waiters();
    }

    /// Whether a token is accepted.
    fn has(&self, token: &Rc<NamedToken>) -> bool {
        self.tokens.borrow().iter().any(|it| it.of == *token)
    }

    /// Takes up the sessions in the file at `path`, and keeps them there from now on. Without a folder for it, sessions end with the
    /// process.
    pub fn keep_sessions(&self, path: PathBuf) {
        let now = clock::wall().0;
        let read = session_file::read(&path).into_iter();
        let mut all: Vec<BrowserSession> = read
            .filter_map(|it| self.restored(it))
            .filter(|it| it.born <= now && it.used <= now && now < it.until())
            .take(SESSIONS)
            .collect();
        all.sort_by_key(|it| it.used);
        self.numbered.set(all.iter().map(|it| it.number).max().unwrap_or(0));
        self.sessions.replace(all.into());
        self.kept.replace(Some((path, now)));
    }

    /// A session of the file, if its token is still accepted with the same name and role.
    fn restored(&self, it: KeptSession) -> Option<BrowserSession> {
        let role = AdminRole::parse(&it.role)?;
        let of = NamedToken { name: it.name, role, fingerprint: it.of };
        let of = self.tokens.borrow().iter().find(|one| *one.of == of)?.of.clone();
        Some(BrowserSession {
            number: it.number,
            fingerprint: it.fingerprint,
            of,
            from: it.from,
            used: it.used,
            born: it.born,
        })
    }

    /// Writes the sessions into their file. If it cannot be written, it is removed, and they end with the process.
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
                of: it.of.fingerprint.clone(),
                name: it.of.name.clone(),
                role: it.of.role.name().to_owned(),
                from: it.from.clone(),
                used: it.used,
                born: it.born,
            })
            .collect();
        let removed = session_file::write(path, &all).or_else(|_| std::fs::remove_file(&*path));
        let why = removed.err().filter(|it| it.kind() != std::io::ErrorKind::NotFound);
        let name = path.display();
        self.unwritten
            .replace(why.map(|it| format!("{name} cannot be changed: {}", larder_stdx::error::plain(&it))));
    }

    /// Why sessions that have ended would be valid again after a restart.
    pub fn unwritten(&self) -> Option<String> {
        self.unwritten.borrow().clone()
    }

    /// Authenticates a client; called once for each request.
    ///
    /// # Errors
    /// The client is rejected.
    pub fn authenticate(&self, request: &Request, client: &Client) -> Result<Requester, AccessRefusal> {
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
        // The right ones first: no number of wrong ones locks them out.
        let shown = token::fingerprint(shown.1.trim());
        let requester =
            self.token(&shown).or_else(|| self.session(&shown)).ok_or_else(|| self.count_wrong_token())?;
        if let Some(of) = requester.token() {
            let tokens = self.tokens.borrow();
            let used = tokens.iter().find(|it| it.of == *of);
            used.iter().for_each(|it| drop(it.last.replace(Some((clock::wall().0, address_of(client))))));
        }
        Ok(requester)
    }

    fn token(&self, shown: &str) -> Option<Requester> {
        let tokens = self.tokens.borrow();
        let found = find_equal(tokens.iter().map(|it| &*it.of.fingerprint), shown)?;
        Some(Requester::Token(tokens[found].of.clone()))
    }

    fn session(&self, shown: &str) -> Option<Requester> {
        let now = clock::wall().0;
        let mut sessions = self.sessions.borrow_mut();
        sessions.retain(|it| now < it.until());
        let found = find_equal(sessions.iter().map(|it| &*it.fingerprint), shown)?;
        let mut session = sessions.remove(found)?;
        session.used = now;
        let requester = session.requester();
        sessions.push_back(session);
        drop(sessions);
        let is_due = self.kept.borrow().as_ref().is_some_and(|it| now.saturating_sub(it.1) >= WRITE_USE);
        if is_due {
            self.write_sessions();
        }
        Some(requester)
    }

    /// Counts a wrong token.
    fn count_wrong_token(&self) -> AccessRefusal {
        self.counters.admin_wrong_tokens.add_shared(1);
        let now = clock::wall().0;
        let (left, since) = self.wrong_tokens_left.get();
        let more = now.saturating_sub(since) / WRONG_TOKEN_SECONDS;
        let left = left.saturating_add(more).min(MOST_WRONG_TOKENS);
        self.wrong_tokens_left
            .set((left.saturating_sub(1), if more > 0 || now < since { now } else { since }));
        match left {
            0 => {
                self.counters.admin_throttled.add_shared(1);
                AccessRefusal::TooMany
            }
            _ => AccessRefusal::WrongToken,
        }
    }

    /// A new login link for sessions of the requester's token: its code, and its expiry. Of the Unix socket it is the admin's token.
    ///
    /// # Errors
    /// The system has no randomness.
    pub fn link(&self, requester: Option<&Requester>) -> std::io::Result<(String, u64)> {
        let of = requester.and_then(Requester::token).cloned();
        let of = of.unwrap_or_else(|| self.tokens.borrow()[0].of.clone());
        let code = Token::random::<16>()?;
        let (text, until) = (code.text().to_owned(), clock::wall().0 + LINK_LIFE);
        let mut links = self.links.borrow_mut();
        if links.len() >= LINKS {
            remove_of_most(&mut links, |it| &it.of);
            self.counters.admin_links_full.add_shared(1);
        }
        links.push_back(LoginLink { code, until, of });
        Ok((text, until))
    }

    /// The page with a new login link, for a browser on this machine.
    pub fn page_with_link(&self) -> Option<String> {
        self.link(None).ok().map(|(code, _)| format!("{}/#login={code}", self.page))
    }

    /// The address of the page for a browser on this machine.
    pub fn page(&self) -> &str {
        &self.page
    }

    /// Redeems a code: it is valid once. Returns the new session's token, its expiry without use, and the session.
    pub fn login(
        &self,
        code: &str,
        client: &Client,
    ) -> Result<std::io::Result<(String, u64, Requester)>, AccessRefusal> {
        let now = clock::wall().0;
        let mut links = self.links.borrow_mut();
        links.retain(|it| now < it.until);
        let found = links.iter().enumerate().fold(
            None,
            |found, (at, it)| {
                if it.code.is(code) { Some(at) } else { found }
            },
        );
        let Some(link) = found.and_then(|it| links.remove(it)) else { return Err(self.count_wrong_token()) };
        let token = match Token::random::<32>() {
            Ok(it) => it,
            Err(error) => return Ok(Err(error)),
        };
        let mut sessions = self.sessions.borrow_mut();
        sessions.retain(|it| now < it.until());
        if sessions.len() >= SESSIONS {
            remove_of_most(&mut sessions, |it| &it.of);
            self.counters.admin_sessions_full.add_shared(1);
        }
        let number = self.numbered.get() + 1;
        self.numbered.set(number);
        let session = BrowserSession {
            number,
            fingerprint: token.fingerprint(),
            of: link.of,
            from: address_of(client),
            used: now,
            born: now,
        };
        let made = (token.text().to_owned(), session.until(), session.requester());
        sessions.push_back(session);
        drop(sessions);
        self.write_sessions();
        Ok(Ok(made))
    }

    /// Whether an accepted client would still be accepted.
    pub fn is_accepted(&self, requester: &Requester) -> bool {
        let now = clock::wall().0;
        match requester {
            Requester::Nobody | Requester::Socket => true,
            Requester::Token(it) => self.has(it),
            Requester::Session(number, _) => {
                self.sessions.borrow().iter().any(|it| it.number == *number && now < it.until())
            }
        }
    }

    /// Completes when a session or a token has ended.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }

    /// Ends one session; returns whether there was one.
    pub fn end(&self, number: u64) -> bool {
        self.end_where(|it| it.number == number) > 0
    }

    /// Ends all sessions, and makes all login links invalid: those of one token, or of all. Returns the number of sessions.
    pub fn end_all(&self, of: Option<&NamedToken>) -> usize {
        let is_one = |it: &NamedToken| of.is_none_or(|of| *it == *of);
        self.links.borrow_mut().retain(|it| !is_one(&it.of));
        self.end_where(|it| is_one(&it.of))
    }

    fn end_where(&self, is_over: impl Fn(&BrowserSession) -> bool) -> usize {
        let mut sessions = self.sessions.borrow_mut();
        let before = sessions.len();
        sessions.retain(|it| !is_over(it));
        let ended = before - sessions.len();
        drop(sessions);
        if ended > 0 {
            self.write_sessions();
            self.ended.notify_waiters();
        }
        ended
    }

    /// The sessions, the latest used first; `who` is marked among them.
    pub fn sessions(&self, requester: &Requester) -> Vec<Value> {
        let now = clock::wall().0;
        let sessions = self.sessions.borrow();
        let row = |it: &BrowserSession| {
            json!({
                "id": it.number, "name": it.of.name, "role": it.of.role.name(), "from": it.from, "login": it.born,
                "used": it.used, "expires": it.until(), "own": requester.session() == Some(it.number),
            })
        };
        sessions.iter().rev().filter(|it| now < it.until()).map(row).collect()
    }

    /// The tokens, in the order of the configuration.
    pub fn tokens(&self) -> Vec<Value> {
        let (now, sessions) = (clock::wall().0, self.sessions.borrow());
        let row = |it: &UsedToken| {
            let last = it.last.borrow();
            let count = sessions.iter().filter(|one| one.of == it.of && now < one.until()).count();
            json!({
                "name": it.of.name, "role": it.of.role.name(), "used": last.as_ref().map(|it| it.0),
                "from": last.as_ref().map(|it| &it.1), "sessions": count,
            })
        };
        self.tokens.borrow().iter().map(row).collect()
    }

    /// The token with a name.
    pub fn named(&self, name: &str) -> Option<Rc<NamedToken>> {
        self.tokens.borrow().iter().find(|it| it.of.name == name).map(|it| it.of.clone())
    }
}

/// The position of `shown` among fingerprints. All are compared, each in constant time.
fn find_equal<'a>(all: impl Iterator<Item = &'a str>, shown: &str) -> Option<usize> {
    all.enumerate().fold(
        None,
        |found, (at, it)| {
            if token::is_same_fingerprint(it, shown) { Some(at) } else { found }
        },
    )
}

/// Removes the first member of the token that has the most, so that no token displaces the members of others.
fn remove_of_most<T>(all: &mut VecDeque<T>, of: impl Fn(&T) -> &Rc<NamedToken>) {
    let count = |token: &Rc<NamedToken>| all.iter().filter(|it| of(it) == token).count();
    // The last maximum of the reverse is the first member.
    let most = (0..all.len()).rev().max_by_key(|at| count(of(&all[*at])));
    if let Some(first) = most {
        all.remove(first);
    }
}

/// The address of a client, for lists.
fn address_of(client: &Client) -> String {
    client.peer.map_or_else(|| "unix".to_owned(), |it| it.ip().to_canonical().to_string())
}

/// The address for a browser on this machine.
fn local_address(it: SocketAddr) -> SocketAddr {
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
    const PROXY_FIELDS: [&str; 6] =
        ["authorization", "forwarded", "x-forwarded-for", "x-real-ip", "via", "origin"];
    client.local.is_none()
        && client.peer.is_none()
        && !PROXY_FIELDS.iter().any(|it| request.fields.contains(it))
}

/// Whether the request is meant for the admin: its `Host` is the admin's address or a configured name, and no page of
/// another origin made it.
///
/// # Errors
/// The foreign part.
pub fn check_host(request: &Request, client: &Client, hosts: &[String]) -> Result<(), AccessRefusal> {
    let local = client.local;
    if let Some(local) = local
        && !names_admin(&request.authority, local, hosts)
    {
        return Err(AccessRefusal::Host);
    }
    let same = |it: &[u8]| {
        let it = String::from_utf8_lossy(it);
        let (scheme, authority) = it.split_once("://").unwrap_or(("", &it));
        let named = is_named(authority, hosts);
        match scheme {
            "http" => named || local.is_some_and(|local| names_admin(authority, local, hosts)),
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
fn names_admin(authority: &str, local: SocketAddr, hosts: &[String]) -> bool {
    let Some((host, port)) = parts(authority) else { return false };
    let ours = host.eq_ignore_ascii_case("localhost")
        || host
            .parse()
            .is_ok_and(|ip: IpAddr| ip == local.ip().to_canonical() || ip.to_canonical().is_loopback());
    (ours && port.unwrap_or(80) == local.port()) || is_named(authority, hosts)
}

/// Whether the configuration has the host of an authority, with any port.
pub(crate) fn is_named(authority: &str, hosts: &[String]) -> bool {
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

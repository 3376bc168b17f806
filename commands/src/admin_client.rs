//! The client of the admin API: selecting a running larder, and sending requests. Requests and output are in each
//! command.

use crate::cli::{AdminTarget, admin_address};
use larder_config::plan::PLACES;
use larder_config::run_file::{self, reachable};
use larder_config::token::{self, Token, VARIABLE};
use larder_config::{AdminListen, Config};
use larder_stdx::error::plain;
use larder_transport::http_client::{ClientRequest, HttpClient};
use larder_transport::listener::Listen;
use serde_json::Value;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// The time limit for each port that is probed for a larder's admin.
const PROBE: Duration = Duration::from_millis(300);
/// The most bytes of a response.
const MAX_ANSWER: usize = 4 << 20;

/// The variable that names an admin like `--admin`, if no flag does.
pub const ADDRESS: &str = "LARDER_ADMIN";

/// Selects the larder to contact: the admin named by `--admin`; the larder that runs with the file of `-c`; the one in
/// [`ADDRESS`]; on this machine the one that serves the port of `authority`, or the only one.
///
/// # Errors
/// One sentence: there is none, or the choice is ambiguous.
pub fn admin(named: Option<&AdminTarget>, authority: Option<&str>) -> Result<Listen, String> {
    match named {
        Some(AdminTarget::At(address)) => return Ok(address.clone()),
        Some(AdminTarget::Of(file)) => return of_file(file, &run_file::find()),
        None => {}
    }
    if let Some(address) = named_by_variable()? {
        OF_VARIABLE.store(true, Ordering::Relaxed);
        return Ok(address);
    }
    match authority {
        Some(authority) => choose(&running()?, authority),
        None => the_only(&running()?),
    }
}

/// Whether the admin is the one of [`ADDRESS`], for the error message if it does not respond.
static OF_VARIABLE: AtomicBool = AtomicBool::new(false);

/// The address in [`ADDRESS`], if set.
///
/// # Errors
/// It is not an address.
pub fn named_by_variable() -> Result<Option<Listen>, String> {
    let Some(text) = std::env::var_os(ADDRESS).filter(|it| !it.is_empty()) else { return Ok(None) };
    let text = text.to_string_lossy();
    let bad = || format!("{ADDRESS}: found {text:?}; allowed: ADDR:PORT or \"unix:/PATH\"");
    admin_address(&text).map(Some).ok_or_else(bad)
}

/// The configuration of `-c`, if no running server reports it.
static CONFIGURATION: OnceLock<PathBuf> = OnceLock::new();

/// The larder on which a file is tried: the one that runs with it; the one in [`ADDRESS`]; the one at the address that
/// the file itself sets, if one answers there; the only one of this machine.
///
/// # Errors
/// One sentence: there is none, or the choice is ambiguous.
pub fn of_tried(file: &Path) -> Result<Listen, String> {
    if let Ok((_, found)) = running_with(file, &run_file::find())
        && !found.is_empty()
    {
        return the_only(&found);
    }
    if named_by_variable()?.is_some() {
        return admin(None, None);
    }
    if let Ok(config) = Config::load(file, &[])
        && let AdminListen::At(address) = config.admin.listen
        && address.port() != 0
    {
        let set = Listen::Tcp(reachable(address));
        if !matches!(probe(&set, PROBE), AdminProbe::Nobody) {
            return Ok(set);
        }
    }
    the_only(&running()?)
}

/// The larder that runs with the configuration of a file: from its run file, otherwise from the configuration itself.
fn of_file(file: &Path, running: &[run_file::RunFileEntry]) -> Result<Listen, String> {
    let shown = file.display();
    let (whole, found) = running_with(file, running)?;
    if !found.is_empty() {
        return the_only(&found);
    }
    let config = Config::load(file, &[]).map_err(|it| it.to_string())?;
    let _ = CONFIGURATION.set(whole);
    match config.admin.listen {
        AdminListen::Off => Err(format!("The larder of {shown} has no admin (admin.enabled = false).")),
        AdminListen::At(address) | AdminListen::From(address) if address.port() != 0 => {
            Ok(Listen::Tcp(reachable(address)))
        }
        AdminListen::At(_) | AdminListen::From(_) => Err(format!("No larder runs with {shown}.")),
    }
}

/// The whole path of a configuration, and which larders run with it.
fn running_with(
    file: &Path,
    running: &[run_file::RunFileEntry],
) -> Result<(PathBuf, Vec<RunningLarder>), String> {
    let whole =
        file.canonicalize().map_err(|it| format!("{} cannot be read: {}.", file.display(), plain(&it)))?;
    let is_same = |it: &Path| it.canonicalize().is_ok_and(|it| it == whole);
    let runs_with = |it: &&run_file::RunFileEntry| it.configuration.as_deref().is_some_and(is_same);
    let found = running.iter().filter(runs_with).map(RunningLarder::of).collect();
    Ok((whole, found))
}

/// Whether the file of `-c` identifies a larder: one runs with it, or it is a valid configuration.
///
/// # Errors
/// The file cannot be read; or every error in it.
pub fn check_configuration(file: &Path) -> Result<(), String> {
    match running_with(file, &run_file::find())?.1.is_empty() {
        true => Config::load(file, &[]).map(drop).map_err(|it| it.to_string()),
        false => Ok(()),
    }
}

/// Sends a POST request, and returns the response of a successful one.
///
/// # Errors
/// One sentence: no server listens there, or the error of the response.
pub fn post(admin: &Listen, path: &str, body: &Value, timeout: Duration) -> Result<Value, String> {
    parse_answer(admin, exchange(admin, timeout, "POST", path, &body.to_string()))
}

fn unanswered_by(admin: &Listen, error: &std::io::Error) -> String {
    unanswered(admin, &format!(" ({})", plain(error)))
}

/// The error message if no server responds: `why` in parentheses, and the setting to correct.
fn unanswered(admin: &Listen, why: &str) -> String {
    let (named, correct) = match OF_VARIABLE.load(Ordering::Relaxed) {
        true => (format!(", the address in {ADDRESS}"), ADDRESS),
        false => (String::new(), "--admin"),
    };
    let spelt = admin.spelled();
    format!(
        "No larder answers at {spelt}{named}{why}; set {correct} to the address that larder printed as \"admin on\"."
    )
}

/// The error message if the time limit of a command ended: larder may be busy.
fn late(admin: &Listen) -> String {
    format!(
        "The server at {} accepted the request, and did not answer within the time limit of this command; larder may be busy: retry.",
        admin.spelled()
    )
}

fn parse_answer(admin: &Listen, answer: std::io::Result<(u16, String)>) -> Result<Value, String> {
    let (status, text) = answer.map_err(|error| match error.kind() {
        // The end of the time limit of the socket.
        ErrorKind::WouldBlock | ErrorKind::TimedOut => late(admin),
        _ => unanswered_by(admin, &error),
    })?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|_| format!("The server at {} is not the admin of larder.", admin.spelled()))?;
    match status {
        200 => Ok(value),
        401 => Err(not_let_in(admin)),
        _ => Err(value["detail"].as_str().unwrap_or("larder rejected the request.").to_owned()),
    }
}

/// Sends a GET request, and returns the response of a successful one.
///
/// # Errors
/// As [`post`].
pub fn get(admin: &Listen, path: &str, timeout: Duration) -> Result<Value, String> {
    parse_answer(admin, exchange(admin, timeout, "GET", path, ""))
}

/// Sends a PUT request with `body`, and returns the response of a successful one.
///
/// # Errors
/// As [`post`].
pub fn put(admin: &Listen, path: &str, body: &Value, timeout: Duration) -> Result<Value, String> {
    parse_answer(admin, exchange(admin, timeout, "PUT", path, &body.to_string()))
}

/// Sends a body of any type, or none, and returns the response of a successful request.
///
/// # Errors
/// As [`post`].
pub fn send(
    admin: &Listen,
    (method, path): (&str, &str),
    content_type: &str,
    body: &[u8],
    timeout: Duration,
) -> Result<Value, String> {
    parse_answer(admin, exchange_bytes(admin, timeout, (method, path), content_type, body))
}

/// The `Content-Type` of a body of unknown type.
pub const NO_TYPE: &str = "application/x-www-form-urlencoded";

/// The text encoded as a value of a query.
#[must_use]
pub fn encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                out.push(char::from(byte))
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// The reason why there is no event stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamRefusal {
    /// The request is malformed: one sentence.
    Asked(String),
    /// Any other error: one sentence.
    Other(String),
}

/// Server-sent events of a running larder, as they arrive.
pub struct ServerEvents {
    from: HttpClient,
    /// Received bytes of the next event; a piece may end within a character.
    bytes: Vec<u8>,
}

/// The limit of silence; an event stream sends something at least every 10 seconds.
const SILENCE: Duration = Duration::from_secs(40);

/// The most bytes of one event.
const EVENT: usize = 4 << 20;

impl ServerEvents {
    /// Opens the stream.
    ///
    /// # Errors
    /// No larder responds, or it rejects the request.
    pub fn open(admin: &Listen, path: &str) -> Result<Self, StreamRefusal> {
        let other = |error| StreamRefusal::Other(unanswered_by(admin, &error));
        let (status, mut from) = begin(admin, SILENCE, ("GET", path), None).map_err(other)?;
        if status == 200 {
            return Ok(Self { from, bytes: Vec::new() });
        }
        let body = from.body(MAX_ANSWER).unwrap_or_default();
        let answer = (status, String::from_utf8_lossy(&body).into_owned());
        let sentence = parse_answer(admin, Ok(answer)).err().unwrap_or_default();
        Err(if status == 400 { StreamRefusal::Asked(sentence) } else { StreamRefusal::Other(sentence) })
    }

    /// The name and data of the next event; `None` after the end of the stream, for any reason.
    pub fn next_event(&mut self) -> Option<(String, String)> {
        loop {
            while let Some(end) = self.bytes.windows(2).position(|it| it == b"\n\n") {
                let event: Vec<u8> = self.bytes.drain(..end + 2).collect();
                let event = String::from_utf8_lossy(&event);
                let field =
                    |name: &str| event.lines().find_map(|it| it.strip_prefix(name)).map(str::trim_start);
                if let (Some(name), Some(data)) = (field("event:"), field("data:")) {
                    return Some((name.to_owned(), data.to_owned()));
                }
            }
            let chunk = self.from.next_bytes().ok()??;
            if self.bytes.len() + chunk.len() > EVENT {
                return None;
            }
            self.bytes.extend_from_slice(&chunk);
        }
    }
}

/// The addresses at which a larder serves clients, as printed at its start.
///
/// # Errors
/// As [`post`].
pub fn serves(admin: &Listen) -> Result<Vec<String>, String> {
    match probe(admin, Duration::from_secs(5)) {
        AdminProbe::Running(it) => Ok(it.serves),
        AdminProbe::Locked => Err(not_let_in(admin)),
        AdminProbe::Nobody => Err(unanswered(admin, "")),
    }
}

/// The value of `Authorization` with the token; `None` for a Unix socket, whose permissions restrict access, and without a
/// token.
fn authorization(admin: &Listen) -> Option<String> {
    match (admin, own_token(admin)) {
        (Listen::Tcp(_), Ok(token)) => Some(format!("Bearer {}", token.text())),
        _ => None,
    }
}

/// The token for an admin by the rules of the server: from the variable, the file named in its run file, the one in the
/// configuration (of `-c`, or here), or the default place. The token of the last admin is cached.
fn own_token(admin: &Listen) -> Result<Token, String> {
    static LAST: Mutex<Option<(Listen, Result<Token, String>)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, token)) = last.as_ref().filter(|it| it.0 == *admin) {
        return token.clone();
    }
    let token = match run_file::find().iter().find(|it| it.admin.contains(admin)) {
        Some(running) => running.token(),
        None => {
            let here = || PLACES.iter().map(Path::new).find(|it| it.exists());
            let config = CONFIGURATION.get().map(PathBuf::as_path).or_else(here);
            let config = config.and_then(|it| Config::load(it, &[]).ok());
            token::of_client(config.and_then(|it| it.admin.token_file).as_deref(), None)
        }
    };
    *last = Some((admin.clone(), token.clone()));
    token
}

/// One sentence for a rejected client, with the remedy.
fn not_let_in(admin: &Listen) -> String {
    let spelt = admin.spelled();
    let what = match own_token(admin) {
        Ok(_) => "rejects the token of this user".to_owned(),
        Err(why) => format!("requires its token ({})", why.trim_end_matches('.')),
    };
    format!(
        "The larder at {spelt} {what}; run this as the user of the larder process, or set {VARIABLE} to its token."
    )
}

/// A larder on this machine: its admin, and its client addresses.
struct RunningLarder {
    admin: Listen,
    serves: Vec<String>,
}

impl RunningLarder {
    fn of(it: &run_file::RunFileEntry) -> Self {
        Self { admin: it.admin[0].clone(), serves: it.serves.clone() }
    }
}

/// The result of probing an address.
enum AdminProbe {
    Running(RunningLarder),
    /// A larder that rejects the token.
    Locked,
    Nobody,
}

/// Every larder with a run file; without any, every one whose admin has one of the default ports.
///
/// # Errors
/// There are some, and all of them reject the token.
fn running() -> Result<Vec<RunningLarder>, String> {
    let running: Vec<RunningLarder> = run_file::find().iter().map(RunningLarder::of).collect();
    if !running.is_empty() {
        return Ok(running);
    }
    let (mut running, mut locked) = (Vec::new(), None);
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap_or_default();
    let trusted = trusted_ports(&table, rustix::process::geteuid().as_raw());
    for port in larder_config::admin_ports(larder_config::ADMIN_PORT) {
        // Programs of other users may listen there, and would receive the token.
        if !trusted.contains(&port) {
            continue;
        }
        let admin = Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        match probe(&admin, PROBE) {
            AdminProbe::Running(it) => running.push(it),
            AdminProbe::Locked => locked = locked.or(Some(admin)),
            AdminProbe::Nobody => {}
        }
    }
    match locked {
        Some(admin) if running.is_empty() => Err(not_let_in(&admin)),
        _ => Ok(running),
    }
}

/// The ports of IPv4 loopback on which this user or root listens, by the kernel's table of sockets: one pass, since on a
/// busy machine it has tens of thousands of lines.
fn trusted_ports(table: &str, us: u32) -> Vec<u16> {
    const LISTENS: &str = "0A";
    let port = |line: &str| {
        let mut words = line.split_ascii_whitespace();
        let local = words.nth(1)?;
        if words.nth(1)? != LISTENS {
            return None;
        }
        let owner: u32 = words.nth(3)?.parse().ok()?;
        let (host, port) = local.split_once(':')?;
        let trusted = matches!(host, "0100007F" | "00000000") && (owner == us || owner == 0);
        u16::from_str_radix(port, 16).ok().filter(|_| trusted)
    };
    table.lines().filter_map(port).collect()
}

fn probe(admin: &Listen, timeout: Duration) -> AdminProbe {
    let Ok((status, text)) = exchange(admin, timeout, "GET", "/cache/stats", "") else {
        return AdminProbe::Nobody;
    };
    let Ok(answer) = serde_json::from_str::<Value>(&text) else { return AdminProbe::Nobody };
    match (status, answer["listen"].as_array()) {
        (200, Some(serves)) => {
            let serves = serves.iter().filter_map(|it| it.as_str().map(str::to_owned)).collect();
            AdminProbe::Running(RunningLarder { admin: admin.clone(), serves })
        }
        // Other servers may require tokens, too; only larder uses this text.
        (401, _) if answer["detail"].as_str().is_some_and(|it| it.contains("the admin's token")) => {
            AdminProbe::Locked
        }
        _ => AdminProbe::Nobody,
    }
}

/// The error if no larder is found.
fn none() -> String {
    let folders: Vec<String> = run_file::folders().iter().map(|it| it.display().to_string()).collect();
    format!(
        "No larder of this user was found: no run file is in {}. One with another RUNTIME_DIRECTORY is named by -c FILE, its \
         configuration file, or --admin ADDR:PORT, the address printed as \"admin on\".",
        folders.join(" or ")
    )
}

/// The running larder, if it is the only one.
fn the_only(running: &[RunningLarder]) -> Result<Listen, String> {
    match running {
        [] => Err(none()),
        [only] => Ok(only.admin.clone()),
        several => {
            let admins: Vec<String> = several.iter().map(|it| it.admin.spelled()).collect();
            Err(format!(
                "Several larders run on this machine; choose one with --admin ({}) or -c FILE.",
                admins.join(", ")
            ))
        }
    }
}

/// The larder that serves the port of `authority`; if only one runs, that one.
fn choose(running: &[RunningLarder], authority: &str) -> Result<Listen, String> {
    let port = authority.rsplit_once(':').map(|it| it.1);
    let port = port.filter(|it| it.bytes().all(|it| it.is_ascii_digit())).unwrap_or("80");
    let serves =
        |it: &&RunningLarder| it.serves.iter().any(|it| it.rsplit_once(':').is_some_and(|it| it.1 == port));
    let named = authority.rsplit_once(':').is_some_and(|it| it.1 == port);
    match (running, running.iter().find(serves)) {
        ([only], None) if named => {
            let (serves, admin) = (only.serves.join(" "), only.admin.spelled());
            Err(format!(
                "The larder on this machine serves {serves}, not port {port}; correct the URL, or query it anyway \
                 with --admin {admin}."
            ))
        }
        ([], _) => Err(none()),
        ([only], _) => Ok(only.admin.clone()),
        (_, Some(found)) => Ok(found.admin.clone()),
        (several, None) => {
            let admins: Vec<String> = several.iter().map(|it| it.admin.spelled()).collect();
            let admins = admins.join(", ");
            Err(format!(
                "Several larders run on this machine and none serves port {port}; choose one with --admin \
                 ({admins})."
            ))
        }
    }
}

fn exchange(
    admin: &Listen,
    timeout: Duration,
    method: &str,
    path: &str,
    body: &str,
) -> std::io::Result<(u16, String)> {
    exchange_bytes(admin, timeout, (method, path), "application/json", body.as_bytes())
}

fn exchange_bytes(
    admin: &Listen,
    timeout: Duration,
    (method, path): (&str, &str),
    content_type: &str,
    body: &[u8],
) -> std::io::Result<(u16, String)> {
    let answer = begin(admin, timeout, (method, path), Some((content_type, body)))
        .and_then(|(status, mut from)| Ok((status, from.body(MAX_ANSWER)?)));
    match answer {
        Ok((status, body)) => Ok((status, String::from_utf8_lossy(&body).into_owned())),
        // The server there is not larder.
        Err(error) if error.kind() == ErrorKind::InvalidData => Ok((0, String::new())),
        Err(error) => Err(error),
    }
}

/// Sends a request, with a body and its media type or without; returns the status, and the client for reading the body.
fn begin(
    admin: &Listen,
    timeout: Duration,
    (method, target): (&str, &str),
    body: Option<(&str, &[u8])>,
) -> std::io::Result<(u16, HttpClient)> {
    let host = match admin {
        Listen::Tcp(address) | Listen::Tls(address) => address.to_string(),
        Listen::Unix(_) => "localhost".to_owned(),
    };
    let token = authorization(admin);
    let mut fields: Vec<(&str, &[u8])> = vec![("Connection", b"close")];
    fields.extend(token.as_ref().map(|it| ("Authorization", it.as_bytes())));
    fields.extend(body.map(|it| ("Content-Type", it.0.as_bytes())));
    let mut client = HttpClient::connect(admin, timeout)?;
    let body = body.map(|it| it.1);
    let head = client.send(&ClientRequest { method, target, host: &host, fields: &fields, body })?;
    Ok((head.status, client))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_sent_only_to_ports_of_the_same_user_or_root() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:23DC 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12345 1\n\
            1: 0100007F:23DD 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 12346 1\n\
            2: 0100007F:23DE 0100007F:D431 01 00000000:00000000 00:00000000 00000000  1000        0 12347 1\n\
            3: 0200007F:23DF 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 12348 1\n";
        assert_eq!(vec![9180, 9181], trusted_ports(table, 1000));
        assert_eq!(vec![9181], trusted_ports(table, 1001));
    }

    #[track_caller]
    fn check(serves: &[&str], authority: &str, expect: Result<u16, &str>) {
        let listen = |port| Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let running: Vec<RunningLarder> = (9180..)
            .zip(serves)
            .map(|(port, it)| RunningLarder {
                admin: listen(port),
                serves: it.split(' ').map(str::to_owned).collect(),
            })
            .collect();
        assert_eq!(expect.map(listen).map_err(str::to_owned), choose(&running, authority), "{authority}");
    }

    #[test]
    fn the_larder_that_serves_the_port_is_asked() {
        let two = ["http://127.0.0.1:8080", "unix:/run/larder.sock http://[::]:80"];
        check(&[], "a:8080", Err(&none()));
        assert!(none().contains("no run file is in /") && none().contains("-c FILE"), "{}", none());
        check(&two[..1], "www.example.com", Ok(9180));
        let other = "The larder on this machine serves http://127.0.0.1:8080, not port 81; correct the URL, or query it anyway with --admin 127.0.0.1:9180.";
        check(&two[..1], "a:81", Err(other));
        check(&two[..1], "a:8080", Ok(9180));
        check(&two, "a:8080", Ok(9180));
        check(&two, "a", Ok(9181));
        check(&two, "[::1]:80", Ok(9181));
        check(&two, "[::1]", Ok(9181));
        let neither = "Several larders run on this machine and none serves port 81; choose one with --admin (127.0.0.1:9180, 127.0.0.1:9181).";
        check(&two, "a:81", Err(neither));
    }
}

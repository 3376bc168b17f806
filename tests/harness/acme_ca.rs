//! A CA with the ACME protocol that misbehaves on demand. It verifies no signatures: Pebble does that (`pebble`).

use super::secure::Authority;
use super::{TIMEOUT, begun, until};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What the CA does with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaAct {
    /// As RFC 8555 requires.
    Serve,
    /// This status and body, with these more lines.
    Say(u16, &'static str, &'static str),
    /// Nothing: the connection stays open.
    Silent,
}

/// The books of the CA.
#[derive(Default)]
pub struct CaBooks {
    /// The kind of each request, in their order: `dir`, `nonce`, `account`, `order`, `authz`, `chall`, `finalize`, `cert`, `poll`.
    pub requests: Vec<&'static str>,
    /// The public keys of accounts.
    pub accounts: Vec<Value>,
    /// Each order.
    pub orders: Vec<CaOrder>,
    /// The issued certificates, PEM.
    pub issued: Vec<String>,
}

/// An order.
pub struct CaOrder {
    /// Its name.
    pub name: String,
    status: &'static str,
    error: Option<String>,
    certificate: Option<usize>,
}

/// A running CA.
pub struct AcmeCa {
    /// Its certificates.
    pub authority: Authority,
    /// The URL of its directory.
    pub directory: String,
    state: Arc<CaState>,
}

struct CaState {
    books: Mutex<CaBooks>,
    act: Mutex<Act>,
    /// Where the names of clients are.
    client: Mutex<Option<SocketAddr>>,
    /// Seconds for which certificates are valid.
    lifetime: Mutex<i64>,
    base: String,
}

type Act = Box<dyn FnMut(&'static str) -> CaAct + Send>;

impl AcmeCa {
    /// A CA whose certificates are valid for 90 days.
    pub fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let base = format!("http://localhost:{}", listener.local_addr().unwrap().port());
        let act: Act = Box::new(|_| CaAct::Serve);
        let state = Arc::new(CaState {
            books: Mutex::default(),
            act: Mutex::new(act),
            client: Mutex::default(),
            lifetime: Mutex::new(90 * 86_400),
            base: base.clone(),
        });
        let it = Self { authority: Authority::new(), directory: format!("{base}/dir"), state };
        let (state, authority) = (it.state.clone(), Arc::new(it.authority.signer()));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (state, authority) = (state.clone(), authority.clone());
                std::thread::spawn(move || serve(&state, &authority, stream));
            }
        });
        it
    }

    /// The section of a configuration.
    pub fn section(&self) -> String {
        format!("[[tls.acme.ca]]\ndirectory = \"{}\"\n", self.directory)
    }

    /// The address of the clients that it validates, without TLS.
    pub fn validates_at(&self, address: SocketAddr) {
        *self.state.client.lock().unwrap() = Some(address);
    }

    /// From now on certificates are valid for this long.
    pub fn lives(&self, seconds: i64) {
        *self.state.lifetime.lock().unwrap() = seconds;
    }

    /// From now on `act` decides about each request, by its kind.
    pub fn act(&self, act: impl FnMut(&'static str) -> CaAct + Send + 'static) {
        *self.state.act.lock().unwrap() = Box::new(act);
    }

    /// Something of its books.
    pub fn books<T>(&self, of: impl FnOnce(&CaBooks) -> T) -> T {
        of(&self.state.books.lock().unwrap())
    }

    /// How many requests of a kind it got.
    pub fn count(&self, kind: &str) -> usize {
        self.books(|it| it.requests.iter().filter(|it| **it == kind).count())
    }
}

/// Signs requests for certificates.
pub type CaSigner = Box<dyn Fn(&str, &[u8], i64) -> String + Send + Sync>;

fn serve(state: &CaState, sign: &CaSigner, stream: TcpStream) {
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut stream = stream;
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).unwrap_or(0) == 0 {
            return;
        }
        let (method, path) =
            (line.split(' ').next().unwrap().to_owned(), line.split(' ').nth(1).unwrap().to_owned());
        let mut length = 0;
        loop {
            let mut field = String::new();
            reader.read_line(&mut field).unwrap();
            if field.trim().is_empty() {
                break;
            }
            let (name, value) = field.split_once(':').unwrap();
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let kind = kind(&path);
        state.books.lock().unwrap().requests.push(kind);
        let act = (state.act.lock().unwrap())(kind);
        let (status, lines, text) = match act {
            CaAct::Serve => answer(state, sign, &path, &body),
            CaAct::Say(status, body, lines) => (status, lines.to_owned(), body.to_owned()),
            CaAct::Silent => {
                // Until the client ends.
                let _ = reader.read_to_end(&mut Vec::new());
                return;
            }
        };
        let nonce = "Replay-Nonce: bm9uY2U\r\n";
        let head = format!("HTTP/1.1 {status} X\r\n{nonce}{lines}Content-Length: {}\r\n\r\n", text.len());
        let text = if method == "HEAD" { String::new() } else { text };
        if stream.write_all(format!("{head}{text}").as_bytes()).is_err() {
            return;
        }
    }
}

fn kind(path: &str) -> &'static str {
    let kinds = ["dir", "nonce", "account", "authz", "chall", "finalize", "cert", "poll", "order"];
    kinds.into_iter().find(|it| path[1..].starts_with(it)).unwrap_or("other")
}

/// The status, more lines, and the body.
fn answer(state: &CaState, sign: &CaSigner, path: &str, body: &[u8]) -> (u16, String, String) {
    let message: Value = serde_json::from_slice(body).unwrap_or_default();
    let part = |name: &str| {
        let bytes = URL_SAFE_NO_PAD.decode(message[name].as_str().unwrap_or_default()).unwrap_or_default();
        serde_json::from_slice::<Value>(&bytes).unwrap_or_default()
    };
    let (protected, payload) = (part("protected"), part("payload"));
    let number = path.rsplit('/').next().and_then(|it| it.parse::<usize>().ok()).unwrap_or(0);
    let base = &state.base;
    let plain = |status: u16, text: &Value| (status, String::new(), text.to_string());
    match kind(path) {
        "dir" => plain(
            200,
            &json!({
                "newNonce": format!("{base}/nonce"), "newAccount": format!("{base}/account"),
                "newOrder": format!("{base}/order"), "revokeCert": format!("{base}/other"),
                "keyChange": format!("{base}/other"),
            }),
        ),
        "nonce" => (200, String::new(), String::new()),
        "account" => {
            let accounts = &mut state.books.lock().unwrap().accounts;
            let key = protected["jwk"].clone();
            if !key.is_null() && !accounts.contains(&key) {
                accounts.push(key.clone());
            }
            let at = accounts.iter().position(|it| *it == key).unwrap_or(0);
            (201, format!("Location: {base}/account/{at}\r\n"), json!({ "status": "valid" }).to_string())
        }
        "order" => {
            let mut books = state.books.lock().unwrap();
            let name = payload["identifiers"][0]["value"].as_str().unwrap_or_default().to_owned();
            books.orders.push(CaOrder { name, status: "pending", error: None, certificate: None });
            let at = books.orders.len() - 1;
            let text = order(state, &books.orders[at], at).to_string();
            (201, format!("Location: {base}/poll/{at}\r\n"), text)
        }
        "poll" => plain(200, &order(state, &state.books.lock().unwrap().orders[number], number)),
        "authz" => plain(200, &authorization(state, number)),
        "chall" => {
            validate(state, number);
            plain(
                200,
                &json!({ "type": "http-01", "url": format!("{base}/chall/{number}"), "token": token(number), "status": "processing" }),
            )
        }
        "finalize" => {
            let request = URL_SAFE_NO_PAD.decode(payload["csr"].as_str().unwrap_or_default()).unwrap();
            let lifetime = *state.lifetime.lock().unwrap();
            let mut books = state.books.lock().unwrap();
            let pem = sign(&books.orders[number].name.clone(), &request, lifetime);
            books.issued.push(pem);
            let at = books.issued.len() - 1;
            (books.orders[number].status, books.orders[number].certificate) = ("valid", Some(at));
            plain(200, &order(state, &books.orders[number], number))
        }
        "cert" => (200, String::new(), state.books.lock().unwrap().issued[number].clone()),
        _ => (404, String::new(), json!({ "type": "urn:ietf:params:acme:error:malformed" }).to_string()),
    }
}

fn token(order: usize) -> String {
    format!("token-{order}_of-the-scenarios")
}

fn order(state: &CaState, it: &CaOrder, at: usize) -> Value {
    let base = &state.base;
    json!({
        "status": it.status, "identifiers": [{ "type": "dns", "value": it.name }],
        "authorizations": [format!("{base}/authz/{at}")], "finalize": format!("{base}/finalize/{at}"),
        "certificate": it.certificate.map(|it| format!("{base}/cert/{it}")),
    })
}

fn authorization(state: &CaState, at: usize) -> Value {
    let books = state.books.lock().unwrap();
    let it = &books.orders[at];
    let status = match it.status {
        "pending" => "pending",
        "invalid" => "invalid",
        _ => "valid",
    };
    let error = it
        .error
        .as_ref()
        .map(|it| json!({ "type": "urn:ietf:params:acme:error:unauthorized", "detail": it }));
    json!({
        "status": status, "identifier": { "type": "dns", "value": it.name },
        "challenges": [{
            "type": "http-01", "url": format!("{}/chall/{at}", state.base), "token": token(at), "status": status, "error": error,
        }],
    })
}

/// Requests the token from the client, as the name says.
fn validate(state: &CaState, at: usize) {
    let name = state.books.lock().unwrap().orders[at].name.clone();
    // A larder that has just started may order before the test knows its address.
    until("validates_at", || state.client.lock().unwrap().is_some());
    let client = state.client.lock().unwrap().unwrap();
    let path = format!("/.well-known/acme-challenge/{}", token(at));
    let mut text = String::new();
    if let Ok(mut stream) = TcpStream::connect(client) {
        stream.set_read_timeout(Some(TIMEOUT)).unwrap();
        let head = format!("GET {path} HTTP/1.1\r\nHost: {name}\r\nConnection: close\r\n\r\n");
        let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.read_to_string(&mut text));
    }
    let is_proved = text.starts_with("HTTP/1.1 200") && text.contains(&format!("\r\n\r\n{}.", token(at)));
    let order = &mut state.books.lock().unwrap().orders[at];
    order.status = if is_proved { "ready" } else { "invalid" };
    order.error = (!is_proved).then(|| format!("{name}: {}", text.lines().next().unwrap_or("no answer")));
}

/// The start of the validity of certificates.
pub fn issued_at() -> i64 {
    i64::try_from(begun()).unwrap() - 60
}

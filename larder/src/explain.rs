//! `larder explain URL`: asks a running larder, and tells a person what it said. The deciding is done there, by
//! the functions that serve.

use crate::cli::{Explain, spell_listen};
use crate::config::{self, plain};
use larder_transport::listener::Listen;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long the running larder may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long each port may take that is asked whether a larder's admin listens there.
const PROBE: Duration = Duration::from_millis(300);
/// Bytes of an answer at most.
const MAX_ANSWER: u64 = 4 << 20;

/// Asks and returns the answer as JSON.
///
/// # Errors
/// One sentence: nobody listens there, the question is malformed, or the answer is.
pub fn ask(question: &Explain) -> Result<Value, String> {
    let admin = match &question.ask {
        Some(admin) => admin.clone(),
        None => choose(&running(), &question.authority)?,
    };
    let url = format!("{}://{}{}", question.scheme, question.authority, question.target);
    let body = json!({ "url": url, "method": question.method, "headers": question.fields }).to_string();
    let (status, text) = exchange(&admin, PATIENCE, "POST", "/cache/explain", &body).map_err(|error| {
        let spelt = spell_listen(&admin);
        let why = plain(&error);
        format!("No larder answers at {spelt} ({why}); give the address that it printed as \"admin on\" with --admin.")
    })?;
    let value: Value = serde_json::from_str(&text)
        .map_err(|_| format!("What listens at {} is not larder's admin.", spell_listen(&admin)))?;
    match status {
        200 => Ok(value),
        _ => Err(value["detail"].as_str().unwrap_or("larder refused to explain.").to_owned()),
    }
}

/// A larder on this machine: its admin, and where it serves clients.
struct Running {
    admin: Listen,
    serves: Vec<String>,
}

/// Every larder whose admin has one of the ports that are taken where nobody asks for one.
fn running() -> Vec<Running> {
    let ask = |port: u16| {
        let admin = Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let (status, text) = exchange(&admin, PROBE, "GET", "/cache/stats", "").ok()?;
        let stats: Value = serde_json::from_str(&text).ok().filter(|_| status == 200)?;
        let serves = stats["listen"].as_array()?.iter().filter_map(|it| it.as_str().map(str::to_owned));
        Some(Running { admin, serves: serves.collect() })
    };
    config::admin_ports(config::ADMIN_PORT).filter_map(ask).collect()
}

/// The larder that serves the port of `authority`; where only one runs, that one.
fn choose(running: &[Running], authority: &str) -> Result<Listen, String> {
    let port = authority.rsplit_once(':').map(|it| it.1);
    let port = port.filter(|it| it.bytes().all(|it| it.is_ascii_digit())).unwrap_or("80");
    let serves =
        |it: &&Running| it.serves.iter().any(|it| it.rsplit_once(':').is_some_and(|it| it.1 == port));
    let named = authority.rsplit_once(':').is_some_and(|it| it.1 == port);
    match (running, running.iter().find(serves)) {
        ([only], None) if named => {
            let (serves, admin) = (only.serves.join(" "), spell_listen(&only.admin));
            Err(format!(
                "The larder that runs here serves {serves}, not port {port}; correct the URL, or ask it all the same \
                 with --admin {admin}."
            ))
        }
        ([], _) => {
            Err("No larder runs here, or its admin is elsewhere; give the address that it printed as \
                        \"admin on\" with --admin."
                .to_owned())
        }
        ([only], _) => Ok(only.admin.clone()),
        (_, Some(found)) => Ok(found.admin.clone()),
        (several, None) => {
            let admins: Vec<String> = several.iter().map(|it| spell_listen(&it.admin)).collect();
            let admins = admins.join(", ");
            Err(format!(
                "Several larders run here, and none serves port {port}; choose one with --admin ({admins})."
            ))
        }
    }
}

fn exchange(
    admin: &Listen,
    patience: Duration,
    method: &str,
    path: &str,
    body: &str,
) -> std::io::Result<(u16, String)> {
    let (mut stream, host) = connect(admin, patience)?;
    let length = body.len();
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes())?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    Ok((status, text.to_owned()))
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn connect(admin: &Listen, patience: Duration) -> std::io::Result<(Box<dyn Stream>, String)> {
    match admin {
        Listen::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, patience)?;
            stream.set_read_timeout(Some(patience))?;
            Ok((Box::new(stream), address.to_string()))
        }
        Listen::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(patience))?;
            Ok((Box::new(stream), "localhost".to_owned()))
        }
    }
}

/// The answer as a person reads it.
#[must_use]
pub fn tell(answer: &Value) -> String {
    let mut out = String::new();
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let _ = writeln!(out, "{}", text(&answer["verdict"]["sentence"]));
    let _ = writeln!(out, "\nverdict  {}", text(&answer["verdict"]["name"]));
    let _ = writeln!(out, "route    {} ({})", text(&answer["route"]), text(&answer["settings"]["route"]));
    if answer["key"].is_object() {
        let _ = writeln!(out, "key      {}", text(&answer["key"]["text"]));
        let _ = writeln!(out, "         {}", text(&answer["key"]["recipe"]));
    }
    for tier in answer["tiers"].as_array().unwrap_or(&Vec::new()) {
        let holds = match tier["holds"].as_str() {
            Some("variants") => format!("{} variant(s)", tier["count"]),
            Some("hit-for-miss") => "nothing; answers are known not to be shared, so nobody waits".to_owned(),
            Some("response") => "a response that answers this request's kind".to_owned(),
            Some("unknown") => "could not be asked in time".to_owned(),
            _ => "nothing".to_owned(),
        };
        let _ = writeln!(out, "{:<8} {holds}", text(&tier["tier"]));
    }
    if answer["stored"].is_object() {
        let stored = &answer["stored"];
        let _ = writeln!(out, "stored   status {}, {} bytes", stored["status"], stored["bytes"]);
        for key in ["age", "lifetime", "freshness", "part", "variant"] {
            if let Some(line) = stored[key].as_str().filter(|it| !it.is_empty()) {
                let _ = writeln!(out, "         {}{line}", if key == "variant" { "variant " } else { "" });
            }
        }
    }
    tell_rules(&mut out, "rules", &answer["rules"]);
    if answer["last_refusal"].is_object() {
        let refusal = &answer["last_refusal"];
        let _ = writeln!(
            out,
            "\nlast response, {} s ago, status {}: {}",
            refusal["seconds_ago"],
            refusal["status"],
            text(&refusal["sentence"])
        );
        tell_rules(&mut out, "rules", &refusal["rules"]);
    }
    tell_settings(&mut out, &answer["settings"]["given"]);
    if let Some(change) = answer["change"].as_str() {
        let _ = writeln!(out, "\nto change the verdict: {change}");
    }
    out
}

fn tell_rules(out: &mut String, title: &str, rules: &Value) {
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let Some(rules) = rules.as_array().filter(|it| !it.is_empty()) else { return };
    let _ = writeln!(out, "\n{title}, in order");
    for rule in rules {
        let mark = if rule["outcome"] == "decided" { "=>" } else { "  " };
        let field = |name: &str| rule[name].as_str().unwrap_or("").to_owned();
        let _ = writeln!(out, "{mark} {:<16} {:<22} {}", field("source"), field("rule"), field("evidence"));
        for decider in rule["where"].as_array().unwrap_or(&Vec::new()) {
            let _ = writeln!(out, "   {:<39} {}", "", text(decider));
        }
    }
}

fn tell_settings(out: &mut String, given: &Value) {
    let Some(given) = given.as_array().filter(|it| !it.is_empty()) else { return };
    let _ = writeln!(out, "\nsettings of this route");
    for row in given {
        let field = |name: &str| row[name].as_str().unwrap_or("").to_owned();
        let _ = writeln!(out, "   {:<40} {}", field("key"), field("where"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(serves: &[&str], authority: &str, expect: Result<u16, &str>) {
        let listen = |port| Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        let running: Vec<Running> = (9180..)
            .zip(serves)
            .map(|(port, it)| Running {
                admin: listen(port),
                serves: it.split(' ').map(str::to_owned).collect(),
            })
            .collect();
        assert_eq!(expect.map(listen).map_err(str::to_owned), choose(&running, authority), "{authority}");
    }

    #[test]
    fn the_larder_that_serves_the_port_is_asked() {
        let nobody = "No larder runs here, or its admin is elsewhere; give the address that it printed as \
                      \"admin on\" with --admin.";
        let two = ["http://127.0.0.1:8080", "unix:/run/larder.sock http://[::]:80"];
        check(&[], "a:8080", Err(nobody));
        check(&two[..1], "www.example.com", Ok(9180));
        let other = "The larder that runs here serves http://127.0.0.1:8080, not port 81; correct the URL, or ask it \
                     all the same with --admin 127.0.0.1:9180.";
        check(&two[..1], "a:81", Err(other));
        check(&two[..1], "a:8080", Ok(9180));
        check(&two, "a:8080", Ok(9180));
        check(&two, "a", Ok(9181));
        check(&two, "[::1]:80", Ok(9181));
        check(&two, "[::1]", Ok(9181));
        let neither = "Several larders run here, and none serves port 81; choose one with --admin \
                       (127.0.0.1:9180, 127.0.0.1:9181).";
        check(&two, "a:81", Err(neither));
    }
}

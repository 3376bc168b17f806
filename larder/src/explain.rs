//! `larder explain URL`: asks a running larder, and tells a person what it said. The deciding is done there, by
//! the functions that serve.

use crate::cli::Explain;
use crate::config::plain;
use larder_transport::listener::Listen;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// How long the running larder may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Bytes of an answer at most.
const MAX_ANSWER: u64 = 4 << 20;

/// Asks and returns the answer as JSON.
///
/// # Errors
/// One sentence: nobody listens there, the question is malformed, or the answer is.
pub fn ask(question: &Explain) -> Result<Value, String> {
    let default = Listen::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, crate::config::ADMIN_PORT)));
    let admin = question.ask.clone().unwrap_or(default);
    let url = format!("{}://{}{}", question.scheme, question.authority, question.target);
    let body = json!({ "url": url, "method": question.method, "headers": question.fields }).to_string();
    let (status, text) = post(&admin, "/cache/explain", &body)?;
    let value: Value = serde_json::from_str(&text).map_err(|_| {
        format!("What listens at {} is not larder's admin.", crate::cli::spell_listen(&admin))
    })?;
    match status {
        200 => Ok(value),
        _ => Err(value["detail"].as_str().unwrap_or("larder refused to explain.").to_owned()),
    }
}

fn post(admin: &Listen, path: &str, body: &str) -> Result<(u16, String), String> {
    let spelt = crate::cli::spell_listen(admin);
    let unreachable = |error: std::io::Error| {
        format!(
            "No larder answers at {spelt} ({}); give the address that it printed as \"admin on\" with --admin.",
            plain(&error)
        )
    };
    let (mut stream, host) = connect(admin).map_err(unreachable)?;
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    );
    stream.write_all(head.as_bytes()).map_err(unreachable)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer).map_err(unreachable)?;
    let answer = String::from_utf8_lossy(&answer).into_owned();
    let (head, text) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).unwrap_or(0);
    Ok((status, text.to_owned()))
}

trait Stream: Read + Write {}
impl<T: Read + Write> Stream for T {}

fn connect(admin: &Listen) -> std::io::Result<(Box<dyn Stream>, String)> {
    match admin {
        Listen::Tcp(address) => {
            let stream = TcpStream::connect_timeout(address, PATIENCE)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            Ok((Box::new(stream), address.to_string()))
        }
        Listen::Unix(path) => {
            let stream = UnixStream::connect(path)?;
            stream.set_read_timeout(Some(PATIENCE))?;
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
    let Some(rules) = rules.as_array().filter(|it| !it.is_empty()) else { return };
    let _ = writeln!(out, "\n{title}, in order");
    for rule in rules {
        let mark = if rule["outcome"] == "decided" { "=>" } else { "  " };
        let field = |name: &str| rule[name].as_str().unwrap_or("").to_owned();
        let _ = writeln!(out, "{mark} {:<16} {:<22} {}", field("source"), field("rule"), field("evidence"));
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

//! `larder explain URL`: asks a running larder, and tells a person what it said. The deciding is done there, by
//! the functions that serve.

use crate::ask;
use crate::cli::Explain;
use crate::config;
use crate::tail;
use crate::terminal::Screen;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// How long the running larder may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Asks and returns the answer as JSON.
///
/// # Errors
/// One sentence: nobody listens there, the question is malformed, or the answer is.
pub fn ask(question: &Explain) -> Result<Value, String> {
    if let Some(id) = &question.id {
        let admin = ask::admin(question.ask.as_ref(), None)?;
        return ask::post(&admin, "/cache/explain", &json!({ "id": id }), PATIENCE);
    }
    let admin = ask::admin(question.ask.as_ref(), Some(&question.authority))?;
    let url = format!("{}://{}{}", question.scheme, question.authority, question.target);
    let body = json!({ "url": url, "method": question.method, "headers": question.fields });
    ask::post(&admin, "/cache/explain", &body, PATIENCE)
}

/// How `larder explain`, called as `called`, asks the larder whose admin is `admin`, as that was printed: `--admin` is
/// there where it is not found without.
#[must_use]
pub fn command(called: &str, admin: &str) -> String {
    let admin = admin.trim_start_matches("http://").trim_end_matches('/');
    let Ok(address) = admin.parse::<SocketAddr>() else { return format!("{called} explain --admin {admin}") };
    // Of an address for all networks, the one of this machine.
    let ip = match address.ip() {
        it if it.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        it => it,
    };
    let found =
        ip == Ipv4Addr::LOCALHOST && config::admin_ports(config::ADMIN_PORT).contains(&address.port());
    match found {
        true => format!("{called} explain"),
        false => format!("{called} explain --admin {}", SocketAddr::new(ip, address.port())),
    }
}

/// The answer as a person reads it.
#[must_use]
pub fn tell(answer: &Value) -> String {
    let mut out = String::new();
    let text = |value: &Value| value.as_str().unwrap_or("").to_owned();
    if answer["then"].is_object() {
        let _ = writeln!(out, "then     {}", tail::line(&answer["then"], Screen::NONE));
        for name in answer["withheld"].as_array().unwrap_or(&Vec::new()) {
            let name = text(name);
            let _ = writeln!(
                out,
                "         the value of {name} is not kept: where the key or Vary looks at it, this is of another variant"
            );
        }
        let _ = writeln!(out, "\nnow, the same request:");
    }
    let _ = writeln!(out, "{}", text(&answer["verdict"]["sentence"]));
    let _ = writeln!(out, "\nverdict  {}", text(&answer["verdict"]["name"]));
    match (answer["route"].as_str(), answer["settings"]["route"].as_str()) {
        (Some(route), Some(place)) => drop(writeln!(out, "route    {route} ({place})")),
        (Some(route), None) => drop(writeln!(out, "route    {route}")),
        (None, _) => {}
    }
    if answer["key"].is_object() {
        let _ = writeln!(out, "key      {}", text(&answer["key"]["text"]));
        let _ = writeln!(out, "         {}", text(&answer["key"]["recipe"]));
    }
    for tier in answer["tiers"].as_array().unwrap_or(&Vec::new()) {
        let holds = match tier["holds"].as_str() {
            Some("variants") => format!("{} variant(s)", tier["count"]),
            Some("hit-for-miss") => "nothing; answers are known not to be shared, so nobody waits".to_owned(),
            Some("unshared") => format!(
                "nothing; another node found that it may not be shared (status {}), until {} s from now",
                tier["status"], tier["seconds"]
            ),
            Some("response") => "a response that answers this request's kind".to_owned(),
            Some("unknown") => "could not be asked in time".to_owned(),
            _ => "nothing".to_owned(),
        };
        let _ = writeln!(out, "{:<8} {holds}", text(&tier["tier"]));
    }
    if let Some(standing) = answer["nodes"]["say"].as_str() {
        let _ = writeln!(out, "nodes    {standing}");
    }
    if answer["stored"].is_object() {
        let stored = &answer["stored"];
        let _ = writeln!(out, "stored   status {}, {} bytes", stored["status"], stored["bytes"]);
        for key in ["age", "lifetime", "freshness", "part", "forms", "variant"] {
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
    #[test]
    fn the_admin_is_named_where_it_is_not_found() {
        #[track_caller]
        fn check(admin: &str, expect: &str) {
            assert_eq!(expect, super::command("./larder", admin), "{admin}");
        }
        check("http://127.0.0.1:9180/", "./larder explain");
        check("http://127.0.0.1:9280", "./larder explain");
        check("http://127.0.0.1:9281", "./larder explain --admin 127.0.0.1:9281");
        check("http://[::1]:9180", "./larder explain --admin [::1]:9180");
        check("http://0.0.0.0:9180", "./larder explain");
        check("http://0.0.0.0:4000", "./larder explain --admin 127.0.0.1:4000");
    }
}

//! `larder explain URL`: sends the question to a running larder, and prints the answer. The decision is made there, by
//! the functions that serve requests.

use crate::admin_client;
use crate::cli::Explain;
use crate::json::{list, text};
use crate::tail;
use crate::terminal::{Ink, Screen, harmless, wrapped};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The time limit of the request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends the question and returns the answer as JSON.
///
/// # Errors
/// One sentence: no larder listens there, the question is malformed, or the answer is.
pub fn request(question: &Explain) -> Result<Value, String> {
    if let Some(id) = &question.id {
        let admin = admin_client::admin(question.admin.as_ref(), None)?;
        return admin_client::post(&admin, "/cache/explain", &json!({ "id": id }), TIMEOUT);
    }
    let authority = Some(question.authority.as_str()).filter(|_| question.subject.is_none());
    let admin = admin_client::admin(question.admin.as_ref(), authority)?;
    let mut body = json!({ "method": question.method, "headers": question.fields });
    match &question.subject {
        Some(subject) => body["ask"] = subject.as_str().into(),
        None => {
            body["url"] = format!("{}://{}{}", question.scheme, question.authority, question.target).into();
        }
    }
    for (key, value) in [
        ("client", &question.client),
        ("listener", &question.listener),
        ("server_name", &question.server_name),
    ] {
        if let Some(value) = value {
            body[key] = value.as_str().into();
        }
    }
    admin_client::post(&admin, "/cache/explain", &body, TIMEOUT)
}

/// The command line of `larder explain` for the larder with the admin `admin`, as printed by the command `called`: with
/// `--admin` if the larder is not found without it.
#[must_use]
pub fn command(called: &str, admin: &str) -> String {
    let admin = admin.trim_start_matches("http://").trim_end_matches('/');
    let Ok(address) = admin.parse::<SocketAddr>() else { return format!("{called} explain --admin {admin}") };
    // For an address of all networks, the loopback address.
    let ip = match address.ip() {
        it if it.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        it => it,
    };
    let found = ip == Ipv4Addr::LOCALHOST
        && larder_config::admin_ports(larder_config::ADMIN_PORT).contains(&address.port());
    match found {
        true => format!("{called} explain"),
        false => format!("{called} explain --admin {}", SocketAddr::new(ip, address.port())),
    }
}

/// The answer as text.
#[must_use]
pub fn render(answer: &Value, screen: Screen) -> String {
    let mut out = ExplainWriter { screen, out: String::new() };
    if answer["then"].is_object() {
        out.row("then", &tail::line(&answer["then"], Screen::NONE));
        for name in list(&answer["withheld"]) {
            let name = text(name);
            out.row(
                "",
                &format!("the value of {name} is not recorded: if the key or Vary uses it, the result is for another \
                          variant"),
            );
        }
        out.title("the same request now:");
    }
    out.summary(&answer["summary"]);
    for page in list(&answer["pages"]) {
        out.row("", &text(page));
    }
    let _ = writeln!(out.out, "{}", wrapped(&text(&answer["verdict"]["sentence"]), 0, 0, screen));
    out.verdict(&text(&answer["verdict"]["name"]));
    match (answer["route"].as_str(), answer["settings"]["route"].as_str()) {
        (Some(route), Some(place)) => out.row("route", &harmless(&format!("{route} ({place})"))),
        (Some(route), None) => out.row("route", &harmless(route)),
        (None, _) => {}
    }
    out.before_the_cache(answer);
    if answer["key"].is_object() {
        out.row("key", &text(&answer["key"]["text"]));
        out.row("", &text(&answer["key"]["recipe"]));
    }
    if answer["origin_request"].is_object() {
        let sent = &answer["origin_request"];
        let places: Vec<String> = list(&sent["where"]).iter().map(text).collect();
        let place = if places.is_empty() { String::new() } else { format!(" ({})", places.join(", ")) };
        out.row("sends", &format!("{}: {}{place}", text(&sent["target"]), text(&sent["changes"])));
    }
    for tier in list(&answer["tiers"]) {
        out.row(&text(&tier["tier"]), &holds(tier));
    }
    if answer["nodes"]["say"].is_string() {
        out.row("nodes", &text(&answer["nodes"]["say"]));
    }
    for (at, origin) in list(&answer["origins"]).iter().enumerate() {
        let spoken = origin["protocol"].as_str().map_or(String::new(), |it| format!(", {}", harmless(it)));
        let by =
            origin["drained_by"].as_str().map_or(String::new(), |it| format!(" by the {}", harmless(it)));
        let state = text(&origin["state"]).replace('_', " ") + &by;
        let name = if at == 0 { "origins" } else { "" };
        out.row(name, &format!("{} {state}{spoken}", text(&origin["name"])));
    }
    if answer["stored"].is_object() {
        let stored = &answer["stored"];
        out.row("stored", &format!("status {}, {} bytes", stored["status"], stored["bytes"]));
        for key in ["age", "lifetime", "freshness", "part", "forms", "variant"] {
            let line = text(&stored[key]);
            if !line.is_empty() {
                out.row("", &format!("{}{line}", if key == "variant" { "variant " } else { "" }));
            }
        }
    }
    out.rules("rules, in order", &answer["rules"]);
    if answer["last_refusal"].is_object() {
        let refusal = &answer["last_refusal"];
        let (ago, status) = (&refusal["seconds_ago"], &refusal["status"]);
        out.title(&format!("last response, {ago} s ago, status {status}: {}", text(&refusal["sentence"])));
        out.rules("rules, in order", &refusal["rules"]);
    }
    out.settings(&answer["settings"]["given"]);
    if answer["change"].is_string() {
        let title = "to change the verdict:";
        let _ = write!(out.out, "\n{} ", screen.paint(Ink::Bold, title));
        let change = wrapped(&text(&answer["change"]), title.len() + 1, 3, screen);
        let _ = writeln!(out.out, "{change}");
    }
    out.out
}

/// A proposed change, with its difference.
#[must_use]
pub fn change_as_text(change: &Value, screen: Screen) -> String {
    let mut out = String::new();
    let restart = if change["restart"] == true { " It takes effect at a restart." } else { "" };
    let sentence = format!("- {}{restart}", text(&change["sentence"]));
    let _ = writeln!(out, "{}", wrapped(&sentence, 0, 2, screen));
    let files = list(&change["diff"]);
    for file in files {
        let _ = writeln!(out, "  {}:{}", text(&file["file"]), file["line"]);
        for line in list(&file["lines"]) {
            let (op, line) = (text(&line["op"]), text(&line["text"]));
            let ink = match &*op {
                "+" => Ink::Green,
                "-" => Ink::Red,
                _ => Ink::Dim,
            };
            let _ = writeln!(out, "  {}", screen.paint(ink, &format!("{op} {line}")));
        }
    }
    if files.is_empty() {
        for line in list(&change["settings"]) {
            let _ = writeln!(out, "  {}", text(line));
        }
    }
    out
}

fn holds(tier: &Value) -> String {
    match tier["holds"].as_str() {
        Some("variants") => format!("{} variant(s)", tier["count"]),
        Some("hit-for-miss") => {
            "nothing; responses of this key cannot be shared, so requests do not wait (hit-for-miss)"
                .to_owned()
        }
        Some("unshared") => format!(
            "nothing; another node marked it as not shareable (status {}), for another {} s",
            tier["status"], tier["seconds"]
        ),
        Some("response") => "a matching response".to_owned(),
        Some("purged") => {
            "a response that is not used: a purge covers it, or it may be older than one".to_owned()
        }
        Some("unknown") => "no answer in time".to_owned(),
        _ => "nothing".to_owned(),
    }
}

/// Columns of the names on the left.
const NAMES: usize = 9;
/// Columns of a rule's source.
const SOURCE: usize = 18;
/// Columns before the evidence of a rule.
const RULES: usize = SOURCE + 27;
/// Columns from which on the evidence is next to the rule, not beneath it.
const WIDE: usize = 76;

/// Formats the answer, as wide as the terminal.
struct ExplainWriter {
    screen: Screen,
    out: String,
}

impl ExplainWriter {
    /// The answer, whether it is right, and the safe changes, each with its difference.
    fn summary(&mut self, summary: &Value) {
        if !summary.is_object() {
            return;
        }
        let answer = wrapped(&text(&summary["answer"]), 0, 0, self.screen);
        let _ = writeln!(self.out, "{}", self.screen.paint(Ink::Bold, &answer));
        let _ = writeln!(self.out, "{}", wrapped(&text(&summary["because"]), 0, 0, self.screen));
        for change in list(&summary["changes"]) {
            self.out.push_str(&change_as_text(change, self.screen));
        }
        self.title("how this was decided");
    }

    /// The rule of access that decides, with its place.
    fn access(&mut self, access: &Value) {
        if access.is_object() {
            let place = access["where"].as_str().map_or(String::new(), |it| format!(" ({})", harmless(it)));
            let (name, sentence) = (text(&access["name"]), text(&access["sentence"]));
            self.row("access", &format!("{name}: {sentence}, by {}{place}", text(&access["key"])));
        }
    }

    /// The phases before the cache, each with the place of the key that decides.
    fn before_the_cache(&mut self, answer: &Value) {
        self.matched(&answer["matched"]);
        self.access(&answer["access"]);
        self.decided_by("answer", &answer["where"]);
        self.file(&answer["file"]);
        self.tls(&answer["tls"]);
        let script = &answer["script"];
        if script.is_object() {
            self.row(
                "script",
                &harmless(&format!("{} ({})", text(&script["sentence"]), text(&script["where"]))),
            );
        }
        let sql = &answer["sql"];
        if sql.is_object() {
            let (name, place) = (text(&sql["database"]), text(&sql["place"]));
            let (grade, sentence) = (text(&sql["grade"]), text(&sql["sentence"]));
            self.row("sql", &format!("{name} ({place}), freshness {grade}: {sentence}"));
            for rows in list(&sql["rows"]) {
                let (tag, why) = (text(&rows["tag"]), text(&rows["sentence"]));
                self.row("", &format!("{}: {} ({tag}): {why}", text(&rows["rows"]), text(&rows["grade"])));
            }
        }
        let sticky = &answer["sticky"];
        if sticky.is_object() {
            self.row("sticky", &format!("{} ({})", text(&sticky["sentence"]), text(&sticky["where"])));
        }
    }

    /// The place of the key that decides.
    fn decided_by(&mut self, name: &str, place: &Value) {
        if let Some(place) = place.as_str().filter(|it| !it.is_empty()) {
            self.row(name, &harmless(place));
        }
    }

    /// The file beneath its root, and the key that decides.
    fn file(&mut self, file: &Value) {
        if file.is_object() {
            let path = file["path"].as_str().or(file["page"].as_str()).unwrap_or("none");
            self.row("file", &harmless(&format!("{path} in {}", text(&file["root"]))));
            let place = file["where"].as_str().map_or(String::new(), |it| format!(" ({it})"));
            self.row("", &harmless(&format!("{}{place}", text(&file["key"]))));
        }
    }

    /// The TLS rules of the site.
    fn tls(&mut self, tls: &Value) {
        if tls.is_object() {
            let of = |key: &str| format!("{key} {} ({})", text(&tls[key]), text(&tls["where"][key]));
            self.row("tls", &of("min_version"));
            self.row("", &of("client_auth"));
        }
    }

    fn title(&mut self, text: &str) {
        let text = wrapped(text, 0, 3, self.screen);
        let _ = writeln!(self.out, "\n{}", self.screen.paint(Ink::Bold, &text));
    }

    fn row(&mut self, name: &str, text: &str) {
        let name = format!("{name:<width$}", width = NAMES - 1);
        let text = wrapped(text, NAMES, NAMES, self.screen);
        let _ = writeln!(self.out, "{} {text}", self.screen.paint(Ink::Dim, &name));
    }

    fn verdict(&mut self, name: &str) {
        let ink = match name {
            "hit" | "overlay" | "answered" => Ink::Green,
            "stale-hit" | "revalidate" => Ink::Cyan,
            "refused" | "gateway-timeout" => Ink::Red,
            _ => Ink::Yellow,
        };
        self.out.push('\n');
        self.row("verdict", &self.screen.paint(ink, name));
    }

    fn rules(&mut self, title: &str, rules: &Value) {
        let rules = list(rules);
        if rules.is_empty() {
            return;
        }
        self.title(title);
        let is_wide = self.screen.width.is_none_or(|it| it >= WIDE);
        for rule in rules {
            let decided = rule["outcome"] == "decided";
            let start = format!("{:<SOURCE$} {:<22}", text(&rule["source"]), text(&rule["rule"]));
            let (mark, ink) = if decided { ("=>", Ink::Bold) } else { ("  ", Ink::Plain) };
            let start = if is_wide { start } else { start.trim_end().to_owned() };
            let _ = write!(self.out, "{mark} {}", self.screen.paint(ink, &start));
            let indent = if is_wide { RULES } else { 3 };
            self.out.push_str(if is_wide { " " } else { "\n   " });
            let _ = writeln!(self.out, "{}", wrapped(&text(&rule["evidence"]), indent, indent, self.screen));
            for decider in list(&rule["where"]) {
                let decider = self.screen.paint(Ink::Dim, &text(decider));
                let _ = writeln!(self.out, "{:indent$}{decider}", "");
            }
        }
    }

    /// The pattern and conditions that chose the route, and the earlier routes of the path.
    fn matched(&mut self, matched: &Value) {
        for key in ["path", "when"] {
            if let Some(place) = matched["where"][key].as_str() {
                self.row("", &format!("{key} {} ({})", text(&matched[key]), harmless(place)));
            }
        }
        let [vary, by_access] =
            ["vary", "vary_by_access"].map(|it| list(&matched[it]).iter().map(text).collect::<Vec<String>>());
        let is_by_access = |it: &String| by_access.iter().any(|by| by.eq_ignore_ascii_case(it));
        let (by_access, others): (Vec<_>, Vec<_>) = vary.into_iter().partition(is_by_access);
        let rules = match matched["where"]["access"].as_str() {
            Some(place) => format!("the access rules read ({})", harmless(place)),
            None => "the access rules read".to_owned(),
        };
        for (names, reader) in
            [(others, "the choice of the route or a text of it reads"), (by_access, rules.as_str())]
        {
            if !names.is_empty() {
                self.row("", &format!("adds Vary: {}, which {reader}", names.join(", ")));
            }
        }
        if let Some(why) = matched["private"].as_str() {
            self.row("", &format!("Cache-Control: private to clients because {}", harmless(why)));
        }
        for it in list(&matched["passed_over"]) {
            let (name, why, place) = (text(&it["route"]), text(&it["sentence"]), text(&it["where"]));
            self.row("", &format!("not {name} ({place}): {why}"));
        }
    }

    fn settings(&mut self, given: &Value) {
        let given = list(given);
        if given.is_empty() {
            return;
        }
        self.title("settings of the route");
        let names = given.iter().map(|it| text(&it["key"]).chars().count()).max().unwrap_or(0);
        for row in given {
            let (name, place) = (text(&row["key"]), text(&row["where"]));
            let fits = self.screen.width.is_none_or(|it| names + place.chars().count() + 5 <= it);
            let _ = match fits {
                true => writeln!(self.out, "   {name:<names$}  {}", self.screen.paint(Ink::Dim, &place)),
                false => writeln!(self.out, "   {name}\n     {}", self.screen.paint(Ink::Dim, &place)),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer() -> Value {
        json!({
            "verdict": { "name": "miss", "sentence": "Nothing that is stored answers it, and so the origin is asked." },
            "route": "api", "key": { "text": "http://h/a", "recipe": "scheme, host, path, query" },
            "tiers": [{ "tier": "ram", "holds": "nothing" }],
            "rules": [{ "source": "RFC 9111 §4", "rule": "stored", "outcome": "decided", "where": ["larder.toml:7:1"],
                        "evidence": "nothing is stored under this key \u{9b}2J and so on, for some columns" }],
            "change": "Ask once: nothing is stored.",
        })
    }

    #[test]
    fn an_explanation_fits_the_terminal_and_is_unwrapped_in_a_pipe() {
        for width in [40, 60, 80, 120] {
            let rendered = render(&answer(), Screen { colour: false, width: Some(width), height: None });
            let widest = rendered.lines().map(|it| it.chars().count()).max().unwrap();
            assert!(widest <= width, "{width}: {rendered}");
        }
        let rendered = render(&answer(), Screen::NONE);
        for line in [
            "verdict  miss",
            "ram      nothing",
            "=> RFC 9111 §4        stored                 nothing is stored under this key ?2J and so on, for some columns",
            "                                             larder.toml:7:1",
            "to change the verdict: Ask once: nothing is stored.",
        ] {
            assert!(rendered.lines().any(|it| it == line), "{line:?} is not in\n{rendered}");
        }
        let coloured = render(&answer(), Screen { colour: true, width: Some(80), height: None });
        assert!(coloured.contains("\x1b[33mmiss\x1b[0m") && !rendered.contains('\x1b'));
    }

    #[test]
    fn the_answer_comes_first_then_its_judgement_then_the_changes() {
        let mut answer = answer();
        let lines = json!([{ "op": " ", "text": "[site.route.cache]" }, { "op": "+", "text": "default_ttl = \"60s\"" }]);
        answer["summary"] = json!({
            "answer": "Not cached: the response declares no lifetime.", "judgement": "could-be-cached",
            "because": "It could be cached: so and so.",
            "changes": [
                { "by": "configuration", "sentence": "Pages are kept.", "restart": false,
                  "diff": [{ "file": "larder.toml", "line": 12, "lines": lines }] },
                { "by": "application", "sentence": "The application declares one." },
            ],
        });
        let rendered = render(&answer, Screen::NONE);
        let expect = "Not cached: the response declares no lifetime.\nIt could be cached: so and so.\n- Pages are kept.\n  \
                      larder.toml:12\n    [site.route.cache]\n  + default_ttl = \"60s\"\n- The application declares one.\n\nhow \
                      this was decided\nNothing";
        assert!(rendered.starts_with(expect), "{rendered}");
    }

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

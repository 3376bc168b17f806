//! Every endpoint rejects malformed requests: with JSON that names the error and its place, with a line in the audit log,
//! and without a change. The requests are made from the description: each name, type and bound of it is violated once.

use super::{Operation, check_refusal, description, operations, send, start};
use crate::harness::server::TOKEN;
use crate::harness::{Client, Larder, Response, schema, until};
use serde_json::{Value, json};

/// Sends what is to be refused, and looks at everything that is said of it.
struct Probe<'a> {
    larder: &'a Larder,
    it: &'a Operation,
    /// The schema of a refusal.
    refusal: &'a Value,
    lines: String,
    refused: usize,
}

impl Probe<'_> {
    fn log(&self) -> String {
        std::fs::read_to_string(self.larder.folder.path().join("audit.log")).unwrap_or_default()
    }

    /// A request to `target` is refused with `status`; `at` is its `where`, or where that may be anything, `*`.
    #[track_caller]
    fn refuse(&mut self, target: &str, lines: &[&str], body: &str, status: u16, at: &str) {
        let method = self.it.method.as_str();
        let about = format!("{method} {target} {lines:?} {body:?}");
        let fetch = |larder: &Larder| send(larder, method, target, lines, body);
        self.answer(fetch, target, status, at, &about);
    }

    #[track_caller]
    fn answer(
        &mut self,
        fetch: impl Fn(&Larder) -> Response,
        target: &str,
        status: u16,
        at: &str,
        about: &str,
    ) {
        let line = {
            let path: String = target.split('?').next().unwrap().chars().take(200).collect();
            "admin-refused who=".to_owned()
                + &format!("* method={} path={path} status={status}", self.it.method)
        };
        let (start, end) = line.split_once('*').unwrap();
        let report = |log: &str| {
            log.lines().filter(|it| it.contains(start) && it.contains(end) && it.contains(" why=")).count()
        };
        // A new second of the audit log, which tells some refusals of each, and of those who guess.
        self.larder.advance(2);
        let before = report(&self.log());
        let answer = fetch(self.larder);
        let found = check_refusal(&answer, status, about);
        assert!(at == "*" || at == found, "{about}: at {found}, not {at}");
        let told_json: Value = serde_json::from_slice(&answer.body).unwrap();
        assert_eq!(Vec::<String>::new(), schema::problems(self.refusal, &told_json), "{about}");
        until(&format!("it is in the log: {about}"), || report(&self.log()) == before + 1);
        self.refused += 1;
    }
}

/// Everything that a refused request could have changed.
fn state(larder: &Larder) -> Value {
    let get = |path: &str| serde_json::from_slice::<Value>(&larder.admin_get(path).body).unwrap();
    let config = get("/api/v1/config");
    json!({
        "overlays": get("/api/v1/overlays"), "origins": get("/api/v1/origins"),
        "text": config["text"], "running": config["running_hash"], "history": config["history"],
        "sampling": get("/api/v1/traces")["sampling"],
        "objects": get("/api/v1/objects")["objects"].as_array().unwrap().len(),
        "top": get("/api/v1/top")["since"],
        "purges": larder.counter("purges"), "reloads": larder.counter("config_reloads"),
    })
}

#[test]
fn every_endpoint_refuses_wrong_requests() {
    let (_origin, larder) = start();
    larder.get("/kept");
    let refusal = description(&larder)["components"]["schemas"]["Refusal"].clone();
    let before = state(&larder);
    let (host, token) = (format!("Host: {}", larder.admin), format!("Authorization: Bearer {TOKEN}"));
    let wrong = format!("Authorization: Bearer x{TOKEN}");
    let mut refused = 0;
    for it in operations(&larder) {
        let (target, refusal) = (it.target(), &refusal);
        let lines = larder.admin_lines();
        let mut probe = Probe { larder: &larder, it: &it, refusal, lines, refused: 0 };
        // The word of `/healthz` is for monitors by whatever name.
        if it.path != "/healthz" {
            probe.refuse(&target, &["Host: evil.example", &token], "", 421, "Host");
        }
        if it.method != "GET" {
            let lines = [&*host, &*token, "Origin: http://evil.example", "Content-Type: text/plain"];
            probe.refuse(&target, &lines, "{}", 403, "Origin");
            let endless = |larder: &Larder| {
                let lines = format!("{host}\r\n{token}\r\nContent-Length: 99999999999\r\n\r\n");
                let mut client = Client::connect(larder.admin);
                client.send(format!("{} {target} HTTP/1.1\r\n{lines}", it.method));
                client.read()
            };
            let (status, at) = if it.needs_a_parameter() { (400, "*") } else { (413, "body") };
            probe.answer(endless, &target, status, at, "a body without end");
        }
        if !it.is_open() {
            // Without a token it gives one word.
            if it.path != "/api/v1/health" {
                probe.refuse(&target, &[&host], "{}", 401, "Authorization");
            }
            probe.refuse(&target, &[&host, &wrong], "{}", 401, "Authorization");
        }
        bad_queries(&mut probe);
        bad_bodies(&mut probe);
        refused += probe.refused;
    }
    assert!(refused > 250, "{refused}");
    assert!(larder.get("/kept").is_hit(), "nothing was purged");
    assert_eq!(before, state(&larder));
    assert_eq!(0, larder.counter("admin_refusals_unlogged"));
}

/// Every parameter of the description is broken once.
fn bad_queries(probe: &mut Probe<'_>) {
    let (it, lines) = (probe.it, probe.lines.clone());
    if it.takes_any_query() {
        // All of it is the URI.
        for named in ["ftp://h/x", "http:///x", "http://a@b/x"] {
            probe.refuse(&it.path_of(named), &[&lines], "", 400, "uri");
        }
        return;
    }
    let path = it.target();
    let asked = |query: &str| format!("{path}?{query}");
    probe.refuse(&asked("colour=red"), &[&lines], "{}", 400, "colour");
    probe.refuse(&asked("colour=%C3"), &[&lines], "{}", 400, "query");
    for parameter in it.parameters() {
        let name = parameter["name"].as_str().unwrap();
        let schema = &parameter["schema"];
        for bad in ["integer", "enum"].into_iter().filter(|it| schema["type"] == *it || schema[it].is_array())
        {
            let value = if bad == "enum" { "colour" } else { "many" };
            probe.refuse(&asked(&format!("{name}={value}")), &[&lines], "", 400, name);
        }
        if let Some(most) = schema["maximum"].as_i64() {
            probe.refuse(&asked(&format!("{name}={}", most + 1)), &[&lines], "", 400, name);
        }
        let value =
            schema["enum"][0].as_str().unwrap_or(if schema["type"] == "integer" { "400" } else { "/x" });
        probe.refuse(&asked(&format!("{name}={value}&{name}={value}")), &[&lines], "", 400, name);
        if parameter["required"] == true {
            probe.refuse(&path, &[&lines], "", 400, name);
        }
    }
}

/// Every key of the description is broken once.
fn bad_bodies(probe: &mut Probe<'_>) {
    let (it, lines) = (probe.it, probe.lines.clone());
    let query = it.example().map(|it| it.0).filter(|it| !it.is_empty());
    let target = query.map_or_else(|| it.target(), |query| format!("{}?{query}", it.target()));
    let Some(schema) = it.takes() else {
        if !it.description["requestBody"].is_object() {
            probe.refuse(&target, &[&lines], r#"{"colour":"red"}"#, 400, "body");
        }
        return;
    };
    for (body, at) in [("", "body"), ("nonsense", "line 1, column 2"), ("[1,2", "line 1, column 4")] {
        probe.refuse(&target, &[&lines], body, 400, at);
    }
    for body in ["[]", "null", "\"all\""] {
        probe.refuse(&target, &[&lines], body, 400, "body");
    }
    let good = sample(schema);
    let with = |name: &str, value: Option<Value>| {
        let mut body = good.clone();
        match value {
            Some(value) => drop(body.as_object_mut().unwrap().insert(name.to_owned(), value)),
            None => drop(body.as_object_mut().unwrap().remove(name)),
        }
        body.to_string()
    };
    probe.refuse(&target, &[&lines], &with("colour", Some(json!("red"))), 400, "colour");
    for (name, of_name) in schema["properties"].as_object().unwrap() {
        // No name of a body is of this type.
        probe.refuse(&target, &[&lines], &with(name, Some(json!(1.5))), 400, name);
        if let Some(inner) = of_name["items"]["properties"].as_object() {
            let mut member = sample(&of_name["items"]);
            member["colour"] = json!("red");
            let at = format!("{name}[0].colour");
            probe.refuse(&target, &[&lines], &with(name, Some(json!([member]))), 400, &at);
            assert!(inner.len() > 1);
        }
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        let name = name.as_str().unwrap();
        probe.refuse(&target, &[&lines], &with(name, None), 400, name);
    }
}

/// Something that a schema takes: of objects what they must have.
fn sample(schema: &Value) -> Value {
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str()).unwrap_or("null");
    match kind {
        "object" => {
            let names = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
            names.map(|it| (it.to_owned(), sample(&schema["properties"][it]))).collect()
        }
        "array" => {
            let count = schema["minItems"].as_u64().unwrap_or(0);
            (0..count).map(|_| sample(&schema["items"])).collect()
        }
        "string" => json!("x"),
        "integer" => json!(1),
        "boolean" => json!(true),
        _ => Value::Null,
    }
}

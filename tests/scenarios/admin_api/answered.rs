//! Every endpoint of the description is asked, and answers with what the description says: none is left out.

use super::{Operation, operations, send, start};
use crate::harness::{Client, Larder, Origin, schema};
use serde_json::{Value, json};

/// The parameters of an operation.
struct Question {
    target: String,
    lines: String,
    body: String,
}

/// A well-formed question: the example of the description, or what the state of this larder asks for.
fn question(larder: &Larder, it: &Operation) -> Question {
    let get = |path: &str| serde_json::from_slice::<Value>(&larder.admin_get(path).body).unwrap();
    let lines = larder.admin_lines();
    let post = |path: &str, body: &str| -> Value {
        let answer = send(larder, "POST", path, &[&lines], body);
        assert_eq!(200, answer.status, "{path}: {answer:?}");
        serde_json::from_slice(&answer.body).unwrap()
    };
    let code = || post("/api/v1/login-links", "")["code"].as_str().unwrap().to_owned();
    let plain =
        |target: String, body: Value| Question { target, lines: lines.clone(), body: body.to_string() };
    match (it.method.as_str(), it.path.as_str()) {
        (_, "/api/v1/login") => plain(it.target(), json!({ "code": code() })),
        (_, "/api/v1/logout") => {
            let session = post("/api/v1/login", &json!({ "code": code() }).to_string());
            let token = session["token"].as_str().unwrap();
            let lines = format!("Host: {}\r\nAuthorization: Bearer {token}", larder.admin);
            Question { target: it.target(), lines, body: String::new() }
        }
        (_, "/api/v1/sessions/{id}") => {
            let session = post("/api/v1/login", &json!({ "code": code() }).to_string());
            Question { target: it.path_of(&session["session"].to_string()), lines, body: String::new() }
        }
        (_, "/api/v1/objects/{id}") => {
            let id = get("/api/v1/objects?search=*/kept")["objects"][0]["id"].as_str().unwrap().to_owned();
            Question { target: it.path_of(&id), lines, body: String::new() }
        }
        (_, "/cache/add/{uri}") => {
            Question { target: it.path_of("/late?a=b"), lines, body: "late".to_owned() }
        }
        (_, "/cache/reset/{uri}") => {
            send(larder, "POST", "/cache/add//late?a=b", &[&lines], "late");
            Question { target: it.path_of("/late?a=b"), lines, body: String::new() }
        }
        ("PUT", "/api/v1/config") => {
            let now = get("/api/v1/config");
            let text = format!("{}\n# changed\n", now["text"].as_str().unwrap());
            plain(it.target(), json!({ "text": text, "base": now["hash"] }))
        }
        (_, "/api/v1/config/rollback") => {
            plain(it.target(), json!({ "to": get("/api/v1/config")["history"][0]["id"] }))
        }
        (_, "/api/v1/origins/drain") => {
            let origin = get("/api/v1/origins")["origins"][0]["name"].as_str().unwrap().to_owned();
            Question { target: format!("{}?origin={origin}", it.target()), lines, body: String::new() }
        }
        _ => {
            let (query, body) = it.example().unwrap_or_default();
            let known = it.method == "GET" || it.example().is_some();
            assert!(known && !it.path.contains('{'), "{} {} has no example", it.method, it.path);
            let mark = if query.is_empty() { "" } else { "?" };
            Question { target: format!("{}{mark}{query}", it.target()), lines, body: body.to_owned() }
        }
    }
}

#[test]
fn every_endpoint_answers_as_described() {
    let (_origin, larder) = start();
    larder.get("/kept");
    let all = operations(&larder);
    let mut kinds = [0, 0, 0];
    let mut wrong = Vec::new();
    // The last one ends the process; the scenario `upgrade` calls it.
    for it in all.iter().filter(|it| !["/assets/{name}", "/api/v1/upgrade"].contains(&&*it.path)) {
        let Question { target, lines, body } = question(&larder, it);
        let about = format!("{} {target} {body}", it.method);
        if let Some(takes) = it.takes() {
            let body: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(Vec::<String>::new(), schema::problems(takes, &body), "{about}");
        }
        let content = it.description["responses"]["200"]["content"].as_object().unwrap();
        let (media, report) = content.iter().next().unwrap();
        if media == "text/event-stream" {
            events(&larder, &target, report["schema"]["description"].as_str().unwrap());
            kinds[0] += 1;
            continue;
        }
        let answer = send(&larder, &it.method, &target, &[&lines], &body);
        assert_eq!(200, answer.status, "{about}: {answer:?}");
        let found = answer.field("content-type").unwrap();
        assert!(found.starts_with(media.as_str()), "{about}: {found}");
        if media == "application/json" {
            let given: Value = serde_json::from_slice(&answer.body).unwrap();
            let problems = schema::problems(&report["schema"], &given);
            wrong.extend(problems.into_iter().map(|it| format!("{about}: {it}")));
            kinds[1] += 1;
        } else {
            kinds[2] += 1;
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(all.len() - 2, kinds.iter().sum::<usize>());
    assert_eq!((2, 3), (kinds[0], kinds[2]), "streams; the page, /healthz and what Prometheus reads");
}

/// A stream begins at once, and its events are those that are described.
fn events(larder: &Larder, target: &str, described: &str) {
    let lines = larder.admin_lines();
    let sampling = r#"{"route":"*","every":1}"#;
    assert_eq!(200, send(larder, "PUT", "/api/v1/traces/sampling", &[&lines], sampling).status);
    let mut client = Client::connect(larder.admin);
    client.send(format!("GET {target} HTTP/1.1\r\n{lines}\r\n\r\n"));
    let head = String::from_utf8(client.read_raw_head()).unwrap();
    assert!(head.starts_with("HTTP/1.1 200 "), "{head}");
    assert!(head.contains("\r\nContent-Type: text/event-stream\r\n"), "{head}");
    // The sign of life comes when whoever listens is told of what happens from then on.
    assert!(client.read_chunk().is_some_and(|it| it.starts_with(b": ")));
    larder.get("/kept");
    let event = String::from_utf8(client.read_chunk().unwrap()).unwrap();
    let (name, data) = event.strip_prefix("event: ").and_then(|it| it.split_once("\ndata: ")).unwrap();
    assert!(described.contains(&format!("`{name}`: ")), "{name}: {described}");
    let data: Value = serde_json::from_str(data.trim_end()).unwrap();
    assert!(data["id"].is_string(), "{data}");
}

#[test]
fn the_files_of_the_page_are_served() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\npage");
    let larder = Larder::before(&origin, "");
    let page = larder.admin_get("/").text();
    let named: Vec<&str> = page.split("/assets/").skip(1).filter_map(|it| it.split('"').next()).collect();
    for it in &named {
        let answer = larder.admin_get(&format!("/assets/{it}"));
        assert_eq!(200, answer.status, "{it}");
        assert!(!answer.body.is_empty() && answer.field("content-type").is_some(), "{it}");
    }
    // Where the page is not built, there is a note in its place, which names none.
    assert!(!named.is_empty() || page.contains("not built") || page.contains("make"), "{page}");
    assert_eq!(404, larder.admin_get("/assets/none.js").status);
}

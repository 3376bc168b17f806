//! `explain` names the rule of access that decides, with its line; it counts nothing, and asks no service.

use super::access::larder;
use crate::harness::command::run;
use crate::harness::{Client, Larder, Origin};
use serde_json::{Value, json};
use std::net::Ipv4Addr;

pub fn explain(larder: &Larder, path: &str, client: &str) -> Value {
    let body = json!({ "url": format!("http://h{path}"), "client": client });
    serde_json::from_slice(&larder.admin_post("/api/v1/explain", &body.to_string()).body).unwrap()
}

#[test]
fn the_rule_that_decides_is_named_with_its_line() {
    let (origin, service) = (Origin::fixed(super::access::PAGE), Origin::fixed("HTTP/1.1 200 OK\n\n"));
    let site = format!(
        "[[site.route]]\npath = \"/office\"\nproxy = {{ to = [\"{{origin}}\"] }}\naccess.allow = [\"10.0.0.0/8\"]\n\
         [[site.route]]\npath = \"/old\"\nredirect.to = \"/new\"\naccess.deny = [\"192.0.2.7\"]\n\
         [[site.route]]\npath = \"/limit\"\nproxy = {{ to = [\"{{origin}}\"] }}\naccess.limit.rate = \"1/h\"\n\
         [[site.route]]\npath = \"/sso\"\nproxy = {{ to = [\"{{origin}}\"] }}\naccess.forward.to = \"{}\"\n\
         [[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\n",
        service.url()
    );
    let larder = larder(&origin, &site);
    larder.hold();
    let check = |path: &str, client: &str, verdict: &str, status: Option<u16>, access: [&str; 4]| {
        let explanation = explain(&larder, path, client);
        assert_eq!(verdict, explanation["verdict"]["name"], "{path} {client}: {explanation}");
        assert!(status.is_none() || explanation["verdict"]["status"] == json!(status), "{explanation}");
        let [name, key, sentence, line] = access;
        let found = &explanation["access"];
        assert_eq!(
            json!([name, format!("site.route.access.{key}"), sentence]),
            json!([found["name"], found["key"], found["sentence"]])
        );
        assert!(found["where"].as_str().unwrap().ends_with(line), "{found}");
    };
    let outside = "the client 192.0.2.7 is not in allow";
    check("/office", "192.0.2.7", "refused", Some(403), ["refused", "allow", outside, "larder.toml:8"]);
    check(
        "/office",
        "10.1.2.3",
        "miss",
        None,
        ["admitted", "allow", "the client is in allow", "larder.toml:8"],
    );
    let named = explain(&larder, "/office", "192.0.2.7");
    let because = named["summary"]["because"].as_str().unwrap();
    assert_eq!("by-rule", named["summary"]["judgement"]);
    assert!(
        because.starts_with("`site.route.access.allow` at ")
            && because.ends_with("larder.toml:8 decides, before the cache. It admits clients in 10.0.0.0/8."),
        "{because}"
    );
    let body = json!({ "url": "http://h/office" }).to_string();
    let unnamed: Value = serde_json::from_slice(&larder.admin_post("/api/v1/explain", &body).body).unwrap();
    assert!(unnamed["summary"]["because"].as_str().unwrap().contains("The explained client is 127.0.0.1"));
    let denied = ["refused", "deny", "the client 192.0.2.7 is in deny", "larder.toml:12"];
    check("/old", "192.0.2.7", "refused", Some(403), denied);
    check(
        "/old",
        "192.0.2.8",
        "answer",
        Some(302),
        ["admitted", "deny", "the client is not in deny", "larder.toml:12"],
    );
    for _ in 0..3 {
        let free = ["admitted", "limit.rate", "no limit is exceeded", "larder.toml:16"];
        check("/limit", "127.0.0.1", "miss", None, free);
    }
    let client = || Client::connect_from(Ipv4Addr::LOCALHOST, larder.address);
    assert_eq!([200, 429], [0, 1].map(|_| client().get("/limit").status));
    let over = ["refused", "limit.rate", "the limit 1/h by client is exceeded for 3600 s", "larder.toml:16"];
    check("/limit", "127.0.0.1", "refused", Some(429), over);
    let asked = format!("the service {} would be asked", service.url());
    check("/sso", "127.0.0.1", "pass", None, ["depends", "forward.to", &asked, "larder.toml:20"]);
    assert_eq!(0, service.requests());
    assert!(explain(&larder, "/free", "192.0.2.7")["access"].is_null());
}

#[test]
fn a_client_that_is_no_address_is_rejected() {
    let origin = Origin::fixed(super::access::PAGE);
    let larder =
        larder(&origin, "[[site.route]]\nproxy = { to = [\"{origin}\"] }\naccess.allow = [\"10.0.0.0/8\"]\n");
    let body = json!({ "url": "http://h/", "client": "bob" });
    let answer = larder.admin_post("/api/v1/explain", &body.to_string());
    assert_eq!(400, answer.status);
    assert!(
        answer.text().contains("\\\"client\\\" is \\\"bob\\\"; use the IP address of a client"),
        "{}",
        answer.text()
    );
    let url = format!("http://{}/", larder.address);
    let admin = larder.admin.to_string();
    let output = run(larder.folder.path(), &["explain", &url, "--client", "10.1.2.3", "--admin", &admin]);
    assert!(
        output.out.contains("access   admitted: the client is in allow, by site.route.access.allow ("),
        "{}",
        output.out
    );
    let output = run(larder.folder.path(), &["explain", &url, "--client", "192.0.2.1", "--admin", &admin]);
    assert!(
        output.out.contains("Refused by larder before the cache: the client 192.0.2.1 is not in allow."),
        "{}",
        output.out
    );
}

#[test]
fn a_request_is_judged_with_the_identity_that_it_would_have() {
    let origin = Origin::fixed(super::access::PAGE);
    let service = Origin::fixed("HTTP/1.1 200 OK\nX-User: alice\n\n");
    let rules = format!("forward = {{ to = \"{}\", copy = [\"X-User\"] }}", service.url());
    let site = format!(
        "[[site.route]]\npath = \"/any/*\"\nproxy = {{ to = [\"{{origin}}\"] }}\n\
         access = {{ satisfy = \"any\", allow = [\"127.0.0.3\"], {rules}, key = \"identity\" }}\n\
         [[site.route]]\npath = \"/apart/*\"\nproxy = {{ to = [\"{{origin}}\"] }}\naccess = {{ {rules} }}\n\
         [[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\n"
    );
    let larder = larder(&origin, &site);
    larder.hold();
    let answer = |path: &str, client: &str| {
        let explanation = explain(&larder, path, client);
        let answer = explanation["summary"]["answer"].as_str().unwrap().to_owned();
        (explanation["verdict"]["name"].as_str().unwrap().to_owned(), answer)
    };
    let asked = format!("the service {} would be asked", service.url());
    let depends =
        format!("Depends on access: {asked}. Each client has pages of its own (access.key = \"identity\").");
    assert_eq!(("depends".to_owned(), depends), answer("/any/a", "127.0.0.1"));
    // A client of the list shares the pages of the list, as its requests do.
    let mut client = Client::connect_from(Ipv4Addr::new(127, 0, 0, 3), larder.address);
    client.get("/any/a");
    assert!(client.get("/any/a").is_hit());
    let (verdict, explanation) = answer("/any/a", "127.0.0.3");
    assert!(verdict == "hit" && explanation.starts_with("Served from RAM"), "{explanation}");
    let apart = format!(
        "If access admits the request ({asked}): Not cached: the access rules of the route identify its clients."
    );
    assert_eq!(("pass".to_owned(), apart), answer("/apart/a", "127.0.0.1"));
}

#[test]
fn answers_that_precede_access_are_named() {
    let origin = Origin::fixed(super::access::PAGE);
    let to = "proxy = { to = [\"{origin}\"] }";
    let site = format!(
        "[[site.route]]\npath = \"/app/*\"\n{to}\naccess.allow = [\"10.0.0.0/8\"]\n[[site.route]]\npath = \"/open/*\"\n{to}\n\
         [[site.route]]\npath = \"/api/*\"\nmethods = [\"GET\"]\n{to}\n[[site.route]]\npath = \"/api/*\"\nmethods = [\"PUT\"]\n{to}\n\
         cors.origins = [\"https://app.test\"]\n"
    );
    let larder = larder(&origin, &site);
    let sentence =
        |path: &str| explain(&larder, path, "127.0.0.1")["verdict"]["sentence"].as_str().unwrap().to_owned();
    let before = "Answered by larder before access rules and the cache: 301";
    assert!(sentence("/app").starts_with(before), "{}", sentence("/app"));
    assert!(
        sentence("/open").starts_with("Answered by larder before the cache: 301"),
        "{}",
        sentence("/open")
    );
    assert!(sentence("/app/a").starts_with("Refused by larder before the cache"));
    let explanation = explain(&larder, "/app", "127.0.0.1");
    assert!(
        explanation["summary"]["answer"]
            .as_str()
            .unwrap()
            .starts_with("Answered by larder before access rules: 301"),
        "{explanation}"
    );
    // A preflight belongs to the route of the request that it is about.
    let body = json!({
        "url": format!("http://{}/api/a", larder.address), "method": "OPTIONS",
        "headers": [["Origin", "https://app.test"], ["Access-Control-Request-Method", "PUT"]],
    });
    let explanation: Value =
        serde_json::from_slice(&larder.admin_post("/api/v1/explain", &body.to_string()).body).unwrap();
    assert_eq!(
        "it does not accept PUT", explanation["matched"]["passed_over"][0]["sentence"],
        "{explanation}"
    );
}

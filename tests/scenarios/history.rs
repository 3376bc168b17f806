//! The last two hours: each step has what came in it, and events are marked.

use crate::harness::server::Setup;
use crate::harness::{Larder, Origin, until};
use serde_json::Value;

fn history(larder: &Larder, since: u64) -> Value {
    serde_json::from_str(&larder.admin_get(&format!("/api/v1/history?since={since}")).text()).unwrap()
}

/// The sum of a column over all steps.
fn sum(of: &Value, name: &str) -> u64 {
    let at = of["columns"].as_array().unwrap().iter().position(|it| it == name).unwrap();
    of["samples"].as_array().unwrap().iter().map(|it| it[at].as_u64().unwrap()).sum()
}

/// The marks: the kind, and the text without the name of an origin.
fn marks(of: &Value) -> Vec<(String, String)> {
    let text = |it: &Value| it.as_str().unwrap().to_owned();
    of["marks"].as_array().unwrap().iter().map(|it| (text(&it["kind"]), text(&it["what"]))).collect()
}

fn origin() -> Origin {
    Origin::new(|request| match request.target() {
        "/kept" => "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nkept".to_owned(),
        "/absent" => "HTTP/1.1 404 No\nCache-Control: no-store\n\nabsent".to_owned(),
        _ => "HTTP/1.1 500 No\nCache-Control: no-store\n\nbroken".to_owned(),
    })
}

#[test]
fn a_step_has_the_requests_the_errors_and_the_durations_of_a_minute() {
    let origin = origin();
    let larder = Larder::before(&origin, "");
    let begun = history(&larder, 0);
    assert_eq!(10, begun["step"]);
    for path in ["/kept", "/kept", "/kept", "/absent", "/broken"] {
        larder.get(path);
    }
    larder.pass(10_000);
    let told = history(&larder, 0);
    let sums = ["requests", "hits", "misses", "errors_4xx", "errors_5xx"].map(|it| sum(&told, it));
    assert_eq!([5, 2, 3, 1, 1], sums, "{told}");
    assert!(sum(&told, "bytes_sent") > 0 && sum(&told, "miss_p99_us") > 0 && sum(&told, "ram_bytes") > 0);
    // A minute later nothing is of the minute any more.
    (0..7).for_each(|_| {
        larder.pass(10_000);
        history(&larder, 0);
    });
    let told = history(&larder, 0);
    let last = told["samples"].as_array().unwrap().last().unwrap().as_array().unwrap();
    assert_eq!(told["columns"].as_array().unwrap().last().unwrap(), "miss_p99_us");
    assert_eq!(Some(0), last.last().unwrap().as_u64(), "{told}");
    assert_eq!(5, sum(&told, "requests"), "each is counted once");
    let later = history(&larder, told["now"].as_u64().unwrap());
    assert!(later["samples"].as_array().unwrap().is_empty() && later["marks"].as_array().unwrap().is_empty());
    assert_eq!(400, larder.admin_get("/api/v1/history?since=yesterday").status);
}

#[test]
fn events_are_marked_in_their_order() {
    let (origin, dead) = (origin(), crate::harness::closed_address());
    let dead = format!("http://{}", dead.1);
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\n\
         [site.route.proxy]\nto = [{:?}, {dead:?}]\nhealth = {{ path = \"/kept\", interval = \"20ms\", fall = 1 }}\n",
        origin.url()
    );
    let larder = Larder::start(Setup { config, env: Vec::new() });
    let kinds = || marks(&history(&larder, 0)).into_iter().map(|it| it.0).collect::<Vec<_>>();
    until("one is down", || kinds() == ["start", "down"]);
    assert_eq!(format!("{dead} is down"), marks(&history(&larder, 0))[1].1);
    assert_eq!(200, larder.admin_post("/api/v1/purge", "{\"url\":\"http://h/kept\"}").status);
    assert_eq!(["start", "down"], kinds()[..], "a purge of one URL is not marked");
    assert_eq!(200, larder.admin_post("/api/v1/purge", "{\"all\":true}").status);
    assert_eq!(["start", "down", "purge"], kinds()[..]);
    let drain = format!("/api/v1/origins/drain?origin={}", origin.url());
    assert_eq!(200, larder.admin_request("PUT", &drain).status);
    assert_eq!("drain", kinds()[3]);
    assert_eq!(200, larder.admin_request("DELETE", &drain).status);
    assert_eq!("restore", kinds()[4]);
    let text = std::fs::read_to_string(larder.config()).unwrap();
    std::fs::write(larder.config(), text.replace("fall = 1", "fall = 2")).unwrap();
    until("it is reloaded", || kinds().get(5).is_some_and(|it| it == "reload"));
    std::fs::write(larder.config(), text.replace("workers = 1", "workers = 0")).unwrap();
    until("it is refused", || kinds().get(6).is_some_and(|it| it == "refused"));
}

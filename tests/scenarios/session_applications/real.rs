//! The same attacks on real applications: Flask with its sessions under gunicorn, and Express with express-session, each with its defaults.

use crate::harness::application::Application;
use crate::harness::{Larder, Response};

const PAGES: [&str; 5] = ["/silent", "/tagged", "/dated", "/zero", "/file"];

fn before(origin: &Application) -> Larder {
    let origin = format!("http://{}", origin.address);
    Larder::command(&[
        "proxy",
        &origin,
        "--listen",
        "127.0.0.1:0",
        "--admin",
        "127.0.0.1:0",
        "--workers",
        "2",
    ])
}

/// A visitor's name and the field by which the application knows it.
fn visitors(larder: &Larder) -> Vec<(&'static str, String)> {
    let mut all = vec![("stranger", String::new())];
    for name in ["anna", "berta"] {
        let it = larder.client().get(&format!("/login?name={name}"));
        let set = it.field("set-cookie").unwrap_or_else(|| panic!("a session begins: {it:?}"));
        all.push((name, format!("Cookie: {}\r\n", set.split(';').next().unwrap())));
    }
    all.push(("clara", "Authorization: Bearer clara\r\n".to_owned()));
    all.push(("doris", "Authorization: Bearer doris\r\n".to_owned()));
    all
}

#[track_caller]
fn is_own(it: &Response, name: &str, all: &[(&str, String)], what: &str) {
    let text = it.text();
    for (other, _) in all.iter().filter(|other| other.0 != name) {
        assert!(!text.contains(other), "{what}: {name} is shown {text:?}\n{it:?}");
    }
    let is_page = it.status == 200 && !it.body.is_empty();
    assert!(!is_page || text.contains(name), "{what}: {name} is shown {text:?}\n{it:?}");
}

/// Everybody asks for every page, in every form, in the order given and twice.
fn all_ask(larder: &Larder, all: &[(&'static str, String)], what: &str) {
    let mut client = larder.client();
    for page in PAGES {
        for (name, lines) in all.iter().chain(all) {
            let it = client.get_with(page, lines);
            is_own(&it, name, all, &format!("{what} {page}"));
            let tag = it.field("etag").unwrap_or("\"none\"").to_owned();
            for (other, own) in all.iter().filter(|it| it.0 != *name) {
                let conditional = format!("{own}If-None-Match: {tag}\r\n");
                let it = client.get_with(page, &conditional);
                is_own(&it, other, all, &format!("{what} {page} {conditional}"));
                assert_ne!(304, it.status, "{what} {page}: the tag is another's\n{it:?}");
            }
            for form in
                ["Range: bytes=0-29\r\n", "Cache-Control: max-stale\r\n", "Cache-Control: only-if-cached\r\n"]
            {
                is_own(
                    &client.get_with(page, &format!("{lines}{form}")),
                    name,
                    all,
                    &format!("{what} {page} {form}"),
                );
            }
            let head = client.request("HEAD", page, lines, "");
            assert!(matches!(head.status, 200 | 500..=504), "{what} {page} {head:?}");
        }
    }
}

fn attack(mut application: Application) {
    let larder = before(&application);
    let mut all = visitors(&larder);
    for _ in 0..2 {
        all_ask(&larder, &all, "well");
        for status in [500, 502, 503, 504] {
            application.direct().get(&format!("/fail?status={status}"));
            all_ask(&larder, &all, &status.to_string());
            application.direct().get("/fail");
        }
        // The strangers last: others' pages would be theirs.
        all.reverse();
        larder.advance(100_000);
    }
    application.stop();
    all_ask(&larder, &all, "refused");
}

#[test]
fn flask_shows_no_visitor_the_page_of_another() {
    attack(Application::start("sessions"));
}

#[test]
fn express_shows_no_visitor_the_page_of_another() {
    attack(Application::express());
}

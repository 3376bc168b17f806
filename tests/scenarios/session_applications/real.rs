//! The same attacks on real applications: Flask with its sessions under gunicorn, and Express with express-session, each with its defaults. Django is in
//! `django`.

use crate::harness::application::Application;
use crate::harness::{Larder, Response};

const PAGES: [&str; 5] = ["/silent", "/tagged", "/dated", "/zero", "/file"];

pub fn before(origin: &Application) -> Larder {
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

/// A visitor's name, and the header line by which the application knows the visitor.
pub type Visitor = (&'static str, String);

/// The visitors of the applications with `/login?name=`.
fn visitors(larder: &Larder) -> Vec<Visitor> {
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
fn is_own(it: &Response, name: &str, all: &[Visitor], what: &str) {
    let text = it.text();
    for (other, _) in all.iter().filter(|other| other.0 != name) {
        assert!(!text.contains(other), "{what}: {name} is shown {text:?}\n{it:?}");
    }
    let is_page = it.status == 200 && !it.body.is_empty();
    assert!(!is_page || text.contains(name), "{what}: {name} is shown {text:?}\n{it:?}");
}

/// Every visitor requests every page, in every form, in the order given and twice.
fn all_ask(larder: &Larder, pages: &[&str], all: &[Visitor], what: &str) {
    let mut client = larder.client();
    for page in pages {
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
            // 302: a page for users sends a stranger to the form of the login.
            assert!(matches!(head.status, 200 | 302 | 500..=504), "{what} {page} {head:?}");
        }
    }
}

/// All requests of `all_ask` before an application that is well, that fails with each of these, and that is down.
pub fn attack(
    mut application: Application,
    larder: &Larder,
    pages: &[&str],
    mut all: Vec<Visitor>,
    failures: &[u16],
) {
    for _ in 0..2 {
        all_ask(larder, pages, &all, "well");
        for status in failures {
            application.direct().get(&format!("/fail?status={status}"));
            all_ask(larder, pages, &all, &status.to_string());
            application.direct().get("/fail");
        }
        // The strangers last: pages of the visitors before would be theirs.
        all.reverse();
        larder.advance(100_000);
    }
    application.stop();
    all_ask(larder, pages, &all, "refused");
}

fn attack_sessions(application: Application) {
    let larder = before(&application);
    let all = visitors(&larder);
    attack(application, &larder, &PAGES, all, &[500, 502, 503, 504]);
}

#[test]
fn flask_shows_no_visitor_the_page_of_another() {
    attack_sessions(Application::start("sessions"));
}

#[test]
fn express_shows_no_visitor_the_page_of_another() {
    attack_sessions(Application::express());
}

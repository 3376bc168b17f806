//! A real Django under gunicorn, with its accounts, sessions, forms, messages and page cache: with larder's defaults, and behind `preset = "django"`.

use super::real::{Visitor, attack, before};
use crate::harness::application::Application;
use crate::harness::{Larder, Response};
use crate::scenarios::presets::visit_django;

/// Pages that name their visitor.
const PAGES: [&str; 9] = [
    "/account/",
    "/dated/",
    "/members/",
    "/never/",
    "/private/",
    "/varied/",
    "/cached/",
    "/messages/",
    "/language/",
];

const FORM: &str = "Content-Type: application/x-www-form-urlencoded\r\n";
const STYLE: &str = "/static/admin/css/base.css";

fn behind_the_preset(origin: &Application) -> Larder {
    Larder::before(origin, "preset = \"django\"")
}

/// The cookies of a browser.
#[derive(Default)]
struct Cookies(Vec<(String, String)>);

impl Cookies {
    /// Takes those that a response sets and removes.
    fn take(&mut self, from: &Response) {
        for (_, line) in from.fields.iter().filter(|it| it.0.eq_ignore_ascii_case("set-cookie")) {
            let (name, value) = line.split(';').next().unwrap().split_once('=').unwrap();
            self.0.retain(|it| it.0 != name);
            if !line.contains("Max-Age=0") {
                self.0.push((name.to_owned(), value.to_owned()));
            }
        }
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|it| it.0 == name)
    }

    fn line(&self) -> String {
        let pairs: Vec<String> = self.0.iter().map(|it| format!("{}={}", it.0, it.1)).collect();
        if pairs.is_empty() { String::new() } else { format!("Cookie: {}\r\n", pairs.join("; ")) }
    }

    fn get(&mut self, larder: &Larder, path: &str) -> Response {
        let page = larder.client().get_with(path, &self.line());
        self.take(&page);
        page
    }

    /// Fetches the form of a page and sends it with these fields.
    fn submit(&mut self, larder: &Larder, path: &str, fields: &str) -> Response {
        let form = self.get(larder, path).text();
        let token =
            form.split("name=\"csrfmiddlewaretoken\" value=\"").nth(1).and_then(|it| it.split('"').next());
        let token = token.unwrap_or_else(|| panic!("{path} has a form: {form}"));
        self.post(larder, path, &format!("{fields}&csrfmiddlewaretoken={token}"))
    }

    fn post(&mut self, larder: &Larder, path: &str, body: &str) -> Response {
        let lines = format!("{}{FORM}", self.line());
        let answer = larder.client().request("POST", path, &lines, body);
        self.take(&answer);
        answer
    }
}

/// A visitor who has logged in by the form of Django.
fn logged_in(larder: &Larder, name: &str) -> Cookies {
    let mut cookies = Cookies::default();
    let answer = cookies.submit(larder, "/login/", &format!("username={name}&password=geheim"));
    assert!(answer.status == 302 && cookies.has("sessionid") && cookies.has("csrftoken"), "{answer:?}");
    assert_eq!(format!("for {name}"), cookies.get(larder, "/page/own").text());
    cookies
}

/// Strangers, without cookies and with those of a form and of a message, and two users.
fn visitors(larder: &Larder) -> Vec<Visitor> {
    let mut form = Cookies::default();
    form.get(larder, "/account/");
    assert!(form.has("csrftoken"));
    let mut all = vec![("stranger", String::new()), ("stranger", form.line())];
    for name in ["anna.meier", "berta.kunz"] {
        let mut cookies = logged_in(larder, name);
        // Of a message that the next page shows.
        assert_eq!(302, cookies.get(larder, "/say/").status);
        assert!(cookies.has("messages"));
        all.push((name, cookies.line()));
    }
    all
}

fn attack_django(larder: fn(&Application) -> Larder) {
    let application = Application::django();
    let larder = larder(&application);
    let all = visitors(&larder);
    attack(application, &larder, &PAGES, all, &[500, 503]);
}

#[test]
fn django_shows_no_visitor_the_page_of_another() {
    attack_django(before);
}

#[test]
fn django_behind_its_preset_shows_no_visitor_the_page_of_another() {
    attack_django(behind_the_preset);
}

/// The secret in the form of each visitor is that of its cookie, or Django rejects the form.
#[test]
fn a_form_and_a_message_of_django_are_those_of_their_visitor() {
    let application = Application::django();
    for larder in [before(&application), behind_the_preset(&application)] {
        let (mut anna, mut berta) = (logged_in(&larder, "anna.meier"), logged_in(&larder, "berta.kunz"));
        let (mut stranger, mut other) = (Cookies::default(), Cookies::default());
        for round in 0..2 {
            for path in ["/account/", "/varied/", "/cached/", "/members/"] {
                for cookies in [&mut anna, &mut berta, &mut stranger, &mut other] {
                    if path != "/members/" || cookies.has("sessionid") {
                        let answer = cookies.submit(&larder, path, "a=b");
                        assert_eq!(200, answer.status, "{round} {path}: {answer:?}");
                    }
                }
            }
        }
        assert_eq!(
            403,
            stranger.post(&larder, "/account/", "a=b").status,
            "Django rejects a form without it"
        );
        for (cookies, name) in [(&mut anna, "anna.meier"), (&mut stranger, "stranger")] {
            let saved = format!("Saved by {name}");
            cookies.get(&larder, "/say/");
            for elsewhere in [&mut berta, &mut other] {
                assert!(!elsewhere.get(&larder, "/messages/").text().contains("Saved"));
            }
            assert!(cookies.get(&larder, "/messages/").text().contains(&saved), "{name}");
            assert!(!cookies.get(&larder, "/messages/").text().contains("Saved"), "{name}: it is shown once");
        }
    }
}

/// Pages that Django declares to be for all, and static files, are answered from the cache.
#[test]
fn pages_and_files_for_all_visitors_of_django_are_hits() {
    let application = Application::django();
    let larder = behind_the_preset(&application);
    let (anna, berta) = (logged_in(&larder, "anna.meier").line(), logged_in(&larder, "berta.kunz").line());
    let analytics = "Cookie: _ga=GA1.1; theme=dark\r\n".to_owned();
    let get = |path: &str, lines: &str| larder.client().get_with(path, lines);
    // The first request for a file is of a visitor with a session.
    let file = get(STYLE, &anna);
    assert!(file.status == 200 && file.text().contains("DJANGO Admin styles"), "{file:?}");
    let requests = application.requests();
    let date = format!("If-Modified-Since: {}\r\n", file.field("last-modified").unwrap());
    for cookies in [&berta, &anna, &analytics, ""] {
        let page = get(STYLE, cookies);
        assert!(page.is_hit() && page.body == file.body, "{cookies}: {}", page.cache());
        assert_eq!(304, get(STYLE, &format!("{cookies}{date}")).status);
        let part = get(STYLE, &format!("{cookies}Range: bytes=5-17\r\n"));
        assert_eq!((206, &file.body[5..18]), (part.status, &part.body[..]));
        let head = larder.client().request("HEAD", STYLE, cookies, "");
        assert_eq!((200, file.field("content-length")), (head.status, head.field("content-length")));
    }
    assert_eq!(requests, application.requests(), "all from the cache");
    for path in ["/news/", "/news/cached/", "/page/1"] {
        let page = get(path, "");
        for cookies in [&analytics, ""] {
            let hit = get(path, cookies);
            assert!(hit.is_hit() && hit.body == page.body, "{path}: {}", hit.cache());
            let tag = format!("{cookies}If-None-Match: {}\r\n", page.field("etag").unwrap());
            assert_eq!(304, get(path, &tag).status, "{path}");
        }
        assert_eq!(200, get(path, &anna).status);
        assert!(get(path, "").is_hit(), "{path}: a user removes no page of the others");
    }
    // Without the preset a page that says `public` is for users as well.
    let larder = before(&application);
    let page = larder.client().get_with("/news/", &anna);
    assert!(page.status == 200 && larder.client().get_with("/news/", &berta).is_hit());
}

/// The application of an anonymous page receives the language, and no other cookie; a visitor with a form has all.
#[test]
fn django_receives_the_cookies_that_it_set() {
    let application = Application::django();
    let larder = behind_the_preset(&application);
    let get =
        |path: &str, cookies: &str| larder.client().get_with(path, &format!("Cookie: _ga=1; {cookies}\r\n"));
    assert_eq!("nothing", get("/cookies/", "theme=a").text());
    assert!(get("/cookies/", "theme=b").is_hit());
    for private in ["csrftoken=secret", "sessionid=secret", "messages=secret"] {
        let page = get("/cookies/", private);
        assert!(!page.is_hit() && page.text().contains(private), "{}", page.text());
    }
    for language in ["en", "de"] {
        let cookie = format!("django_language={language}");
        let text = format!("Sprache: {language}, stranger");
        assert_eq!(text, get("/language/", &cookie).text());
        assert!(get("/language/", &cookie).is_hit());
        let by_field = larder.client().get_with("/language/", &format!("Accept-Language: {language}\r\n"));
        assert_eq!(text, by_field.text());
    }
}

#[test]
fn ninety_percent_of_the_visitors_of_django_are_anonymous() {
    let application = Application::django();
    let larder = behind_the_preset(&application);
    let session = logged_in(&larder, "anna.meier").line();
    let session = session.trim_end().strip_prefix("Cookie: ").unwrap();
    visit_django(&larder, session, "for anna.meier", || usize::try_from(application.requests()).unwrap());
}

/// The lists of browsers are two pages, in the languages that Django itself would choose.
#[test]
fn django_has_one_page_for_each_language() {
    let application = Application::django();
    let larder = Larder::before(&application, "preset = \"django\", key.accept_language = [\"en\", \"de\"]");
    let requests = application.requests();
    for lines in ["de-DE,de;q=0.9,en;q=0.8", "en-GB,en;q=0.5", "fr, de;q=0.3", "fr", "de-AT, en;q=0.9", "*"] {
        let lines = format!("Accept-Language: {lines}\r\n");
        let direct = application.direct().get_with("/language/", &lines).text();
        let page = larder.client().get_with("/language/", &lines);
        assert_eq!((200, &direct), (page.status, &page.text()), "{lines}");
    }
    assert_eq!(6 + 2, application.requests() - requests, "six past larder");
}

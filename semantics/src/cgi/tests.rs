//! Variables of requests as applications expect them.

use super::*;

fn fields(lines: &[(&str, &str)]) -> FieldList {
    let mut list = FieldList::new();
    lines.iter().for_each(|(name, value)| list.push(name, value));
    list
}

fn all(target: &str, lines: &[(&str, &str)], script: &Script) -> FieldList {
    variables(&CgiRequest {
        method: "GET",
        target,
        fields: &fields(lines),
        length: None,
        scheme: Scheme::Http,
        authority: "example.com:8080",
        client: Some("[::ffff:192.0.2.1]:1234".parse().unwrap()),
        local: Some("192.0.2.9:80".parse().unwrap()),
        user: b"",
        script,
        more: &FieldList::default(),
    })
}

/// The values of these variables, `-` for one that is not set.
fn values(list: &FieldList, names: &str) -> String {
    let of = |name| list.get(name).map_or("-".into(), |it| String::from_utf8_lossy(it).into_owned());
    names.split(' ').map(of).collect::<Vec<_>>().join(" | ")
}

#[test]
fn a_script_with_information_behind_it() {
    let script = Script {
        root: b"/srv/www".into(),
        name: b"/blog/index.php".into(),
        info: Some(b"/2026/a b".into()),
        ..Script::default()
    };
    let list = all("/blog/index.php/2026/a%20b?x=1&y=%20", &[("Host", "example.com:8080")], &script);
    let found = values(
        &list,
        "SCRIPT_NAME SCRIPT_FILENAME PATH_INFO PATH_TRANSLATED DOCUMENT_ROOT DOCUMENT_URI REQUEST_URI QUERY_STRING",
    );
    let expect = "/blog/index.php | /srv/www/blog/index.php | /2026/a b | /srv/www/2026/a b | /srv/www | \
                  /blog/index.php/2026/a b | /blog/index.php/2026/a%20b?x=1&y=%20 | x=1&y=%20";
    assert_eq!(expect, found);
    let found = values(&list, "SERVER_NAME SERVER_PORT SERVER_ADDR REMOTE_ADDR REMOTE_PORT HTTP_HOST HTTPS");
    assert_eq!("example.com | 8080 | 192.0.2.9 | 192.0.2.1 | 1234 | example.com:8080 | -", found);
    let found =
        values(&list, "REQUEST_METHOD SERVER_PROTOCOL GATEWAY_INTERFACE REDIRECT_STATUS CONTENT_LENGTH");
    assert_eq!("GET | HTTP/1.1 | CGI/1.1 | 200 | -", found);
}

#[test]
fn an_application_that_is_no_file() {
    let list = all("/a%2fb/%zz%4?q", &[], &Script::none("/a%2fb/%zz%4?q"));
    let found = values(&list, "SCRIPT_NAME PATH_INFO DOCUMENT_ROOT SCRIPT_FILENAME PATH_TRANSLATED");
    assert_eq!(" | /a/b/%zz%4 | - | - | -", found);
    let list = all("/My%0aDocs%00/%7f", &[], &Script::none("/My%0aDocs%00/%7f"));
    assert_eq!("/My%0ADocs%00/%7F", values(&list, "PATH_INFO"));
    let script = Script { root: b"/r".into(), name: b"/i.php".into(), ..Script::default() };
    assert_eq!("- | -", values(&all("/", &[], &script), "PATH_INFO PATH_TRANSLATED"));
}

#[test]
fn fields_become_variables() {
    let lines = [
        ("Accept", "text/html"),
        ("X-A", "1"),
        ("Cookie", "a=1"),
        ("x-a", "2"),
        ("cookie", "b=2"),
        ("Content-Type", "text/plain"),
        ("Authorization", "Basic eA=="),
    ];
    let list = all("/", &lines, &Script::default());
    let found =
        values(&list, "HTTP_ACCEPT HTTP_X_A HTTP_COOKIE CONTENT_TYPE HTTP_CONTENT_TYPE HTTP_AUTHORIZATION");
    assert_eq!("text/html | 1, 2 | a=1; b=2 | text/plain | - | Basic eA==", found);
    let names: Vec<_> = list.iter().map(|it| it.name.to_owned()).collect();
    let unique: std::collections::BTreeSet<_> = names.iter().collect();
    assert_eq!(names.len(), unique.len(), "no variable is there twice");
}

/// None of these is a variable that an application takes for a setting, or for a field that larder wrote.
#[test]
fn fields_that_would_be_other_variables() {
    let lines = [
        ("Proxy", "http://evil.test"),
        ("Remote_User", "root"),
        ("X.User", "root"),
        ("x_Forwarded-For", "1"),
        ("a", "1"),
    ];
    let list = all("/", &lines, &Script::default());
    let of_fields: Vec<_> = list.iter().filter(|it| it.name.starts_with("HTTP_")).map(|it| it.name).collect();
    assert_eq!(vec!["HTTP_A"], of_fields);
}

#[test]
fn over_tls_with_a_body() {
    let list = variables(&CgiRequest {
        method: "POST",
        target: "*",
        fields: &fields(&[("Content-Length", "9")]),
        length: Some(7),
        scheme: Scheme::Https,
        authority: "[::1]",
        client: None,
        local: None,
        user: b"alice",
        script: &Script::none("*"),
        more: &fields(&[("SERVER_NAME", "a"), ("path_info", "")]),
    });
    let names =
        "HTTPS REQUEST_SCHEME SERVER_NAME SERVER_PORT CONTENT_LENGTH REMOTE_ADDR REMOTE_PORT REMOTE_USER";
    assert_eq!("on | https | a | 443 | 7 | 0.0.0.0 | - | alice", values(&list, names));
}

#[test]
fn variables_of_the_operator_replace_those_of_the_request() {
    let more = [("HTTPS", "on"), ("APP_ENV", "prod"), ("HTTP_X_A", "own")];
    let more = more.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let script = Script { name: b"/i.php".into(), more: more.into(), ..Script::default() };
    let list = all("/", &[("X-A", "1"), ("App-Env", "2")], &script);
    assert_eq!("on | prod | own | 2", values(&list, "HTTPS APP_ENV HTTP_X_A HTTP_APP_ENV"));
    assert_eq!(1, list.get_all("HTTP_X_A").count());
}

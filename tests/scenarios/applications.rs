//! Applications behind FastCGI, SCGI and uWSGI: the variables that they get, and their responses, whole, cut and malformed.

use crate::harness::command::run;
use crate::harness::scgi::ScgiServer;
use crate::harness::uwsgi::Uwsgi;
use crate::harness::variables::{Dialect, VariablesApplication, record};
use crate::harness::{Larder, Response, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

fn larder(application: &VariablesApplication, more: &str) -> Larder {
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"{}\"] }}\n{more}\n",
        application.url()
    ))
}

fn fetch(larder: &Larder, request: &str) -> Response {
    let mut client = larder.client();
    client.send(request);
    client.read()
}

fn get(larder: &Larder, target: &str) -> Response {
    fetch(larder, &format!("GET {target} HTTP/1.1\r\nHost: example.com\r\n\r\n"))
}

#[test]
fn a_request_and_its_response() {
    for dialect in Dialect::ALL {
        let number = AtomicUsize::new(0);
        let application = VariablesApplication::new(dialect, move |_| {
            let number = number.fetch_add(1, SeqCst);
            dialect.whole(&format!(
                "Status: 201 Made\r\nContent-Type: text/plain\r\nCache-Control: max-age=60\r\n\r\npage {number}"
            ))
        });
        let larder = larder(&application, "");
        let first = fetch(
            &larder,
            "GET /a%20b/c?x=%31 HTTP/1.1\r\nHost: Example.com:81\r\nX-A: 1\r\nProxy: http://evil\r\nRemote_User: root\r\n\r\n",
        );
        assert_eq!((201, "page 0"), (first.status, &*first.text()), "{dialect:?}");
        let asked = application.last();
        let names = [
            "REQUEST_METHOD",
            "REQUEST_URI",
            "QUERY_STRING",
            "SCRIPT_NAME",
            "PATH_INFO",
            "HTTP_HOST",
            "SERVER_PORT",
            "REMOTE_ADDR",
            "HTTP_X_A",
            "HTTP_PROXY",
            "HTTP_REMOTE_USER",
            "CONTENT_TYPE",
        ];
        let values = names.map(|it| asked.value(it).to_owned()).join(" | ");
        let expect =
            "GET | /a%20b/c?x=%31 | x=%31 |  | /a b/c | example.com:81 | 81 | 127.0.0.1 | 1 | - | - | -";
        assert_eq!(expect, values, "{dialect:?}");
        // 201 has no explicit permission by its status: `max-age` is one.
        let again = fetch(&larder, "GET /a%20b/c?x=%31 HTTP/1.1\r\nHost: example.com:81\r\n\r\n");
        assert_eq!("page 0", again.text(), "{dialect:?}: a hit like any other");
        assert_eq!(1, application.asked().len());
    }
}

#[test]
fn bodies_have_a_length() {
    for dialect in Dialect::ALL {
        let application = VariablesApplication::new(dialect, move |it| {
            let (length, body) = (it.value("CONTENT_LENGTH"), String::from_utf8_lossy(&it.body));
            let output = format!("Content-Type: text/plain\r\n\r\n{length} {body}");
            match dialect {
                Dialect::FastCgi => {
                    let pieces = output.as_bytes().chunks(60_000).map(|it| record(6, it));
                    [pieces.collect::<Vec<_>>().concat(), record(3, &[0; 8])].concat()
                }
                Dialect::Scgi | Dialect::Uwsgi => output.into_bytes(),
            }
        });
        let larder = larder(&application, "");
        let sized = "POST /a HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\nContent-Length: 5\r\n\r\nhello";
        assert_eq!("5 hello", fetch(&larder, sized).text(), "{dialect:?}");
        assert_eq!("a/b", application.last().value("CONTENT_TYPE"));
        let chunked = "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n";
        assert_eq!("5 hello", fetch(&larder, chunked).text(), "{dialect:?}");
        let none =
            fetch(&larder, "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n")
                .text();
        assert_eq!("0 ", none, "{dialect:?}");
        // More than stays in memory.
        let long = "x".repeat(300_000);
        let chunks: String = long
            .as_bytes()
            .chunks(70_001)
            .map(|it| format!("{:x}\r\n{}\r\n", it.len(), "x".repeat(it.len())))
            .collect();
        let answer = fetch(
            &larder,
            &format!("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{chunks}0\r\n\r\n"),
        );
        assert!(answer.text() == format!("300000 {long}"), "{dialect:?}: {}", answer.status);
    }
}

#[test]
fn a_body_above_the_limit_is_413_before_the_application_is_asked() {
    let application = VariablesApplication::new(Dialect::Scgi, |_| b"X: 1\r\n\r\n".to_vec());
    let larder = larder(&application, "body_size = \"64KiB\"");
    let body = format!("{:x}\r\n{}\r\n0\r\n\r\n", 70_000, "x".repeat(70_000));
    let answer =
        fetch(&larder, &format!("POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n{body}"));
    assert_eq!(413, answer.status);
    assert!(application.asked().is_empty());
}

/// Responses that are not whole reach no second client, and the first one sees that they are not.
#[test]
fn truncated_responses() {
    let head = "Content-Type: text/plain\r\nCache-Control: max-age=60\r\n\r\n";
    let sized = |body: &str| {
        format!("Content-Type: text/plain\r\nCache-Control: max-age=60\r\nContent-Length: 10\r\n\r\n{body}")
    };
    let output = record(6, format!("{head}hell").as_bytes());
    let other_request = |mut it: Vec<u8>| {
        it[3] = 2;
        it
    };
    let mut cases: Vec<(Dialect, Vec<u8>)> = vec![
        (Dialect::FastCgi, output.clone()),
        (Dialect::FastCgi, [output.clone(), record(3, &[0, 0, 0, 1, 0, 0, 0, 0])].concat()),
        (Dialect::FastCgi, [output.clone(), record(6, b"o")[..6].to_vec()].concat()),
        (Dialect::FastCgi, [output.clone(), record(3, &[0; 8])[..12].to_vec()].concat()),
        (Dialect::FastCgi, [output.clone(), record(3, &[0; 7])].concat()),
        (Dialect::FastCgi, [output.clone(), other_request(record(6, b"o")), record(3, &[0; 8])].concat()),
        (Dialect::FastCgi, [output.clone(), other_request(record(3, &[0; 8]))].concat()),
        (Dialect::FastCgi, [output.clone(), record(11, &[0; 8]), record(3, &[0; 8])].concat()),
        (Dialect::FastCgi, [output, b"HTTP/1.1 200 OK\r\n\r\n".to_vec()].concat()),
    ];
    for dialect in Dialect::ALL {
        cases.push((dialect, dialect.whole(&sized("hell"))));
        cases.push((dialect, dialect.whole(&sized("hello, world"))));
        cases.push((dialect, dialect.whole(&sized(""))));
    }
    for (number, (dialect, bytes)) in cases.into_iter().enumerate() {
        let application = VariablesApplication::new(dialect, move |_| bytes.clone());
        let larder = larder(&application, "");
        for asked in 1..=2 {
            let answer = get(&larder, "/a");
            assert!(!answer.complete || answer.status == 502, "case {number}: it looks whole: {answer:?}");
            assert_eq!(asked, application.asked().len(), "case {number}: it is not stored");
        }
    }
}

/// The process of an application that ends with a request may have been one of several that are restarted.
#[test]
fn a_request_outlives_two_processes_and_no_more() {
    for dialect in [Dialect::FastCgi, Dialect::Scgi, Dialect::Uwsgi] {
        let (dying, whole) =
            (Arc::new(AtomicUsize::new(0)), dialect.whole("Content-Type: text/plain\r\n\r\nhello"));
        let left = dying.clone();
        let application = VariablesApplication::new(dialect, move |_| {
            let dies = left.fetch_update(SeqCst, SeqCst, |it| it.checked_sub(1)).is_ok();
            if dies { Vec::new() } else { whole.clone() }
        });
        let larder = larder(&application, "");
        // Each request pays a fifth of a repetition in.
        (0..10).for_each(|_| assert_eq!(200, get(&larder, "/a").status));
        for (method, deaths, status, requests) in
            [("GET", 1, 200, 2), ("GET", 2, 200, 3), ("GET", 3, 502, 3), ("POST", 1, 502, 1)]
        {
            let before = application.asked().len();
            dying.store(deaths, SeqCst);
            let answer =
                fetch(&larder, &format!("{method} /a HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n"));
            assert_eq!(status, answer.status, "{method} {deaths}");
            assert_eq!(requests, application.asked().len() - before, "{method} {deaths}");
            dying.store(0, SeqCst);
        }
    }
}

/// Outputs without a valid head, in each protocol.
const MALFORMED: &[&str] = &[
    "",
    "no head at all",
    "no head at all\r\n\r\n",
    "\r\n\r\nhello",
    "X: 1\r\n",
    "X : 1\r\n\r\nhello",
    ": 1\r\n\r\nhello",
    "X: 1\r\n folded\r\n\r\nhello",
    "X: a\0b\r\n\r\nhello",
    "X: a\rb\r\n\r\nhello",
    "Status: \r\n\r\n",
    "Status: 99\r\n\r\n",
    "Status: 100 Continue\r\n\r\n",
    "Status: 103\r\n\r\n",
    "Status: 600\r\n\r\n",
    "Status: 700 Odd\r\n\r\n",
    "Status: 2000\r\n\r\n",
    "Status: -200\r\n\r\n",
    "Status: 0x10\r\n\r\n",
    "Status: 200\r\nStatus: 404\r\n\r\nhello",
    "HTTP/1.1 99 Odd\r\n\r\nhello",
    "HTTP/2 200\r\n\r\nhello",
    "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "Content-Length: +5\r\n\r\nhello",
    "Content-Length: 18446744073709551616\r\n\r\nhello",
];

/// They are neither stored nor failures that the next request sees.
#[test]
fn malformed_responses_are_502() {
    let whole = |output: &str| Dialect::FastCgi.whole(output);
    let mut other = whole("X: 1\r\n\r\nhello");
    other[3] = 2;
    let mut version = whole("X: 1\r\n\r\nhello");
    version[0] = 2;
    let long = format!("X: {}\r\n", "x".repeat(16_000));
    let many = "X: 1\r\n".repeat(2_000);
    let mut cases: Vec<(Dialect, Vec<u8>)> = [
        [record(6, &[b'x'; 40_000]), record(6, &[b'x'; 40_000]), record(3, &[0; 8])].concat(),
        other,
        version,
        [record(9, b"X: 1\r\n\r\n"), record(3, &[0; 8])].concat(),
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
        record(3, &[0, 0, 0, 0, 2, 0, 0, 0]),
        record(3, &[0; 8]),
        vec![1],
        vec![0; 64],
    ]
    .map(|it| (Dialect::FastCgi, it))
    .into();
    for dialect in Dialect::ALL {
        cases.extend(MALFORMED.iter().map(|it| (dialect, dialect.whole(it))));
        let heads = [long.repeat(5) + "\r\nhello", many.clone() + "\r\nhello"];
        cases.extend(heads.iter().map(|it| match dialect {
            Dialect::FastCgi => {
                (dialect, it.as_bytes().chunks(8_000).map(|it| record(6, it)).collect::<Vec<_>>().concat())
            }
            Dialect::Scgi | Dialect::Uwsgi => (dialect, it.clone().into_bytes()),
        }));
    }
    for dialect in Dialect::ALL {
        let cases: Vec<Vec<u8>> = cases.iter().filter(|it| it.0 == dialect).map(|it| it.1.clone()).collect();
        let answers = cases.clone();
        let application = VariablesApplication::new(dialect, move |it| match it.value("QUERY_STRING") {
            "" => dialect.whole("Content-Type: text/plain\r\n\r\nwhole"),
            number => answers[number.parse::<usize>().unwrap()].clone(),
        });
        let larder = larder(&application, "cache = { default_ttl = \"1h\" }");
        for (number, bytes) in cases.iter().enumerate() {
            let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(80)]).into_owned();
            for _ in 0..2 {
                let answer = get(&larder, &format!("/a?{number}"));
                assert_eq!(502, answer.status, "{dialect:?} {shown:?}");
                assert!(!answer.is_hit(), "{dialect:?} {shown:?}");
            }
        }
        assert_eq!("whole", get(&larder, "/a").text(), "{dialect:?}");
    }
}

#[test]
fn the_log_names_the_cause_of_each_malformed_response() {
    let whole = |output: &str| Dialect::FastCgi.whole(output);
    let renumbered = |at: usize, to: u8| {
        let mut it = whole("X: 1\r\n\r\nhello");
        it[at] = to;
        it
    };
    let cases = [
        (renumbered(0, 2), "a record has another version"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n".to_vec(),
            "an HTTP server needs http:// in proxy.to",
        ),
        (renumbered(3, 2), "a record belongs to another request"),
        (renumbered(1, 9), "a record has a type that applications do not send"),
        (record(3, &[0; 7]), "the record at its end has another length"),
        (record(3, &[0, 0, 0, 7, 0, 0, 0, 0]), "the application ended the request with status 7"),
        (whole("Status: 600\r\n\r\n"), "its status line is malformed"),
        (whole("no field\r\n\r\n"), "a header line is malformed"),
        (
            [record(6, &[b'x'; 40_000]), record(6, &[b'x'; 40_000])].concat(),
            "its head is larger than proxy.head_size allows",
        ),
        (record(6, b"X: 1\r\n"), "closed the connection before its response was complete"),
    ];
    let answers: Vec<Vec<u8>> = cases.iter().map(|it| it.0.clone()).collect();
    let application = VariablesApplication::new(Dialect::FastCgi, move |it| {
        answers[it.value("QUERY_STRING").parse::<usize>().unwrap()].clone()
    });
    let larder = larder(&application, "[log]\nerror = \"error.log\"");
    for (number, (_, why)) in cases.iter().enumerate() {
        // The log has a failure of an origin once a second.
        larder.pass(2000);
        assert_eq!(502, get(&larder, &format!("/a?{number}")).status, "{why}");
        until(why, || {
            let log = larder.error_log();
            log.lines().rfind(|it| it.contains("origin-failed")).is_some_and(|it| it.contains(why))
        });
    }
}

/// A variable of FastCGI and SCGI may have more bytes than a record or a length of 16 bits.
#[test]
fn variables_beyond_65535_bytes_arrive_whole() {
    for dialect in [Dialect::FastCgi, Dialect::Scgi] {
        let application = VariablesApplication::new(dialect, move |_| dialect.whole("X: 1\r\n\r\n"));
        let larder = larder(&application, "[limits]\nhead_size = \"256KiB\"");
        for length in [65_533, 65_534, 65_535, 65_536, 130_000] {
            let cookie = format!("a={}", "x".repeat(length - 2));
            let answer = fetch(&larder, &format!("GET /a HTTP/1.1\r\nHost: a\r\nCookie: {cookie}\r\n\r\n"));
            assert_eq!(200, answer.status, "{dialect:?} {length}");
            assert!(application.last().value("HTTP_COOKIE") == cookie, "{dialect:?} {length}");
        }
    }
}

#[test]
fn error_output_is_in_the_log_and_not_in_the_page() {
    let application = VariablesApplication::new(Dialect::FastCgi, |_| {
        [
            record(7, b"PHP Warning: before"),
            record(6, b"X: 1\r\n\r\nhel"),
            record(7, b" and within"),
            record(6, b"lo"),
            record(3, &[0; 8]),
        ]
        .concat()
    });
    let larder = larder(&application, "[log]\nerror = \"error.log\"");
    assert_eq!("hello", get(&larder, "/a").text());
    let log = || larder.error_log();
    until("the error output is logged", || log().contains("application-stderr"));
    assert!(log().contains("text=\"PHP Warning: before\""), "{}", log());
}

/// A page for HEAD, and one without a body, end with the application and not before.
#[test]
fn responses_without_a_body() {
    for dialect in Dialect::ALL {
        let application = VariablesApplication::new(dialect, move |it| {
            dialect.whole(match it.value("PATH_INFO") {
                "/none" => "Status: 204\r\n\r\nextra",
                _ => "Content-Length: 5\r\nContent-Type: a/b\r\n\r\nhello",
            })
        });
        let larder = larder(&application, "cache = { enabled = false }");
        let mut client = larder.client();
        for _ in 0..2 {
            client.send("HEAD /a HTTP/1.1\r\nHost: a\r\n\r\n");
            let answer = client.read_for("HEAD");
            assert_eq!((200, Some("5")), (answer.status, answer.field("content-length")), "{dialect:?}");
            client.send("GET /none HTTP/1.1\r\nHost: a\r\n\r\n");
            assert_eq!(204, client.read().status, "{dialect:?}");
        }
    }
}

#[test]
fn variables_beyond_the_limit_of_uwsgi_are_431() {
    let application = VariablesApplication::new(Dialect::Uwsgi, |_| b"X: 1\r\n\r\n".to_vec());
    let larder = larder(&application, "[limits]\nhead_size = \"128KiB\"");
    let cookie = "x".repeat(66_000);
    let answer = fetch(&larder, &format!("GET /a HTTP/1.1\r\nHost: a\r\nCookie: a={cookie}\r\n\r\n"));
    assert_eq!(431, answer.status);
    assert!(application.asked().is_empty(), "nothing was sent");
    assert_eq!(200, get(&larder, "/b").status);
    let response = larder.admin_post("/api/v1/explain", "{\"url\":\"http://a/b\"}").text();
    assert!(response.contains("\"protocol\":\"uWSGI\""), "{response}");
}

/// It is the client's request: the origin has not failed.
#[test]
fn a_431_is_no_failure_of_the_application() {
    let application = VariablesApplication::new(Dialect::Uwsgi, |_| b"X: 1\r\n\r\n".to_vec());
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\nlimits.head_size = \"128KiB\"\n[log]\nerror = \"error.log\"\naccess = \"access.log\"\n\
         format = \"{{target}} {{status}} {{origin_protocol}}\"\n\
         [[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"], eject_after = 1, all_ejected = \"refuse\" }}\n",
        application.url()
    ));
    let cookie = "x".repeat(66_000);
    for _ in 0..3 {
        let answer = fetch(&larder, &format!("GET /a HTTP/1.1\r\nHost: a\r\nCookie: a={cookie}\r\n\r\n"));
        assert_eq!(431, answer.status);
    }
    assert_eq!(200, get(&larder, "/b").status);
    let read = |name: &str| std::fs::read_to_string(larder.folder.path().join(name)).unwrap_or_default();
    until("the last request is logged", || read("access.log").contains("/b 200 uWSGI"));
    assert!(!read("error.log").contains("origin-failed"), "{}", read("error.log"));
}

#[test]
fn an_upgrade_is_refused() {
    for dialect in Dialect::ALL {
        let application = VariablesApplication::new(dialect, move |_| dialect.whole("X: 1\r\n\r\n"));
        let larder = larder(&application, "");
        let answer = fetch(
            &larder,
            "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
             Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n",
        );
        assert_eq!((501, "no-store"), (answer.status, answer.field("cache-control").unwrap()), "{dialect:?}");
        assert!(application.asked().is_empty(), "{dialect:?}");
        // Another protocol is ignored, as everywhere (RFC 9110 section 7.8).
        let other = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n";
        assert_eq!(200, fetch(&larder, other).status, "{dialect:?}");
        let asked = serde_json::json!({
            "url": "http://a/chat", "headers": [["Connection", "Upgrade"], ["Upgrade", "websocket"]],
        });
        let response = larder.admin_post("/api/v1/explain", &asked.to_string()).text();
        assert!(response.contains("rejects the request with 501"), "{response}");
    }
}

/// The user that larder has authenticated, where the response is not for others.
#[test]
fn remote_user_is_the_authenticated_user() {
    const ALICE: &str = "Authorization: Basic YWxpY2U6d29uZGVybGFuZA==\r\n";
    let user = "alice:$2y$05$c6xCn3X1zB5FTpR347CIbeBaY1.XbDIocl1kuFoOFp.OykqpnyGnm";
    for dialect in Dialect::ALL {
        let application = VariablesApplication::new(dialect, move |it| {
            let user = it.value("REMOTE_USER").to_owned();
            dialect.whole(&format!("Cache-Control: public, max-age=60\r\n\r\n{user}"))
        });
        let asked = |larder: &Larder, target: &str, lines: &str| {
            fetch(larder, &format!("GET {target} HTTP/1.1\r\nHost: a\r\n{lines}\r\n")).text()
        };
        let free = larder(&application, "");
        let forged = "Remote-User: root\r\nRemote_User: root\r\nX-Remote-User: root\r\n:user: root\r\n";
        for line in forged.split_inclusive("\r\n") {
            let answer = asked(&free, "/forged", line);
            assert!(answer == "-" || answer.contains("field"), "{dialect:?} {line}: {answer}");
        }
        let basic = format!("access.basic = {{ users = [\"{user}\"] }}");
        let guarded = larder(&application, &basic);
        assert_eq!("alice", asked(&guarded, "/", ALICE), "{dialect:?}");
        assert_eq!("alice", asked(&guarded, "/", &format!("{ALICE}Remote-User: root\r\n")), "{dialect:?}");
        // All users share a page: its request names none of them.
        let shared = larder(&application, &format!("{basic}\naccess.shared = true"));
        assert_eq!("-", asked(&shared, "/", ALICE), "{dialect:?}");
        // The key has the user.
        let keyed = larder(&application, &format!("{basic}\naccess.key = \"identity\""));
        assert_eq!("alice", asked(&keyed, "/", ALICE), "{dialect:?}");
    }
}

#[test]
fn check_explains_mixtures() {
    let folder = tempfile::tempdir().unwrap();
    let text = "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\n\
                proxy = { to = [\"fastcgi://127.0.0.1:9000\", \"http://127.0.0.1:80\"] }\n";
    std::fs::write(folder.path().join("larder.toml"), text).unwrap();
    let ended = run(folder.path(), &["check", "-c", "larder.toml"]);
    assert_eq!(2, ended.code);
    assert!(ended.err.contains("have different protocols"), "{ended:?}");
}

/// uWSGI's own server, which speaks all three protocols: a WSGI application gets the same variables by each of them.
#[test]
fn a_real_server_of_three_protocols() {
    let folder = tempfile::tempdir().unwrap();
    let socket = |dialect: Dialect| folder.path().join(dialect.scheme());
    let app = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/apps/environ.py");
    std::fs::copy(app, folder.path().join("app.py")).unwrap();
    let sockets = Dialect::ALL.map(socket);
    let options = Dialect::ALL.map(|it| format!("--{}-socket={}", it.scheme(), socket(it).display()));
    let mut arguments = vec!["--wsgi-file", "app.py"];
    arguments.extend(options.iter().map(String::as_str));
    let _server = Uwsgi::start(folder.path(), &arguments, &sockets.each_ref().map(|it| it.as_path()));
    let mut config = "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n".to_owned();
    for dialect in Dialect::ALL {
        let (scheme, path) = (dialect.scheme(), socket(dialect));
        config += &format!(
            "[[site.route]]\npath = \"/{scheme}/*\"\nproxy = {{ to = [\"{scheme}+unix:{}\"], health = {{ path = \"/health\" }} }}\n",
            path.display()
        );
    }
    let larder = Larder::configured(config);
    for dialect in Dialect::ALL {
        let scheme = dialect.scheme();
        let body = "x".repeat(200_000);
        for framing in [
            format!("Content-Length: 200000\r\n\r\n{body}"),
            format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", 200_000),
        ] {
            let answer = fetch(
                &larder,
                &format!(
                    "POST /{scheme}/a%20b?x=%31 HTTP/1.1\r\nHost: example.com\r\nCookie: a=1\r\nCookie: b=2\r\nContent-Type: a/b\r\n{framing}"
                ),
            );
            assert_eq!(200, answer.status, "{scheme}: {answer:?}");
            let json: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
            let of = |name: &str| json[name].as_str().unwrap_or("-").to_owned();
            let names = [
                "REQUEST_METHOD",
                "SCRIPT_NAME",
                "PATH_INFO",
                "QUERY_STRING",
                "HTTP_HOST",
                "HTTP_COOKIE",
                "CONTENT_TYPE",
                "scheme",
            ];
            let expect = format!("POST |  | /{scheme}/a b | x=%31 | example.com | a=1; b=2 | a/b | http");
            assert_eq!(expect, names.map(of).join(" | "), "{scheme}");
            assert_eq!(200_000, json["body"], "{scheme}");
        }
        assert_eq!(200, get(&larder, &format!("/{scheme}/")).status);
    }
}

/// The server of the protocol's author, over TCP: requests in turn and at a time, large ones and a process that ends.
#[test]
fn the_scgi_server_of_pypi() {
    let folder = tempfile::tempdir().unwrap();
    let server = ScgiServer::start(folder.path(), 3);
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"scgi://{}\"] }}\n",
        server.address
    ));
    let body = "x".repeat(200_000);
    for framing in [
        format!("Content-Length: 200000\r\n\r\n{body}"),
        format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{body}\r\n0\r\n\r\n", 200_000),
    ] {
        let answer = fetch(
            &larder,
            &format!(
                "POST /a%20b?x=%31 HTTP/1.1\r\nHost: example.com\r\nCookie: a=1\r\nContent-Type: a/b\r\n{framing}"
            ),
        );
        assert_eq!(200, answer.status, "{answer:?}");
        let json: serde_json::Value = serde_json::from_str(&answer.text()).unwrap();
        let names = ["REQUEST_METHOD", "SCRIPT_NAME", "PATH_INFO", "QUERY_STRING", "HTTP_COOKIE", "SCGI"];
        let values = names.map(|it| json[it].as_str().unwrap_or("-")).join(" | ");
        assert_eq!("POST |  | /a b | x=%31 | a=1 | 1", values);
        let length = &json["order"][0];
        assert_eq!(
            (&"CONTENT_LENGTH".into(), &200_000.into()),
            (length, &json["body"]),
            "the first variable"
        );
    }
    let first = get(&larder, "/cached").text();
    assert_eq!(first, get(&larder, "/cached").text(), "a hit like any other");
    assert_eq!(3_000_000, get(&larder, "/large").body.len());
    std::thread::scope(|scope| {
        let all: Vec<_> = (0..8).map(|it| (it, scope.spawn(|| get(&larder, "/at-a-time").status))).collect();
        all.into_iter().for_each(|(number, it)| assert_eq!(200, it.join().unwrap(), "request {number}"));
    });
    // Each process that gets the request ends.
    assert_eq!(502, get(&larder, "/broken").status);
    assert_eq!(200, get(&larder, "/").status, "the server starts another process");
}

/// uWSGI closes the connection where the variables exceed its `buffer-size`: the log names the remedy, and a request that is too large for it
/// ejects no application.
#[test]
fn a_block_beyond_the_buffer_of_uwsgi_names_its_setting() {
    let folder = tempfile::tempdir().unwrap();
    let app = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/apps/environ.py");
    std::fs::copy(app, folder.path().join("app.py")).unwrap();
    let (small, large) = (folder.path().join("small"), folder.path().join("large"));
    let start = |socket: &std::path::Path, more: &[&str]| {
        let named = format!("--socket={}", socket.display());
        Uwsgi::start(
            folder.path(),
            &[&["--wsgi-file", "app.py", named.as_str()][..], more].concat(),
            &[socket],
        )
    };
    let _servers = [start(&small, &[]), start(&large, &["--buffer-size=65535"])];
    let route = |name: &str, socket: &std::path::Path| {
        format!(
            "[[site.route]]\npath = \"/{name}\"\nproxy = {{ to = [\"uwsgi+unix:{}\"], eject_after = 1, all_ejected = \"refuse\" }}\n",
            socket.display()
        )
    };
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[log]\nerror = \"error.log\"\n[[site]]\nhosts = [\"*\"]\n{}{}",
        route("small", &small),
        route("large", &large)
    ));
    let fetch = |target: &str, length: usize| {
        larder.client().get_with(target, &format!("Cookie: a={}\r\n", "x".repeat(length))).status
    };
    let log = || larder.error_log();
    assert_eq!([200, 200, 200], [fetch("/small", 3), fetch("/large", 3), fetch("/large", 5_000)]);
    assert!(!log().contains("origin-failed"), "{}", log());
    for _ in 0..2 {
        assert_eq!(502, fetch("/small", 5_000));
    }
    until("the log names the setting", || log().contains("set buffer-size = 65535"));
    assert!(log().contains("unix:") && log().contains("bytes of variables"), "{}", log());
    assert_eq!(200, fetch("/small", 3), "it is not ejected");
}

#[test]
fn a_route_sets_variables_of_its_applications() {
    for dialect in Dialect::ALL {
        let application = VariablesApplication::new(dialect, move |_| {
            dialect.whole("Content-Type: text/plain\r\nCache-Control: max-age=60\r\n\r\npage")
        });
        let config = |env: &str| {
            format!(
                "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/p*\"\nproxy = {{ to = [\"{0}\"], env = {env} }}\n\
                 [[site.route]]\npath = \"/uncached/*\"\ncache.enabled = false\nproxy = {{ to = [\"{0}\"], env = {env} }}\n\
                 [[site.route]]\nproxy = {{ to = [\"{0}\"], env = {{ SCRIPT_NAME = \"{{path}}\" }} }}\n",
                application.url()
            )
        };
        let env = "{ APP_ENV = \"test {host}\", SCRIPT_FILENAME = \"/srv/p/{1}\", PATH_INFO = \"\", SERVER_NAME = \"fixed\", X_IN = \"{header.x-in}\" }";
        let larder = Larder::configured(config(env));
        let names = ["APP_ENV", "SCRIPT_FILENAME", "PATH_INFO", "SERVER_NAME", "X_IN", "HTTP_X_IN"];
        let sent = |target: &str| {
            let request = format!("GET {target} HTTP/1.1\r\nHost: Example.com\r\nX-In: in\r\n\r\n");
            assert_eq!(200, fetch(&larder, &request).status, "{dialect:?} {target}");
            let asked = application.last();
            names.map(|it| asked.value(it).to_owned()).join(" | ")
        };
        let first = "test example.com | /srv/p//a b.php |  | fixed | - | in";
        assert_eq!(first, sent("/p/a%20b.php"), "{dialect:?}: X_IN is not determined by the key");
        let first = "test example.com | /srv/p/b |  | fixed | in | in";
        assert_eq!(first, sent("/uncached/b"), "{dialect:?}: no other client gets the page");
        let explain = |path: &str| {
            let body = format!("{{\"url\": \"http://example.com{path}\"}}");
            larder.admin_post("/cache/explain", &body).text()
        };
        assert!(
            explain("/p/a")
                .contains("sets the variables APP_ENV, SCRIPT_FILENAME, PATH_INFO, SERVER_NAME, X_IN")
        );
        assert!(
            explain("/p../a").contains("or of a directory in proxy.env"),
            "{dialect:?}: 400 is explained"
        );
        let number = application.asked().len();
        for target in ["/p../a", "/p%2e%2e/a", "/p/x/..%2f../../a", "/../a"] {
            assert_eq!(400, get(&larder, target).status, "{dialect:?} {target}: a path out of the directory");
        }
        assert_eq!(number, application.asked().len(), "{dialect:?}");
        std::fs::write(larder.config(), config("{ APP_ENV = \"new\" }")).unwrap();
        larder.signal(libc::SIGHUP);
        let new = "new | - | /uncached/b | example.com | - | in";
        until("the reload is in force", || sent("/uncached/b") == new);
    }
}

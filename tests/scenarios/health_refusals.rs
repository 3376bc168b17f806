//! The findings of refused requests, single URLs, origins that disagree, the access log and the next start.

use super::health::{names, sentence, state};
use crate::harness::origin::{Script, response};
use crate::harness::secure::Authority;
use crate::harness::{Larder, Origin, until};

fn start(top: &str, site: &str) -> Larder {
    let config = format!("listen = [\"127.0.0.1:0\"]\nworkers = 1\n{top}\n[[site]]\nhosts = [\"*\"]\n{site}");
    let larder = Larder::configured(config);
    // The first minute begins with the first look.
    state(&larder);
    larder
}

const ANSWER: &str = "[[site.route]]\npath = \"/*\"\nrespond = { status = 200, body = \"here\" }\n";

/// The sentence of a finding; empty without it.
fn found(larder: &Larder, name: &str) -> String {
    let state = state(larder);
    let all = state["findings"].as_array().unwrap();
    all.iter()
        .find(|it| it["name"] == name)
        .map_or_else(String::new, |it| it["sentence"].as_str().unwrap().to_owned())
}

#[test]
fn heads_that_are_steadily_too_large_name_the_limit_and_its_value() {
    let larder = start("limits.head_size = \"2KiB\"", ANSWER);
    let burst = |status: u16, cookie: usize| {
        for _ in 0..25 {
            let mut client = larder.client();
            client.send(format!("GET / HTTP/1.1\r\nHost: h\r\nCookie: a={}\r\n\r\n", "x".repeat(cookie)));
            assert_eq!(status, client.read().status);
        }
        state(&larder);
    };
    // A reading a second, as the server takes them.
    let pass = |seconds: u32| {
        for _ in 0..seconds {
            larder.pass(1_000);
            state(&larder);
        }
    };
    burst(431, 3000);
    pass(61);
    assert_eq!("Healthy", sentence(&larder), "one burst");
    burst(431, 3000);
    pass(30);
    burst(431, 3000);
    pass(31);
    let text = sentence(&larder);
    assert!(
        text.starts_with("Healthy. Notice: requests are rejected with 431: their heads are larger than `limits.head_size` (2KiB) since "),
        "{text}"
    );
    assert!(text.ends_with("set `limits.head_size` to 4KiB or more if these are visitors"), "{text}");
    until("the minute is over", || {
        larder.pass(61_000);
        sentence(&larder) == "Healthy"
    });
}

/// After `limits.head_size` was raised as the sentence had proposed, it proposed twice the new value.
#[test]
fn a_raised_limit_begins_without_the_events_of_the_old_one() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: no-store\n\npage");
    let larder = start(
        "limits.head_size = \"2KiB\"",
        &format!(
            "[[site.route]]\nname = \"search\"\npath = \"/*\"\naccess.limits = [{{ rate = \"1/h\", by = \"route\" }}]\nproxy.to = {:?}\n",
            origin.url()
        ),
    );
    for _ in 0..3 {
        for _ in 0..25 {
            let mut client = larder.client();
            client.send(format!("GET / HTTP/1.1\r\nHost: h\r\nCookie: a={}\r\n\r\n", "x".repeat(3000)));
            assert_eq!(431, client.read().status);
            larder.get("/");
        }
        for _ in 0..31 {
            state(&larder);
            larder.pass(1_000);
        }
    }
    assert_eq!(["route-limited", "limit-refuses-clients"], names(&larder)[..], "{}", state(&larder));
    let text = std::fs::read_to_string(larder.config()).unwrap();
    std::fs::write(larder.config(), text.replace("\"2KiB\"", "\"4KiB\"").replace("1/h", "900/h")).unwrap();
    let before = larder.counter("config_reloads");
    larder.signal(libc::SIGHUP);
    until("the change is in force", || larder.counter("config_reloads") > before);
    // Without a wait, in which the minute would end.
    assert!(names(&larder).is_empty(), "{}", state(&larder));
}

#[test]
fn requests_that_are_refused_since_a_change_name_the_change() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: no-store\n\npage");
    let route = |allow: &str| {
        format!(
            "[[site.route]]\nname = \"office\"\npath = \"/*\"\naccess.allow = [\"{allow}\"]\nproxy.to = {:?}\n",
            origin.url()
        )
    };
    let larder = start("", &route("127.0.0.0/8"));
    (0..30).for_each(|_| assert_eq!(200, larder.get("/").status));
    state(&larder);
    let text = std::fs::read_to_string(larder.config()).unwrap();
    std::fs::write(larder.config(), text.replace("127.0.0.0/8", "10.0.0.0/8")).unwrap();
    let before = larder.counter("config_reloads");
    larder.signal(libc::SIGHUP);
    until("the change is in force", || larder.counter("config_reloads") > before);
    assert_eq!("", found(&larder, "refusals-after-change"));
    (0..25).for_each(|_| assert_eq!(403, larder.get("/").status));
    let text = found(&larder, "refusals-after-change");
    assert!(text.contains("(25 within the last minute, 0 within the minute before the change)"), "{text}");
    assert!(text.contains("access.allow") && text.contains("office"), "{text}");
    larder.pass(601_000);
    assert_eq!("", found(&larder, "refusals-after-change"));
}

#[test]
fn a_url_whose_requests_all_fail_is_named_while_the_server_is_healthy() {
    let origin = Origin::scripted(|it| {
        let status = if it.target() == "/product/4711" { "500 Internal Server Error" } else { "200 OK" };
        vec![Script::Send(response(&format!("HTTP/1.1 {status}\nCache-Control: no-store\n\npage")))]
    });
    let route =
        format!("[[site.route]]\nname = \"products\"\npath = \"/*\"\nproxy.to = {:?}\n", origin.url());
    let larder = start("", &route);
    for number in 0..300 {
        assert_eq!(200, larder.get(&format!("/product/{number}")).status);
        if number % 25 == 0 {
            assert_eq!(500, larder.get("/product/4711").status);
        }
    }
    until("it is judged", || {
        larder.admin_get("/api/v1/advice");
        !found(&larder, "url-fails").is_empty()
    });
    let text = found(&larder, "url-fails");
    assert!(
        text.starts_with("every request for http://") && text.contains("/product/4711 fails since "),
        "{text}"
    );
    assert!(
        text.ends_with("(12 of 12 recent ones, with 500); route products answers its other requests"),
        "{text}"
    );
    assert!(sentence(&larder).starts_with("Healthy. Notice: "), "{}", sentence(&larder));
}

#[test]
fn origins_that_disagree_on_sharing_are_named_with_a_url() {
    let with = |control: &'static str| {
        Origin::scripted(move |_| {
            vec![Script::Send(response(&format!("HTTP/1.1 200 OK\nCache-Control: {control}\n\npage")))]
        })
    };
    let (strict, loose) = (with("no-store"), with("max-age=1"));
    let route = |of: &str| {
        format!(
            "[[site.route]]\nname = \"api\"\npath = \"/*\"\nproxy.to = [{of}]\ncache.hit_for_miss = \"0s\"\n"
        )
    };
    let both = format!("{:?}, {:?}", strict.url(), loose.url());
    let larder = start("", &route(&both));
    for _ in 0..12 {
        (0..8).for_each(|it| assert_eq!(200, larder.get(&format!("/api/{it}")).status));
        larder.advance(2);
    }
    until("they are judged", || {
        larder.admin_get("/api/v1/advice");
        !found(&larder, "origins-disagree").is_empty()
    });
    let text = found(&larder, "origins-disagree");
    let (shares, forbids) =
        (format!("({} lets http://", loose.url()), format!("{} forbids it; ", strict.url()));
    assert!(text.starts_with("origins of route api disagree since ") && text.contains(&shares), "{text}");
    assert!(text.contains(&forbids) && text.contains("/api/"), "{text}");
    assert_eq!(["origins-disagree"], names(&larder)[..]);
}

#[test]
fn the_access_log_on_a_full_device_is_named_with_the_reason() {
    let larder = start("[log]\naccess = \"/dev/full\"", ANSWER);
    until("lines are dropped", || {
        larder.get("/");
        !found(&larder, "limit-reached").is_empty()
    });
    let text = found(&larder, "limit-reached");
    assert!(text.starts_with("lines of the access log /dev/full are dropped since "), "{text}");
    assert!(
        text.contains(": no space left on device); correct the reason, or name another file in `log.access`"),
        "{text}"
    );
}

#[test]
fn a_host_without_a_certificate_is_a_notice_where_it_is_also_served_over_http() {
    let authority = Authority::new();
    let certificate = authority.sign_with("site", &["shop.test"], |_| ());
    let hosts = |names: &str| format!("[[site]]\nhosts = [{names}]\n{ANSWER}");
    // The finding vanished with `clients.trusted`, which a site without a proxy may have for its health checks.
    for trusted in ["", "[clients]\ntrusted = [\"10.0.0.0/8\"]\n"] {
        let larder = Larder::configured(format!(
            "listen = [\"127.0.0.1:0\", \"https://127.0.0.1:0\"]\nworkers = 1\n[tls]\ncertificates = [{certificate}]\n{trusted}{}{}{}",
            hosts("\"shop.test\""),
            hosts("\"intern.shop.test\""),
            hosts("\"localhost\", \"127.0.0.1\""),
        ));
        assert_eq!("Healthy", sentence(&larder), "files may be replaced");
        larder.pass(11_000);
        assert_eq!(
            "Healthy. Notice: no certificate is for intern.shop.test (the certificates are for shop.test); they are also served over plain HTTP, and \
             clients that use https:// reject the connection",
            sentence(&larder)
        );
    }
}

/// The running server keeps the users that it has read, and a start has none.
#[test]
fn a_file_of_users_that_the_next_start_cannot_read_is_a_finding() {
    let folder = tempfile::tempdir().unwrap();
    let users = folder.path().join("users");
    let write = || std::fs::write(&users, "ann:$apr1$x9/2Qx1d$Ib4TyuA6QGVf3Ct0dYDRS.\n").unwrap();
    write();
    let larder = start("", &format!("{ANSWER}access.basic.file = {users:?}\n"));
    assert_eq!("Healthy", sentence(&larder));
    std::fs::remove_file(&users).unwrap();
    until("it is examined", || !found(&larder, "start-would-fail").is_empty());
    let text = found(&larder, "start-would-fail");
    assert!(text.contains(&users.display().to_string()), "{text}");
    assert!(!found(&larder, "access-file-broken").is_empty());
    write();
    until("it is examined again", || found(&larder, "start-would-fail").is_empty());
}

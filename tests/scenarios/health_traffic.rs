//! The findings of one route or one origin: produced by the requests of a minute, and over with them.

use super::health::{names, sentence, state};
use crate::harness::origin::{Script, response};
use crate::harness::secure::Authority;
use crate::harness::tiers::of_size;
use crate::harness::{Larder, Origin, until};
use serde_json::Value;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

fn start(site: &str) -> Larder {
    let config = format!("listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n{site}");
    let larder = Larder::configured(config);
    // The first minute begins with the first look.
    state(&larder);
    larder
}

#[test]
fn a_route_whose_allow_list_is_wrong_is_a_notice_until_it_is_corrected() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: no-store\n\npage");
    let larder = start(&format!(
        "[[site.route]]\nname = \"shop\"\npath = \"/*\"\naccess.allow = [\"10.0.0.0/8\"]\nproxy.to = {:?}\n",
        origin.url()
    ));
    (0..19).for_each(|_| assert_eq!(403, larder.get("/").status));
    assert_eq!("Healthy", sentence(&larder));
    assert_eq!(403, larder.get("/").status);
    assert_eq!("Healthy", sentence(&larder), "it has not lasted");
    larder.pass(11_000);
    let text = sentence(&larder);
    assert!(
        text.starts_with("Healthy. Notice: route shop refuses most requests with 401 or 403 since "),
        "{text}"
    );
    assert!(text.ends_with("(20 of 20 within the last minute); its `access.allow` refuses them"), "{text}");
    until("the minute is over", || {
        larder.pass(61_000);
        sentence(&larder) == "Healthy"
    });
}

#[test]
fn one_of_two_origins_with_server_errors_is_named_until_it_is_repaired() {
    let fails = Arc::new(AtomicBool::new(true));
    let of = fails.clone();
    let sick = Origin::scripted(move |_| {
        let status = if of.load(SeqCst) { "500 Internal Server Error" } else { "200 OK" };
        vec![Script::Send(response(&format!("HTTP/1.1 {status}\nCache-Control: no-store\n\npage")))]
    });
    let well = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: no-store\n\npage");
    let larder = start(&format!(
        "[[site.route]]\nname = \"shop\"\npath = \"/*\"\nproxy.to = [{:?}, {:?}]\n",
        sick.url(),
        well.url()
    ));
    (0..80).for_each(|it| drop(larder.get(&format!("/{it}"))));
    assert!(names(&larder).contains(&"origin-errors".to_owned()), "{}", state(&larder));
    let found = state(&larder)["findings"].as_array().unwrap().clone();
    let found = found.iter().find(|it| it["name"] == "origin-errors").unwrap();
    let text = found["sentence"].as_str().unwrap();
    assert!(
        text.starts_with(&format!("origin {} answers 100 % of its requests with server errors", sick.url())),
        "{text}"
    );
    assert!(text.ends_with("; 0 % at the other origins); it still gets requests of route shop"), "{text}");
    fails.store(false, SeqCst);
    until("the minute is over", || {
        larder.pass(61_000);
        sentence(&larder) == "Healthy"
    });
}

#[test]
fn a_drained_origin_whose_other_origin_is_down_is_the_remedy() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: no-store\n\npage");
    let dead = crate::harness::closed_address();
    let larder = start(&format!(
        "[[site.route]]\nname = \"shop\"\npath = \"/*\"\nproxy.to = [{:?}, \"http://{}\"]\n\
         proxy.health = {{ path = \"/\", interval = \"20ms\", fall = 1 }}\n",
        origin.url(),
        dead.1
    ));
    until("one is down", || names(&larder) == ["origin-down"]);
    let drain = format!("/api/v1/origins/drain?origin={}", origin.url());
    assert_eq!(200, larder.admin_request("PUT", &drain).status);
    let text = sentence(&larder);
    let remedy = format!(
        "; 1 route has no other origin in use (shop); origin {} is drained: restore it",
        origin.url()
    );
    assert!(text.starts_with("Failing: ") && text.ends_with(&remedy), "{text}");
    assert_eq!(200, larder.admin_request("DELETE", &drain).status);
    assert_eq!(["origin-down"], names(&larder)[..]);
}

#[test]
fn a_certificate_with_another_name_is_a_finding_until_it_is_replaced() {
    let authority = Authority::new();
    let certificate = authority.sign_with("site", &["old.test"], |_| ());
    let larder = Larder::configured(format!(
        "listen = [\"https://127.0.0.1:0\"]\nworkers = 1\n[tls]\ncertificates = [{certificate}]\n[[site]]\nhosts = [\"shop.test\"]\n\
         [[site.route]]\npath = \"/*\"\nrespond = {{ status = 200, body = \"here\" }}\n",
    ));
    assert_eq!("Healthy", sentence(&larder), "files may be replaced");
    larder.pass(11_000);
    assert_eq!(
        "Degraded: no certificate is for shop.test (the certificates are for old.test); clients reject the connection",
        sentence(&larder)
    );
    authority.sign_with("site", &["shop.test"], |_| ());
    until("the new files are in use", || sentence(&larder) == "Healthy");
}

/// The one that clients requested was one of "13 more".
#[test]
fn hosts_without_a_certificate_that_clients_request_are_named_first() {
    let authority = Authority::new();
    let certificate = authority.sign_with("site", &["old.test"], |_| ());
    let hosts: Vec<String> =
        (0..8).map(|it| format!("{it}.test")).chain(["secure.test".to_owned()]).collect();
    let larder = Larder::configured(format!(
        "listen = [\"https://127.0.0.1:0\"]\nworkers = 2\n[tls]\ncertificates = [{certificate}]\n[[site]]\nhosts = {hosts:?}\n\
         [[site.route]]\npath = \"/*\"\nrespond = {{ status = 200, body = \"here\" }}\n",
    ));
    state(&larder);
    for _ in 0..3 {
        assert!(authority.trusting().connect(larder.address, "secure.test").is_err());
    }
    assert!(authority.trusting().connect(larder.address, "unknown.test").is_err());
    until("they are counted", || {
        larder.pass(11_000);
        sentence(&larder).starts_with(
            "Degraded: no certificate is for secure.test (3 TLS handshakes), 0.test, 1.test and 6 more (the certificates",
        )
    });
}

#[test]
fn a_route_that_an_earlier_one_hides_is_a_notice_with_its_line() {
    let answer = "respond = { status = 200, body = \"here\" }";
    let larder = start(&format!(
        "[[site.route]]\nname = \"all\"\npath = \"/*\"\n{answer}\n[[site.route]]\nname = \"api\"\npath = \"/api/*\"\n{answer}\n"
    ));
    let found = state(&larder)["findings"][0].clone();
    assert_eq!("route-unreachable", found["name"]);
    let text = found["sentence"].as_str().unwrap();
    assert!(text.starts_with("route api at ") && text.contains(":9 gets no request (all at "), "{text}");
    assert!(found["view"].as_str().unwrap().ends_with(":9"), "{found}");
}

/// A forgotten maintenance was named by its errors alone.
#[test]
fn a_maintenance_is_a_notice_with_its_line() {
    let answer = "respond = { status = 200, body = \"here\" }";
    let larder = start(&format!(
        "maintenance = {{ enabled = true, allow = [\"10.0.0.0/8\"] }}\n[[site.route]]\nname = \"shop\"\npath = \"/*\"\n{answer}\n\
         [[site.route]]\nname = \"news\"\npath = \"/news\"\n{answer}\nmaintenance.enabled = false\n"
    ));
    let found = state(&larder)["findings"].as_array().unwrap().clone();
    let found = found.iter().find(|it| it["name"] == "maintenance-on").unwrap();
    let text = found["sentence"].as_str().unwrap();
    assert!(text.starts_with("maintenance is on for shop since "), "{text}");
    assert!(
        text.ends_with("); their requests get 503, except from the clients of `maintenance.allow`"),
        "{text}"
    );
    assert!(found["view"].as_str().unwrap().starts_with("config?at="), "{found}");
}

#[test]
fn an_origin_that_is_far_slower_than_the_other_is_a_notice() {
    let page = || Script::Send(response("HTTP/1.1 200 OK\nCache-Control: no-store\n\npage"));
    let slow = Origin::scripted(move |_| vec![Script::Pause(Duration::from_millis(220)), page()]);
    let fast = Origin::scripted(move |_| vec![page()]);
    let larder = start(&format!(
        "[[site.route]]\nname = \"shop\"\npath = \"/*\"\nproxy.to = [{:?}, {:?}]\n",
        slow.url(),
        fast.url()
    ));
    (0..60).for_each(|it| assert_eq!(200, larder.get(&format!("/{it}")).status));
    assert_eq!("Healthy", sentence(&larder), "it has not lasted");
    larder.pass(11_000);
    let text = sentence(&larder);
    let expect = format!(
        "Healthy. Notice: origin {} is slower than the other origins of route shop since ",
        slow.url()
    );
    assert!(text.starts_with(&expect), "{text}");
}

/// The other origin serves a second route, so that the two have different routes.
#[test]
fn a_slow_origin_whose_neighbour_has_another_route_is_a_notice() {
    let page = || Script::Send(response("HTTP/1.1 200 OK\nCache-Control: no-store\n\npage"));
    let slow = Origin::scripted(move |_| vec![Script::Pause(Duration::from_millis(220)), page()]);
    let fast = Origin::scripted(move |_| vec![page()]);
    let larder = start(&format!(
        "[[site.route]]\nname = \"shop\"\npath = \"/shop/*\"\nproxy = {{ to = [{:?}, {:?}], balance = \"round_robin\" }}\n\
         [[site.route]]\nname = \"rest\"\npath = \"/*\"\nproxy.to = [{:?}]\n",
        slow.url(),
        fast.url(),
        fast.url()
    ));
    (0..60).for_each(|it| assert_eq!(200, larder.get(&format!("/shop/{it}")).status));
    assert_eq!("Healthy", sentence(&larder), "it has not lasted");
    larder.pass(11_000);
    let text = sentence(&larder);
    let expect = format!(
        "Healthy. Notice: origin {} is slower than the other origins of route shop since ",
        slow.url()
    );
    assert!(text.starts_with(&expect), "{text}");
}

#[test]
fn pages_that_no_tier_keeps_are_a_notice_about_the_disk_tier() {
    let (folder, origin) = (tempfile::tempdir().unwrap(), of_size());
    let disk = format!(
        "cache.ram.size = \"8MiB\"\n[cache.disk]\npath = {:?}\nsize = \"16MiB\"\nsegment_size = \"1MiB\"\nmin_ttl = \"0s\"\n",
        folder.path().join("disk")
    );
    let larder = Larder::before_with(&origin, "", &disk);
    state(&larder);
    for _ in 0..2 {
        (0..600).for_each(|it| assert_eq!(200, larder.get(&format!("/{}", 60_000 + it)).status));
    }
    assert!(larder.counter("disk_segments_dropped") > 0);
    let text = sentence(&larder);
    assert!(text.starts_with("Healthy. Notice: fresh pages are evicted from the disk tier since "), "{text}");
    let why: Value = serde_json::from_str(&larder.admin_get("/api/v1/advice").text()).unwrap();
    assert!(why.to_string().contains("cache.disk.size"), "{why}");
    until("the minute is over", || {
        larder.pass(61_000);
        sentence(&larder) == "Healthy"
    });
}

/// Sends requests until the finding holds; some of each second are recorded.
fn until_found(larder: &Larder, name: &str, mut request: impl FnMut(usize)) -> Value {
    until(name, || {
        (0..20).for_each(&mut request);
        larder.pass(11_000);
        names(larder).contains(&name.to_owned())
    });
    let found = state(larder)["findings"].as_array().unwrap().clone();
    found.into_iter().find(|it| it["name"] == name).unwrap()
}

#[test]
fn a_route_whose_requests_reach_a_timeout_is_named_beside_a_busy_route() {
    let slow = Origin::scripted(|request| {
        let page = Script::Send(response("HTTP/1.1 200 OK\nCache-Control: no-store\n\npage"));
        if request.target().starts_with("/report") {
            vec![Script::Pause(Duration::from_secs(5)), page]
        } else {
            vec![page]
        }
    });
    let larder = start(&format!(
        "[[site.route]]\nname = \"report\"\npath = \"/report/*\"\nproxy = {{ to = {0:?}, first_byte_timeout = \"20ms\", tries = 1 }}\n\
         [[site.route]]\nname = \"rest\"\npath = \"/*\"\nproxy.to = {0:?}\n",
        slow.url()
    ));
    let found = until_found(&larder, "route-fails", |it| {
        assert_eq!(504, larder.get(&format!("/report/{it}")).status);
        (0..25).for_each(|_| assert_eq!(200, larder.get("/page").status));
    });
    let text = found["sentence"].as_str().unwrap();
    assert!(text.starts_with("most responses of route report are server errors since "), "{text}");
    assert_eq!("live?filter=route == \"report\" && status >= 500", found["view"]);
}

#[test]
fn a_route_whose_files_are_elsewhere_is_a_notice() {
    let folder = tempfile::tempdir().unwrap();
    let larder = start(&format!(
        "[[site.route]]\nname = \"brochures\"\npath = \"/*\"\nfiles.root = {:?}\n",
        folder.path()
    ));
    let found =
        until_found(&larder, "route-rejects", |it| assert_eq!(404, larder.get(&format!("/{it}.pdf")).status));
    let text = found["sentence"].as_str().unwrap();
    assert!(
        text.starts_with("most responses of route brochures have a status of 400 to 499 since "),
        "{text}"
    );
}

#[test]
fn purges_that_the_configuration_refuses_are_no_client_errors() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: max-age=60\n\npage");
    let larder = start(&format!(
        "[[site.route]]\nname = \"catalogue\"\npath = \"/*\"\ncache.purge = {{ method = true, from = [\"10.0.0.0/8\"] }}\nproxy.to = {:?}\n",
        origin.url()
    ));
    let purge = || {
        larder.client().send("PURGE / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n").read().status
    };
    (0..60).for_each(|_| assert_eq!(403, purge()));
    assert_eq!("Healthy", sentence(&larder));
    larder.pass(11_000);
    assert_eq!("Healthy", sentence(&larder));
}

#[test]
fn a_host_that_no_site_has_and_a_proxy_that_is_not_trusted_are_notices() {
    let config = "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"shop.test\"]\n[[site.route]]\npath = \"/*\"\nrespond.status = 204\n";
    let larder = Larder::configured(config.to_owned());
    state(&larder);
    let ask = |host: &str, lines: &str| {
        let head = format!("GET / HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{lines}\r\n");
        larder.client().send(head).read().status
    };
    let found = until_found(&larder, "host-unknown", |_| assert_eq!(404, ask("www.shop.test", "")));
    let text = found["sentence"].as_str().unwrap();
    assert!(text.starts_with("no site has the host www.shop.test (") && text.ends_with("get 404"), "{text}");
    let found = until_found(&larder, "proxy-not-trusted", |it| {
        assert_eq!(204, ask("shop.test", &format!("X-Forwarded-For: 9.9.9.{it}\r\n")));
    });
    let text = found["sentence"].as_str().unwrap();
    assert!(text.starts_with("127.0.0.1 sends X-Forwarded-For, which larder ignores: "), "{text}");
    // The records have times of the wall clock.
    larder.advance(61);
    until("the minute is over", || {
        larder.pass(61_000);
        sentence(&larder) == "Healthy"
    });
}

/// A program that fails ejects no origin, so that the state had no reason.
#[test]
fn the_failure_of_a_program_is_the_reason_of_its_route() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report");
    super::cgi::program(&path, "#!/bin/sh\nexit 3\n");
    let larder =
        start(&format!("[[site.route]]\nname = \"tools\"\npath = \"/*\"\ncgi.root = {:?}\n", folder.path()));
    let mut client = larder.client();
    (0..25).for_each(|_| assert_eq!(502, client.get("/report").status));
    let expect = "; the last failure of tools: the program report ended with status 3 before its response was complete";
    let text = sentence(&larder);
    assert!(text.starts_with("Failing: 100 % of the responses") && text.contains(expect), "{text}");
}

/// The cause was in the error log alone, and the requests were counted as first requests for a page.
#[test]
fn the_error_output_of_a_program_is_in_the_state_unless_it_may_have_a_secret() {
    for (line, expect) in [
        ("REPORT_DB is not set", "; it wrote to its error output: REPORT_DB is not set"),
        ("password=s3cret", ""),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("report");
        super::cgi::program(&path, &format!("#!/bin/sh\necho begins >&2\necho '{line}' >&2\nexit 3\n"));
        let larder = start(&format!(
            "[[site.route]]\nname = \"tools\"\npath = \"/*\"\ncgi.root = {:?}\n",
            folder.path()
        ));
        let mut client = larder.client();
        (0..25).for_each(|_| assert_eq!(502, client.get("/report").status));
        let expect = format!("before its response was complete{expect}");
        until("its output is known", || sentence(&larder).contains(&expect));
        assert!(!state(&larder).to_string().contains("s3cret"));
        let why: Value = serde_json::from_str(&larder.admin_get("/api/v1/why").text()).unwrap();
        let reasons: Vec<&Value> =
            why["routes"][0]["reasons"].as_array().unwrap().iter().map(|it| &it["reason"]).collect();
        assert_eq!(["no-response"], reasons[..], "{why}");
    }
}

/// The only sentence of the first minutes was that no certificate is for the host: an operator would have bought one, and the loop would
/// have stayed.
#[test]
fn a_redirect_loop_behind_an_untrusted_proxy_is_named_and_no_certificate_is() {
    let authority = Authority::new();
    let certificate = authority.sign_with("site", &["old.test"], |_| ());
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\", \"https://127.0.0.1:0\"]\nworkers = 1\n[tls]\ncertificates = [{certificate}]\n\
         [[site]]\nhosts = [\"loop.test\"]\nredirect_https = true\n\
         [[site.route]]\nname = \"loop\"\npath = \"/*\"\nrespond = {{ status = 200, body = \"here\" }}\n",
    ));
    state(&larder);
    for number in 0..12 {
        let mut client = larder.client();
        client.send(format!(
            "GET /x/{} HTTP/1.1\r\nHost: loop.test\r\nX-Forwarded-Proto: https\r\nX-Forwarded-For: 203.0.113.{number}\r\n\r\n",
            number % 3
        ));
        assert_eq!(308, client.read().status);
    }
    larder.pass(11_000);
    // A look at the advice judges the recorded requests, as the server does every ten seconds.
    until("the loop is named", || {
        assert_eq!(200, larder.admin_get("/api/v1/advice").status);
        names(&larder) == ["proxy-redirect-loop"]
    });
    let text = sentence(&larder);
    assert!(
        text.starts_with("Degraded: the clients of 127.0.0.1 are redirected in a loop by route loop since ")
            && text.contains("(12 of its 12 recent requests say X-Forwarded-Proto: https, and `redirect_https` of its site redirects them to https)"),
        "{text}"
    );
}

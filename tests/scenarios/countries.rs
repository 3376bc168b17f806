//! The country of a client in conditions, access rules, variables and keys; databases that are replaced while larder runs.

use crate::harness::command::run;
use crate::harness::http2::{Http2, request};
use crate::harness::mmdb::{asn, country, database};
use crate::harness::{Larder, Origin, Response, until};
use std::path::Path;
use std::process::Command;

/// Addresses for documentation, in three countries and a network without one.
const GERMAN: &str = "192.0.2.7";
const FRENCH: &str = "198.51.100.7";
const DUTCH: &str = "2001:db8::7";
const PRIVATE: &str = "10.1.2.3";

fn countries() -> Vec<u8> {
    database(&[
        ("192.0.2.0/24", country("DE")),
        ("198.51.100.0/24", country("FR")),
        ("2001:db8::/32", country("NL")),
        ("203.0.113.0/24", country("DE")),
    ])
}

/// A larder that trusts the test to name its clients, and whose site has these lines.
fn larder(folder: &Path, origin: &Origin, site: &str) -> Larder {
    std::fs::write(folder.join("country.mmdb"), countries()).unwrap();
    std::fs::write(
        folder.join("asn.mmdb"),
        database(&[("198.51.100.0/24", asn(64_496)), ("203.0.113.0/24", asn(64_496))]),
    )
    .unwrap();
    let site = site.replace("{origin}", &origin.url());
    Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 2\nclients.trusted = [\"127.0.0.1\"]\n\
         geoip = {{ database = \"{0}/country.mmdb\", asn_database = \"{0}/asn.mmdb\" }}\n\
         [[site]]\nhosts = [\"*\"]\n{site}\n",
        folder.display()
    ))
}

fn from(larder: &Larder, client: &str, path: &str) -> Response {
    larder.client().get_with(path, &format!("X-Forwarded-For: {client}\r\n"))
}

const PAGE: &str = "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\npage";

#[test]
fn access_by_country_on_hits_as_on_misses() {
    let (origin, folder) = (Origin::fixed(PAGE), tempfile::tempdir().unwrap());
    let larder = larder(
        folder.path(),
        &origin,
        "[[site.route]]\npath = \"/only\"\nproxy = { to = [\"{origin}\"] }\naccess = { allow = [\"10.9.0.0/16\", \"country:DE\"] }\n\
         [[site.route]]\npath = \"/but\"\nproxy = { to = [\"{origin}\"] }\naccess = { deny = [\"country:DE\", \"asn:64496\"] }\n\
         [[site.route]]\npath = \"/when\"\nproxy = { to = [\"{origin}\"] }\naccess = { allow_when = 'country in [\"DE\", \"NL\"] && asn != 1 || country == \"\"' }\n",
    );
    for _ in 0..2 {
        let of = |path: &str| [GERMAN, FRENCH, DUTCH, PRIVATE].map(|it| from(&larder, it, path).status);
        assert_eq!([200, 403, 403, 403], of("/only"));
        assert_eq!([403, 403, 200, 200], of("/but"));
        // The number of an address without one is unknown: every test of it is false.
        assert_eq!([403, 403, 403, 200], of("/when"));
        assert_eq!(200, from(&larder, "::ffff:192.0.2.9", "/only").status);
        assert_eq!(200, from(&larder, "10.9.1.1", "/only").status);
        let mut over = Http2::connect(&larder);
        let stream = over.head(&request("GET", "/only", &[("x-forwarded-for", FRENCH)]), 5);
        assert_eq!(403, over.answer(stream).status);
    }
    assert_eq!(3, origin.requests());
}

#[test]
fn routes_and_variables_by_country() {
    let origin = Origin::new(|it| {
        format!(
            "HTTP/1.1 200 OK\nCache-Control: max-age=600\n\n{} {}",
            it.target(),
            it.field("x-country").unwrap_or("none")
        )
    });
    let folder = tempfile::tempdir().unwrap();
    let larder = larder(
        folder.path(),
        &origin,
        "response_headers = { set = { \"X-Seen\" = \"{country}/{asn}\" } }\n\
         [[site.route]]\npath = \"/german\"\nwhen = 'country == \"DE\"'\nproxy = { to = [\"{origin}\"] }\n\
         [[site.route]]\npath = \"/shop\"\nredirect = { to = \"/shop/{country}\", status = 302 }\n\
         [[site.route]]\npath = \"/keyed\"\nproxy = { to = [\"{origin}\"] }\nrewrite = \"/for/{country}\"\n\
         request_headers = { set = { \"X-Country\" = \"{country}\" } }\ncache = { key = { country = true } }\n\
         [[site.route]]\nproxy = { to = [\"{origin}\"] }\nrequest_headers = { set = { \"X-Country\" = \"{country}\" } }\n",
    );
    let seen = |client: &str, path: &str| from(&larder, client, path).field("x-seen").unwrap().to_owned();
    // One stored page, with the country of each client in its fields.
    assert_eq!(["DE/", "FR/64496", "NL/", "/"], [GERMAN, FRENCH, DUTCH, PRIVATE].map(|it| seen(it, "/page")));
    assert_eq!(1, origin.requests());
    // What the key does not determine is not sent, and no field of a client counts.
    assert_eq!("/page none", from(&larder, GERMAN, "/page").text());
    let location = |client| from(&larder, client, "/shop").field("location").unwrap().to_owned();
    assert_eq!(["/shop/DE", "/shop/"], [GERMAN, PRIVATE].map(location));
    // The routes of two conditions do not share a page.
    assert_eq!("/german none", from(&larder, GERMAN, "/german").text());
    assert!(from(&larder, GERMAN, "/german").is_hit() && !from(&larder, FRENCH, "/german").is_hit());
    for _ in 0..2 {
        let text = |client| from(&larder, client, "/keyed").text();
        assert_eq!(["/for/DE DE", "/for/FR FR", "/for/ none"], [GERMAN, FRENCH, PRIVATE].map(text));
    }
    let forged =
        larder.client().get_with("/keyed", &format!("X-Forwarded-For: {FRENCH}\r\nX-Country: DE\r\n"));
    assert!(forged.is_hit() && forged.text() == "/for/FR FR");
    let bypassing =
        larder.client().get_with("/page", &format!("X-Forwarded-For: {FRENCH}\r\nAuthorization: x\r\n"));
    assert_eq!("/page none", bypassing.text());
    assert_eq!(
        "/page FR",
        larder.client().request("POST", "/page", &format!("X-Forwarded-For: {FRENCH}\r\n"), "").text()
    );
    assert_eq!(400, larder.client().get_with("/keyed", ":country: NL\r\n").status);
}

/// larder that denies clients in Germany.
fn denying_germany(folder: &Path, origin: &Origin) -> Larder {
    let route = "[[site.route]]\nproxy = { to = [\"{origin}\"] }\naccess = { deny = [\"country:DE\"] }\n";
    larder(folder, origin, route)
}

#[test]
fn a_replaced_database_is_read_and_a_broken_one_is_not() {
    let (origin, folder) = (Origin::fixed(PAGE), tempfile::tempdir().unwrap());
    let larder = denying_germany(folder.path(), &origin);
    let status = |client| from(&larder, client, "/").status;
    assert_eq!([403, 200], [GERMAN, FRENCH].map(status));
    let file = folder.path().join("country.mmdb");
    let replace = |bytes: &[u8]| {
        std::fs::write(folder.path().join("new"), bytes).unwrap();
        std::fs::rename(folder.path().join("new"), &file).unwrap();
    };
    replace(&countries()[..100]);
    until("the broken file is noticed", || larder.counter("access_files_broken") == 1);
    let is_shown = || {
        let response = larder.admin_get("/api/v1/health").text();
        response.contains("access-file-broken") && response.contains("the previous database stays in use")
    };
    assert!(is_shown());
    assert_eq!([403, 200], [GERMAN, FRENCH].map(status));
    replace(&database(&[("198.51.100.0/24", country("DE"))]));
    until("the new file is read", || status(FRENCH) == 403);
    assert_eq!(200, status(GERMAN));
    assert!(!is_shown());
    std::fs::remove_file(&file).unwrap();
    until("its absence is noticed", || larder.counter("access_files_broken") == 2);
    assert_eq!([200, 403], [GERMAN, FRENCH].map(status));
    assert!(is_shown());
}

/// A reload keeps a database whose file is broken, and reads only files with a new path.
#[test]
fn a_reload_with_a_broken_database_keeps_the_previous_one() {
    let (origin, folder) = (Origin::fixed(PAGE), tempfile::tempdir().unwrap());
    let larder = denying_germany(folder.path(), &origin);
    let status = |client| from(&larder, client, "/").status;
    let file = folder.path().join("country.mmdb");
    std::fs::write(&file, "garbage").unwrap();
    let text = std::fs::read_to_string(larder.config()).unwrap();
    // Also a change of the databases themselves.
    std::fs::copy(folder.path().join("asn.mmdb"), folder.path().join("asn2.mmdb")).unwrap();
    let stricter = text.replace("country:DE", "country:DE\", \"asn:64496").replace("/asn.mmdb", "/asn2.mmdb");
    std::fs::write(larder.config(), stricter).unwrap();
    until("the stricter rule is in force", || status(FRENCH) == 403);
    assert_eq!([403, 200], [GERMAN, DUTCH].map(status));
    assert_eq!(0, larder.counter("config_rejections"));
    let health = || larder.admin_get("/api/v1/health").text();
    until("the broken file is shown", || health().contains("access-file-broken"));
    std::fs::write(&file, database(&[("2001:db8::/32", country("DE"))])).unwrap();
    until("the repaired file is read", || status(DUTCH) == 403);
    assert_eq!(200, status(GERMAN));
    assert!(!health().contains("access-file-broken"), "{}", health());
}

/// The databases of these tests are those of the format: another reader finds the same.
#[test]
fn mmdblookup_agrees_on_the_country() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("country.mmdb");
    std::fs::write(&file, countries()).unwrap();
    for (address, expect) in
        [(GERMAN, Some("DE")), (FRENCH, Some("FR")), (DUTCH, Some("NL")), (PRIVATE, None)]
    {
        let mut command = Command::new("mmdblookup");
        command.arg("--file").arg(&file).args(["--ip", address, "country", "iso_code"]);
        let found = command.output().expect("mmdb-bin is installed");
        let text = String::from_utf8_lossy(&found.stdout).into_owned();
        assert_eq!(expect, text.split('"').nth(1), "{address}");
    }
}

/// The networks of one country, or of one autonomous system, have one budget; a client without either has that of its network.
#[test]
fn a_budget_of_misses_is_that_of_a_country_or_an_autonomous_system() {
    for (by, one, same, other) in [
        ("country", GERMAN, "203.0.113.7", FRENCH),
        ("country", DUTCH, "2001:db8:9::1", GERMAN),
        ("asn", FRENCH, "203.0.113.7", GERMAN),
        ("country", PRIVATE, "10.1.2.99", "10.1.3.3"),
        ("asn", PRIVATE, "10.1.2.99", "10.1.3.3"),
    ] {
        let (origin, folder) = (Origin::fixed(PAGE), tempfile::tempdir().unwrap());
        let larder = larder(
            folder.path(),
            &origin,
            &format!(
                "access.budget = {{ misses = \"1/h\", burst = 1, by = \"{by}\" }}\n[[site.route]]\nproxy = {{ to = [\"{{origin}}\"] }}\n"
            ),
        );
        let check = run(larder.folder.path(), &["check"]);
        assert!(check.out.contains("access: budget 1/h"), "{check:?}");
        larder.hold();
        assert_eq!(
            [200, 200],
            [from(&larder, one, "/a"), from(&larder, same, "/b")].map(|it| it.status),
            "{by}: {one}"
        );
        let refused = from(&larder, one, "/c");
        assert_eq!((429, "larder; detail=miss-budget"), (refused.status, refused.cache()), "{by}: {one}");
        assert_eq!(429, from(&larder, same, "/c").status, "{by}: {same}");
        assert!(from(&larder, same, "/a").is_hit(), "hits are free");
        assert_eq!(200, from(&larder, other, "/c").status, "{by}: {other}");
        assert!(from(&larder, one, "/c").is_hit());
        assert_eq!(3, origin.requests());
    }
}

//! The databases of countries, and the values that need them.

use super::*;

#[path = "../../../tests/harness/mmdb.rs"]
mod mmdb;

/// The files of two databases.
pub fn databases() -> [(&'static str, Vec<u8>); 2] {
    [
        ("country.mmdb", mmdb::database(&[("192.0.2.0/24", mmdb::country("DE"))])),
        ("asn.mmdb", mmdb::database(&[("192.0.2.0/24", mmdb::asn(64_496))])),
    ]
}

/// The problems of a configuration with these top lines and lines of its route, in a folder with databases.
fn problems(top: &str, route: &str) -> Vec<String> {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: Vec<u8>| std::fs::write(folder.path().join(name), bytes).unwrap();
    databases().into_iter().for_each(|(name, bytes)| write(name, bytes));
    write("text.mmdb", b"no database".to_vec());
    let text = format!("{top}\n{SITE}{route}\n");
    match Config::from_text(&text, "t.toml", folder.path(), &[]) {
        Ok(_) => Vec::new(),
        Err(it) => it
            .to_string()
            .replace(&format!("{}/", folder.path().display()), "")
            .lines()
            .map(str::to_owned)
            .collect(),
    }
}

#[test]
fn a_value_that_needs_a_database_is_wrong_without_one() {
    let by_country =
        "the country of a client is unknown without a database; add geoip.database = \"FILE.mmdb\"";
    let by_number = "the autonomous system of a client is unknown without a database; add geoip.asn_database = \"FILE.mmdb\"";
    let both = "geoip = { database = \"country.mmdb\", asn_database = \"asn.mmdb\" }";
    for (route, key, why) in [
        ("when = 'country == \"DE\"'", "site.route.when", by_country),
        ("when = '!(asn == 1)'", "site.route.when", by_number),
        (
            "access = { deny_when = 'method == \"GET\" && country != \"DE\"' }",
            "site.route.access.deny_when",
            by_country,
        ),
        ("access = { allow = [\"10.0.0.0/8\", \"country:DE\"] }", "site.route.access.allow", by_country),
        ("access = { deny = [\"asn:64496\"] }", "site.route.access.deny", by_number),
        (
            "response_headers = { set = { X-A = \"{country}\" } }",
            "site.route.response_headers.set",
            by_country,
        ),
        ("request_headers = { set = { X-A = \"a{asn}\" } }", "site.route.request_headers.set", by_number),
        ("cache = { key = { country = true } }", "site.route.cache.key.country", by_country),
    ] {
        assert_eq!([format!("t.toml:7: {key}: {why}")][..], problems("", route), "{route}");
        assert_eq!([""; 0][..], problems(both, route), "{route}");
    }
    assert_eq!(
        [format!("t.toml:1: cache.key.country: {by_country}")][..],
        problems("cache.key.country = true", "")
    );
    assert_eq!(
        [""; 0][..],
        problems("cache.key.country = false", "response_headers = { set = { X-A = \"{{country}}\" } }")
    );
}

#[test]
fn a_file_that_is_no_such_database_is_wrong() {
    for (key, file, expect) in [
        ("database", "absent.mmdb", "absent.mmdb: no such file or directory"),
        ("database", "text.mmdb", "text.mmdb: it is no MaxMind database (.mmdb)"),
        ("database", "asn.mmdb", "asn.mmdb: it has no countries; use a database of countries or cities"),
        (
            "asn_database",
            "country.mmdb",
            "country.mmdb: it has no numbers of autonomous systems; use an ASN database",
        ),
    ] {
        let found = problems(&format!("geoip.{key} = \"{file}\""), "");
        assert_eq!(1, found.len(), "{found:?}");
        let expect = format!("t.toml:1: geoip.{key}: {expect}");
        assert!(found[0].to_lowercase().starts_with(&expect.to_lowercase()), "{found:?}");
    }
}

#[test]
fn members_of_access_lists() {
    for (text, is_one) in [
        ("country:DE", true),
        ("country:de", false),
        ("country:DEU", false),
        ("country:", false),
        ("asn:64496", true),
        ("asn:AS64496", false),
        ("asn:-1", false),
        ("asn:+1", false),
        ("asn:", false),
        ("asn:4294967296", false),
        ("unix", true),
        ("2001:db8::/32", true),
    ] {
        assert_eq!(is_one, crate::access::AccessMember::parse(text).is_some(), "{text}");
    }
}

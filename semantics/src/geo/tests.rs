//! Lookups in databases that are made here, and in corrupt ones.

use super::mmdb::{MmdbValue, asn, country, database};
use super::*;

fn made() -> Vec<u8> {
    database(&[
        ("192.0.2.0/24", country("DE")),
        ("192.0.2.128/25", country("fr")),
        ("2001:db8::/32", country("NL")),
        ("2001:db8:7::/48", country("X")),
        ("198.51.100.0/24", MmdbValue::Map(vec![("country_code", MmdbValue::Text("AT"))])),
        ("203.0.113.0/24", MmdbValue::Map(vec![("country", MmdbValue::Text("Italy"))])),
    ])
}

#[track_caller]
fn check(lookup: &GeoLookup, address: &str, expect: &str) {
    let found = lookup.country(address.parse().unwrap());
    assert_eq!(expect, found.map_or(String::new(), |it| it.to_string()), "{address}");
}

#[test]
fn countries_of_addresses() {
    let lookup = GeoLookup::new(Some(GeoDatabase::parse(made()).unwrap()), None);
    check(&lookup, "192.0.2.1", "DE");
    check(&lookup, "192.0.2.200", "FR");
    check(&lookup, "::ffff:192.0.2.1", "DE");
    check(&lookup, "2001:db8::1", "NL");
    check(&lookup, "2001:db8:7::1", "");
    check(&lookup, "198.51.100.9", "AT");
    check(&lookup, "203.0.113.9", "");
    check(&lookup, "10.0.0.1", "");
    check(&lookup, "127.0.0.1", "");
    check(&lookup, "::1", "");
    assert_eq!(None, lookup.asn("192.0.2.1".parse().unwrap()));
    lookup.replace_countries(GeoDatabase::parse(database(&[("192.0.2.0/24", country("CH"))])).unwrap());
    check(&lookup, "192.0.2.200", "CH");
}

#[test]
fn numbers_of_autonomous_systems() {
    let text = MmdbValue::Map(vec![("asn", MmdbValue::Text("AS64497"))]);
    let made = database(&[("192.0.2.0/24", asn(64_496)), ("2001:db8::/32", text)]);
    let database = GeoDatabase::parse(made).unwrap();
    assert!(database.has_numbers() && !database.has_countries());
    let lookup = GeoLookup::new(None, Some(database));
    let of = |it: &str| lookup.asn(it.parse().unwrap());
    assert_eq!((Some(64_496), Some(64_497), None), (of("192.0.2.1"), of("2001:db8::1"), of("10.0.0.1")));
    assert_eq!(None, lookup.country("192.0.2.1".parse().unwrap()));
}

#[test]
fn a_malformed_geo_database_is_rejected() {
    for bytes in [&b""[..], b"not a database", &made()[..200], b"\xab\xcd\xefMaxMind.com"] {
        assert!(GeoDatabase::parse(bytes.to_vec()).is_err());
    }
    assert!(!GeoDatabase::parse(database(&[])).unwrap().has_countries());
}

/// Every byte of a database is changed in several ways: each lookup returns something.
#[test]
fn a_corrupt_database_is_no_danger() {
    let good = made();
    let addresses =
        ["192.0.2.1", "192.0.2.200", "2001:db8::1", "198.51.100.9", "203.0.113.9", "::", "255.255.255.255"];
    let addresses: Vec<IpAddr> = addresses.iter().map(|it| it.parse().unwrap()).collect();
    let mut usable = 0;
    for at in 0..good.len() {
        for change in [1, 0x20, 0x80, 0xff] {
            let mut bytes = good.clone();
            bytes[at] ^= change;
            let Ok(database) = GeoDatabase::parse(bytes) else { continue };
            usable += 1;
            let _ = (database.has_countries(), database.has_numbers());
            let lookup = GeoLookup::new(Some(database), None);
            let _: Vec<_> = addresses.iter().map(|it| lookup.country(*it)).collect();
        }
        let _ = GeoDatabase::parse(good[..at].to_vec()).map(|it| it.has_countries());
    }
    assert!(usable > good.len(), "most changes are found in a lookup alone: {usable}");
}

/// Conditions, templates and keys read the databases through the view of a request.
#[test]
fn a_request_knows_its_country() {
    use crate::expression::{Expression, ExpressionSubject};
    use crate::field::Field;
    use crate::key::KeyRecipe;
    use crate::request_fields::undetermined;
    use crate::request_view::RequestView;
    use crate::template::{Template, TemplateInput};
    let countries = GeoDatabase::parse(made()).unwrap();
    let numbers = GeoDatabase::parse(database(&[("192.0.2.0/24", asn(64_496))])).unwrap();
    let lookup = GeoLookup::new(Some(countries), Some(numbers));
    let of = |client: &str| RequestView {
        client: client.parse().ok(),
        geo: Some(&lookup),
        ..RequestView::default()
    };
    let holds = |text: &str, view: RequestView<'_>| {
        Expression::parse_about(ExpressionSubject::Request, text).unwrap().holds(&view)
    };
    let (here, away, socket) = (of("::ffff:192.0.2.1"), of("10.0.0.1"), of("none"));
    assert!(holds("country == \"DE\" && asn == 64496 && country in [\"AT\", \"DE\"]", here));
    assert!(!holds("country == \"DE\" || asn > 0 || asn != 1", away));
    assert!(holds("country == \"\" && country != \"DE\" && !(asn == 64496)", away));
    assert!(holds("country == \"\"", socket));
    assert!(holds("country == \"\"", RequestView { geo: None, ..here }));
    let text = |view| {
        let mut out = Vec::new();
        Template::parse("<{country} {asn}>").unwrap().expand(&view, &mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(["<DE 64496>", "< >", "< >"], [here, away, socket].map(text));
    let keyed = [Field { name: COUNTRY_FIELD, value: b"NL" }];
    assert_eq!("<NL 64496>", text(RequestView { fields: &keyed, ..here }));
    let template = Template::parse("{country}").unwrap();
    let mut key = KeyRecipe::default();
    assert_eq!(Some(TemplateInput::Country), undetermined(&template, &key));
    key.headers.push(COUNTRY_FIELD.to_owned());
    assert_eq!(None, undetermined(&template, &key));
    assert_eq!(Some(TemplateInput::Asn), undetermined(&Template::parse("{asn}").unwrap(), &key));
}

/// Every network of a large database is found. The figure: `cargo test --profile trial -p larder-semantics --lib
/// every_network_is_found -- --nocapture`.
#[test]
fn every_network_is_found() {
    let (count, rounds) = if cfg!(debug_assertions) { (2_000, 10_000) } else { (200_000, 2_000_000) };
    let codes = ["DE", "FR", "NL", "US"];
    let network = |it: u32| std::net::Ipv4Addr::from((it % count).wrapping_mul(40_503) << 8);
    let networks: Vec<String> = (0..count).map(|it| format!("{}/24", network(it))).collect();
    let rows: Vec<_> =
        networks.iter().enumerate().map(|(at, it)| (it.as_str(), country(codes[at % 4]))).collect();
    let lookup = GeoLookup::new(Some(GeoDatabase::parse(database(&rows)).unwrap()), None);
    let before = larder_stdx::clock::precise_micros();
    let mut found = 0_u32;
    for it in 0..rounds {
        found += u32::from(lookup.country(network(it).into()).is_some());
    }
    let micros = larder_stdx::clock::precise_micros() - before;
    println!("{} ns a lookup", micros * 1000 / u64::from(rounds));
    assert_eq!(rounds, found);
}

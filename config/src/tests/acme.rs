//! The section `[tls.acme]`: the names that get a certificate, and mistakes.

use super::*;

fn with(acme: &str, hosts: &str) -> String {
    format!(
        "listen = [\"0.0.0.0:80\", \"https://0.0.0.0:443\"]\n[tls.acme]\n{acme}\n[[site]]\nhosts = {hosts}\n[[site.route]]\nproxy.to = \":8000\"\n"
    )
}

#[track_caller]
fn names(acme: &str, hosts: &str, expect: &[&str]) {
    let config = read(&with(&format!("folder = \"/acme\"\n{acme}"), hosts)).unwrap();
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    assert_eq!(expect, config.tls.unwrap().acme.unwrap().names, "{acme} {hosts}");
}

#[track_caller]
fn wrong(acme: &str, hosts: &str, expect: &str) {
    let text = read(&with(acme, hosts)).map(drop).unwrap_err().to_string();
    assert!(text.contains(expect) && text.contains("t.toml:"), "{text}");
}

#[test]
fn hosts_of_sites_get_certificates() {
    names("", "[\"B.test\", \"a.test\"]", &["a.test", "b.test"]);
    names(
        "email = \"a@b.test\"",
        "[\"a.test\", \"*\", \"localhost\", \"10.0.0.1\", \"[::1]\", \"a.local\"]",
        &["a.test"],
    );
    names("", "[\"A.test.\", \"db.internal\", \"nas.home.arpa.\"]", &["a.test"]);
    names("names = [\"C.test.\"]", "\"a.test\"", &["c.test"]);
    names("names = [\"c.test\"]", "[\"a.test\", \"*.b.test\"]", &["c.test"]);
    names("names = [\"intern\"]\n[[tls.acme.ca]]\ndirectory = \"https://ca.test/d\"", "\"*\"", &["intern"]);
    let config = read(&with("folder = \"/acme\"", "\"a.test\"")).unwrap().tls.unwrap().acme.unwrap();
    let urls: Vec<_> = config.authorities.iter().map(|it| it.directory.url()).collect();
    assert_eq!(["https://acme-v02.api.letsencrypt.org/directory"], urls[..]);
    assert_eq!(std::path::Path::new("/acme"), config.folder);
}

#[test]
fn mistakes_about_certificates_by_acme() {
    wrong(
        "",
        "\"*.b.test\"",
        "site.hosts: \"*.b.test\" gets no certificate by tls.acme: a wildcard needs the DNS-01 challenge",
    );
    wrong(
        "names = [\"*.b.test\"]",
        "\"a.test\"",
        "tls.acme.names: \"*.b.test\": a wildcard needs the DNS-01 challenge",
    );
    wrong("names = [\"10.0.0.1\"]", "\"a.test\"", "for host names only, not for addresses");
    wrong("names = [\"intern\"]", "\"a.test\"", "no public CA signs a name without a dot");
    wrong(
        "names = [\"a_b.test\"]",
        "\"a.test\"",
        "\"a_b.test\": no public CA signs a name with an underscore",
    );
    wrong("names = [\"a.localhost\"]", "\"a.test\"", "\"a.localhost\": it is not a name of the public DNS");
    wrong("names = [\"-a.test\"]", "\"a.test\"", "\"-a.test\": it is not a name of the public DNS");
    wrong("", "\"*\"", "tls.acme: no site has a host name");
    wrong("email = \"a\"", "\"a.test\"", "an email address");
    wrong("[[tls.acme.ca]]\nprofile = \"a\"", "\"a.test\"", "tls.acme.ca.directory: missing");
    let ca = "[[tls.acme.ca]]\ndirectory = \"https://ca.test/d\"\n";
    wrong(&format!("{ca}{ca}"), "\"a.test\"", "the same CA twice");
    wrong(&format!("{ca}eab_id = \"a\""), "\"a.test\"", "has no effect without eab_key");
    wrong(&format!("{ca}eab_key = \"abcd\""), "\"a.test\"", "has no effect without eab_id");
    wrong(&format!("{ca}eab_id = \"a\"\neab_key = \"*\""), "\"a.test\"", "it is not base64url");
    wrong("dns_provider = \"x\"", "\"a.test\"", "larder has no DNS-01 challenge");
}

#[test]
fn settings_of_acme_that_probably_lack_something() {
    #[track_caller]
    fn warned(from: &str, to: &str, expect: &str) {
        let config = read(&with("folder = \"/acme\"", "\"a.test\"").replace(from, to)).unwrap();
        assert_eq!(1, config.warnings.len(), "{:?}", config.warnings);
        assert!(config.warnings[0].to_string().contains(expect), "{}", config.warnings[0]);
    }
    warned(
        "\"0.0.0.0:80\", \"https://0.0.0.0:443\"",
        "\"0.0.0.0:8080\", \"https://0.0.0.0:8443\"",
        "validate a name by a request to its port 80 (HTTP-01) or a handshake at its port 443 (TLS-ALPN-01)",
    );
    warned("\"a.test\"", "[\"a.test\", \"a_b.test\"]", "\"a_b.test\" gets no certificate by tls.acme");
    warned("https://0.0.0.0:443", "0.0.0.0:443", "no address of listen uses TLS");
    let ca = "[tls.acme]\n[[tls.acme.ca]]\ndirectory = \"http://ca.test/d\"\n[tls.acme]\n";
    let text = with("", "\"a.test\"").replace("[tls.acme]\n", ca.trim_end_matches("[tls.acme]\n"));
    assert!(
        read(&text)
            .unwrap()
            .warnings
            .iter()
            .any(|it| it.to_string().contains("the CA is not reached by TLS"))
    );
}

#[test]
fn nodes_of_a_fleet_need_the_same_secret() {
    const FLEET: &str = "[cache.fleet]\nservers = [\"127.0.0.1:11211\"]\n";
    const SECRET: &str = "0123456789abcdef0123456789abcdef";
    let config = |key: &str, fleet: &str| {
        let text = with(&format!("folder = \"/acme\"\n{key}"), "\"a.test\"");
        read(&text.replace("[tls.acme]", &format!("{fleet}[tls.acme]"))).map_err(|it| it.to_string())
    };
    let key = format!("fleet_key = \"{SECRET}\"");
    let found = config(&key, FLEET).unwrap();
    let is_about_the_file =
        |it: &crate::Problem| it.to_string().contains("the secret is in the text of the file");
    assert!(found.warnings.iter().all(is_about_the_file), "{:?}", found.warnings);
    let acme = found.tls.unwrap().acme.unwrap();
    assert_eq!(Some(SECRET), acme.fleet_key.as_ref().map(|it| it.expose()));
    assert!(!format!("{acme:?}").contains(SECRET), "it is hidden");

    let given = config("", FLEET).unwrap();
    assert_eq!(1, given.warnings.len(), "{:?}", given.warnings);
    let warning = given.warnings[0].to_string();
    assert!(
        warning.contains("tls.acme.fleet_key: missing") && warning.contains("openssl rand -hex 32"),
        "{warning}"
    );

    let unused = config(&key, "").unwrap();
    let is_unused =
        |it: &crate::Problem| it.to_string().contains("has no effect without cache.fleet.servers");
    assert!(unused.warnings.iter().any(is_unused), "{:?}", unused.warnings);
    assert_eq!(None, unused.tls.unwrap().acme.unwrap().fleet_key);

    let short = config("fleet_key = \"0123456789abcdef0123456789abcde\"", FLEET).map(drop).unwrap_err();
    assert!(short.contains("shorter than 32 characters") && !short.contains("0123456789"), "{short}");
    assert!(config("", "").unwrap().warnings.is_empty());
}

#[test]
fn the_key_of_an_external_account_is_read_as_cas_print_it() {
    let key = |text: &str| {
        tls::ExternalBinding { id: "a".into(), key: larder_stdx::secret::Secret::new(text) }.key()
    };
    for text in ["-_8", "-_8=", "+/8", " +/8=\n"] {
        assert_eq!(Some(vec![0xfb, 0xff]), key(text), "{text}");
    }
    assert_eq!([None, None], ["", "*"].map(key));
}

#[test]
fn a_ca_validates_where_it_reaches_larder() {
    use crate::tls::AcmeChallenge::{Http01, TlsAlpn01};
    for (listen, expect) in [
        ("\"0.0.0.0:80\", \"https://0.0.0.0:443\"", &[Http01, TlsAlpn01][..]),
        ("\"0.0.0.0:8080\", \"https://0.0.0.0:443\"", &[TlsAlpn01, Http01]),
        ("\"0.0.0.0:8080\", \"https://0.0.0.0:8443\"", &[Http01, TlsAlpn01]),
        ("\"unix:/run/l\", \"https://0.0.0.0:8443\"", &[Http01, TlsAlpn01]),
        ("\"0.0.0.0:80\", \"https://0.0.0.0:8443\"", &[Http01, TlsAlpn01]),
        ("\"https://0.0.0.0:443\"", &[TlsAlpn01]),
    ] {
        let text = with("folder = \"/acme\"", "\"a.test\"")
            .replace("\"0.0.0.0:80\", \"https://0.0.0.0:443\"", listen);
        assert_eq!(expect, read(&text).unwrap().tls.unwrap().acme.unwrap().challenges, "{listen}");
    }
}

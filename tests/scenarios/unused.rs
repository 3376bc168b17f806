//! The messages of `larder check` about settings without effect, and routes without the settings of their site.

use crate::harness::command::run;
use crate::harness::http2::Http2;
use crate::harness::{Client, Larder, Origin};

/// The errors of `larder check` and of `larder run` about this file.
#[track_caller]
fn refused(config: &str, expect: &str) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("larder.toml"), config).unwrap();
    let ended = run(folder.path(), &["check"]);
    assert_eq!((2, ""), (ended.code, ended.out.as_str()), "{ended:?}");
    assert!(ended.err.contains(expect), "{}", ended.err);
}

#[test]
fn an_empty_list_of_users_does_not_open_a_route() {
    for rule in ["basic = { users = [] }", "basic = {}", "allow = []"] {
        let config =
            format!("[[site]]\nhosts = \"*\"\n[[site.route]]\nproxy.to = \":1\"\naccess = {{ {rule} }}\n");
        refused(&config, "larder.toml:5: site.route.access.");
    }
}

#[test]
fn a_log_that_cannot_be_opened_is_found_before_the_start() {
    let site = "[[site]]\nhosts = \"*\"\naccess_log = \"no/s.log\"\n[[site.route]]\nproxy.to = \":1\"\n";
    refused(
        &format!("log.access = \"gone/a.log\"\n{site}"),
        "larder.toml:1: log.access: ./gone/a.log cannot be created",
    );
    refused(site, "larder.toml:3: site.access_log: ./no/s.log cannot be created");
}

/// Another server may answer on the port of https, so it is no error.
#[test]
fn a_redirect_to_https_without_tls_is_a_warning() {
    let folder = tempfile::tempdir().unwrap();
    let config = "[[site]]\nhosts = \"*\"\nredirect_https = true\n[[site.route]]\nproxy.to = \":1\"\n";
    std::fs::write(folder.path().join("larder.toml"), config).unwrap();
    let ended = run(folder.path(), &["check"]);
    assert_eq!(0, ended.code, "{ended:?}");
    let said = format!("{}{}", ended.out, ended.err);
    assert!(said.contains("larder.toml:3: site.redirect_https: no address of listen has TLS"), "{said}");
}

#[test]
fn a_port_alone_is_every_interface() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\n\nhere");
    let larder = Larder::configured(format!(
        "listen = [\":0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\nproxy = {{ to = [\"{}\"] }}\n",
        origin.url()
    ));
    let other = std::net::SocketAddr::from(([127, 0, 0, 2], larder.address.port()));
    assert_eq!("here", Client::connect(other).get("/").text());
}

#[test]
fn a_route_is_without_the_rules_of_its_site() {
    let origin = Origin::fixed("HTTP/1.1 200 OK\nCache-Control: public, max-age=600\n\npage");
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\ncsp = \"default-src 'self'\"\naccess = {{ deny = [\"127.0.0.1\"] }}\n\
         [[site.route]]\npath = \"/open/*\"\nproxy = {{ to = [\"{0}\"] }}\naccess = {{ inherit = false }}\ncsp = \"off\"\n\
         [[site.route]]\nproxy = {{ to = [\"{0}\"] }}\n",
        origin.url()
    ));
    let refused = larder.get("/a");
    assert_eq!((403, Some("default-src 'self'")), (refused.status, refused.field("content-security-policy")));
    let mut http2 = Http2::connect(&larder);
    for hit in [false, true] {
        let open = larder.get("/open/a");
        assert_eq!((200, hit, None), (open.status, open.is_hit(), open.field("content-security-policy")));
        assert_eq!(403, larder.get("/a").status);
        assert_eq!(403, http2.get("/a").status);
    }
    let open = http2.get("/open/a");
    assert_eq!((200, None), (open.status, open.field("content-security-policy")));
    assert_eq!(1, origin.requests());
}

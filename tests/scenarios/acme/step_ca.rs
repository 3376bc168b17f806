//! The same with smallstep's CA: another server of the protocol, with intermediate certificates, no profiles and no suggested renewals.

use super::pebble::without_certificates;
use super::{certificates, config, secure_address, site};
use crate::harness::secure::Secure;
use crate::harness::step_ca::StepCa;
use crate::harness::{Larder, until};

fn connect(ca: &StepCa, larder: &Larder, name: &str) -> std::io::Result<Secure> {
    ca.authority.trusting().connect(secure_address(larder), name)
}

/// By HTTP-01 with both addresses, and by TLS-ALPN-01 with that of TLS alone.
#[test]
fn step_ca_validates_by_either_way_and_renews() {
    for has_http in [true, false] {
        let sites = site("a.test") + &site("www.a.test") + &site("blocked.test");
        let (folder, larder) = without_certificates(&sites);
        let http = if has_http { larder.address.port() } else { 1 };
        let Some(ca) = StepCa::start(http, secure_address(&larder).port()) else {
            return eprintln!("not tested: smallstep's CA, which is not installed");
        };
        let mut text = config(folder.path(), &ca.section(), &sites);
        if !has_http {
            text = text.replace("\"http://127.0.0.1:0\", ", "");
        }
        std::fs::write(larder.config(), text + &format!("[admin]\nlisten = \"{}\"\n", larder.admin)).unwrap();
        larder.signal(libc::SIGHUP);
        for name in ["a.test", "www.a.test"] {
            until(&format!("{name} is served"), || connect(&ca, &larder, name).is_ok());
            let mut client = connect(&ca, &larder, name).unwrap();
            let answer = client.send(format!("GET / HTTP/1.1\r\nHost: {name}\r\n\r\n")).read();
            assert_eq!((200, format!("here is {name}")), (answer.status, answer.text()));
        }
        until("one name is refused", || certificates(&larder).iter().any(|it| it["failures"] == 1));
        let refused = certificates(&larder).into_iter().find(|it| it["failures"] == 1).unwrap();
        assert_eq!("blocked.test", refused["names"][0]);
        assert!(refused["error"].as_str().unwrap().contains("will not issue"), "{refused}");
        assert_eq!((2, 1), (larder.counter("acme_certificates"), larder.counter("acme_failures")));
        let before = connect(&ca, &larder, "a.test").unwrap().shown();
        // Two thirds of a day.
        larder.advance(16 * 3600 + 60);
        until("it is renewed", || connect(&ca, &larder, "a.test").is_ok_and(|it| it.shown() != before));
    }
}

//! smallstep's CA, where there is a `step-ca` in `PATH` or `target/tools`. Building it takes longer than all other tests of ACME, so
//! `tests/install` does not: `CGO_ENABLED=0 go install github.com/smallstep/certificates/cmd/step-ca@v0.30.2`.

use super::pebble::{program, resolver};
use super::secure::Authority;
use super::{reserved_address, until};
use rcgen::{BasicConstraints, IsCa};
use serde_json::json;
use socket2::Socket;
use std::io::ErrorKind;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

/// A running step-ca with an ACME provisioner.
pub struct StepCa {
    /// Its root.
    pub authority: Authority,
    directory: String,
    child: Child,
    _port: Socket,
}

impl StepCa {
    /// One that validates at these ports and refuses `blocked.test`; `None` where it is not installed.
    pub fn start(http: u16, tls: u16) -> Option<Self> {
        let authority = Authority::new();
        let issues =
            |it: &mut rcgen::CertificateParams| it.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
        authority.sign_with("issuer", &[], issues);
        let (reserved, address) = reserved_address();
        let config = json!({
            "root": authority.path("ca.pem"), "crt": authority.path("issuer.pem"), "key": authority.path("issuer.key"),
            "address": address.to_string(), "dnsNames": ["localhost"], "logger": { "format": "text" },
            "db": { "type": "bbolt", "dataSource": authority.path("step.db") },
            "authority": {
                "provisioners": [{ "type": "ACME", "name": "acme" }],
                "policy": { "x509": { "allow": { "dns": ["*.test", "*.a.test"] }, "deny": { "dns": ["blocked.test"] } } },
            },
        });
        let file = authority.path("step.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new(program("step-ca"));
        command.arg(&file).args(["--insecure", "--resolver", &resolver()]);
        command.args(["--acme-http-port", &http.to_string(), "--acme-tls-port", &tls.to_string()]);
        let output = std::fs::File::create(authority.path("step.log")).unwrap();
        command.stdout(output.try_clone().unwrap()).stderr(output).stdin(Stdio::null());
        let child = match command.env("STEPPATH", authority.folder.path()).spawn() {
            Err(error) if error.kind() == ErrorKind::NotFound => return None,
            it => it.unwrap(),
        };
        let directory = format!("https://localhost:{}/acme/acme/directory", address.port());
        let mut it = Self { authority, directory, child, _port: reserved };
        until("step-ca listens", || {
            let log = std::fs::read_to_string(it.authority.path("step.log")).unwrap_or_default();
            assert!(it.child.try_wait().unwrap().is_none(), "{log}");
            TcpStream::connect(address).is_ok()
        });
        Some(it)
    }

    /// The section of a configuration.
    pub fn section(&self) -> String {
        let (directory, root) = (&self.directory, self.authority.path("ca.pem"));
        format!("[[tls.acme.ca]]\ndirectory = {directory:?}\nroot = {root:?}\n")
    }
}

impl Drop for StepCa {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

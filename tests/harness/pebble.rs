//! Pebble, the test CA of Let's Encrypt, with a resolver that sends every name to this machine.

use super::secure::Authority;
use super::{reserved_address, until};
use serde_json::json;
use socket2::Socket;
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A running Pebble.
pub struct Pebble {
    /// The URL of its directory.
    pub directory: String,
    /// The certificate that signs its own server's.
    pub root: PathBuf,
    management: u16,
    child: Child,
    _ports: [Socket; 2],
    authority: Authority,
}

impl Pebble {
    /// A Pebble that validates at these ports, rejects a third of all nonces, and does not wait.
    pub fn start(http: u16, tls: u16) -> Self {
        Self::start_for(http, tls, None)
    }

    /// The same for clients with an external account alone: its id, and its key in base64url.
    pub fn start_for(http: u16, tls: u16, account: Option<[&str; 2]>) -> Self {
        let authority = Authority::new();
        authority.sign("pebble", &["localhost", "127.0.0.1"]);
        // Pebble takes no port 0.
        let reserved = [reserved_address(), reserved_address()];
        let [acme, management] = reserved.each_ref().map(|it| it.1.port());
        let config = json!({ "pebble": {
            "listenAddress": format!("127.0.0.1:{acme}"), "managementListenAddress": format!("127.0.0.1:{management}"),
            "certificate": authority.path("pebble.pem"), "privateKey": authority.path("pebble.key"),
            "httpPort": http, "tlsPort": tls, "ocspResponderURL": "", "externalAccountBindingRequired": account.is_some(),
            "externalAccountMACKeys": account.iter().map(|[id, key]| (*id, *key)).collect::<BTreeMap<_, _>>(),
            "domainBlocklist": ["blocked.test"], "retryAfter": { "authz": 1, "order": 1 }, "keyAlgorithm": "ecdsa",
            "profiles": {
                "default": { "description": "90 days", "validityPeriod": 7_776_000 },
                "shortlived": { "description": "6 days", "validityPeriod": 518_400 },
            },
        } });
        let file = authority.path("pebble.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut command = Command::new(program("pebble"));
        command.arg("-config").arg(&file).arg("-dnsserver").arg(resolver());
        command.env("PEBBLE_WFE_NONCEREJECT", "30").env("PEBBLE_VA_NOSLEEP", "1");
        // Each order validates its name.
        command.env("PEBBLE_AUTHZREUSE", "0");
        let output = std::fs::File::create(authority.path("pebble.log")).unwrap();
        let child =
            command.stdout(output).stderr(Stdio::null()).spawn().expect("tests/install brings Pebble");
        until("Pebble listens", || {
            [acme, management].iter().all(|it| TcpStream::connect(("127.0.0.1", *it)).is_ok())
        });
        let root = authority.path("ca.pem");
        let (directory, _ports) = (format!("https://localhost:{acme}/dir"), reserved.map(|it| it.0));
        Self { directory, root, management, child, _ports, authority }
    }

    /// The section of a configuration, with a profile.
    pub fn section(&self, profile: &str) -> String {
        let (directory, root) = (&self.directory, &self.root);
        format!("[[tls.acme.ca]]\ndirectory = {directory:?}\nroot = {root:?}\nprofile = {profile:?}\n")
    }

    /// Suggests this window for the renewal of a certificate, PEM.
    pub fn suggest(&self, certificate: &str, from: &str, until: &str) {
        let answer = json!({ "suggestedWindow": { "start": from, "end": until } }).to_string();
        let order = json!({ "Certificate": certificate, "ARIResponse": answer }).to_string();
        let url = format!("https://localhost:{}/set-renewal-info/", self.management);
        let mut command = Command::new("curl");
        command.args(["-sf", "--cacert"]).arg(&self.root).args(["-d", &order]).arg(url);
        assert!(command.status().unwrap().success());
    }

    /// The file of the root of its certificates.
    pub fn trusted(&self) -> PathBuf {
        let file = self.authority.path("trusted.pem");
        let url = format!("https://localhost:{}/roots/0", self.management);
        let got = Command::new("curl")
            .args(["-s", "--cacert"])
            .arg(&self.root)
            .arg("-o")
            .arg(&file)
            .arg(url)
            .status();
        assert!(got.unwrap().success());
        file
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A DNS server for which every name is at 127.0.0.1; its address.
pub(super) fn resolver() -> String {
    let (listener, packets) = loop {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Another program may have the UDP port of that number.
        if let Ok(packets) = UdpSocket::bind(listener.local_addr().unwrap()) {
            break (listener, packets);
        }
    };
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        let mut query = [0; 512];
        while let Ok((length, from)) = packets.recv_from(&mut query) {
            let _ = packets.send_to(&resolved(&query[..length]), from);
        }
    });
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut length = [0; 2];
                while stream.read_exact(&mut length).is_ok() {
                    let mut query = vec![0; u16::from_be_bytes(length).into()];
                    stream.read_exact(&mut query).unwrap();
                    let answer = resolved(&query);
                    let length = u16::try_from(answer.len()).unwrap().to_be_bytes();
                    stream.write_all(&[&length[..], &answer].concat()).unwrap();
                }
            });
        }
    });
    address
}

/// The answer to a query of one name (RFC 1035 section 4): an address for type A, nothing for other types.
fn resolved(query: &[u8]) -> Vec<u8> {
    let end = 12 + query[12..].iter().position(|it| *it == 0).unwrap_or(0) + 5;
    let is_a = query[end - 4..end - 2] == [0, 1];
    let mut answer = query[..2].to_vec();
    answer.extend([0x81, 0x80, 0, 1, 0, u8::from(is_a), 0, 0, 0, 0]);
    answer.extend(&query[12..end]);
    if is_a {
        answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1]);
    }
    answer
}

/// Where `tests/install` put it.
pub(super) fn program(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/tools").join(name);
    if target.exists() { target } else { name.into() }
}

//! A client's ways to fail a TLS connection: the alert it reads, and the counter. The connection ends in an orderly way
//! with any further input, and other connections continue.

use super::{before, openssl, pages};
use crate::harness::secure::{Authority, Trusting, counts};
use crate::harness::{Larder, Origin, TIMEOUT, until};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;

/// The end of a failed connection as its client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// A fatal alert of this number (RFC 8446 §6), and then the end.
    Alert(u8),
    /// The end alone.
    Nothing,
    /// The same, by a reset: earlier bytes may be lost on the way.
    Reset,
}

const RESET: [ErrorKind; 2] = [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe];

/// A larder that takes everybody, and one that asks for certificates.
struct Front {
    authority: Authority,
    other: Authority,
    larder: Larder,
    strict: Larder,
    _origin: Origin,
}

impl Front {
    fn new() -> Self {
        let (authority, other, origin) = (Authority::new(), Authority::named("another"), pages());
        let certificate = authority.sign("one", &["one.test"]);
        authority.sign("me", &["me.test"]);
        authority.sign_with("old", &["me.test"], |it| it.not_after = rcgen::date_time_ymd(2001, 1, 1));
        other.sign("them", &["them.test"]);
        let ca = authority.path("ca.pem");
        let auth = format!("client_auth = \"required\"\nclient_ca = {ca:?}");
        let strict = before(&origin, std::slice::from_ref(&certificate), &auth);
        Self { larder: before(&origin, &[certificate], ""), authority, other, strict, _origin: origin }
    }

    fn trusting(&self) -> Trusting {
        self.authority.trusting()
    }

    /// Sends bytes as they are.
    fn raw(&self, bytes: &[u8]) -> Told {
        let mut stream = connect(self.larder.address);
        let sent = stream.write_all(bytes);
        let mut answer = Vec::new();
        let ended = sent.and(stream.read_to_end(&mut answer).map(drop));
        told(alert_in_clear(&answer), ended)
    }

    /// Greets as `client` does, with what `change` makes of each of its flights.
    fn greet(&self, client: &Trusting, change: impl FnMut(usize, &mut Vec<u8>)) -> Told {
        greet(self.larder.address, client.config(), change)
    }
}

fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    stream.set_nodelay(true).unwrap();
    stream
}

fn told(alert: Option<u8>, ended: std::io::Result<()>) -> Told {
    match (alert, ended) {
        (_, Err(error)) if RESET.contains(&error.kind()) => Told::Reset,
        (_, Err(error)) => panic!("{error}"),
        (Some(number), Ok(())) => Told::Alert(number),
        (None, Ok(())) => Told::Nothing,
    }
}

/// The number of the alert that the last of these records is, where it can be read without keys.
fn alert_in_clear(mut records: &[u8]) -> Option<u8> {
    let mut last = None;
    while let [kind, _, _, high, low, rest @ ..] = records {
        let (record, behind) = rest.split_at(usize::from(u16::from_be_bytes([*high, *low])));
        last = (*kind == 21 && record.len() == 2 && record[0] == 2).then(|| record[1]);
        records = behind;
    }
    last
}

/// Greets, and reads until the end. `change` is told of each flight, and of one of nothing once both sides know the handshake to
/// be done.
fn greet(address: SocketAddr, config: ClientConfig, mut change: impl FnMut(usize, &mut Vec<u8>)) -> Told {
    greet_until(address, config, |flight, it| {
        change(flight, it);
        true
    })
}

/// The same for as long as `change` says that it goes on: then nothing more is sent.
fn greet_until(
    address: SocketAddr,
    config: ClientConfig,
    mut change: impl FnMut(usize, &mut Vec<u8>) -> bool,
) -> Told {
    let mut stream = connect(address);
    let mut tls = ClientConnection::new(Arc::new(config), "one.test".try_into().unwrap()).unwrap();
    let (mut alert, mut flight, mut goes_on) = (None, 0, true);
    loop {
        let mut bytes = Vec::new();
        while alert.is_none() && tls.wants_write() {
            tls.write_tls(&mut bytes).unwrap();
        }
        let is_done = flight == 2 && !tls.is_handshaking();
        if goes_on && (is_done || !bytes.is_empty()) {
            goes_on = change(flight, &mut bytes);
            flight += 1;
            if let Err(error) = stream.write_all(&bytes) {
                return told(alert, Err(error));
            }
            if !goes_on {
                stream.shutdown(Shutdown::Write).unwrap();
            }
        }
        match tls.read_tls(&mut stream) {
            Ok(0) => return told(alert, Ok(())),
            Ok(_) if alert.is_some() => {}
            Ok(_) => match tls.process_new_packets() {
                Ok(_) => {}
                Err(rustls::Error::AlertReceived(it)) => alert = Some(u8::from(it)),
                Err(other) => panic!("{other}"),
            },
            Err(error) => return told(alert, Err(error)),
        }
    }
}

/// A ClientHello in one record.
struct Hello {
    version: u16,
    ciphers: Vec<u16>,
    extensions: Vec<(u16, Vec<u8>)>,
}

impl Hello {
    /// As a client of TLS 1.2 says it: ECDHE with AES-GCM and P-256.
    fn new() -> Self {
        let extensions = vec![(10, list(&[0x17])), (11, vec![1, 0]), (13, list(&[0x403, 0x804]))];
        Self { version: 0x303, ciphers: vec![0xc02b, 0xc02f], extensions }
    }

    /// The same of one of TLS 1.3, which guesses no group.
    fn new_13() -> Self {
        let mut it = Self { ciphers: vec![0x1301], ..Self::new() };
        it.extensions.extend([(43, vec![2, 3, 4]), (51, vec![0, 0])]);
        it
    }

    fn without(mut self, extension: u16) -> Self {
        self.extensions.retain(|it| it.0 != extension);
        self
    }

    fn group(mut self, group: u16) -> Self {
        self.extensions[0].1 = list(&[group]);
        self
    }

    fn bytes(&self) -> Vec<u8> {
        let mut body = self.version.to_be_bytes().to_vec();
        body.extend([7; 32]);
        body.push(0);
        body.extend(list(&self.ciphers));
        body.extend([1, 0]);
        let mut all = Vec::new();
        for (kind, bytes) in &self.extensions {
            all.extend(kind.to_be_bytes());
            all.extend(prefixed(bytes));
        }
        body.extend(prefixed(&all));
        let mut message = vec![1, 0];
        message.extend(prefixed(&body));
        record(22, &message)
    }
}

fn prefixed(bytes: &[u8]) -> Vec<u8> {
    [&u16::try_from(bytes.len()).unwrap().to_be_bytes()[..], bytes].concat()
}

fn list(numbers: &[u16]) -> Vec<u8> {
    prefixed(&numbers.iter().flat_map(|it| it.to_be_bytes()).collect::<Vec<_>>())
}

fn record(kind: u8, bytes: &[u8]) -> Vec<u8> {
    [&[kind, 3, 3][..], &prefixed(bytes)].concat()
}

const UNEXPECTED: Told = Told::Alert(10);
const BAD_MAC: Told = Told::Alert(20);
const HANDSHAKE_FAILURE: Told = Told::Alert(40);
const EXPIRED: Told = Told::Alert(45);
const UNKNOWN_CA: Told = Told::Alert(48);
const DECODE_ERROR: Told = Told::Alert(50);
const DECRYPT_ERROR: Told = Told::Alert(51);
const VERSION: Told = Told::Alert(70);
const MISSING: Told = Told::Alert(109);
const NO_CERTIFICATE: Told = Told::Alert(116);
const NO_PROTOCOL: Told = Told::Alert(120);

/// What a client sends together with the flight that ends its handshake.
fn behind(bytes: Vec<u8>) -> impl FnMut(usize, &mut Vec<u8>) {
    move |flight, it| {
        if flight == 1 {
            it.extend_from_slice(&bytes);
        }
    }
}

/// What a client sends once it knows that it was greeted.
fn later(bytes: Vec<u8>) -> impl FnMut(usize, &mut Vec<u8>) {
    move |flight, it| {
        if flight == 2 {
            it.extend_from_slice(&bytes);
        }
    }
}

/// Changes the last byte of the flight that ends the handshake.
fn changed(flight: usize, it: &mut [u8]) {
    if let (1, Some(last)) = (flight, it.last_mut()) {
        *last ^= 1;
    }
}

/// A client that offers a protocol which is none of HTTP.
fn offering(client: &Trusting, protocol: &str) -> ClientConfig {
    let mut config = client.config();
    config.alpn_protocols = vec![protocol.as_bytes().to_vec()];
    config
}

type Case = (&'static str, &'static str, Told, fn(&Front) -> Told);

/// What is done, what is counted once, what the client is told.
const CASES: &[Case] = &[
    ("an old version", "tls_failed_version", VERSION, |it| {
        it.raw(&Hello { version: 0x302, ..Hello::new() }.bytes())
    }),
    ("a version to come, alone", "tls_failed_version", VERSION, |it| {
        let mut hello = Hello::new_13();
        hello.extensions[3].1 = vec![2, 3, 9];
        it.raw(&hello.bytes())
    }),
    ("an old version, which knew no signature algorithms", "tls_failed_version", VERSION, |it| {
        it.raw(&Hello { version: 0x301, ..Hello::new() }.without(13).bytes())
    }),
    ("a later one of these", "tls_failed_version", VERSION, |it| {
        it.raw(&Hello { version: 0x302, ..Hello::new() }.without(13).bytes())
    }),
    ("one that says nothing but its version", "tls_failed_version", VERSION, |it| {
        it.raw(&Hello { version: 0x301, extensions: Vec::new(), ..Hello::new() }.bytes())
    }),
    ("no signature algorithms, 1.2", "tls_failed_cipher", HANDSHAKE_FAILURE, |it| {
        it.raw(&Hello::new().without(13).bytes())
    }),
    ("no signature algorithms, 1.3", "tls_failed_malformed", MISSING, |it| {
        it.raw(&Hello::new_13().without(13).bytes())
    }),
    ("the same in pieces", "tls_failed_malformed", MISSING, |it| {
        let hello = Hello::new_13().without(13).bytes();
        it.raw(&hello[5..].chunks(11).map(|it| record(22, it)).collect::<Vec<_>>().concat())
    }),
    ("no groups, 1.3", "tls_failed_malformed", MISSING, |it| it.raw(&Hello::new_13().without(10).bytes())),
    ("no shared cipher", "tls_failed_cipher", HANDSHAKE_FAILURE, |it| {
        it.raw(&Hello { ciphers: vec![0x2f, 0x35], ..Hello::new() }.bytes())
    }),
    ("no shared cipher, 1.3", "tls_failed_cipher", HANDSHAKE_FAILURE, |it| {
        it.raw(&Hello { ciphers: vec![0x1304], ..Hello::new_13() }.bytes())
    }),
    ("no shared group", "tls_failed_cipher", HANDSHAKE_FAILURE, |it| {
        it.raw(&Hello::new().group(0x19).bytes())
    }),
    ("no shared group, 1.3", "tls_failed_cipher", HANDSHAKE_FAILURE, |it| {
        it.raw(&Hello::new_13().group(0x19).bytes())
    }),
    ("no protocol, 1.2", "tls_failed_protocol", NO_PROTOCOL, |it| {
        greet(it.larder.address, offering(&it.trusting().only(&TLS12), "foo"), |_, _| {})
    }),
    ("no protocol, 1.3", "tls_failed_protocol", NO_PROTOCOL, |it| {
        greet(it.larder.address, offering(&it.trusting().only(&TLS13), "foo"), |_, _| {})
    }),
    ("another message first", "tls_failed_malformed", UNEXPECTED, |it| {
        it.raw(&record(22, &[20, 0, 0, 1, 0]))
    }),
    ("data first", "tls_failed_malformed", UNEXPECTED, |it| it.raw(&record(23, &[0; 40]))),
    ("garbage", "tls_failed_malformed", DECODE_ERROR, |it| it.raw(&[0xff; 300])),
    ("much garbage", "tls_failed_malformed", DECODE_ERROR, |it| it.raw(&[0; 1_000_000])),
    ("a hello of no sense", "tls_failed_malformed", DECODE_ERROR, |it| {
        it.raw(&record(22, &[1, 0, 0, 3, 1, 2, 3]))
    }),
    ("a record that is too long", "tls_failed_malformed", DECODE_ERROR, |it| {
        it.raw(&[&[22, 3, 1, 0xff, 0xff][..], &[0; 0xffff]].concat())
    }),
    ("a message that is too long", "tls_failed_malformed", DECODE_ERROR, |it| {
        it.raw(&record(22, &[1, 0xff, 0xff, 0xff, 3, 3]))
    }),
    ("a message in pieces, and others between", "tls_failed_malformed", DECODE_ERROR, |it| {
        it.raw(&[record(22, &[1, 0, 1, 0, 3, 3]), record(21, &[1, 90])].concat())
    }),
    ("nothing, again and again", "tls_failed_malformed", DECODE_ERROR, |it| {
        it.raw(&record(22, &[]).repeat(100))
    }),
    ("warnings, again and again", "tls_failed_malformed", DECODE_ERROR, |it| {
        it.raw(&record(21, &[1, 90]).repeat(100))
    }),
    ("warnings, again and again, 1.2", "tls_failed_malformed", BAD_MAC, |it| {
        it.greet(&it.trusting().only(&TLS12), behind(record(21, &[1, 90]).repeat(100)))
    }),
    ("a refusal", "tls_failed_refused", Told::Nothing, |it| it.raw(&record(21, &[2, 40]))),
    ("a changed end of the handshake, 1.2", "tls_failed_malformed", BAD_MAC, |it| {
        it.greet(&it.trusting().only(&TLS12), |flight, it| changed(flight, it))
    }),
    ("a changed end of the handshake, 1.3", "tls_failed_malformed", BAD_MAC, |it| {
        it.greet(&it.trusting().only(&TLS13), |flight, it| changed(flight, it))
    }),
    // Without the extended master secret keys are made of the randoms alone, so that the last message can be read, and is wrong.
    ("an end of another handshake", "tls_failed_malformed", DECRYPT_ERROR, |it| {
        it.greet(&it.trusting().only(&TLS12), |flight, it| {
            let at = it.windows(4).rposition(|it| it == [0, 23, 0, 0]);
            if let (0, Some(at)) = (flight, at) {
                it[at] = 0x1a;
            }
        })
    }),
    ("a record of nothing known behind", "tls_failed_malformed", BAD_MAC, |it| {
        it.greet(&it.trusting().only(&TLS13), behind(record(23, &[0; 300])))
    }),
    ("the same, 1.2", "tls_failed_malformed", BAD_MAC, |it| {
        it.greet(&it.trusting().only(&TLS12), behind(record(23, &[0; 300])))
    }),
    ("much of that", "tls_failed_malformed", BAD_MAC, |it| {
        it.greet(&it.trusting(), behind(record(23, &[0; 16_000]).repeat(200)))
    }),
    ("no record behind", "tls_failed_malformed", DECODE_ERROR, |it| {
        it.greet(&it.trusting(), behind(vec![0xff; 50]))
    }),
    ("a record behind that is too long", "tls_failed_malformed", DECODE_ERROR, |it| {
        it.greet(&it.trusting(), behind([&[23, 3, 3, 0xff, 0xff][..], &[0; 0xffff]].concat()))
    }),
    ("changed data", "tls_failed_malformed", BAD_MAC, |it| {
        it.greet(&it.trusting(), later(record(23, &[0; 300])))
    }),
    ("changed data, 1.2", "tls_failed_malformed", BAD_MAC, |it| {
        it.greet(&it.trusting().only(&TLS12), later(record(23, &[0; 300])))
    }),
    ("much changed data", "tls_failed_malformed", BAD_MAC, |it| {
        it.greet(&it.trusting(), later(record(23, &[0; 16_000]).repeat(200)))
    }),
    ("much changed data, HTTP/2", "tls_failed_malformed", BAD_MAC, |it| {
        let config = offering(&it.trusting(), "h2");
        greet(it.larder.address, config, later(record(23, &[0; 16_000]).repeat(200)))
    }),
    ("much that is no record", "tls_failed_malformed", DECODE_ERROR, |it| {
        it.greet(&it.trusting(), later(vec![0xff; 1_000_000]))
    }),
    // RFC 8446 knows `certificate_required` of TLS 1.3 alone; rustls says it in both.
    ("no certificate, 1.2", "tls_failed_certificate", NO_CERTIFICATE, |it| {
        greet(it.strict.address, it.trusting().only(&TLS12).config(), |_, _| {})
    }),
    ("no certificate, 1.3", "tls_failed_certificate", NO_CERTIFICATE, |it| {
        greet(it.strict.address, it.trusting().only(&TLS13).config(), |_, _| {})
    }),
    ("a certificate that has expired, 1.2", "tls_failed_certificate", EXPIRED, |it| {
        greet(it.strict.address, it.trusting().only(&TLS12).showing(&it.authority, "old").config(), |_, _| {})
    }),
    ("a certificate that has expired, 1.3", "tls_failed_certificate", EXPIRED, |it| {
        greet(it.strict.address, it.trusting().only(&TLS13).showing(&it.authority, "old").config(), |_, _| {})
    }),
    ("a certificate of somebody else", "tls_failed_certificate", UNKNOWN_CA, |it| {
        greet(it.strict.address, it.trusting().showing(&it.other, "them").config(), |_, _| {})
    }),
];

/// The counters of what failed.
const COUNTERS: [&str; 7] = [
    "tls_failed_version",
    "tls_failed_cipher",
    "tls_failed_protocol",
    "tls_failed_certificate",
    "tls_failed_refused",
    "tls_failed_malformed",
    "tls_failed_cut",
];

#[test]
fn a_failed_handshake_gets_its_alert_and_is_counted_by_kind() {
    let front = Front::new();
    let all = || COUNTERS.map(|it| front.larder.counter(it) + front.strict.counter(it));
    let mut other = front.trusting().connect(front.larder.address, "one.test").unwrap();
    let mut wrong = Vec::new();
    for (what, counter, expect, run) in CASES {
        let mut counted = all();
        let output = run(&front);
        until(&format!("{what} is over"), || {
            front.larder.counter("tls_open") == 1 && front.strict.counter("tls_open") == 0
        });
        counted[COUNTERS.iter().position(|it| it == counter).unwrap()] += 1;
        if (output, all()) != (*expect, counted) {
            wrong.push(format!("{what}: {output:?}, {:?} for {expect:?}, {counted:?}", all()));
        }
        assert_eq!(200, other.get("/").status, "{what}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_handshake_cut_at_any_byte_is_counted() {
    let front = Front::new();
    let mut cuts = 0;
    for (version, flight) in [(&TLS12, 0), (&TLS12, 1), (&TLS13, 0), (&TLS13, 1)] {
        for length in 0.. {
            let mut is_whole = false;
            let cut = |at: usize, it: &mut Vec<u8>| {
                if at == flight {
                    is_whole = length >= it.len();
                    it.truncate(length);
                }
                at < flight
            };
            greet_until(front.larder.address, front.trusting().only(version).config(), cut);
            if is_whole && flight == 1 {
                break;
            }
            // Who connects and says nothing has begun nothing.
            cuts += u64::from(flight > 0 || length > 0);
            if is_whole {
                break;
            }
        }
    }
    counts(&front.larder, "tls_failed_cut", cuts);
    counts(&front.larder, "tls_open", 0);
    assert!(cuts > 500, "{cuts}");
    assert_eq!(0, COUNTERS[..6].iter().map(|it| front.larder.counter(it)).sum::<u64>());
}

#[test]
fn a_renegotiation_is_refused() {
    let front = Front::new();
    let output = openssl(&front.larder, &["-tls1_2"], "R\n");
    assert!(output.contains("no renegotiation"), "{output}");
    counts(&front.larder, "tls_failed_refused", 1);
    counts(&front.larder, "tls_open", 0);
}

//! The server of a key is the one that libmemcached chooses: a small program in C, made with the real library, says
//! which, for every hash, distribution and kind of server.

use larder_store::fleet::RingDistribution;
use larder_store::fleet::hash::KeyHashFunction;
use larder_store::fleet::ring::ServerRing;
use larder_store::fleet::{FleetAddress, MemcachedAddress};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const KEYS: usize = 100_000;

/// The number of a hash in libmemcached.
fn number(hash: KeyHashFunction) -> u32 {
    match hash {
        KeyHashFunction::Default | KeyHashFunction::OneAtATime => 0,
        KeyHashFunction::Md5 => 1,
        KeyHashFunction::Crc => 2,
        KeyHashFunction::Fnv1_64 => 3,
        KeyHashFunction::Fnv1a64 => 4,
        KeyHashFunction::Fnv1_32 => 5,
        KeyHashFunction::Fnv1a32 => 6,
        KeyHashFunction::Murmur => 8,
    }
}

/// One setting, and how many keys are compared.
struct Setting {
    distribution: (&'static str, RingDistribution),
    hash: (&'static str, KeyHashFunction),
    servers: Vec<FleetAddress>,
    prefix: Option<&'static str>,
    is_prefix_hashed: bool,
    keys: usize,
}

impl Setting {
    fn line(&self) -> String {
        let (name, hash, keys) = (self.distribution.0, number(self.hash.1), self.keys);
        let (prefix, hashed) = (self.prefix.unwrap_or("-"), u8::from(self.is_prefix_hashed));
        let mut line = format!("{name} {hash} {keys} {prefix} {hashed}");
        for FleetAddress { at, weight } in &self.servers {
            match at {
                MemcachedAddress::Tcp(host, port) => write!(line, " {host} {port} {weight}").unwrap(),
                MemcachedAddress::Unix(path) => write!(line, " {} 0 {weight}", path.display()).unwrap(),
            }
        }
        line
    }
}

fn tcp(host: &str, port: u16, weight: u32) -> FleetAddress {
    FleetAddress { at: MemcachedAddress::Tcp(host.to_owned(), port), weight }
}

fn unix(path: &str, weight: u32) -> FleetAddress {
    FleetAddress { at: MemcachedAddress::Unix(PathBuf::from(path)), weight }
}

/// 1 to 9 servers: the default port and others, names, addresses, sockets.
fn servers(count: usize) -> Vec<FleetAddress> {
    let all = [
        tcp("127.0.0.1", 11211, 1),
        tcp("10.0.0.2", 11211, 1),
        tcp("10.0.0.2", 11212, 1),
        unix("/run/memcached.sock", 1),
        tcp("cache.example.com", 11211, 1),
        tcp("::1", 1, 1),
        tcp("localhost", 65535, 1),
        unix("/a", 1),
        tcp("fe80::1", 11211, 1),
    ];
    all[..count].to_vec()
}

/// The same with weights.
fn weighted(weights: &[u32]) -> Vec<FleetAddress> {
    let mut servers = servers(weights.len());
    servers.iter_mut().zip(weights).for_each(|(it, weight)| it.weight = *weight);
    servers
}

fn settings() -> Vec<Setting> {
    let plain = |distribution, hash, servers, keys| Setting {
        distribution,
        hash,
        servers,
        prefix: None,
        is_prefix_hashed: false,
        keys,
    };
    let mut settings = Vec::new();
    for distribution in RingDistribution::ALL {
        for hash in KeyHashFunction::ALL {
            settings.push(plain(distribution, hash, servers(5), KEYS));
            for count in 1..=9 {
                settings.push(plain(distribution, hash, servers(count), 2000));
            }
            if distribution.1 != RingDistribution::Ketama {
                // With weights, libmemcached makes a plain ring a weighted one by itself.
                for weights in [&[2, 1, 1][..], &[1, 2, 3, 4, 5], &[7, 1, 100, 3], &[1, 1000], &[9; 9]] {
                    settings.push(plain(distribution, hash, weighted(weights), 2000));
                }
            }
            for (prefix, is_prefix_hashed) in [("app:", true), ("app:", false)] {
                let setting = plain(distribution, hash, servers(4), 2000);
                settings.push(Setting { prefix: Some(prefix), is_prefix_hashed, ..setting });
            }
        }
    }
    settings
}

fn keys() -> Vec<String> {
    let key = |it: usize| match it % 5 {
        0 => format!("http://example.com/{it}"),
        1 => format!("https://www.example.com/list?page={it}&sort=name"),
        2 => format!("{it:x}"),
        3 => format!("{:032x}", (it as u128).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)),
        _ => format!("http://a/{}{it}", "path/".repeat(it % 44)),
    };
    (0..KEYS).map(key).collect()
}

/// Makes the program; fails with the name of the package where the library is not installed.
fn program(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/libmemcached.c");
    let program = folder.join("libmemcached");
    let made = Command::new("cc").arg("-O1").arg("-o").arg(&program).arg(source).arg("-lmemcached").output();
    let made = made.expect("no C compiler (Debian packages gcc, libc6-dev)");
    let text = String::from_utf8_lossy(&made.stderr);
    assert!(made.status.success(), "is the Debian package libmemcached-dev installed? cc says:\n{text}");
    program
}

#[test]
fn every_key_goes_to_the_server_that_libmemcached_chooses() {
    let folder = tempfile::tempdir().unwrap();
    let (keys, settings) = (keys(), settings());
    let list = folder.path().join("keys");
    std::fs::write(&list, keys.join("\n") + "\n").unwrap();
    let mut process = Command::new(program(folder.path()))
        .arg(&list)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines: String = settings.iter().map(|it| it.line() + "\n").collect();
    let mut input = process.stdin.take().unwrap();
    let writer = std::thread::spawn(move || input.write_all(lines.as_bytes()).unwrap());
    let response = process.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(response.status.success());
    let response = String::from_utf8(response.stdout).unwrap();
    assert_eq!(settings.len(), response.lines().count());
    for (setting, theirs) in settings.iter().zip(response.lines()) {
        let ring = ServerRing::new(&setting.servers, setting.distribution.1, setting.hash.1, |_| true);
        assert_eq!(setting.keys, theirs.len());
        let mut used = [false; 9];
        for (key, theirs) in keys.iter().zip(theirs.bytes()) {
            let hashed = setting.prefix.filter(|_| setting.is_prefix_hashed).unwrap_or_default();
            let ours = ring.server(format!("{hashed}{key}").as_bytes()).unwrap();
            assert_eq!(usize::from(theirs - b'0'), ours, "{key} with {}, {}", setting.hash.0, setting.line());
            used[ours] = true;
        }
        // All fifteen bits of a CRC lie beside the first point of a ring; and of a small share there may be no point.
        let spreads =
            setting.distribution.1 == RingDistribution::Modula || setting.hash.1 != KeyHashFunction::Crc;
        let spreads = spreads && setting.servers.iter().all(|it| it.weight < 100);
        assert!(
            !spreads || used.iter().filter(|it| **it).count() == setting.servers.len(),
            "{}",
            setting.line()
        );
    }
}

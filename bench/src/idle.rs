//! The cost of idle connections: resident bytes of each, and the effect on other connections.

use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

use socket2::{Domain, Socket, Type};

use crate::cases::Origin;
use crate::fetch;
use crate::load::{self, Manner, Sample};
use crate::process::Running;
use crate::run::Settings;
use crate::servers::Server;
use crate::statistics::paired_ratio;

/// The servers whose idle connections are counted.
pub const SERVERS: [(&str, Server); 4] = [
    ("larder", Server::LarderProxy { workers: 1 }),
    ("nginx", Server::NginxFiles { sendfile: false }),
    ("haproxy", Server::HaproxyCache),
    ("varnish", Server::Varnish),
];

/// Connections that are opened at a time.
const OPENERS: usize = 32;

/// The figures of one server.
#[derive(Clone, Debug)]
pub struct Figures {
    /// Connections held.
    pub held: usize,
    /// Resident bytes that each added.
    pub bytes_each: f64,
    /// Turns of 20 busy connections without the idle ones.
    pub without: Vec<Sample>,
    /// The same with them.
    pub with: Vec<Sample>,
}

/// A server's name, with its figures or the reason why there are none.
pub type OpenSocket = (&'static str, Result<Figures, String>);

impl Figures {
    /// CPU per request with idle connections, as a multiple of that without.
    pub fn effect(&self) -> Option<f64> {
        let each = |samples: &[Sample]| samples.iter().map(Sample::cpu_us).collect::<Vec<_>>();
        paired_ratio(&each(&self.with), &each(&self.without))
    }
}

/// Runs all servers, one after the other; the failure of one is its result.
///
/// # Errors
/// The page or the origin could not be made.
pub fn run(settings: &Settings) -> Result<Vec<OpenSocket>, String> {
    let root = settings.page(1795)?;
    let origin = settings.origin(Origin::Storable.headers(), &root)?;
    let mut all = Vec::new();
    for (name, server) in SERVERS {
        let figures = settings.start(server, &root, origin.port).and_then(|it| watch(settings, &it));
        eprintln!("  idle: {name}");
        all.push((name, figures));
    }
    Ok(all)
}

fn watch(settings: &Settings, server: &Running) -> Result<Figures, String> {
    let busy = || {
        let (seconds, nice) = (settings.seconds, settings.nice);
        load::measure(server, None, Manner::KeepAlive, 20, seconds, nice, &settings.dir)
    };
    busy()?;
    let mut figures = Figures { held: 0, bytes_each: 0.0, without: Vec::new(), with: Vec::new() };
    for round in 0..settings.rounds.min(3) {
        figures.without.push(busy()?);
        let before = server.resident();
        let held = open(server.port, settings.idle)?;
        // Time for a server that frees its buffers after a while.
        sleep(Duration::from_secs(1));
        if round == 0 {
            figures.held = held.len();
            #[allow(clippy::cast_precision_loss, reason = "far below 2^52")]
            let each = server.resident().saturating_sub(before) as f64 / held.len().max(1) as f64;
            figures.bytes_each = each;
        }
        figures.with.push(busy()?);
    }
    Ok(figures)
}

/// Opens `count` connections, several at a time: with some servers each takes 40 ms, a delayed acknowledgement.
fn open(port: u16, count: u64) -> Result<Vec<TcpStream>, String> {
    std::thread::scope(|scope| {
        let opener = |first: u64| move || (first..count).step_by(OPENERS).map(|at| one(port, at)).collect();
        let openers: Vec<_> = (0..OPENERS as u64).map(|first| scope.spawn(opener(first))).collect();
        let mut all = Vec::new();
        for it in openers {
            let part: Result<Vec<TcpStream>, String> =
                it.join().map_err(|_| "an opener of idle connections ended early".to_owned())?;
            all.append(&mut part?);
        }
        Ok(all)
    })
}

/// Opens one from one of several addresses of loopback, since a single one has too few ports, and asks for the page once.
fn one(port: u16, at: u64) -> Result<TcpStream, String> {
    let server = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let last = u8::try_from(2 + at % 8).unwrap_or(2);
    let connection = || -> std::io::Result<TcpStream> {
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
        socket.bind(&SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), 0)).into())?;
        socket.set_read_timeout(Some(Duration::from_secs(10)))?;
        socket.connect(&server.into())?;
        Ok(socket.into())
    };
    let mut stream = connection().map_err(|it| format!("idle connection {at}: {it}"))?;
    fetch::get(&mut stream).map_err(|it| format!("idle connection {at}: {it}"))?;
    Ok(stream)
}

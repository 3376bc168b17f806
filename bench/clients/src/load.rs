//! The clients: a thread for each protocol, with connections that stay until larder announces their end. A response that is not the expected
//! one, and a connection that ends at any other time, is a failure.

use crate::http3;
use crate::{PARTS_OF_A_SECOND, Random, all_paths, body_of, milliseconds, path_of, plain};
use bytes::Bytes;
use h2::client::SendRequest;
use larder_bench_clients::AnyCertificate;
use rustls::ClientConfig;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::{LocalSet, spawn_local};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// The protocols, as columns of the report.
pub const PROTOCOLS: [&str; 4] = ["HTTP/1.1", "HTTP/1.1 by TLS", "HTTP/2 by TLS", "HTTP/3"];

/// Streams at once on a connection of HTTP/2 and HTTP/3.
pub const STREAMS: usize = 4;

/// Parts of a second that are counted: an hour.
const PARTS: usize = 3600 * 1000 / PARTS_OF_A_SECOND as usize;

/// The longest wait for a response.
pub const TIMEOUT: Duration = Duration::from_secs(30);

/// The results so far.
pub struct Counted {
    pub enough: AtomicBool,
    /// By protocol.
    pub succeeded: [AtomicU64; PROTOCOLS.len()],
    pub connections: [AtomicU64; PROTOCOLS.len()],
    /// Handshakes of HTTP/3 that failed.
    pub failed_handshakes: AtomicU64,
    /// Streams of HTTP/2 and HTTP/3 that larder did not process, since it had announced the end of the connection (GOAWAY): sent again.
    pub unprocessed: AtomicU64,
    /// A sentence and the time of each.
    pub failures: Mutex<Vec<(u32, String)>>,
    /// Successful requests within each part of a second since the beginning.
    pub parts: Vec<AtomicU32>,
}

pub struct Load {
    began: Instant,
    pub addresses: [SocketAddr; 2],
    tls: [TlsConnector; 2],
    pub counted: Counted,
}

pub type Failure = Box<dyn Error>;

impl Load {
    pub fn new(began: Instant, ports: [u16; 2]) -> Result<Self, Failure> {
        let tls =
            [&b"http/1.1"[..], b"h2"].map(|it| config_for(it).map(|it| TlsConnector::from(Arc::new(it))));
        let [one, two] = tls;
        Ok(Self {
            began,
            addresses: ports.map(|it| SocketAddr::from((Ipv4Addr::LOCALHOST, it))),
            tls: [one?, two?],
            counted: Counted {
                enough: AtomicBool::new(false),
                succeeded: Default::default(),
                connections: Default::default(),
                failed_handshakes: AtomicU64::new(0),
                unprocessed: AtomicU64::new(0),
                failures: Mutex::new(Vec::new()),
                parts: (0..PARTS).map(|_| AtomicU32::new(0)).collect(),
            },
        })
    }

    /// Requests every path once.
    pub fn warm_up(&self) -> Result<(), Failure> {
        run(async {
            let mut connection = TcpStream::connect(self.addresses[0]).await?;
            connection.set_nodelay(true)?;
            let mut buffer = Vec::new();
            // Both schemes have keys of their own.
            let mut sealed = self.sealed(0).await?;
            for path in all_paths() {
                exchange(&mut connection, &path, &mut buffer).await?;
                exchange(&mut sealed, &path, &mut buffer).await?;
            }
            Ok(())
        })
    }

    /// Starts the clients.
    pub fn start(self: &Arc<Self>, connections: usize) -> Vec<JoinHandle<()>> {
        let start = |protocol| {
            let load = self.clone();
            std::thread::spawn(move || {
                let ended = run(async {
                    let all: Vec<_> =
                        (0..connections).map(|it| spawn_local(load.clone().client(protocol, it))).collect();
                    for one in all {
                        one.await?;
                    }
                    Ok(())
                });
                if let Err(why) = ended {
                    eprintln!("{}: {why}", PROTOCOLS[protocol]);
                }
            })
        };
        (0..PROTOCOLS.len()).map(start).collect()
    }

    /// One connection after the other.
    async fn client(self: Arc<Self>, protocol: usize, number: usize) {
        let mut random = Random(
            u32::try_from(1 + PROTOCOLS.len() * number + protocol).unwrap_or(1).wrapping_mul(2_654_435_761),
        );
        while !self.counted.enough.load(Relaxed) {
            self.counted.connections[protocol].fetch_add(1, Relaxed);
            let ended = match protocol {
                0 => self.plain(&mut random).await,
                1 => self.over_tls(&mut random).await,
                2 => self.over_http2(&mut random).await,
                _ => http3::connection(self.clone(), &mut random).await,
            };
            if let Err(why) = ended {
                self.failed(protocol, &why);
                // A server that has gone would fail millions.
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    pub fn failed(&self, protocol: usize, why: &Failure) {
        let sentence = format!("{}: {}", PROTOCOLS[protocol], plain(&**why));
        if let Ok(mut failures) = self.counted.failures.lock() {
            failures.push((milliseconds(self.began), sentence));
        }
    }

    pub fn succeeded(&self, protocol: usize) {
        self.counted.succeeded[protocol].fetch_add(1, Relaxed);
        let part = (milliseconds(self.began) / PARTS_OF_A_SECOND) as usize;
        if let Some(part) = self.counted.parts.get(part) {
            part.fetch_add(1, Relaxed);
        }
    }

    async fn plain(&self, random: &mut Random) -> Result<(), Failure> {
        let stream = TcpStream::connect(self.addresses[0]).await?;
        stream.set_nodelay(true)?;
        self.requests(0, stream, random).await
    }

    async fn over_tls(&self, random: &mut Random) -> Result<(), Failure> {
        let stream = self.sealed(0).await?;
        self.requests(1, stream, random).await
    }

    /// A connection by TLS, for this of the two versions of HTTP.
    async fn sealed(&self, version: usize) -> Result<TlsStream<TcpStream>, Failure> {
        let stream = TcpStream::connect(self.addresses[1]).await?;
        stream.set_nodelay(true)?;
        Ok(self.tls[version].connect(ServerName::try_from("localhost")?, stream).await?)
    }

    /// Requests until larder announces the end of the connection, or there were enough.
    async fn requests(
        &self,
        protocol: usize,
        mut stream: impl AsyncRead + AsyncWrite + Unpin,
        random: &mut Random,
    ) -> Result<(), Failure> {
        let mut buffer = Vec::new();
        while !self.counted.enough.load(Relaxed) {
            let path = path_of(random.next());
            let exchanged = exchange(&mut stream, &path, &mut buffer);
            let stays = tokio::time::timeout(TIMEOUT, exchanged).await??;
            self.succeeded(protocol);
            if !stays {
                break;
            }
        }
        Ok(())
    }

    async fn over_http2(self: &Arc<Self>, random: &mut Random) -> Result<(), Failure> {
        let stream = self.sealed(1).await?;
        let mut settings = h2::client::Builder::new();
        settings.initial_window_size(1 << 20).initial_connection_window_size(1 << 24);
        let (sender, connection) = settings.handshake::<_, Bytes>(stream).await?;
        let driver = spawn_local(connection);
        let streams: Vec<_> = (0..STREAMS)
            .map(|_| spawn_local(self.clone().streams(sender.clone(), Random(random.next() | 1))))
            .collect();
        drop(sender);
        for one in streams {
            one.await??;
        }
        driver.abort();
        Ok(())
    }

    /// One stream after the other.
    async fn streams(
        self: Arc<Self>,
        mut sender: SendRequest<Bytes>,
        mut random: Random,
    ) -> Result<(), h2::Error> {
        while !self.counted.enough.load(Relaxed) {
            // The error is that larder has announced the end.
            match sender.ready().await {
                Ok(it) => sender = it,
                Err(error) if is_announced(&error) => break,
                Err(error) => return Err(error),
            }
            let path = path_of(random.next());
            match tokio::time::timeout(TIMEOUT, stream(&mut sender, &path)).await {
                Ok(Ok(())) => self.succeeded(2),
                Ok(Err(error)) => match error.downcast::<h2::Error>() {
                    Ok(error) if is_announced(&error) => {
                        self.counted.unprocessed.fetch_add(1, Relaxed);
                        break;
                    }
                    Ok(error) => return Err(*error),
                    Err(error) => self.failed(2, &error),
                },
                Err(late) => self.failed(2, &late.into()),
            }
        }
        Ok(())
    }
}

/// Whether the stream was not processed, since larder had announced the end of the connection before it came (RFC 9113 §6.8).
fn is_announced(error: &h2::Error) -> bool {
    error.is_go_away() && error.is_remote() && error.reason() == Some(h2::Reason::NO_ERROR)
        || error.reason() == Some(h2::Reason::REFUSED_STREAM)
}

/// One request by HTTP/2.
async fn stream(sender: &mut SendRequest<Bytes>, path: &str) -> Result<(), Failure> {
    let request = http::Request::get(format!("https://localhost{path}")).body(())?;
    let (response, _) = sender.send_request(request, true)?;
    let (head, mut body) = response.await?.into_parts();
    let mut found = Vec::new();
    while let Some(bytes) = body.data().await {
        let bytes = bytes?;
        body.flow_control().release_capacity(bytes.len())?;
        found.extend_from_slice(&bytes);
    }
    match head.status.as_u16() == 200 && found == body_of(path) {
        true => Ok(()),
        false => Err(format!("{path}: {} with {} bytes", head.status, found.len()).into()),
    }
}

/// One request by HTTP/1.1; returns whether the connection stays.
async fn exchange(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    path: &str,
    buffer: &mut Vec<u8>,
) -> Result<bool, Failure> {
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).await?;
    buffer.clear();
    let expected = body_of(path);
    let end = loop {
        if let Some(at) = buffer.windows(4).position(|it| it == b"\r\n\r\n") {
            break at + 4;
        }
        read(stream, buffer, path).await?;
    };
    while buffer.len() < end + expected.len() {
        read(stream, buffer, path).await?;
    }
    let (head, body) = buffer.split_at(end);
    if !head.starts_with(b"HTTP/1.1 200 ") || body != expected {
        let first = String::from_utf8_lossy(head).lines().next().unwrap_or_default().to_owned();
        return Err(format!("{path}: {first} with {} bytes", body.len()).into());
    }
    let head = head.to_ascii_lowercase();
    Ok(!head.windows(17).any(|it| it == b"connection: close"))
}

async fn read(
    stream: &mut (impl AsyncRead + Unpin),
    buffer: &mut Vec<u8>,
    path: &str,
) -> Result<(), Failure> {
    match stream.read_buf(buffer).await {
        Ok(0) => Err(format!("{path}: the connection ended after {} bytes", buffer.len()).into()),
        Ok(_) => Ok(()),
        Err(error) => Err(format!("{path}: {error} after {} bytes", buffer.len()).into()),
    }
}

/// Runs clients on this thread.
fn run(clients: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, clients)
}

/// A client that trusts every certificate.
pub fn config_for(protocol: &[u8]) -> Result<ClientConfig, rustls::Error> {
    let provider = Arc::new(ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    Ok(config)
}

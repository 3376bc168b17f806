//! Load over HTTP/3, by the implementation of quinn and h3: ten requests at once on each connection, one after the other. It prints the
//! line of `bench/load/report.lua`. It trusts every certificate.

use bytes::Buf;
use larder_bench_clients::AnyCertificate;
use rustls::crypto::ring;
use rustls::{CipherSuite, ClientConfig};
use std::cell::{Cell, RefCell};
use std::error::Error;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::{LocalSet, spawn_local};

/// Requests at once on a connection.
const STREAMS: usize = 10;

/// The results so far.
#[derive(Default)]
struct Counted {
    requests: Cell<u64>,
    bytes: Cell<u64>,
    errors: Cell<u64>,
    micros: RefCell<Vec<u32>>,
}

type Sender = h3::client::SendRequest<h3_quinn::OpenStreams, bytes::Bytes>;

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [port, connections, seconds] = &arguments[..] else {
        return Err("usage: larder-bench-http3 PORT CONNECTIONS SECONDS".into());
    };
    let server = SocketAddr::from(([127, 0, 0, 1], port.parse()?));
    let (connections, seconds) = (connections.parse()?, Duration::from_secs(seconds.parse()?));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, run(server, connections, seconds))
}

async fn run(server: SocketAddr, connections: usize, lasts: Duration) -> Result<(), Box<dyn Error>> {
    let mut endpoint = quinn::Endpoint::client("127.0.0.1:0".parse()?)?;
    endpoint.set_default_client_config(client()?);
    let counted = Rc::new(Counted::default());
    let uri = format!("https://localhost:{}/page.html", server.port());
    let mut senders = Vec::new();
    for _ in 0..connections {
        let connection = endpoint.connect(server, "localhost")?.await?;
        let (mut driver, sender) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
        spawn_local(async move { poll_fn(|context| driver.poll_close(context)).await });
        senders.push(sender);
    }
    let (begun, end) = (Instant::now(), Instant::now() + lasts);
    let streams = senders.iter().flat_map(|it| std::iter::repeat_n(it, STREAMS)).map(|sender| {
        let (sender, uri, counted) = (sender.clone(), uri.clone(), counted.clone());
        spawn_local(requests(sender, uri, end, counted))
    });
    for stream in streams.collect::<Vec<_>>() {
        stream.await?;
    }
    let mut micros = counted.micros.take();
    micros.sort_unstable();
    let quantile = |of: usize| micros.get(micros.len() * of / 100).copied().unwrap_or(0);
    println!(
        "RESULT {} {} {} 0 {} 0 0 0 {} {}",
        counted.requests.get(),
        begun.elapsed().as_micros(),
        counted.bytes.get(),
        counted.errors.get(),
        quantile(50),
        quantile(99),
    );
    Ok(())
}

/// Sends one request after the other until `end`.
async fn requests(mut sender: Sender, uri: String, end: Instant, counted: Rc<Counted>) {
    while Instant::now() < end {
        let begun = Instant::now();
        match request(&mut sender, &uri).await {
            Ok(bytes) => {
                counted.requests.set(counted.requests.get() + 1);
                counted.bytes.set(counted.bytes.get() + bytes);
                counted
                    .micros
                    .borrow_mut()
                    .push(u32::try_from(begun.elapsed().as_micros()).unwrap_or(u32::MAX));
            }
            Err(_) => {
                counted.errors.set(counted.errors.get() + 1);
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        }
    }
}

/// One request; the bytes of its body.
async fn request(sender: &mut Sender, uri: &str) -> Result<u64, Box<dyn Error>> {
    let mut stream = sender.send_request(http::Request::get(uri).body(())?).await?;
    stream.finish().await?;
    let response = stream.recv_response().await?;
    if !response.status().is_success() {
        return Err(response.status().to_string().into());
    }
    let mut bytes = 0;
    while let Some(data) = stream.recv_data().await? {
        bytes += data.remaining() as u64;
    }
    Ok(bytes)
}

/// TLS 1.3 with the suite that all servers of the benchmarks use.
fn client() -> Result<quinn::ClientConfig, Box<dyn Error>> {
    let mut provider = ring::default_provider();
    provider.cipher_suites.retain(|it| it.suite() == CipherSuite::TLS13_AES_128_GCM_SHA256);
    let provider = Arc::new(provider);
    let mut tls = ClientConfig::builder_with_provider(provider.clone())
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyCertificate(provider)))
        .with_no_client_auth();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    Ok(quinn::ClientConfig::new(Arc::new(quinn::crypto::rustls::QuicClientConfig::try_from(tls)?)))
}

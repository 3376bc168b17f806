//! The client of HTTP/3, by the implementation of quinn and h3. A handshake that fails is a failure like that of a request, and is counted
//! by itself, too.

use crate::load::{Failure, Load, STREAMS, TIMEOUT, config_for};
use crate::{Random, body_of, path_of};
use bytes::{Buf as _, Bytes};
use h3::error::{Code, StreamError};
use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::task::spawn_local;

/// Requests of a stream before the connection ends: handshakes come all the time, and not after upgrades alone.
const REQUESTS: usize = 100;

/// Its place among the protocols.
const PLACE: usize = 3;

type Sender = h3::client::SendRequest<h3_quinn::OpenStreams, Bytes>;

/// The end of a request.
enum Outcome {
    Answered,
    /// larder had announced the end of the connection (GOAWAY), and did not process it.
    Unprocessed,
}

/// Requests until larder announces the end of the connection, or there were enough.
pub async fn connection(load: Arc<Load>, random: &mut Random) -> Result<(), Failure> {
    let mut endpoint = quinn::Endpoint::client(SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let crypto = quinn::crypto::rustls::QuicClientConfig::try_from(config_for(b"h3")?)?;
    endpoint.set_default_client_config(quinn::ClientConfig::new(Arc::new(crypto)));
    let handshake = endpoint.connect(load.addresses[1], "localhost")?;
    let handshake = tokio::time::timeout(TIMEOUT, handshake).await;
    let connection = match handshake {
        Ok(Ok(it)) => it,
        failed => {
            load.counted.failed_handshakes.fetch_add(1, Relaxed);
            return Err(format!("the handshake failed: {:?}", failed.map(|it| it.err())).into());
        }
    };
    let (mut driver, sender) = h3::client::new(h3_quinn::Connection::new(connection)).await?;
    let driver = spawn_local(async move { poll_fn(|context| driver.poll_close(context)).await });
    let streams: Vec<_> = (0..STREAMS)
        .map(|_| spawn_local(requests(load.clone(), sender.clone(), Random(random.next() | 1))))
        .collect();
    drop(sender);
    for one in streams {
        one.await?;
    }
    driver.abort();
    endpoint.close(quinn::VarInt::from_u32(0x100), b"");
    // The next connection does not wait for the last packets of this one.
    spawn_local(async move { endpoint.wait_idle().await });
    Ok(())
}

/// One request after the other.
async fn requests(load: Arc<Load>, mut sender: Sender, mut random: Random) {
    for _ in 0..REQUESTS {
        if load.counted.enough.load(Relaxed) {
            return;
        }
        let path = path_of(random.next());
        match tokio::time::timeout(TIMEOUT, request(&mut sender, &path)).await {
            Ok(Ok(Outcome::Answered)) => load.succeeded(PLACE),
            Ok(Ok(Outcome::Unprocessed)) => {
                load.counted.unprocessed.fetch_add(1, Relaxed);
                return;
            }
            Ok(Err(why)) => return load.failed(PLACE, &why),
            Err(late) => return load.failed(PLACE, &late.into()),
        }
    }
}

async fn request(sender: &mut Sender, path: &str) -> Result<Outcome, Failure> {
    let asked = http::Request::get(format!("https://localhost{path}")).body(())?;
    match exchange(sender, asked).await {
        Ok((200, found)) if found == body_of(path) => Ok(Outcome::Answered),
        Ok((status, found)) => Err(format!("{path}: {status} with {} bytes", found.len()).into()),
        Err(error) if is_announced(&error) => Ok(Outcome::Unprocessed),
        Err(error) => Err(format!("{path}: {error}").into()),
    }
}

async fn exchange(sender: &mut Sender, asked: http::Request<()>) -> Result<(u16, Vec<u8>), StreamError> {
    let mut stream = sender.send_request(asked).await?;
    stream.finish().await?;
    let head = stream.recv_response().await?;
    let mut found = Vec::new();
    while let Some(mut bytes) = stream.recv_data().await? {
        found.extend_from_slice(&bytes.copy_to_bytes(bytes.remaining()));
    }
    Ok((head.status().as_u16(), found))
}

/// Whether the request was not processed, since larder had announced the end of the connection (RFC 9114 §5.2).
fn is_announced(error: &StreamError) -> bool {
    match error {
        StreamError::RemoteClosing { .. } => true,
        StreamError::RemoteTerminate { code, .. } => *code == Code::H3_REQUEST_REJECTED,
        other => other.is_h3_no_error(),
    }
}

//! The HTTP client of the ACME library: larder's own client of origins, which lives on one thread, behind a channel that any thread may
//! use. It keeps the `Retry-After` of refusals, which the library does not pass on.

use crate::internal_client::InternalClient;
use bytes::Bytes;
use http::Request;
use http_body::Body as _;
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use larder_config::OriginMember;
use larder_config::access::KeyUrl;
use larder_semantics::date;
use larder_semantics::field::FieldList;
use larder_stdx::clock;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::future::{Future, poll_fn};
use std::path::PathBuf;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};

/// How often a request is repeated with another nonce, beyond the library's own repetitions.
const NONCES: usize = 5;

/// The time limit of an exchange.
const TIMEOUT: Duration = Duration::from_secs(30);

type Answered = Result<BytesResponse, Error>;
type AcmeExchange = (Request<BodyWrapper<Bytes>>, oneshot::Sender<Answered>);

/// The side of the channel that the library holds.
struct AcmeRequests(mpsc::UnboundedSender<AcmeExchange>);

impl HttpClient for AcmeRequests {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Answered> + Send>> {
        let (answer, answered) = oneshot::channel();
        let sent = self.0.send((request, answer)).is_ok();
        Box::pin(async move {
            match answered.await {
                Ok(answer) if sent => answer,
                _ => Err(failed("the client has ended".to_owned())),
            }
        })
    }
}

/// The client of one CA.
pub struct AcmeClient {
    /// The file of its trusted certificates.
    ca: Option<PathBuf>,
    servers: RefCell<HashMap<String, Rc<InternalClient>>>,
    /// Seconds of the last `Retry-After` of a refusal.
    retry_after: Cell<Option<u64>>,
}

impl AcmeClient {
    /// A client that trusts these certificates, or those of the system.
    pub fn new(ca: Option<PathBuf>) -> Rc<Self> {
        Rc::new(Self { ca, servers: RefCell::default(), retry_after: Cell::default() })
    }

    /// The client for the library; its exchanges run on the present `LocalSet` for as long as it exists.
    pub fn open(self: &Rc<Self>) -> Box<dyn HttpClient> {
        let (requests, mut inbox) = mpsc::unbounded_channel::<AcmeExchange>();
        let this = self.clone();
        tokio::task::spawn_local(async move {
            while let Some((request, answer)) = inbox.recv().await {
                let this = this.clone();
                tokio::task::spawn_local(async move {
                    let _ = answer.send(this.exchange(request).await);
                });
            }
        });
        Box::new(AcmeRequests(requests))
    }

    /// The pause that the CA asked for with its last refusal, seconds; once.
    pub fn take_retry_after(&self) -> Option<u64> {
        self.retry_after.take()
    }

    async fn exchange(&self, request: Request<BodyWrapper<Bytes>>) -> Answered {
        let (parts, mut body) = request.into_parts();
        let frame = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await;
        let body = frame.and_then(Result::ok).and_then(|it| it.into_data().ok()).unwrap_or_default();
        let url = parts.uri.to_string();
        let place = KeyUrl::parse(&url).ok_or_else(|| failed(format!("{url} is no URL of a CA")))?;
        let mut fields = FieldList::with_capacity(parts.headers.len() + 1, 256);
        for (name, value) in &parts.headers {
            fields.push(name.as_str(), value.as_bytes());
        }
        let server = self.server(&place.from);
        let answer = server.send((parts.method.as_str(), &place.target), &fields, body).await;
        let authority = place.from.authority();
        let answer = answer.map_err(|why| failed(of_authority(&authority, &why)))?;
        let status = answer.status;
        if answer.status >= 400 {
            self.retry_after.set(answer.fields.get("retry-after").and_then(seconds));
        }
        let mut response = http::Response::builder().status(answer.status);
        for it in answer.fields.iter() {
            response = response.header(it.name, it.value);
        }
        let (parts, ()) = response.body(()).map_err(Error::Http)?.into_parts();
        let bad = |what: &str| {
            let target = &place.target;
            failed(format!(
                "the CA {authority} does not answer as ACME requires: {status} for {target}, {what}"
            ))
        };
        let body = answer.body.ok_or_else(|| bad("with more than 1 MiB"))?;
        // The library would tell neither the CA nor the status.
        if !(body.is_empty() || body.starts_with(b"-----BEGIN") || is_json(&body)) {
            return Err(bad("with a body that is no JSON"));
        }
        Ok(BytesResponse { parts, body: Box::new(body) })
    }

    fn server(&self, at: &OriginMember) -> Rc<InternalClient> {
        let mut servers = self.servers.borrow_mut();
        let made = || InternalClient::at(at, self.ca.as_ref(), "/".to_owned(), TIMEOUT);
        servers.entry(at.name()).or_insert_with(made).clone()
    }
}

fn is_json(body: &[u8]) -> bool {
    serde_json::from_slice::<serde::de::IgnoredAny>(body).is_ok()
}

/// The seconds of `Retry-After` (RFC 9110 section 10.2.3).
fn seconds(value: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(value).ok()?.trim();
    text.parse().ok().or_else(|| Some(date::parse(text.as_bytes())?.0.saturating_sub(clock::wall().0)))
}

/// The reason of larder's client, whose sentences are about an origin, as one about the CA.
fn of_authority(name: &str, why: &str) -> String {
    let name = format!("the CA {name}");
    if why.contains("the origin") { why.replace("the origin", &name) } else { format!("{name}: {why}") }
}

fn failed(why: String) -> Error {
    Error::Other(why.into())
}

/// Repeats a request whose nonce the CA rejects: it had no effect.
pub(super) async fn again<T>(mut request: impl AsyncFnMut() -> Result<T, Error>) -> Result<T, Error> {
    for _ in 1..NONCES {
        match request().await {
            Err(Error::Api(it)) if super::is_of(&it, "badNonce") => {}
            answer => return answer,
        }
    }
    request().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_ca() {
        let check = |why: &str, expect: &str| assert_eq!(expect, of_authority("ca.test:443", why));
        let refused = larder_origin::OriginError::Connect("Connection refused".into());
        check(&refused.sentence(), "the CA ca.test:443 cannot be reached: Connection refused");
        check("it did not answer in time", "the CA ca.test:443: it did not answer in time");
    }
}

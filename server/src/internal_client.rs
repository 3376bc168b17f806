//! The HTTP client of larder's own requests: one worker's connections to a service that admits requests (`access.forward`) or
//! publishes keys (`access.jwt.jwks_url`), or to a CA (`tls.acme`), and the exchange with it. The request and the meaning of its
//! answer are in `access::forward`, `access::issuer` and `acme::http`.

use bytes::{Bytes, BytesMut};
use larder_config::access::ForwardConfig;
use larder_config::{MemberProtocol, OriginMember};
use larder_origin::{
    Membership, OriginError, OriginLimits, OriginPool, OriginSecurity, OriginTls, OutgoingRequest, Protocol,
    TlsSettings,
};
use larder_semantics::field::FieldList;
use larder_stdx::circuit_breaker::BreakerSettings;
use larder_wire::message::Framing;
use std::path::PathBuf;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of the body of an answer; a longer one is not sent to a client.
const LARGEST_BODY: usize = 1 << 20;
/// The most questions in progress, of one worker.
const QUESTIONS: usize = 256;
/// The most requests that wait for one of them.
const QUEUE: usize = 4096;

/// A service that larder asks itself, in one worker.
pub struct InternalClient {
    /// `None` if its certificates cannot be read.
    origin: Option<Rc<OriginPool>>,
    host: String,
    target: String,
    timeout: Duration,
}

/// An answer of the service.
pub(crate) struct InternalAnswer {
    /// Its status.
    pub status: u16,
    /// All its fields.
    pub fields: FieldList,
    /// Its body; `None` if it is too large.
    pub body: Option<Bytes>,
}

impl InternalClient {
    /// The service of these settings, without connections yet.
    #[must_use]
    pub fn new(config: &ForwardConfig) -> Rc<Self> {
        Self::at(&config.to, config.ca.as_ref(), config.target(), config.timeout)
    }

    /// The service at this address and target, verified with these certificates.
    pub(crate) fn at(to: &OriginMember, ca: Option<&PathBuf>, target: String, timeout: Duration) -> Rc<Self> {
        let limits = OriginLimits {
            connect: timeout,
            handshake: timeout,
            first_byte: timeout,
            between_bytes: timeout,
            total: timeout,
            idle: Duration::from_secs(30),
            head_size: 64 << 10,
            connections: QUESTIONS,
            queue: QUEUE,
            queue_wait: None,
            idle_connections: QUESTIONS,
            interim: 8,
        };
        let settings = TlsSettings { ca: ca.cloned(), ..TlsSettings::default() };
        let secure = (to.scheme == MemberProtocol::Https).then(|| OriginTls::new(&settings));
        // They were read when the configuration was checked, and may have gone since.
        let is_unreadable = matches!(secure, Some(Err(_)));
        let tls = secure.and_then(Result::ok).map(|tls| OriginSecurity { tls, name: to.host().to_owned() });
        let protocol = match to.scheme {
            MemberProtocol::H2c => Protocol::Http2,
            MemberProtocol::Application(it) => Protocol::Application(it),
            MemberProtocol::Http | MemberProtocol::Https => Protocol::Http1,
        };
        // A question is not a request of a client: its state and counters are its own.
        let own = Membership {
            name: to.name(),
            tls,
            protocol,
            outlier_state: Arc::default(),
            weight: 1,
            ejection: BreakerSettings::OFF,
            drained: false,
            preamble: None,
        };
        let origin = OriginPool::in_group(to.at.clone(), limits, Arc::default(), own);
        Rc::new(Self {
            origin: Some(origin).filter(|_| !is_unreadable),
            host: to.authority(),
            target,
            timeout,
        })
    }

    /// Whether it can be reached: opens a connection and sends nothing. The error is that of an origin; `None` if its trusted
    /// certificates cannot be read.
    pub(crate) async fn contact(&self) -> Result<(), Option<OriginError>> {
        self.origin.as_ref().ok_or(None)?.check_connect().await.map_err(Some)
    }

    /// Asks a question with these fields, and keeps the body of an answer that does not admit. An error is why there is no answer.
    pub(super) async fn authorize(&self, question: FieldList) -> Result<InternalAnswer, String> {
        self.get(question, |status| status >= 300).await
    }

    /// Requests the target with these fields; `keeps` is whether the body of a response with a status is needed.
    pub(super) async fn get(
        &self,
        question: FieldList,
        keeps: impl Fn(u16) -> bool,
    ) -> Result<InternalAnswer, String> {
        self.ask_with(("GET", &self.target), &question, Bytes::new(), keeps).await
    }

    /// Sends a request with a body, and keeps the body of its answer.
    pub(crate) async fn send(
        &self,
        line: (&str, &str),
        fields: &FieldList,
        body: Bytes,
    ) -> Result<InternalAnswer, String> {
        self.ask_with(line, fields, body, |_| true).await
    }

    async fn ask_with(
        &self,
        (method, target): (&str, &str),
        question: &FieldList,
        body: Bytes,
        keeps: impl Fn(u16) -> bool,
    ) -> Result<InternalAnswer, String> {
        let Some(origin) = &self.origin else {
            return Err("its trusted certificates cannot be read".to_owned());
        };
        let mut fields = FieldList::with_capacity(question.iter().len() + 1, question.text().len() + 64);
        fields.push("Host", &self.host);
        question.iter().for_each(|it| fields.push(it.name, it.value));
        let mut request = OutgoingRequest::own(method, target, fields);
        if !body.is_empty() {
            request.framing = Framing::Length(body.len() as u64);
        }
        match tokio::time::timeout(self.timeout, exchange(origin, request, body, keeps)).await {
            Ok(answer) => answer.map_err(|it| it.sentence().into_owned()),
            Err(_) => Err("it did not answer in time".to_owned()),
        }
    }
}

/// One question and its answer.
async fn exchange(
    origin: &Rc<OriginPool>,
    request: OutgoingRequest,
    body: Bytes,
    keeps: impl Fn(u16) -> bool,
) -> Result<InternalAnswer, OriginError> {
    let exchange = origin.send(request).await?;
    if !body.is_empty() {
        exchange.write(body).await?;
        exchange.write_end(None).await?;
    }
    let head = loop {
        let head = exchange.head().await?;
        if head.status >= 200 {
            break head;
        }
    };
    let (mut body, mut length) = (BytesMut::new(), 0);
    while let Some(bytes) = exchange.next().await? {
        length += bytes.len();
        if length > LARGEST_BODY {
            return Ok(InternalAnswer { status: head.status, fields: head.fields, body: None });
        }
        if keeps(head.status) {
            body.extend_from_slice(&bytes);
        }
    }
    Ok(InternalAnswer { status: head.status, fields: head.fields, body: Some(body.freeze()) })
}

//! The encoding of spans by OpenTelemetry's conventions for HTTP servers, and their transfer to the collector: OTLP over
//! HTTP, by one thread that may block. The selection of requests is not here.

use super::{Span, SpanItem};
use async_trait::async_trait;
use bytes::Bytes;
use larder_counters::Counters;
use larder_origin::OriginAddress;
use larder_transport::http_client::{ClientRequest, HttpClient as Connection};
use larder_transport::listener::Listen;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_http::{HttpClient, HttpError, Request, Response};
use opentelemetry_otlp::{SpanExporter, WithExportConfig, WithHttpConfig};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanExporter as _, SpanLinks};
use std::net::ToSocketAddrs;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Spans in one message.
const BATCH: usize = 256;
/// The time for which spans wait for further ones.
const COMPANY: Duration = Duration::from_secs(1);
/// The time limit of the collector for each step.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Sends queued spans.
pub struct SpanSender {
    exporter: SpanExporter,
    runtime: tokio::runtime::Runtime,
    scope: InstrumentationScope,
    counters: Arc<Counters>,
}

impl SpanSender {
    pub fn new(to: &OriginAddress, counters: Arc<Counters>) -> Result<Self, String> {
        let host = match to {
            OriginAddress::Tcp(host, port) if host.contains(':') => format!("[{host}]:{port}"),
            OriginAddress::Tcp(host, port) => format!("{host}:{port}"),
            OriginAddress::Unix(_) | OriginAddress::Programs(_) => "localhost".to_owned(),
        };
        let mut exporter = SpanExporter::builder()
            .with_http()
            .with_http_client(CollectorClient { to: to.clone() })
            .with_endpoint(format!("http://{host}/v1/traces"))
            .with_timeout(TIMEOUT)
            .build()
            .map_err(|it| it.to_string())?;
        let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
        exporter
            .set_resource(&Resource::builder().with_service_name("larder").with_attribute(version).build());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .map_err(|it| it.to_string())?;
        let scope = InstrumentationScope::builder("larder").with_version(env!("CARGO_PKG_VERSION")).build();
        Ok(Self { exporter, runtime, scope, counters })
    }

    /// Runs until all senders are gone.
    pub fn run(self, items: &Receiver<SpanItem>) {
        let mut batch: Vec<Span> = Vec::new();
        let mut flushed: Option<SyncSender<()>> = None;
        loop {
            let ended = match items.recv_timeout(COMPANY) {
                Ok(SpanItem::Span(span)) => {
                    batch.push(*span);
                    if batch.len() < BATCH {
                        continue;
                    }
                    false
                }
                Ok(SpanItem::Flush(report)) => {
                    flushed = Some(report);
                    false
                }
                Err(RecvTimeoutError::Timeout) => false,
                Err(RecvTimeoutError::Disconnected) => true,
            };
            self.send(&mut batch);
            if let Some(report) = flushed.take() {
                let _ = report.send(());
            }
            if ended {
                return;
            }
        }
    }

    fn send(&self, batch: &mut Vec<Span>) {
        if batch.is_empty() {
            return;
        }
        let requests = batch.len() as u64;
        let spans = batch.drain(..).flat_map(|it| self.spans(&it)).collect();
        let counter = match self.runtime.block_on(self.exporter.export(spans)) {
            Ok(()) => &self.counters.telemetry_sent,
            Err(_) => &self.counters.telemetry_failed,
        };
        counter.add_shared(requests);
    }

    /// The span of a request, and one of each stage, end to end: a request is in one stage at a time, and stages that
    /// alternated are one.
    fn spans(&self, it: &Span) -> Vec<SpanData> {
        let at = |micros: u64| UNIX_EPOCH + Duration::from_micros(micros);
        let end = it.start_us.saturating_add(it.spent.total());
        let own = it.context.own;
        let request = SpanData {
            parent_span_id: SpanId::from_bytes(it.context.parent.to_be_bytes()),
            parent_span_is_remote: it.context.parent != 0,
            attributes: attributes(it),
            status: if it.status >= 500 { Status::error("") } else { Status::Unset },
            ..self.span(own.trace, own.span, SpanKind::Server, format!("{} {}", it.method, it.route))
        };
        let mut all = vec![SpanData { start_time: at(it.start_us), end_time: at(end), ..request }];
        let mut start = it.start_us;
        for (number, (stage, micros)) in it.spent.iter().enumerate().filter(|it| it.1.1 > 0) {
            let end = start.saturating_add(micros);
            let id = own.span.wrapping_add(number as u64 + 1).max(1);
            all.push(SpanData {
                parent_span_id: SpanId::from_bytes(own.span.to_be_bytes()),
                start_time: at(start),
                end_time: at(end),
                ..self.span(own.trace, id, SpanKind::Internal, stage.name().to_owned())
            });
            start = end;
        }
        all
    }

    fn span(&self, trace: u128, id: u64, kind: SpanKind, name: String) -> SpanData {
        let (trace, id) = (TraceId::from_bytes(trace.to_be_bytes()), SpanId::from_bytes(id.to_be_bytes()));
        SpanData {
            span_context: SpanContext::new(trace, id, TraceFlags::SAMPLED, false, TraceState::default()),
            parent_span_id: SpanId::INVALID,
            parent_span_is_remote: false,
            span_kind: kind,
            name: name.into(),
            start_time: SystemTime::UNIX_EPOCH,
            end_time: SystemTime::UNIX_EPOCH,
            attributes: Vec::new(),
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: Status::Unset,
            instrumentation_scope: self.scope.clone(),
        }
    }
}

/// By the semantic conventions for HTTP servers; queries are omitted, since they may contain secrets.
fn attributes(it: &Span) -> Vec<KeyValue> {
    let (host, port) = match it.host.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse::<i64>().ok()),
        _ => (it.host.as_str(), None),
    };
    let mut all = vec![
        KeyValue::new("http.request.method", it.method.clone()),
        KeyValue::new("url.path", it.path.clone()),
        KeyValue::new("url.scheme", it.scheme.name()),
        KeyValue::new("http.response.status_code", i64::from(it.status)),
        KeyValue::new("http.route", it.route.clone()),
        KeyValue::new("server.address", host.to_owned()),
    ];
    all.extend(port.map(|it| KeyValue::new("server.port", it)));
    all.extend(it.client.map(|it| KeyValue::new("client.address", it.to_string())));
    if !it.cache.is_empty() {
        all.push(KeyValue::new("larder.cache", it.cache));
    }
    if it.status >= 500 {
        all.push(KeyValue::new("error.type", it.status.to_string()));
    }
    all
}

/// HTTP/1.1 to one address, a connection each time: once a second at most. It blocks: the thread is dedicated to it.
#[derive(Clone, Debug)]
struct CollectorClient {
    to: OriginAddress,
}

impl CollectorClient {
    fn connect(&self) -> std::io::Result<Connection> {
        let (host, port) = match &self.to {
            OriginAddress::Tcp(host, port) => (host.as_str(), *port),
            OriginAddress::Unix(path) => return Connection::connect(&Listen::Unix(path.clone()), TIMEOUT),
            OriginAddress::Programs(_) => return Err(std::io::ErrorKind::InvalidInput.into()),
        };
        let mut last = std::io::ErrorKind::NotFound.into();
        for address in (host, port).to_socket_addrs()? {
            match Connection::connect(&Listen::Tcp(address), TIMEOUT) {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

#[async_trait]
impl HttpClient for CollectorClient {
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let own = request.headers().iter().filter(|it| it.0 != "content-length" && it.0 != "host");
        let mut fields: Vec<(&str, &[u8])> = own.map(|it| (it.0.as_str(), it.1.as_bytes())).collect();
        fields.push(("Connection", b"close"));
        let head = self.connect()?.send(&ClientRequest {
            method: "POST",
            target: request.uri().path(),
            host: request.uri().authority().map_or("localhost", |it| it.as_str()),
            fields: &fields,
            body: Some(request.body()),
        })?;
        // Only the status is used.
        Ok(Response::builder().status(head.status).body(Bytes::new())?)
    }
}

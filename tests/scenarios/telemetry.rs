//! OpenTelemetry: the data for a collector; no request waits for it.

use crate::harness::origin::{Script, response};
use crate::harness::{Larder, Origin, until};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A collector that keeps what it is sent.
struct Collector {
    address: SocketAddr,
    taken: Arc<Mutex<Vec<(String, ExportTraceServiceRequest)>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let taken = Arc::new(Mutex::new(Vec::new()));
        let kept = taken.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if let Some(it) = receive(stream) {
                    kept.lock().unwrap().push(it);
                }
            }
        });
        Self { address, taken }
    }

    /// All spans so far.
    fn spans(&self) -> Vec<Span> {
        let taken = self.taken.lock().unwrap();
        let resources = taken.iter().flat_map(|it| &it.1.resource_spans);
        resources.flat_map(|it| &it.scope_spans).flat_map(|it| &it.spans).cloned().collect()
    }
}

/// The head of a request and what its body says, answered with 200.
fn receive(mut stream: TcpStream) -> Option<(String, ExportTraceServiceRequest)> {
    let mut bytes = Vec::new();
    let mut room = [0; 16 * 1024];
    loop {
        let count = stream.read(&mut room).ok().filter(|it| *it > 0)?;
        bytes.extend_from_slice(&room[..count]);
        let Some(at) = bytes.windows(4).position(|it| it == b"\r\n\r\n") else { continue };
        let head = String::from_utf8_lossy(&bytes[..at]).into_owned();
        let length = head
            .lines()
            .find_map(|it| it.to_ascii_lowercase().strip_prefix("content-length: ")?.parse().ok());
        let length: usize = length.expect("a length");
        if bytes.len() - at - 4 >= length {
            let request = ExportTraceServiceRequest::decode(&bytes[at + 4..at + 4 + length])
                .expect("a request of OTLP");
            let _ = stream.write_all(
                b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\n\r\n",
            );
            return Some((head, request));
        }
    }
}

fn page() -> Origin {
    Origin::scripted(|_| {
        vec![Script::Send(response("HTTP/1.1 200 OK\nCache-Control: max-age=60\nContent-Length: 2\n\nok"))]
    })
}

fn observed(origin: &Origin, collector: SocketAddr, more: &str) -> Larder {
    Larder::before_with(origin, "", &format!("[telemetry]\notlp = \"http://{collector}\"\n{more}\n"))
}

fn text(span: &Span, name: &str) -> Option<String> {
    let value = span.attributes.iter().find(|it| it.key == name)?.value.as_ref()?.value.as_ref()?;
    match value {
        Value::StringValue(it) => Some(it.clone()),
        Value::IntValue(it) => Some(it.to_string()),
        _ => None,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|it| format!("{it:02x}")).collect()
}

const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
const PARENT: &str = "00f067aa0ba902b7";

#[test]
fn a_collector_is_sent_a_span_with_its_stages_and_the_origin_its_parent() {
    let (origin, collector) = (page(), Collector::start());
    let larder = observed(&origin, collector.address, "sample = 1");
    let lines = format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n");
    let miss = larder.client().get_with("/a?secret=x", &lines);
    assert_eq!("ok", miss.text());
    until("it is sent", || larder.counter("telemetry_sent") == 1);
    let spans = collector.spans();
    let request = spans.iter().find(|it| it.kind == 2).expect("a server's span");
    assert_eq!("GET */*", request.name);
    assert_eq!((TRACE, PARENT), (&*hex(&request.trace_id), &*hex(&request.parent_span_id)));
    for (name, value) in [
        ("http.request.method", "GET"),
        ("url.path", "/a"),
        ("http.response.status_code", "200"),
        ("http.route", "*/*"),
        ("server.address", "h"),
        ("client.address", "127.0.0.1"),
        ("larder.cache", "uri-miss"),
    ] {
        assert_eq!(Some(value), text(request, name).as_deref(), "{name} of {request:#?}");
    }
    let stages: Vec<&Span> = spans.iter().filter(|it| it.parent_span_id == request.span_id).collect();
    assert!(stages.iter().any(|it| it.name == "first_byte"), "{stages:#?}");
    let mut at = request.start_time_unix_nano;
    for it in &stages {
        assert_eq!((at, &request.trace_id), (it.start_time_unix_nano, &it.trace_id), "end to end");
        at = it.end_time_unix_nano;
    }
    assert_eq!(request.end_time_unix_nano, at, "stages fill the request");
    let sent = origin.received()[0].field("traceparent").unwrap().to_owned();
    assert_eq!(format!("00-{TRACE}-{}-01", hex(&request.span_id)), sent);
    let (head, body) = collector.taken.lock().unwrap()[0].clone();
    assert!(head.starts_with("POST /v1/traces HTTP/1.1"), "{head}");
    let resource = body.resource_spans[0].resource.clone().unwrap();
    let service = resource.attributes.iter().find(|it| it.key == "service.name").unwrap();
    assert!(format!("{service:?}").contains("larder"), "{service:?}");
}

#[test]
fn one_of_several_requests_and_of_fast_hits_is_sampled() {
    let (origin, collector) = (page(), Collector::start());
    let larder = observed(&origin, collector.address, "sample = 4");
    let mut client = larder.client();
    for _ in 0..8 {
        client.get_with("/a", &format!("traceparent: 00-{TRACE}-{PARENT}-01\r\n"));
    }
    until("they are sent", || larder.counter("telemetry_sent") == 2);
    let spans = collector.spans();
    assert_eq!(
        2,
        spans.iter().filter(|it| it.kind == 2 && text(it, "larder.cache").as_deref() == Some("hit")).count(),
        "{spans:#?}"
    );
}

#[test]
fn without_telemetry_the_clients_field_goes_on_as_it_came() {
    let origin = page();
    let larder = Larder::before(&origin, "");
    let came = format!("00-{TRACE}-{PARENT}-01");
    larder.client().get_with("/a", &format!("traceparent: {came}\r\n"));
    larder.client().get("/b");
    let received = origin.received();
    assert_eq!(Some(&*came), received[0].field("traceparent"));
    assert_eq!(None, received[1].field("traceparent"));
}

#[test]
fn a_collector_that_never_answers_delays_no_request() {
    // It takes connections, into its backlog, and never reads.
    let deaf = TcpListener::bind("127.0.0.1:0").unwrap();
    let origin = page();
    let larder = observed(&origin, deaf.local_addr().unwrap(), "sample = 1");
    let mut client = larder.client();
    client.get("/a");
    // More than may wait, and more than a batch: all are answered while the first batch hangs.
    let many = 6000;
    for _ in 0..many / 50 {
        client.send("GET /a HTTP/1.1\r\nHost: h\r\n\r\n".repeat(50));
        (0..50).for_each(|_| assert_eq!("ok", client.read().text()));
    }
    until("some are dropped", || larder.counter("telemetry_dropped") > 0);
    assert_eq!(0, larder.counter("telemetry_sent"));
}

#[test]
fn a_collector_that_is_not_there_is_counted() {
    let (_closed, nobody) = crate::harness::closed_address();
    let origin = page();
    let larder = observed(&origin, nobody, "sample = 1");
    assert_eq!("ok", larder.get("/a").text());
    until("it is counted", || larder.counter("telemetry_failed") == 1);
}

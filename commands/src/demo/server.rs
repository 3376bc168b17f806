//! The site's own server: HTTP/1.1 with keep-alive, validators and chunked responses, as simple as possible. It is
//! written for readability, not for speed: larder in front of it provides that.

use super::pages::{DemoBody, DemoPace, DemoPage, DemoRequest, DemoSite, WRITTEN};
use super::shell::{self, Making};
use larder_semantics::date;
use larder_semantics::field::{Field, first};
use larder_semantics::scheme::Scheme;
use larder_stdx::clock::{self, WallTime};
use larder_wire::http1::request::{ParsedRequest, parse};
use larder_wire::http1::write::{field, status_line};
use larder_wire::message::{FieldStorage, Framing, HeadLimits, Request, Version};
use std::cell::{Cell, RefCell};
use std::net::TcpListener;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const LIMITS: HeadLimits = HeadLimits { head: 32 << 10, target: 8 << 10, scheme: Scheme::Http };
const LARGEST_FORM: u64 = 64 << 10;
const CONNECTIONS: usize = 1024;
const IDLE: Duration = Duration::from_secs(60);
/// Images and redirects take a twentieth of a page's time.
const FILE_SHARE: u32 = 20;

struct Demo {
    site: RefCell<DemoSite>,
    made: Cell<u64>,
    slowness: Duration,
}

/// Serves forever.
pub async fn serve(listener: TcpListener, slowness: Duration) {
    let Ok(listener) = tokio::net::TcpListener::from_std(listener) else { return };
    let demo = Rc::new(Demo { site: RefCell::default(), made: Cell::new(0), slowness });
    let room = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        match listener.accept().await {
            Ok((stream, _)) => {
                let demo = demo.clone();
                tokio::task::spawn_local(async move {
                    let _ = connection(stream, &demo).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await, // No descriptors: wait for some.
        }
    }
}

async fn connection(mut stream: TcpStream, demo: &Demo) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut buffer = Vec::new();
    loop {
        let request = loop {
            let parsed = match parse(&buffer, &LIMITS, &mut FieldStorage::new()) {
                Ok(ParsedRequest::Head(head, length)) => Some((head.to_owned(), length)),
                Ok(ParsedRequest::Partial) => None,
                Err(reject) => return refuse(&mut stream, reject.status()).await,
            };
            if let Some((request, length)) = parsed {
                buffer.drain(..length);
                break request;
            }
            if read(&mut stream, &mut buffer).await? == 0 {
                return Ok(());
            }
        };
        let length = match request.framing {
            Framing::Empty => 0,
            Framing::Length(length) if length <= LARGEST_FORM => usize::try_from(length).unwrap_or(0),
            Framing::Length(_) => return refuse(&mut stream, 413).await,
            Framing::Chunked | Framing::Close => return refuse(&mut stream, 411).await,
        };
        if request.expects_continue {
            stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await?;
        }
        while buffer.len() < length {
            if read(&mut stream, &mut buffer).await? == 0 {
                return Ok(());
            }
        }
        let form: Vec<u8> = buffer.drain(..length).collect();
        answer(&mut stream, demo, &request, &form).await?;
        let asked = request.fields.get("connection").unwrap_or_default();
        if request.version == Version::Http10 || asked.eq_ignore_ascii_case(b"close") {
            return stream.shutdown().await;
        }
    }
}

async fn read(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> std::io::Result<usize> {
    timeout(IDLE, stream.read_buf(buffer)).await.unwrap_or(Ok(0))
}

async fn refuse(stream: &mut TcpStream, status: u16) -> std::io::Result<()> {
    let mut head = Vec::new();
    status_line(status, &mut head);
    head.extend_from_slice(b"Content-Length: 0\r\nConnection: close\r\n\r\n");
    stream.write_all(&head).await?;
    stream.shutdown().await
}

async fn answer(stream: &mut TcpStream, demo: &Demo, request: &Request, form: &[u8]) -> std::io::Result<()> {
    let start = clock::precise_micros();
    clock::tick();
    let now = clock::wall();
    let fields = request.fields.view();
    let (path, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    let text = |name: &str| first(&fields, name).and_then(|it| str::from_utf8(it).ok()).unwrap_or("");
    let demo_request = DemoRequest {
        method: &request.method,
        path,
        query,
        session: cookie(text("cookie"), "session"),
        language: text("accept-language"),
        form: str::from_utf8(form).unwrap_or(""),
        now: now.0,
    };
    let answer = demo.site.borrow_mut().answer(&demo_request);
    let is_head = request.method == "HEAD";
    let mut head = Vec::new();
    if is_unchanged(&answer, &fields) {
        tokio::time::sleep(demo.slowness / FILE_SHARE).await; // To look is quicker than to make.
        status_line(304, &mut head);
        common(&answer, now, &mut head);
        head.extend_from_slice(b"\r\n");
        return stream.write_all(&head).await;
    }
    let pace = if answer.pace == DemoPace::Page { demo.slowness } else { demo.slowness / FILE_SHARE };
    tokio::time::sleep(pace).await;
    clock::tick();
    let now = clock::wall(); // `Date` is when the answer was made, not when it was asked for.
    status_line(answer.status, &mut head);
    common(&answer, now, &mut head);
    let (kind, body) = match &answer.body {
        DemoBody::Drip(_) if request.version == Version::Http10 => return refuse(stream, 505).await,
        DemoBody::Drip(parts) => {
            head.extend_from_slice(
                b"Content-Type: text/html; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n",
            );
            let parts: &[String] = if is_head { &[] } else { parts };
            return drip(stream, demo, head, parts, is_head).await;
        }
        DemoBody::Page(page) => {
            demo.made.set(demo.made.get() + 1);
            let making = Making {
                at: now.0,
                took: (clock::precise_micros() - start) / 1000,
                count: demo.made.get(),
                cache_control: answer.cache_control,
            };
            ("text/html; charset=utf-8", shell::document(page, &making).into_bytes())
        }
        DemoBody::Bytes(kind, bytes) => (*kind, bytes.clone()),
        DemoBody::None => ("text/plain", Vec::new()),
    };
    field("Content-Type", kind.as_bytes(), &mut head);
    field("Content-Length", body.len().to_string().as_bytes(), &mut head);
    head.extend_from_slice(b"\r\n");
    if !is_head {
        head.extend_from_slice(&body);
    }
    stream.write_all(&head).await
}

/// The fields that a 304 has as well.
fn common(answer: &DemoPage, now: WallTime, head: &mut Vec<u8>) {
    field("Date", date::format(now).as_bytes(), head);
    field("Cache-Control", answer.cache_control.as_bytes(), head);
    if let Some(version) = &answer.version {
        field("ETag", format!("\"{version}\"").as_bytes(), head);
        field("Last-Modified", date::format(WallTime(WRITTEN)).as_bytes(), head);
    }
    for (name, value) in &answer.fields {
        field(name, value.as_bytes(), head);
    }
}

fn is_unchanged(answer: &DemoPage, fields: &[Field<'_>]) -> bool {
    let (Some(version), 200) = (&answer.version, answer.status) else { return false };
    match first(fields, "if-none-match") {
        Some(tags) => {
            let tag = format!("\"{version}\"");
            let tags = tags.split(|it| *it == b',').map(<[u8]>::trim_ascii);
            tags.map(|it| it.strip_prefix(b"W/").unwrap_or(it)).any(|it| it == tag.as_bytes() || it == b"*")
        }
        None => {
            first(fields, "if-modified-since").and_then(date::parse).is_some_and(|it| it >= WallTime(WRITTEN))
        }
    }
}

async fn drip(
    stream: &mut TcpStream,
    demo: &Demo,
    mut head: Vec<u8>,
    parts: &[String],
    is_head: bool,
) -> std::io::Result<()> {
    for part in parts {
        head.extend_from_slice(format!("{:x}\r\n{part}\r\n", part.len()).as_bytes());
        stream.write_all(&head).await?;
        head.clear();
        tokio::time::sleep(demo.slowness).await;
    }
    if !is_head {
        head.extend_from_slice(b"0\r\n\r\n");
    }
    stream.write_all(&head).await
}

fn cookie<'a>(header: &'a str, name: &str) -> &'a str {
    let mut pairs = header.split(';').filter_map(|it| it.trim().split_once('='));
    pairs.find(|it| it.0 == name).map_or("", |it| it.1)
}

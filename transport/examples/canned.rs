//! A server of one page from memory: the cost of the transport without a cache. For comparison with
//! `bench/limit/canned.c`; `canned ADDR:PORT [BYTES]`, one worker. Bodies above 16 KiB are sent by `sendfile`, like the
//! store's.

use larder_counters::Counters;
use larder_stdx::clock;
use larder_transport::ResponseWriter;
use larder_transport::body::{BodyPiece, FileOwner, FileSlice};
use larder_transport::listener::{self, Listen};
use larder_transport::worker::{self, ClientLimits, TransportWorker};
use larder_transport::{AnswerNow, Client, Handler, Reply, RequestBody};
use larder_wire::message::{Reject, Request, RequestHead};
use larder_wire::ready_head::ReadyHead;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The response.
struct Canned {
    head: ReadyHead,
    body: BodyPiece,
}

struct Memory(File);

impl FileOwner for Memory {
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    fn mapped(&self, _: u64, _: u64) -> Option<&[u8]> {
        None
    }
}

impl Canned {
    fn new(size: usize) -> std::io::Result<Self> {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {size}\r\n");
        let content = vec![b'x'; size];
        let body = if size > 16 * 1024 {
            let mut memory = File::from(rustix::fs::memfd_create("canned", rustix::fs::MemfdFlags::CLOEXEC)?);
            memory.write_all(&content)?;
            BodyPiece::File(FileSlice { owner: Arc::new(Memory(memory)), offset: 0, length: size as u64 })
        } else {
            BodyPiece::Bytes(content.into())
        };
        Ok(Self { head: ReadyHead::new(head.as_bytes()), body })
    }
}

impl Handler for Canned {
    fn answer_now(&self, _: &RequestHead<'_>, _: &Client, answer: &mut ResponseWriter<'_>) -> AnswerNow {
        answer.ready(&self.head);
        match &self.body {
            BodyPiece::Bytes(bytes) => answer.end_with(bytes),
            file => answer.end_with_piece(file.clone()),
        }
        AnswerNow::Answered
    }

    async fn answer<'c>(&'c self, _: Rc<Request>, _: &'c Client, _: RequestBody<'c>, _: Reply<'c>) {}

    fn rejected(&self, _: Reject, _: &Client, _: u64) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:8080".to_owned()).parse()?;
    let size = arguments.next().map_or(Ok(1795), |it| it.parse())?;
    clock::tick();
    let limits = ClientLimits {
        head_size: 32 * 1024,
        target_size: 8 * 1024,
        body_size: 1 << 30,
        head_timeout: Duration::from_secs(10),
        body_timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_secs(60),
        write_timeout: Duration::from_secs(30),
        min_rate: 0,
        connections: 20_000,
        http2_streams: 128,
        upgrades: false,
    };
    let bound = listener::bind(&Listen::Tcp(address))?;
    println!("listening on {bound}");
    let canned = Rc::new(Canned::new(size)?);
    let work = async move {
        let worker = TransportWorker::new(Arc::new(Counters::default()), limits);
        tokio::task::spawn_local(worker.clone().watch());
        listener::serve(bound, worker, canned).await;
    };
    worker::runtime()?.block_on(work);
    Ok(())
}

//! The connection between the two processes of an upgrade while both serve: purges of either, and their confirmations.

use super::message::{BrokenLink, HEAD, HandOverMessage, MessageHead, MessageKind};
use larder_server::purge::peer::PassedPurge;
use larder_server::purge::target::PurgeRequest;
use larder_server::purge::{PurgeOrder, PurgeQueue, ReceiptDetail};
use larder_stdx::error::plain;
use larder_store::disk::{rules_of_bytes, rules_to_bytes};
use std::cell::RefCell;
use std::collections::HashMap;
use std::os::unix::net::UnixStream as BlockingStream;
use std::rc::Rc;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

/// Receives that the other process serves, or its sentence about why it cannot.
pub type Serving = oneshot::Sender<Result<(), String>>;

/// How the connection ended.
#[derive(Debug)]
pub enum LinkEnd {
    /// The old process has no requests any more: it, or this process as that, reported it.
    Finished,
    /// Without that report.
    Broken(BrokenLink),
}

/// The purges that the other process has not confirmed yet.
type Unconfirmed = Rc<RefCell<HashMap<u64, oneshot::Sender<bool>>>>;

/// Serves the connection until the other process ends, this one has no further `purges` and has reported its end, or the task is
/// aborted. Within a `LocalSet`.
///
/// # Errors
/// One sentence: the system refuses.
pub fn start(
    stream: BlockingStream,
    purges: mpsc::UnboundedReceiver<PassedPurge>,
    purge_queue: PurgeQueue,
    serving: Option<Serving>,
) -> Result<JoinHandle<LinkEnd>, String> {
    let stream = stream.set_nonblocking(true).and_then(|()| UnixStream::from_std(stream));
    let (from, to) = stream
        .map_err(|it| format!("The connection to the other process cannot be used: {}.", plain(&it)))?
        .into_split();
    Ok(tokio::task::spawn_local(async move {
        let unconfirmed = Unconfirmed::default();
        let (messages, outgoing) = mpsc::unbounded_channel();
        tokio::select! {
            end = read(from, &purge_queue, &unconfirmed, &messages, serving) => {
                end.map_or_else(LinkEnd::Broken, |()| LinkEnd::Finished)
            }
            () = write(to, outgoing) => LinkEnd::Finished,
            () = pass(purges, &unconfirmed, &messages) => LinkEnd::Finished,
        }
    }))
}

/// Until the other process reports its end.
async fn read(
    mut from: OwnedReadHalf,
    purge_queue: &PurgeQueue,
    unconfirmed: &Unconfirmed,
    messages: &mpsc::UnboundedSender<HandOverMessage>,
    mut serving: Option<Serving>,
) -> Result<(), BrokenLink> {
    loop {
        let mut head = [0; HEAD];
        from.read_exact(&mut head).await?;
        let head = MessageHead::parse(&head)?;
        let mut body = vec![0; head.length];
        from.read_exact(&mut body).await?;
        let message = head.with(body)?;
        match message.kind {
            MessageKind::Serving => {
                if let Some(reply) = serving.take() {
                    let _ = reply.send(Ok(()));
                }
            }
            MessageKind::Refused => {
                if let Some(reply) = serving.take() {
                    let _ = reply.send(Err(String::from_utf8_lossy(&message.body).into_owned()));
                }
            }
            MessageKind::Purge => {
                let (purge_queue, messages) = (purge_queue.clone(), messages.clone());
                tokio::task::spawn_local(async move {
                    let body = vec![u8::from(is_done(&purge_queue, &message.body).await)];
                    let _ = messages.send(HandOverMessage {
                        kind: MessageKind::Done,
                        number: message.number,
                        body,
                    });
                });
            }
            MessageKind::Done => {
                if let Some(reply) = unconfirmed.borrow_mut().remove(&message.number) {
                    let _ = reply.send(message.body == [1]);
                }
            }
            MessageKind::Finished => return Ok(()),
            MessageKind::Offer
            | MessageKind::Sockets
            | MessageKind::Ready
            | MessageKind::Switch
            | MessageKind::Ram
            | MessageKind::TicketKeys
            | MessageKind::QuicSockets
            | MessageKind::OperatorState
            | MessageKind::Arena => {
                return Err(BrokenLink::Damaged("a message out of order"));
            }
        }
    }
}

/// Puts a purge of the other process in force; whether it is certain here.
async fn is_done(purge_queue: &PurgeQueue, body: &[u8]) -> bool {
    let Some((_, rule)) = rules_of_bytes(body).and_then(|it| it.into_iter().next()) else { return false };
    let order = PurgeOrder {
        asked: PurgeRequest { scope: rule.scope, strength: rule.strength },
        by: "the other process of the upgrade".to_owned(),
        wait: false,
        here: None,
        receipt: ReceiptDetail::Passed,
    };
    purge_queue.purge(order).await.is_ok_and(|it| it.is_complete())
}

/// Until the end of this process is reported.
async fn write(mut to: OwnedWriteHalf, mut messages: mpsc::UnboundedReceiver<HandOverMessage>) {
    while let Some(message) = messages.recv().await {
        if to.write_all(&message.bytes()).await.is_err() {
            // The other process has ended; its report may still have to be read.
            break;
        }
        if message.kind == MessageKind::Finished {
            return;
        }
    }
    std::future::pending().await
}

/// Sends the purges of this process, and after the last one that it ends.
async fn pass(
    mut purges: mpsc::UnboundedReceiver<PassedPurge>,
    unconfirmed: &Unconfirmed,
    messages: &mpsc::UnboundedSender<HandOverMessage>,
) {
    let mut number = 0;
    while let Some(PassedPurge { rule, done }) = purges.recv().await {
        number += 1;
        unconfirmed.borrow_mut().insert(number, done);
        let body = rules_to_bytes([(number, &rule)]);
        let _ = messages.send(HandOverMessage { kind: MessageKind::Purge, number, body });
    }
    let _ = messages.send(HandOverMessage::new(MessageKind::Finished));
    std::future::pending().await
}

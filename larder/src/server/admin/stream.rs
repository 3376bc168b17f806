//! `GET /api/v1/stream`: sends the live stream of finished requests to one who listens, as server-sent events. What is
//! told, and to whom, is in `observe/stream`.

use super::{Admin, Answer, Asked, problem_at};
use crate::server::observe::stream::{LISTENERS, Listening};
use bytes::{BufMut, Bytes, BytesMut};
use larder_semantics::expression::{Expression, Subject};
use std::time::Duration;
use tokio::sync::mpsc;

/// A quiet stream says this often that it is there.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Records that are sent in one piece at most.
const BATCH: usize = 64;

impl Admin {
    /// Listens for whoever asked.
    pub(super) fn stream(&self, asked: Asked<'_>) -> Answer {
        let filter = match asked.query_value("filter") {
            None => None,
            Some(text) if text.trim().is_empty() => None,
            Some(text) => match Expression::parse_about(Subject::Finished, &text) {
                Ok(filter) => Some(filter),
                Err(wrong) => {
                    let place = format!("column {}", wrong.column);
                    let detail = format!("The filter is wrong at {place}: {}.", wrong.sentence);
                    return problem_at(400, detail, place);
                }
            },
        };
        let Some(listening) = self.stream.listen(filter) else {
            let detail = format!(
                "{LISTENERS} listen to the live stream already, which is the most; try again when one has ended."
            );
            return super::problem(503, detail);
        };
        let (sender, events) = mpsc::channel(4);
        tokio::task::spawn_local(send(listening, sender));
        Answer::Events(events)
    }
}

/// Sends what is told, until either side ends it.
async fn send(mut from: Listening, to: mpsc::Sender<Bytes>) {
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    let mut over = from.over.clone();
    loop {
        let mut piece = BytesMut::new();
        tokio::select! {
            biased;
            () = to.closed() => return,
            record = from.records.recv() => {
                let Some(record) = record else { return };
                put(&mut piece, "request", &record);
                for _ in 1..BATCH {
                    let Ok(record) = from.records.try_recv() else { break };
                    put(&mut piece, "request", &record);
                }
            }
            _ = over.wait_for(|it| *it) => {
                let _ = to.send(Bytes::from_static(b"event: end\ndata: {\"why\":\"larder stops\"}\n\n")).await;
                return;
            }
            _ = heartbeat.tick() => piece.put_slice(b": still here\n\n"),
        }
        match from.lost() {
            0 => {}
            count => put(&mut piece, "lost", format!("{{\"count\":{count}}}").as_bytes()),
        }
        if to.send(piece.freeze()).await.is_err() {
            return;
        }
    }
}

/// Appends one event; `data` has no line end.
fn put(piece: &mut BytesMut, event: &str, data: &[u8]) {
    piece.put_slice(b"event: ");
    piece.put_slice(event.as_bytes());
    piece.put_slice(b"\ndata: ");
    piece.put_slice(data);
    piece.put_slice(b"\n\n");
}

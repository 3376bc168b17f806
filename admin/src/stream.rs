//! `GET /api/v1/stream`: sends the live stream of finished requests to one listener, as server-sent events. The records
//! and the filter are in `observe/stream`.

use super::{Admin, AdminRequest, AdminResponse, problem_at};
use bytes::Bytes;
use larder_observe::counted::HeapSum;
use larder_observe::stream::{LISTENERS, Listening};
use larder_semantics::expression::{Expression, ExpressionSubject};
use std::time::Duration;
use tokio::sync::mpsc;

/// The interval of heartbeats in a quiet stream.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// A piece of this many bytes gets no further record: some pieces wait for each listener.
const PIECE: usize = 16 << 10;

impl Admin {
    /// Opens the stream for a client.
    pub(super) fn stream(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let filter = match asked.query_value("filter") {
            None => None,
            Some(text) if text.trim().is_empty() => None,
            Some(text) => match Expression::parse_about(ExpressionSubject::Finished, &text) {
                Ok(filter) => Some(filter),
                Err(wrong) => {
                    let place = format!("column {}", wrong.column);
                    let detail = format!("The filter is invalid at {place}: {}.", wrong.sentence);
                    return problem_at(400, detail, place);
                }
            },
        };
        let past = filter.clone();
        let Some(listening) = self.stream.listen(filter) else {
            let detail = format!(
                "The live stream has the maximum of {LISTENERS} listeners; retry when one has ended."
            );
            return super::problem(503, detail);
        };
        let (sender, events) = mpsc::channel(4);
        let sum = self.stream.sum().clone();
        let most = asked.query_value("recent").and_then(|it| it.parse().ok()).unwrap_or(0);
        let recent = self.recent.clone();
        tokio::task::spawn_local(async move {
            if most > 0 {
                // After it began to listen, so that no request is between.
                let read = tokio::task::spawn_blocking(move || recent.latest(most, past.as_ref()));
                send_recent(&read.await.unwrap_or_default(), &sender, &sum).await;
            }
            send(listening, sender, sum).await;
        });
        AdminResponse::Events(events)
    }
}

/// Sends records of the past, and their number.
async fn send_recent(records: &[Bytes], to: &mpsc::Sender<Bytes>, sum: &HeapSum) {
    let mut piece = Vec::new();
    for record in records {
        put(&mut piece, "request", record);
        if piece.len() >= PIECE && to.send(sum.text(&std::mem::take(&mut piece))).await.is_err() {
            return;
        }
    }
    put(&mut piece, "recent", format!("{{\"count\":{}}}", records.len()).as_bytes());
    // Without a receiver the next send ends the stream.
    let _ = to.send(sum.text(&piece)).await;
}

/// Sends records, until either side ends the stream.
async fn send(mut from: Listening, to: mpsc::Sender<Bytes>, sum: HeapSum) {
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    let mut over = from.over.clone();
    loop {
        let mut piece = Vec::new();
        tokio::select! {
            biased;
            () = to.closed() => return,
            record = from.records.recv() => {
                let Some(record) = record else { return };
                put(&mut piece, "request", &record);
                while piece.len() < PIECE {
                    let Ok(record) = from.records.try_recv() else { break };
                    put(&mut piece, "request", &record);
                }
            }
            _ = over.wait_for(|it| *it) => {
                let _ = to.send(Bytes::from_static(b"event: end\ndata: {\"why\":\"larder stops\"}\n\n")).await;
                return;
            }
            _ = heartbeat.tick() => piece.extend_from_slice(b": still here\n\n"),
        }
        match from.lost() {
            0 => {}
            count => put(&mut piece, "lost", format!("{{\"count\":{count}}}").as_bytes()),
        }
        if to.send(sum.text(&piece)).await.is_err() {
            return;
        }
    }
}

/// Appends one event; `data` has no line end.
fn put(piece: &mut Vec<u8>, event: &str, data: &[u8]) {
    piece.extend_from_slice(b"event: ");
    piece.extend_from_slice(event.as_bytes());
    piece.extend_from_slice(b"\ndata: ");
    piece.extend_from_slice(data);
    piece.extend_from_slice(b"\n\n");
}

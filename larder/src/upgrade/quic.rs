//! The message about HTTP/3 connections that the old process finishes: the new one reads their UDP sockets, and passes packets on
//! through Unix sockets. How a packet finds its connection is in `larder_transport::http3`.

use super::message::{BrokenLink, HandOverMessage, MOST_SOCKETS, MessageKind};
use larder_transport::http3::QuicHandOver;
use serde_json::{Value, json};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Sends them, in several messages where one cannot have all sockets.
///
/// # Errors
/// See [`BrokenLink`].
pub fn send(stream: &UnixStream, all: &[QuicHandOver]) -> Result<(), BrokenLink> {
    let each = all.iter().flat_map(|port| {
        let row = json!({ "at": port.at.to_string(), "mark": port.mark });
        port.sockets.iter().map(move |socket| (row.clone(), socket.as_fd()))
    });
    let each: Vec<_> = each.collect();
    for some in each.chunks(MOST_SOCKETS) {
        let (rows, sockets): (Vec<Value>, Vec<BorrowedFd<'_>>) = some.iter().cloned().unzip();
        let body = Value::from(rows).to_string().into_bytes();
        HandOverMessage { kind: MessageKind::QuicSockets, number: 0, body }.send(stream, &sockets)?;
    }
    Ok(())
}

/// Adds those of a message to `all`. A message with other rows than sockets has none: the old process closes its connections then.
pub fn add(body: &[u8], sockets: Vec<OwnedFd>, all: &mut Vec<QuicHandOver>) {
    let rows: Vec<Value> = serde_json::from_slice(body).unwrap_or_default();
    if rows.len() != sockets.len() {
        return;
    }
    for (row, socket) in rows.iter().zip(sockets) {
        let at = row["at"].as_str().and_then(|it| it.parse().ok());
        let mark = row["mark"].as_u64().and_then(|it| u8::try_from(it).ok());
        let (Some(at), Some(mark)) = (at, mark) else { return };
        match all.iter_mut().find(|it| it.at == at && it.mark == mark) {
            Some(port) => port.sockets.push(socket),
            None => all.push(QuicHandOver { at, mark, sockets: vec![socket] }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_arrive_by_port_in_their_order() {
        let (there, here) = UnixStream::pair().unwrap();
        let sockets = |count: usize| (0..count).map(|_| OwnedFd::from(there.try_clone().unwrap())).collect();
        let [one, two] = ["192.0.2.1:443", "[2001:db8::1]:443"].map(|it| it.parse().unwrap());
        let sent = [(one, 7, 150), (two, 7, 120), (two, 9, 1)].map(|(at, mark, count)| QuicHandOver {
            at,
            mark,
            sockets: sockets(count),
        });
        send(&there, &sent).unwrap();
        let mut all = Vec::new();
        for _ in 0..2 {
            let (message, sockets) = HandOverMessage::receive(&here).unwrap();
            assert_eq!(MessageKind::QuicSockets, message.kind);
            add(&message.body, sockets, &mut all);
        }
        let report: Vec<_> = all.iter().map(|it| (it.at, it.mark, it.sockets.len())).collect();
        assert_eq!(vec![(one, 7, 150), (two, 7, 120), (two, 9, 1)], report);
        for body in ["", "[]", "[{}]", r#"[{"at":"x","mark":1}]"#, r#"[{"at":"192.0.2.1:1","mark":256}]"#] {
            let mut none = Vec::new();
            add(body.as_bytes(), sockets(1), &mut none);
            assert!(none.is_empty(), "{body}");
        }
    }
}

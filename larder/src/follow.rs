//! Following a stream of server-sent events of a larder that runs. What the events are is each command's.

use crate::ask;
use crate::cli::spell_listen;
use crate::config::plain;
use larder_transport::listener::Listen;
use std::io::{ErrorKind, Read};
use std::time::Duration;

/// Bytes of an event at most.
const MOST: usize = 1 << 20;

/// A stream of events.
pub struct Events {
    stream: Box<dyn ask::Stream>,
    /// What has come and is not yet an event.
    buffer: Vec<u8>,
    /// Up to here there is no end of an event.
    searched: usize,
}

/// What came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// An event: its name, its data.
    Event(String, String),
    /// Nothing, in the time that was given.
    Nothing,
    /// The last of them was before.
    Ended,
}

impl Events {
    /// Begins to follow.
    ///
    /// # Errors
    /// One sentence: nobody listens there, or what it says is wrong with the question.
    pub fn open(admin: &Listen, path: &str, patience: Duration) -> Result<Self, String> {
        let cannot = |it: &std::io::Error| format!("No larder answers at {} ({}).", spell_listen(admin), plain(it));
        let (stream, head, rest) = ask::begin(admin, path, patience).map_err(|it| cannot(&it))?;
        let mut events = Self { stream, buffer: rest, searched: 0 };
        if head.split(' ').nth(1) != Some("200") {
            let mut text = std::mem::take(&mut events.buffer);
            let _ = events.stream.take(MOST as u64).read_to_end(&mut text);
            let value: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
            return Err(value["detail"].as_str().unwrap_or("larder refused to answer.").to_owned());
        }
        Ok(events)
    }

    /// The next event, waited for as long as `patience` at most between two arrivals.
    pub fn next(&mut self, patience: Duration) -> Next {
        if self.stream.patience(patience).is_err() {
            return Next::Ended;
        }
        loop {
            if let Some(event) = self.take() {
                match event {
                    Some((name, data)) => return Next::Event(name, data),
                    None => continue, // A comment, which says that the other side lives.
                }
            }
            if self.buffer.len() > MOST {
                return Next::Ended;
            }
            let mut room = [0; 16 * 1024];
            match self.stream.read(&mut room) {
                Ok(0) => return Next::Ended,
                Ok(count) => self.buffer.extend_from_slice(&room[..count]),
                Err(it) if matches!(it.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => return Next::Nothing,
                Err(it) if it.kind() == ErrorKind::Interrupted => {}
                Err(_) => return Next::Ended,
            }
        }
    }

    /// What is whole of the buffer, up to an empty line.
    fn take(&mut self) -> Option<Option<(String, String)>> {
        let from = self.searched.saturating_sub(1);
        let Some(at) = self.buffer[from..].windows(2).position(|it| it == b"\n\n") else {
            self.searched = self.buffer.len();
            return None;
        };
        let block: Vec<u8> = self.buffer.drain(..from + at + 2).collect();
        self.searched = 0;
        let block = String::from_utf8_lossy(&block);
        let (mut name, mut data) = (String::new(), Vec::new());
        for line in block.lines() {
            match line.split_once(':') {
                Some(("event", value)) => name = value.trim_start().to_owned(),
                Some(("data", value)) => data.push(value.strip_prefix(' ').unwrap_or(value)),
                _ => {}
            }
        }
        Some((!data.is_empty()).then(|| (name, data.join("\n"))))
    }
}

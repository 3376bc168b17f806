//! The RAM tier between the two processes of an upgrade: its stream (`store::snapshot::transfer`) in messages. The new process asks
//! for it; the old one sends it in pieces while it serves, so that neither holds more than one of them.

use super::message::{BrokenLink, HandOverMessage, MessageKind, NO_RAM};
use super::switched_state::SwitchedState;
use super::{ASKS_FOR_ARENA, READS_VERSIONS, quic};
use larder_stdx::clock::{self, Monotonic};
use larder_store::Store;
use larder_store::snapshot::StreamVersion;
use larder_store::snapshot::transfer::{ArenaInUse, LentArena, PurgesInForce, RamTransfer, TransferFault};
use rustix::net::sockopt::set_socket_send_buffer_size;
use serde_json::Value;
use std::io::{self, Read, Write};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a piece.
const PIECE: usize = 256 << 10;
/// Bytes that the connection may hold.
const AHEAD: usize = 4 << 20;
/// The time limit for sending all: the rest is left out.
const SEND: Duration = Duration::from_secs(20);
/// Sends of changed responses before the last one, which delays the switch, until fewer than [`FEW`] have changed.
const CATCH_UPS: usize = 5;
const FEW: usize = 100;

/// The old end of the stream.
pub struct RamPieces {
    stream: UnixStream,
    piece: Vec<u8>,
}

impl Write for RamPieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let bytes = &bytes[..bytes.len().min(PIECE - self.piece.len())];
        self.piece.extend_from_slice(bytes);
        if self.piece.len() == PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let body = std::mem::take(&mut self.piece);
        if !body.is_empty() {
            let message = HandOverMessage { kind: MessageKind::Ram, number: 0, body };
            message.send(&self.stream, &[])?;
            self.piece = message.body;
            self.piece.clear();
        }
        Ok(())
    }
}

/// The RAM tier that the old process is sending; `None` where it does not, which the new one knows.
pub struct RamSending(Option<RamTransfer<RamPieces>>);

impl RamSending {
    /// Nothing is sent, and nothing was asked for.
    pub fn nothing() -> Self {
        Self(None)
    }

    /// Nothing is sent, for this reason.
    ///
    /// # Errors
    /// The new process does not read.
    pub fn refused(stream: &UnixStream, why: &str) -> Result<Self, BrokenLink> {
        let body = why.as_bytes().to_vec();
        HandOverMessage { kind: MessageKind::Ram, number: NO_RAM, body }.send(stream, &[])?;
        Ok(Self(None))
    }

    /// Sends all responses, and those that have changed meanwhile, as the new process wants them by its description.
    ///
    /// # Errors
    /// The new process does not read.
    pub fn begin(
        stream: &UnixStream,
        store: &Arc<Store>,
        settings: u64,
        about: &Value,
    ) -> Result<Self, BrokenLink> {
        let Some(version) = version_for(about) else {
            return Self::refused(stream, "the new process reads other versions of its stream only");
        };
        // Both processes work at once, and wait for each other less often; the kernel may allow less.
        let _ = set_socket_send_buffer_size(stream, AHEAD);
        let pieces = RamPieces { stream: stream.try_clone()?, piece: Vec::with_capacity(PIECE) };
        let begun = clock::monotonic_now();
        let late = || is_over(begun, SEND);
        let lent = (about[ASKS_FOR_ARENA] == true).then(|| lend(stream, store)).transpose()?.flatten();
        let sent =
            RamTransfer::begin(store, pieces, version, settings, lent, late).and_then(|mut transfer| {
                for _ in 0..CATCH_UPS {
                    if transfer.catch_up()? < FEW {
                        break;
                    }
                }
                Ok(transfer)
            });
        match sent {
            Ok(transfer) => Ok(Self(Some(transfer))),
            Err(fault) => Self::gave_up(stream, fault),
        }
    }

    /// Sends the last changes. From now on every purge reaches the new process; the result are those before.
    ///
    /// # Errors
    /// The new process does not read.
    pub fn end(self, stream: &UnixStream, store: &Store) -> Result<PurgesInForce, BrokenLink> {
        match self.0.map(RamTransfer::end) {
            Some(Ok((_, purges))) => return Ok(purges),
            Some(Err(fault)) => drop(Self::gave_up(stream, fault)?),
            None => {}
        }
        let last = store.purge_number();
        Ok(PurgesInForce { last, rules: store.rules_as_bytes() })
    }

    fn gave_up(stream: &UnixStream, fault: TransferFault) -> Result<Self, BrokenLink> {
        match fault {
            TransferFault::Failed(error) => Err(error.into()),
            TransferFault::TooManyChanges => Self::refused(stream, "too many responses changed meanwhile"),
            TransferFault::TooManyPurges => Self::refused(stream, "too many purges were made meanwhile"),
        }
    }
}

/// The version of the stream for a new process with this description; `None` if it reads none that is written here.
fn version_for(about: &Value) -> Option<StreamVersion> {
    match about[READS_VERSIONS].as_array() {
        Some(numbers) => {
            StreamVersion::newest_of(&numbers.iter().filter_map(Value::as_u64).collect::<Vec<_>>())
        }
        None => StreamVersion::newest_of(&[1]),
    }
}

/// Lends the arena to the new process; `None` where the system has no descriptor for it.
fn lend(stream: &UnixStream, store: &Store) -> Result<Option<ArenaInUse>, BrokenLink> {
    let Ok((in_use, LentArena { arena, end })) = store.lend_arena() else { return Ok(None) };
    let message = HandOverMessage::new(MessageKind::Arena);
    match message.send(stream, &[arena.as_fd(), end.as_fd()]) {
        Ok(()) => Ok(Some(in_use)),
        Err(why) => {
            in_use.reclaim();
            Err(why)
        }
    }
}

fn is_over(begun: Monotonic, limit: Duration) -> bool {
    u128::from(clock::monotonic_now().0.saturating_sub(begun.0)) > limit.as_millis()
}

/// The new end of the stream. It ends with the switch, before which the keys of TLS tickets come.
pub struct RamSource<'s> {
    stream: &'s UnixStream,
    piece: Vec<u8>,
    at: usize,
    /// Bytes that came.
    received: u64,
    /// Why the old process sends none, or not all.
    refusal: Option<String>,
    state: SwitchedState,
    /// The arena of the old process.
    arena: Option<LentArena>,
    end: Option<Result<HandOverMessage, BrokenLink>>,
}

impl<'s> RamSource<'s> {
    /// From this connection.
    pub fn new(stream: &'s UnixStream) -> Self {
        let (piece, at, received, refusal, state, arena, end) = Default::default();
        Self { stream, piece, at, received, refusal, state, arena, end }
    }

    /// The arena of the old process, which comes before the stream where it lends one.
    pub fn arena(&mut self) -> Option<LentArena> {
        self.wait_for_bytes();
        self.arena.take()
    }

    /// Waits for bytes of the stream, or its end.
    fn wait_for_bytes(&mut self) {
        while self.at == self.piece.len() && self.end.is_none() && self.refusal.is_none() {
            self.next();
        }
    }

    /// Why there is no stream, or no complete one, if the reason is not in its bytes.
    pub fn obstacle(&self) -> Option<String> {
        match (&self.refusal, &self.end) {
            (Some(why), _) => Some(why.clone()),
            (None, Some(Ok(_))) if self.received == 0 => {
                Some("this version of the running larder does not hand it over".to_owned())
            }
            _ => None,
        }
    }

    /// Whether the old process ended before the switch.
    pub fn has_ended(&self) -> bool {
        matches!(self.end, Some(Err(BrokenLink::Ended)))
    }

    /// Waits for the switch, beyond everything that was not read; the rest of the state comes with it, without the purges.
    ///
    /// # Errors
    /// See [`BrokenLink`].
    pub fn switch(mut self) -> Result<(HandOverMessage, SwitchedState), BrokenLink> {
        loop {
            match self.end.take() {
                Some(end) => return end.map(|it| (it, self.state)),
                None => self.next(),
            }
        }
    }

    /// Receives the next message.
    fn next(&mut self) {
        // The clock of a process that does not serve yet stands.
        clock::tick();
        self.at = 0;
        match HandOverMessage::receive_into(std::mem::take(&mut self.piece), self.stream) {
            Ok((message, _)) if message.kind == MessageKind::Ram && message.number == NO_RAM => {
                self.refusal = Some(String::from_utf8_lossy(&message.body).into_owned());
            }
            Ok((message, _)) if message.kind == MessageKind::Ram => {
                self.received += message.body.len() as u64;
                self.piece = message.body;
            }
            Ok((message, sockets)) if message.kind == MessageKind::Arena => {
                let [arena, end] = sockets.try_into().map_or([None, None], |it: [_; 2]| it.map(Some));
                self.arena = arena.zip(end).map(|(arena, end)| LentArena { arena, end });
            }
            Ok((message, _)) if message.kind == MessageKind::TicketKeys => {
                self.state.ticket_keys = Some(message.body);
            }
            Ok((message, sockets)) if message.kind == MessageKind::QuicSockets => {
                quic::add(&message.body, sockets, &mut self.state.quic);
            }
            Ok((message, _)) if message.kind == MessageKind::OperatorState => {
                self.state.operator.add(message)
            }
            Ok((message, _)) if message.kind == MessageKind::Switch => self.end = Some(Ok(message)),
            Ok(_) => self.end = Some(Err(BrokenLink::Damaged("a message out of order"))),
            Err(why) => self.end = Some(Err(why)),
        }
    }
}

impl Read for RamSource<'_> {
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        self.wait_for_bytes();
        let rest = &self.piece[self.at..];
        let length = rest.len().min(room.len());
        room[..length].copy_from_slice(&rest[..length]);
        self.at += length;
        Ok(length)
    }
}

//! The unidirectional streams: the control streams of both sides, on which the SETTINGS of larder are sent (`open_control`), and
//! those of QPACK (RFC 9114 §6.2, RFC 9204 §4.2).

use super::code;
use super::connection::Http3Connection;
use crate::streams::FloodKind;
use bytes::{Buf as _, BytesMut};
use larder_wire::http3::frame::{FrameStream, Http3Frame, Http3FrameReader, write_control, write_goaway};
use larder_wire::http3::qpack::{DecoderInstructions, EncoderInstructions};
use larder_wire::http3::{Http3Error, UniStreamKind, read_varint};
use quinn_proto::{Dir, ReadError, StreamId, WriteError};
use std::collections::BTreeMap;

/// Bytes that are read of a stream at once.
const READ: usize = 4096;

/// The unidirectional streams of a connection.
#[derive(Default)]
pub(super) struct UniStreams {
    /// The control stream of larder, and its bytes that QUIC has not taken yet.
    control: Option<StreamId>,
    waiting: BytesMut,
    pub is_blocked: bool,
    /// The streams of the client.
    readers: BTreeMap<u64, UniReader>,
    has_control: bool,
    has_encoder: bool,
    has_decoder: bool,
    has_settings: bool,
    /// The largest number of pushes that the client accepts.
    pushes: Option<u64>,
    /// The push from which on the client accepts none.
    has_goaway: Option<u64>,
}

/// A stream of the client.
enum UniReader {
    /// Its kind is not known yet; its first bytes.
    New(Vec<u8>),
    Control(Box<Http3FrameReader>),
    Encoder(EncoderInstructions),
    Decoder(DecoderInstructions),
}

impl Http3Connection {
    /// Opens the control stream.
    pub fn open_control(&self) -> Result<(), Http3Error> {
        let id = self.quic.borrow_mut().streams().open(Dir::Uni);
        // A client must permit at least three (RFC 9114 §6.2).
        let id = id.ok_or(Http3Error::StreamCreation)?;
        let limits = self.worker.limits();
        let mut out = Vec::new();
        write_control(limits.head_size as u64, limits.upgrades, &mut out);
        let mut state = self.state.borrow_mut();
        state.uni.control = Some(id);
        state.uni.waiting.extend_from_slice(&out);
        drop(state);
        self.flush_control();
        Ok(())
    }

    pub fn send_goaway(&self, id: u64) {
        let mut out = Vec::new();
        write_goaway(id, &mut out);
        self.state.borrow_mut().uni.waiting.extend_from_slice(&out);
        self.flush_control();
        self.wake();
    }

    /// Passes bytes of the control stream on.
    pub fn flush_control(&self) {
        let uni = &mut self.state.borrow_mut().uni;
        let Some(id) = uni.control else { return };
        while !uni.waiting.is_empty() && !uni.is_blocked {
            match self.quic.borrow_mut().send_stream(id).write(&uni.waiting) {
                Ok(count) => uni.waiting.advance(count),
                Err(WriteError::Blocked) => uni.is_blocked = true,
                Err(_) => uni.waiting.clear(),
            }
        }
    }

    pub fn accept_uni_streams(&self) -> Result<(), Http3Error> {
        loop {
            let id = self.quic.borrow_mut().streams().accept(Dir::Uni);
            let Some(id) = id else { return Ok(()) };
            self.state.borrow_mut().uni.readers.insert(id.index(), UniReader::New(Vec::new()));
            self.read_uni_stream(id)?;
        }
    }

    pub fn read_uni_stream(&self, id: StreamId) -> Result<(), Http3Error> {
        while self.state.borrow().uni.readers.contains_key(&id.index()) {
            let mut read = {
                let mut quic = self.quic.borrow_mut();
                let mut stream = quic.recv_stream(id);
                let Ok(mut chunks) = stream.read(true) else { return Ok(()) };
                let read = chunks.next(READ);
                let _ = chunks.finalize();
                read
            };
            match &mut read {
                Ok(Some(chunk)) => self.uni_bytes(id, &chunk.bytes)?,
                Err(ReadError::Blocked) => return Ok(()),
                Ok(None) | Err(ReadError::Reset(_)) => {
                    let reader = self.state.borrow_mut().uni.readers.remove(&id.index());
                    return match reader {
                        None => Ok(()),
                        // Permitted before its type is known (RFC 9114 §6.2), and the client gets room for another one.
                        Some(UniReader::New(_)) => self.count_flood(FloodKind::Nothing),
                        Some(_) => Err(Http3Error::ClosedCriticalStream),
                    };
                }
            }
        }
        Ok(())
    }

    fn uni_bytes(&self, id: StreamId, bytes: &[u8]) -> Result<(), Http3Error> {
        let count = self.state.borrow_mut().uni.bytes(id, bytes)?;
        match count {
            Some(frames) => (0..frames).try_for_each(|_| self.count_flood(FloodKind::Nothing)),
            // Unknown ones are not read (RFC 9114 §6.2).
            None => {
                let _ = self.quic.borrow_mut().recv_stream(id).stop(code(Http3Error::StreamCreation));
                self.count_flood(FloodKind::Nothing)
            }
        }
    }
}

impl UniStreams {
    /// Takes the next bytes of a stream; returns the number of complete frames and instructions in them, and `None` if the stream is to be
    /// ignored.
    fn bytes(&mut self, id: StreamId, bytes: &[u8]) -> Result<Option<u32>, Http3Error> {
        let Some(UniReader::New(kept)) = self.readers.get_mut(&id.index()) else {
            return self.read(id, bytes).map(Some);
        };
        kept.extend_from_slice(bytes);
        let Some((kind, length)) = read_varint(kept) else { return Ok(Some(0)) };
        let begun = kept.split_off(length);
        if self.begin(id, UniStreamKind::of(kind))? {
            return self.read(id, &begun).map(Some);
        }
        self.readers.remove(&id.index());
        Ok(None)
    }

    /// Begins to read a stream of a known kind; `false` if it is to be ignored.
    fn begin(&mut self, id: StreamId, kind: UniStreamKind) -> Result<bool, Http3Error> {
        let (seen, reader) = match kind {
            UniStreamKind::Unknown => return Ok(false),
            UniStreamKind::Push => return Err(Http3Error::StreamCreation),
            UniStreamKind::Control => {
                let reader = Http3FrameReader::new(FrameStream::Control, 0);
                (&mut self.has_control, UniReader::Control(Box::new(reader)))
            }
            UniStreamKind::QpackEncoder => {
                (&mut self.has_encoder, UniReader::Encoder(EncoderInstructions::default()))
            }
            UniStreamKind::QpackDecoder => {
                (&mut self.has_decoder, UniReader::Decoder(DecoderInstructions::default()))
            }
        };
        if std::mem::replace(seen, true) {
            return Err(Http3Error::StreamCreation);
        }
        self.readers.insert(id.index(), reader);
        Ok(true)
    }

    /// Reads bytes of a stream of a known kind; returns the number of frames and instructions without effect.
    fn read(&mut self, id: StreamId, mut bytes: &[u8]) -> Result<u32, Http3Error> {
        let mut count = 0;
        let Some(mut reader) = self.readers.remove(&id.index()) else { return Ok(0) };
        match &mut reader {
            UniReader::New(_) => {}
            UniReader::Encoder(it) => count += it.read(bytes)?,
            UniReader::Decoder(it) => count += it.read(bytes)?,
            UniReader::Control(it) => {
                while let Some(frame) = it.read(&mut bytes)? {
                    count += 1;
                    self.control_frame(&frame)?;
                }
            }
        }
        self.readers.insert(id.index(), reader);
        Ok(count)
    }

    fn control_frame(&mut self, frame: &Http3Frame<'_>) -> Result<(), Http3Error> {
        match frame {
            Http3Frame::Settings(_) if self.has_settings => Err(Http3Error::FrameUnexpected),
            Http3Frame::Settings(_) => {
                self.has_settings = true;
                Ok(())
            }
            _ if !self.has_settings => Err(Http3Error::MissingSettings),
            Http3Frame::MaxPushId(id) if self.pushes.is_some_and(|it| it > *id) => Err(Http3Error::Id),
            Http3Frame::MaxPushId(id) => {
                self.pushes = Some(*id);
                Ok(())
            }
            // None was promised.
            Http3Frame::CancelPush(_) => Err(Http3Error::Id),
            Http3Frame::GoAway(id) if self.has_goaway.is_some_and(|it| it < *id) => Err(Http3Error::Id),
            Http3Frame::GoAway(id) => {
                self.has_goaway = Some(*id);
                Ok(())
            }
            Http3Frame::Unknown => Ok(()),
            Http3Frame::Data(_) | Http3Frame::Headers(_) | Http3Frame::TooLarge => {
                Err(Http3Error::FrameUnexpected)
            }
        }
    }
}

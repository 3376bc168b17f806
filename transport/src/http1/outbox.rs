//! What is to be written, in order: text, larger pieces of memory, and file ranges; and the sending of it with
//! as few system calls as it takes.

use crate::body::Piece;
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::collections::VecDeque;
use std::os::fd::BorrowedFd;

/// Pieces of memory up to this many bytes are copied into the text: cheaper than another system call.
const COPY: usize = 16 * 1024;
/// Text over this many bytes does not stay allocated in an outbox at rest.
const KEEP: usize = 64 * 1024;

/// What is to be written. Shared by all requests of one batch.
#[derive(Default)]
pub struct Outbox {
    text: Vec<u8>,
    /// Bytes of `text` that are sent.
    sent: usize,
    /// Pieces, each with the length of the text before it.
    pieces: VecDeque<(usize, Piece)>,
    waiting: u64,
}

/// How far [`Outbox::send`] came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// Everything is with the kernel.
    All,
    /// The socket takes no more now.
    Blocked,
}

impl Outbox {
    /// The text at the end: append heads and small bodies to it.
    pub fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Appends a piece; file pieces are sent by `sendfile` after the text before them.
    pub fn push(&mut self, piece: Piece) {
        match piece {
            Piece::Bytes(bytes) if bytes.len() <= COPY => self.text.extend_from_slice(&bytes),
            piece => {
                self.waiting += piece.len();
                self.pieces.push_back((self.text.len(), piece));
            }
        }
    }

    /// Bytes that are still to be sent.
    #[must_use]
    pub fn len(&self) -> u64 {
        (self.text.len() - self.sent) as u64 + self.waiting
    }

    /// Whether nothing is to be sent.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sent == self.text.len() && self.pieces.is_empty()
    }

    /// Sends what the socket takes; `moved` is told how many bytes.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, moved: &mut u64) -> Result<Sent, Errno> {
        loop {
            let until = self.pieces.front().map_or(self.text.len(), |it| it.0);
            if self.sent < until {
                let flags = match self.pieces.is_empty() {
                    true => SendFlags::NOSIGNAL,
                    false => SendFlags::NOSIGNAL | SendFlags::MORE,
                };
                match rustix::net::send(socket, &self.text[self.sent..until], flags) {
                    Ok(count) => {
                        self.sent += count;
                        *moved += count as u64;
                    }
                    Err(Errno::AGAIN) => return Ok(Sent::Blocked),
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error),
                }
                continue;
            }
            if self.pieces.is_empty() {
                self.rest();
                return Ok(Sent::All);
            }
            match self.send_piece(socket) {
                Ok(count) => {
                    self.waiting -= count;
                    *moved += count;
                }
                Err(Errno::AGAIN) => return Ok(Sent::Blocked),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn send_piece(&mut self, socket: BorrowedFd<'_>) -> Result<u64, Errno> {
        let more = self.pieces.len() > 1 || self.sent < self.text.len();
        let Some((_, piece)) = self.pieces.front_mut() else { return Ok(0) };
        let left = piece.len();
        let count = match piece {
            Piece::Bytes(bytes) => {
                let flags = if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
                let count = rustix::net::send(socket, bytes, flags)?;
                bytes::Buf::advance(bytes, count);
                count as u64
            }
            Piece::File(slice) => {
                if !slice.owner.intact() {
                    return Err(Errno::IO);
                }
                let mut offset = slice.offset;
                let most = usize::try_from(slice.length).unwrap_or(usize::MAX).min(0x7fff_f000);
                let count = rustix::fs::sendfile(socket, slice.owner.fd(), Some(&mut offset), most)? as u64;
                if count == 0 {
                    return Err(Errno::IO); // The file was truncated: the response must look cut off.
                }
                slice.offset += count;
                slice.length -= count;
                count
            }
        };
        if count == left {
            self.pieces.pop_front();
        }
        Ok(count)
    }

    /// Empty again: the text's room is kept unless it grew large.
    fn rest(&mut self) {
        self.sent = 0;
        self.text.clear();
        if self.text.capacity() > KEEP {
            self.text.shrink_to(KEEP);
        }
    }
}

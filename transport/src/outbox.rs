//! The output of a connection, in order: text, larger pieces of memory, and file ranges; and sending it with few system
//! calls.

use crate::body::{BodyPiece, FileSlice, FileWritableBy};
use crate::platform::{MORE_FOLLOWS, send_range};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags};
use std::collections::VecDeque;
use std::io::IoSlice;
use std::os::fd::BorrowedFd;

/// Pieces of memory up to this many bytes are copied into the text: cheaper than another entry for the kernel.
const COPY: usize = 16 * 1024;
/// The same for frames, of which there are many: they would make the text grow, and be moved whenever the socket takes no
/// more.
const COPY_FRAME: usize = 4 * 1024;
/// The largest text buffer that an idle outbox keeps. Not less than a connection writes in one turn: memory that is
/// returned to the system each time is faulted in again each time.
pub(crate) const KEEP: usize = 256 * 1024;
/// The approximate limit of bytes that one call of [`Outbox::send`] passes to the kernel: a client that reads as fast as
/// larder writes must not delay other connections.
pub(crate) const TURN: u64 = 4 * 1024 * 1024;
/// Bytes of a file that are copied at once.
const READ: usize = 256 * 1024;
/// Pieces of memory in one system call.
const GATHER: usize = 32;
/// The text begins at another multiple of [`STEP`] each time, up to this, and never at the start of its block: see
/// [`shifted`].
const SHIFT: usize = 1024;
const STEP: usize = 64;

/// The next start of bytes that are copied later. A copy by `rep movsb` (the kernel's, and libc's of more than 2 KiB) to
/// an address that lies 1 to 15 bytes behind that of its source, modulo a page, takes thirty times as long on some
/// processors. Blocks begin with pages and responses of a kind are equally long, so without a shift an unlucky alignment
/// would occur each time.
pub(crate) fn shifted(before: usize) -> usize {
    before % SHIFT + STEP
}

/// The largest value of [`shifted`].
pub(crate) const SHIFTED: usize = SHIFT;

/// The output. Shared by all requests of one batch.
#[derive(Default)]
pub struct Outbox {
    text: Vec<u8>,
    /// Bytes of `text` that are sent, or left over from before.
    sent: usize,
    /// The start of the text.
    start: usize,
    /// Pieces, none of them empty, each with the length of the text before it.
    pieces: VecDeque<(usize, BodyPiece)>,
    /// Bytes of the pieces.
    waiting: u64,
    /// Whether some of the first piece is sent.
    begun: bool,
}

/// The result of [`Outbox::send`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendProgress {
    /// The kernel has everything.
    All,
    /// The socket takes no more now.
    Blocked,
    /// The socket may take more, but other connections take their turn.
    Turn,
}

impl Outbox {
    /// The text at the end: append heads and small bodies to it.
    #[inline]
    pub fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Appends a piece; file pieces are sent by `sendfile` after the text before them.
    pub fn push(&mut self, piece: BodyPiece) {
        self.push_or_copy(piece, COPY);
    }

    /// Appends a piece of [`COPY`] bytes at most that is one of many.
    pub fn push_frame(&mut self, piece: BodyPiece) {
        self.push_or_copy(piece, COPY_FRAME);
    }

    fn push_or_copy(&mut self, piece: BodyPiece, copied: usize) {
        if piece.len() <= copied as u64
            && let Some(bytes) = in_memory(&piece)
        {
            return self.text.extend_from_slice(bytes);
        }
        if !piece.is_empty() {
            self.waiting += piece.len();
            self.pieces.push_back((self.text.len(), piece));
        }
    }

    /// Bytes of unsent output.
    #[must_use]
    pub fn len(&self) -> u64 {
        (self.text.len() - self.sent) as u64 + self.waiting
    }

    /// Whether there is no output.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.sent == self.text.len() && self.pieces.is_empty()
    }

    /// Sends as much as the socket takes; the number of bytes is added to `moved`.
    ///
    /// # Errors
    /// `EIO` for a file that has changed; otherwise the socket's.
    pub(crate) fn send(&mut self, socket: BorrowedFd<'_>, moved: &mut u64) -> Result<SendProgress, Errno> {
        while !self.is_empty() {
            if *moved >= TURN {
                return Ok(SendProgress::Turn);
            }
            let begun = self.begun;
            let step = match self.pieces.front_mut() {
                None => rustix::net::send(socket, &self.text[self.sent..], SendFlags::NOSIGNAL),
                Some((until, piece)) if *until == self.sent && in_memory(piece).is_none() => {
                    send_from_file(socket, piece, begun)
                }
                Some(_) => self.send_gathered(socket),
            };
            match step {
                Ok(count) => {
                    *moved += count as u64;
                    self.advance(count);
                }
                Err(Errno::AGAIN) => return Ok(SendProgress::Blocked),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        self.rest();
        Ok(SendProgress::All)
    }

    /// Lends the next contiguous bytes, at most `most`, to `take`, and removes them. Those of files are read into `room`.
    /// Returns their number.
    ///
    /// # Errors
    /// `EIO` for a file that has changed; otherwise those of `take`.
    pub(crate) fn lend(
        &mut self,
        most: usize,
        room: &mut Vec<u8>,
        take: impl FnOnce(&[u8]) -> Result<(), Errno>,
    ) -> Result<usize, Errno> {
        let until = self.pieces.front().map_or(self.text.len(), |it| it.0);
        let count = if self.sent < until {
            let bytes = &self.text[self.sent..until.min(self.sent + most)];
            take(bytes)?;
            bytes.len()
        } else {
            let Some((_, piece)) = self.pieces.front() else { return Ok(0) };
            let count = usize::try_from(piece.len()).unwrap_or(usize::MAX).min(most);
            match piece {
                BodyPiece::Bytes(bytes) => take(&bytes[..count])?,
                BodyPiece::File(slice) => {
                    if slice.owner.kept() == FileWritableBy::Ours && self.begun && !slice.owner.is_intact() {
                        return Err(Errno::IO);
                    }
                    match slice.owner.mapped(slice.offset, count as u64) {
                        Some(bytes) => take(bytes)?,
                        None => {
                            let count = read_file(slice, count, room)?;
                            take(&room[..count])?;
                            self.advance(count);
                            return Ok(count);
                        }
                    }
                }
            }
            count
        };
        self.advance(count);
        Ok(count)
    }

    /// Sends text and memory up to the next file range, in one call.
    fn send_gathered(&self, socket: BorrowedFd<'_>) -> Result<usize, Errno> {
        let mut room: [IoSlice<'_>; GATHER] = std::array::from_fn(|_| IoSlice::new(&[]));
        let mut used = 0;
        let mut at = self.sent;
        let mut flags = SendFlags::NOSIGNAL;
        let mut pieces = self.pieces.iter();
        loop {
            let next = pieces.next();
            let until = next.map_or(self.text.len(), |it| it.0);
            if at < until {
                room[used] = IoSlice::new(&self.text[at..until]);
                used += 1;
                at = until;
            }
            match next {
                None => break,
                // Two entries for each turn of the loop.
                Some((_, piece)) => match in_memory(piece).filter(|_| used + 2 < GATHER) {
                    Some(bytes) => {
                        room[used] = IoSlice::new(bytes);
                        used += 1;
                    }
                    None => {
                        flags |= MORE_FOLLOWS;
                        break;
                    }
                },
            }
        }
        if let [one] = &room[..used] {
            return rustix::net::send(socket, one, flags); // Of which the kernel has less to copy.
        }
        rustix::net::sendmsg(socket, &room[..used], &mut SendAncillaryBuffer::default(), flags)
    }

    /// Removes `count` bytes that the kernel has taken.
    fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let until = self.pieces.front().map_or(self.text.len(), |it| it.0);
            let text = count.min(until - self.sent);
            self.sent += text;
            count -= text;
            let Some((_, piece)) = self.pieces.front_mut().filter(|_| count > 0) else { return };
            let part = usize::try_from(piece.len()).unwrap_or(usize::MAX).min(count);
            count -= part;
            self.waiting -= part as u64;
            self.begun = piece.len() != part as u64;
            if !self.begun {
                self.pieces.pop_front();
            } else {
                *piece = piece.slice(part as u64, piece.len() - part as u64);
            }
        }
    }

    /// Releases sent memory, before a wait that may be long.
    pub(crate) fn compact(&mut self) {
        self.text.drain(..self.sent);
        self.text.shrink_to_fit();
        for (until, _) in &mut self.pieces {
            *until -= self.sent;
        }
        self.sent = 0;
    }

    /// Empty again: the text's buffer is kept unless it grew large.
    pub(crate) fn rest(&mut self) {
        self.start = shifted(self.start);
        // Sent bytes before it remain: the next text begins behind them.
        self.text.truncate(self.start);
        self.sent = self.text.len();
        if self.text.capacity() > KEEP {
            self.text.shrink_to(KEEP);
        }
    }
}

/// The bytes of a piece in memory: for one in a file only if it is short, since for longer ones `sendfile` is cheaper.
fn in_memory(piece: &BodyPiece) -> Option<&[u8]> {
    match piece {
        BodyPiece::Bytes(bytes) => Some(bytes),
        BodyPiece::File(slice) if slice.length <= COPY as u64 => {
            slice.owner.mapped(slice.offset, slice.length)
        }
        BodyPiece::File(_) => None,
    }
}

fn send_from_file(socket: BorrowedFd<'_>, piece: &BodyPiece, begun: bool) -> Result<usize, Errno> {
    match piece {
        BodyPiece::Bytes(bytes) => rustix::net::send(socket, bytes, SendFlags::NOSIGNAL),
        BodyPiece::File(slice) => match slice.owner.kept() {
            FileWritableBy::Ours if begun && !slice.owner.is_intact() => Err(Errno::IO),
            FileWritableBy::Ours => send_file(socket, slice),
            FileWritableBy::Theirs => copy_file(socket, slice),
            FileWritableBy::Checked => copy_checked(socket, slice),
        },
    }
}

fn send_file(socket: BorrowedFd<'_>, slice: &FileSlice) -> Result<usize, Errno> {
    let most = usize::try_from(slice.length.min(TURN)).unwrap_or(usize::MAX);
    match send_range(socket, slice.owner.fd(), slice.offset, most) {
        // Shorter than promised, or a broken device: the response must look truncated.
        Ok(0) | Err(Errno::IO) => {
            slice.owner.failed();
            Err(Errno::IO)
        }
        other => other,
    }
}

/// Sends bytes that the owner has verified, from their current place.
fn copy_checked(socket: BorrowedFd<'_>, slice: &FileSlice) -> Result<usize, Errno> {
    let most = usize::try_from(slice.length).unwrap_or(usize::MAX);
    let mut sent = Err(Errno::IO);
    let lent = slice.owner.lend(slice.offset, most, &mut |bytes| {
        let bytes = &bytes[..bytes.len().min(most)];
        let more = if bytes.len() < most { MORE_FOLLOWS } else { SendFlags::empty() };
        sent = rustix::net::send(socket, bytes, SendFlags::NOSIGNAL | more);
    });
    if lent.is_err() {
        slice.owner.failed();
        return Err(Errno::IO);
    }
    sent
}

/// Reads some of a file that other processes may write to, verifies that it is unchanged, and sends the bytes.
fn copy_file(socket: BorrowedFd<'_>, slice: &FileSlice) -> Result<usize, Errno> {
    let most = usize::try_from(slice.length).unwrap_or(usize::MAX).min(READ);
    let mut bytes = Vec::with_capacity(most);
    let room = rustix::buffer::spare_capacity(&mut bytes);
    let count = rustix::io::pread(slice.owner.fd(), room, slice.offset)?;
    bytes.truncate(most);
    if count == 0 || !slice.owner.holds(slice.offset, &bytes) {
        slice.owner.failed();
        return Err(Errno::IO);
    }
    rustix::net::send(socket, &bytes, SendFlags::NOSIGNAL)
}

/// Reads the next part of a file, and verifies that it is unchanged.
fn read_file(slice: &FileSlice, most: usize, room: &mut Vec<u8>) -> Result<usize, Errno> {
    if slice.owner.kept() == FileWritableBy::Checked {
        let mut count = 0;
        let lent = slice.owner.lend(slice.offset, most, &mut |bytes| {
            count = bytes.len().min(most);
            room.resize(room.len().max(count), 0);
            room[..count].copy_from_slice(&bytes[..count]);
        });
        if lent.is_err() {
            slice.owner.failed();
            return Err(Errno::IO);
        }
        return Ok(count);
    }
    room.resize(room.len().max(most), 0);
    let count = match rustix::io::pread(slice.owner.fd(), &mut room[..most], slice.offset) {
        Ok(count) => count,
        Err(Errno::IO) => 0,
        Err(error) => return Err(error),
    };
    let is_theirs = slice.owner.kept() == FileWritableBy::Theirs;
    if count == 0 || is_theirs && !slice.owner.holds(slice.offset, &room[..count]) {
        slice.owner.failed();
        return Err(Errno::IO);
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::body::FileOwner;
    use bytes::Bytes;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    /// Sends whatever was pushed through a small pipe, a part at a time, and compares what arrives.
    #[track_caller]
    fn check(sizes: &[(usize, usize)]) {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (mut outbox, mut expect) = (Outbox::default(), Vec::new());
        for (at, (text, piece)) in sizes.iter().enumerate() {
            let text = vec![b'a' + u8::try_from(at % 26).unwrap(); *text];
            let piece = vec![b'A' + u8::try_from(at % 26).unwrap(); *piece];
            outbox.text().extend_from_slice(&text);
            expect.extend_from_slice(&text);
            expect.extend_from_slice(&piece);
            outbox.push(BodyPiece::Bytes(Bytes::from(piece)));
        }
        assert_eq!(expect.len() as u64, outbox.len());
        let mut got = Vec::new();
        let mut part = [0; 7001];
        loop {
            let mut moved = 0;
            let before = outbox.len();
            let sent = outbox.send(ours.as_fd(), &mut moved).unwrap();
            assert_eq!(before - moved, outbox.len());
            if sent == SendProgress::All {
                break;
            }
            outbox.compact();
            let count = theirs.read(&mut part).unwrap();
            got.extend_from_slice(&part[..count]);
        }
        drop(ours);
        theirs.read_to_end(&mut got).unwrap();
        assert!(expect == got, "{sizes:?}: {} and {} bytes", expect.len(), got.len());
        assert!(outbox.is_empty());
    }

    /// A file that another process may write to.
    struct Changing {
        file: std::fs::File,
        changed: AtomicBool,
    }

    impl FileOwner for Changing {
        fn fd(&self) -> BorrowedFd<'_> {
            self.file.as_fd()
        }

        fn mapped(&self, _: u64, _: u64) -> Option<&[u8]> {
            None
        }

        fn is_intact(&self) -> bool {
            !self.changed.load(Relaxed)
        }
    }

    /// A file whose owner has looked at its bytes up to a point; beyond they are wrong.
    struct Known(std::fs::File, u64);

    impl FileOwner for Known {
        fn fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }

        fn mapped(&self, _: u64, _: u64) -> Option<&[u8]> {
            None
        }

        fn kept(&self) -> FileWritableBy {
            FileWritableBy::Checked
        }

        fn lend(&self, offset: u64, _: usize, take: &mut dyn FnMut(&[u8])) -> std::io::Result<()> {
            if offset >= self.1 {
                return Err(std::io::ErrorKind::InvalidData.into());
            }
            take(&vec![b'o'; usize::try_from(self.1 - offset).unwrap()]);
            Ok(())
        }
    }

    #[test]
    fn only_checked_bytes_of_a_file_are_sent() {
        for (known, whole) in [(3000, true), (8000, true), (2000, false)] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            let mut outbox = Outbox::default();
            outbox.text().extend_from_slice(b"head");
            let owner = Arc::new(Known(tempfile::tempfile().unwrap(), known));
            outbox.push(BodyPiece::File(FileSlice { owner: owner.clone(), offset: 0, length: 3000 }));
            assert_eq!(whole, outbox.send(ours.as_fd(), &mut 0).is_ok());
            drop(ours);
            let mut got = Vec::new();
            theirs.read_to_end(&mut got).unwrap();
            let bytes = usize::try_from(known.min(3000)).unwrap();
            assert!(got == [&b"head"[..], &vec![b'o'; bytes]].concat(), "{known}: {} bytes", got.len());
            // By TLS the bytes are put into records.
            let mut outbox = Outbox::default();
            outbox.push(BodyPiece::File(FileSlice { owner, offset: 0, length: 3000 }));
            let (mut room, mut lent) = (Vec::new(), Vec::new());
            let take = |bytes: &[u8], lent: &mut Vec<u8>| lent.extend_from_slice(bytes);
            while lent.len() < 3000
                && outbox
                    .lend(1000, &mut room, |it| {
                        take(it, &mut lent);
                        Ok(())
                    })
                    .is_ok()
            {}
            assert_eq!(vec![b'o'; bytes], lent);
        }
    }

    #[test]
    fn a_file_changed_while_it_is_sent_is_cut_off() {
        const LENGTH: u64 = 8 << 20;
        for changes in [false, true] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            ours.set_nonblocking(true).unwrap();
            let file = tempfile::tempfile().unwrap();
            file.set_len(LENGTH).unwrap();
            let owner = Arc::new(Changing { file, changed: AtomicBool::new(false) });
            let mut outbox = Outbox::default();
            outbox.push(BodyPiece::File(FileSlice { owner: owner.clone(), offset: 0, length: LENGTH }));
            assert_eq!(Ok(SendProgress::Blocked), outbox.send(ours.as_fd(), &mut 0));
            let left = outbox.len();
            assert!(left < LENGTH, "it has begun");
            owner.changed.store(changes, Relaxed);
            let mut part = vec![0; 1 << 20];
            theirs.read_exact(&mut part[..1 << 16]).unwrap();
            let sent = outbox.send(ours.as_fd(), &mut 0);
            match changes {
                true => assert_eq!((Err(Errno::IO), left), (sent, outbox.len())),
                false => assert!(sent == Ok(SendProgress::Blocked) && outbox.len() < left),
            }
        }
    }

    #[test]
    fn bytes_already_sent_are_not_sent_again() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut outbox = Outbox::default();
        let mut part = [0; 4096];
        for turn in 0..100 {
            let text = vec![b'a' + turn % 26; 1 + usize::from(turn) * 37];
            outbox.text().extend_from_slice(&text);
            assert_eq!(text.len() as u64, outbox.len());
            assert_eq!(Ok(SendProgress::All), outbox.send(ours.as_fd(), &mut 0));
            assert_eq!((true, 0), (outbox.is_empty(), outbox.len()));
            let count = theirs.read(&mut part).unwrap();
            assert!(text == part[..count], "turn {turn}: {count} bytes");
        }
        assert_ne!(0, outbox.sent % SHIFT, "it does not begin where its block does");
    }

    /// Ten answers of 26,510 bytes in frames: the text has the heads of these alone, however much there is.
    #[test]
    fn frames_are_not_copied() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        let (mut outbox, mut expect) = (Outbox::default(), Vec::new());
        for at in 0..10_u8 {
            for length in [16_384, 10_126] {
                outbox.text().extend_from_slice(&[at; 9]);
                outbox.push_frame(BodyPiece::Bytes(Bytes::from(vec![b'a' + at; length])));
                expect.extend_from_slice(&[at; 9]);
                expect.resize(expect.len() + length, b'a' + at);
            }
        }
        assert_eq!((180, 265_280), (outbox.text.len(), outbox.len()));
        let mut got = Vec::new();
        let mut part = [0; 7001];
        while outbox.send(ours.as_fd(), &mut 0).unwrap() != SendProgress::All {
            let count = theirs.read(&mut part).unwrap();
            got.extend_from_slice(&part[..count]);
        }
        drop(ours);
        theirs.read_to_end(&mut got).unwrap();
        assert!(expect == got);
    }

    #[test]
    fn all_pieces_arrive_in_order() {
        check(&[]);
        check(&[(0, 0)]);
        check(&[(10, 0), (0, 5)]);
        check(&[(100, 100_000), (0, 300_000), (7, 3)]);
        check(&[(0, 20_000); 100]);
        check(&[(3, 20_000); 40]);
        check(&[(1_000_000, 0), (1, 500_000)]);
    }
}

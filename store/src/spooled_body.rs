//! The body of a request in the spool: read from its client before the request is sent, and read back piece by piece. Small
//! bodies stay in memory, which is not decided here.

use crate::ram::Store;
use crate::spool::{SINGLE_CALL_TIMEOUT, Spool, SpoolRefusal, Spooled};
use bytes::{Bytes, BytesMut};
use std::sync::Arc;

/// Bytes of a piece in the file.
const PIECE: usize = 64 * 1024;

/// Why a body is not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyRefusal {
    /// It is larger than the whole spool, or there is none.
    TooLarge,
    /// The spool has no room for it now, or its device failed.
    NoRoom,
}

/// A body in the spool.
pub struct SpooledBody {
    file: Arc<Spooled>,
    spool: Arc<Spool>,
    /// Bytes that do not fill a piece yet.
    rest: BytesMut,
    /// The length and the checksum of each piece.
    pieces: Vec<(usize, u64)>,
    length: u64,
}

impl Store {
    /// Whether the spool has room for a body of this length now. Whether there is a spool, and one larger than the body, is not
    /// asked: without it the body is refused.
    #[must_use]
    pub fn fits_into_spool(&self, length: u64) -> bool {
        self.spool.get().is_none_or(|it| length > it.size() || it.is_on() && it.has_room(length))
    }

    /// A body without bytes.
    ///
    /// # Errors
    /// There is no spool, or it has just failed.
    pub fn spooled_body(&self) -> Result<SpooledBody, BodyRefusal> {
        let spool = self.spool.get().ok_or(BodyRefusal::TooLarge)?;
        if !spool.is_on() {
            return Err(BodyRefusal::NoRoom);
        }
        let (file, rest) = (Spooled::new(spool, 0), BytesMut::new());
        Ok(SpooledBody { file, spool: spool.clone(), rest, pieces: Vec::new(), length: 0 })
    }
}

impl SpooledBody {
    /// Adds bytes at its end.
    ///
    /// # Errors
    /// They were not kept: the body is unusable.
    pub async fn append(&mut self, bytes: &[u8]) -> Result<(), BodyRefusal> {
        self.rest.extend_from_slice(bytes);
        while self.rest.len() >= PIECE {
            let piece = self.rest.split_to(PIECE).freeze();
            self.write(piece).await?;
        }
        Ok(())
    }

    /// Ends it: everything is in the file.
    ///
    /// # Errors
    /// As of [`SpooledBody::append`].
    pub async fn end(&mut self) -> Result<(), BodyRefusal> {
        let rest = std::mem::take(&mut self.rest).freeze();
        if rest.is_empty() { Ok(()) } else { self.write(rest).await }
    }

    async fn write(&mut self, piece: Bytes) -> Result<(), BodyRefusal> {
        let length = piece.len();
        let checks = self.file.append(self.length, vec![piece], 0, SINGLE_CALL_TIMEOUT).await.map_err(
            |why| match why {
                SpoolRefusal::Full if self.length + length as u64 > self.spool.size() => {
                    BodyRefusal::TooLarge
                }
                SpoolRefusal::Full | SpoolRefusal::Failed => BodyRefusal::NoRoom,
            },
        )?;
        self.pieces.extend(checks.into_iter().map(|check| (length, check)));
        self.length += length as u64;
        Ok(())
    }

    /// Bytes of the body.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The number of its pieces, for [`SpooledBody::piece`].
    #[must_use]
    pub fn pieces(&self) -> usize {
        self.pieces.len()
    }

    /// The piece of this number, from 0; `None` where the device does not return what was written.
    pub async fn piece(&self, store: &Store, number: usize) -> Option<Bytes> {
        let (length, check) = *self.pieces.get(number)?;
        self.file.read(store.charge_read(length), (number * PIECE) as u64, length, check).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::store;
    use crate::spool::SpoolSettings;

    const MIB: usize = 1 << 20;

    fn spooling(size: u64) -> (tempfile::TempDir, Arc<Store>) {
        let (directory, store) = (tempfile::tempdir().unwrap(), store(8 << 20));
        store.spool_to(SpoolSettings { directory: directory.path().into(), size }).unwrap();
        (directory, store)
    }

    #[tokio::test]
    async fn a_body_is_read_as_it_was_written() {
        let (_directory, store) = spooling(8 << 20);
        let written: Vec<u8> = (0_u8..251).cycle().take(3 * MIB + 7).collect();
        let mut body = store.spooled_body().unwrap();
        for piece in written.chunks(10_007) {
            body.append(piece).await.unwrap();
        }
        body.end().await.unwrap();
        assert_eq!(written.len() as u64, body.length());
        let mut read = Vec::new();
        for number in 0..body.pieces() {
            read.extend_from_slice(&body.piece(&store, number).await.unwrap());
        }
        assert!(written == read);
        assert!(body.piece(&store, body.pieces()).await.is_none());
    }

    #[tokio::test]
    async fn a_body_that_does_not_fit() {
        let (_directory, store) = spooling(4 << 20);
        let mut first = store.spooled_body().unwrap();
        first.append(&vec![1; 3 * MIB]).await.unwrap();
        let mut second = store.spooled_body().unwrap();
        assert_eq!(Err(BodyRefusal::NoRoom), second.append(&vec![2; 2 * MIB]).await, "the first has it");
        // In a spool of its own: the room of a dropped body is free a moment later.
        let (_directory, store) = spooling(4 << 20);
        let mut only = store.spooled_body().unwrap();
        only.append(&vec![1; 3 * MIB]).await.unwrap();
        assert_eq!(Err(BodyRefusal::TooLarge), only.append(&vec![3; 2 * MIB]).await);
        let none = crate::sample::store(8 << 20);
        assert_eq!(Some(BodyRefusal::TooLarge), none.spooled_body().err(), "there is no spool");
    }
}

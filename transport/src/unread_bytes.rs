//! The received bytes of request bodies in memory, and their sum over the streams of a worker: clients that send to requests which wait
//! for an origin must not fill the memory. Credit of streams and connections is not here.

use bytes::Bytes;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// The most received bytes in memory of all streams of a worker, beyond which a request that begins has its share alone.
const MOST: usize = 16 << 20;

/// The unread bytes that a request may have in any case.
const SHARE: usize = 16 << 10;

/// The received bytes in memory of all streams of a worker.
#[derive(Clone, Debug, Default)]
pub(crate) struct UnreadSum(Arc<AtomicUsize>);

/// The unread bytes of a stream. They are in the sum until the last of them is dropped, read or not.
#[derive(Debug, Default)]
pub(crate) struct UnreadBytes(ChargedBytes);

/// Bytes that are in the sum.
#[derive(Debug, Default)]
struct ChargedBytes {
    bytes: Vec<u8>,
    sum: UnreadSum,
}

impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for ChargedBytes {
    fn drop(&mut self) {
        self.sum.0.fetch_sub(self.bytes.len(), Relaxed);
    }
}

impl UnreadBytes {
    /// None yet.
    pub fn new(sum: &UnreadSum) -> Self {
        Self(ChargedBytes { bytes: Vec::new(), sum: sum.clone() })
    }

    /// Whether this number of bytes more is beyond both bounds.
    pub fn is_too_much(&self, more: usize) -> bool {
        self.0.bytes.len() + more > SHARE && self.0.sum.0.load(Relaxed) + more > MOST
    }

    /// Adds received bytes.
    pub fn extend(&mut self, more: &[u8]) {
        self.0.bytes.extend_from_slice(more);
        self.0.sum.0.fetch_add(more.len(), Relaxed);
    }

    /// All of them, which are read now; `None` if there are none.
    pub fn take(&mut self) -> Option<Bytes> {
        let rest = ChargedBytes { bytes: Vec::new(), sum: self.0.sum.clone() };
        (!self.is_empty()).then(|| Bytes::from_owner(std::mem::replace(&mut self.0, rest)))
    }

    pub fn len(&self) -> usize {
        self.0.bytes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.bytes.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_sum_a_stream_has_its_share_alone() {
        let sum = UnreadSum::default();
        let streams: Vec<_> = (0..MOST / (64 << 10))
            .map(|_| {
                let mut it = UnreadBytes::new(&sum);
                assert!(!it.is_too_much(64 << 10));
                it.extend(&vec![0; 64 << 10]);
                it
            })
            .collect();
        let mut late = UnreadBytes::new(&sum);
        assert!(late.is_too_much(SHARE + 1) && !late.is_too_much(SHARE));
        late.extend(&[0; SHARE]);
        assert!(late.is_too_much(1));
        let read = late.take().unwrap();
        assert_eq!(
            (SHARE, MOST + SHARE, None),
            (read.len(), sum.0.load(Relaxed), late.take()),
            "read and not dropped"
        );
        drop((streams, read));
        assert!(sum.0.load(Relaxed) == 0 && !late.is_too_much(MOST));
    }
}

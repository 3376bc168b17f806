//! The keys whose responses are replaced or removed while the RAM tier is sent to another process, so that they are sent once
//! more. Bounded; off at other times.

use std::collections::HashSet;

/// The most bytes of these keys.
const MOST_BYTES: usize = 16 << 20;

/// The memory of a key in addition to its text.
const KEY_COST: usize = 48;

/// The keys that are to be sent once more.
#[derive(Default)]
pub(crate) struct ChangedKeys {
    /// `None` while nothing is sent.
    keys: Option<HashSet<Box<[u8]>>>,
    bytes: usize,
}

/// More keys have changed than are kept.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct TooManyChanges;

impl ChangedKeys {
    /// From now on changes are recorded.
    pub fn begin(&mut self) {
        *self = Self { keys: Some(HashSet::new()), bytes: 0 };
    }

    /// Whether changes are recorded.
    pub fn are_recorded(&self) -> bool {
        self.keys.is_some()
    }

    /// A response under this key was replaced or removed, or was to be removed.
    pub fn note(&mut self, key: &[u8]) {
        let Some(keys) = &mut self.keys else { return };
        if self.bytes <= MOST_BYTES && !keys.contains(key) {
            self.bytes += key.len() + KEY_COST;
            keys.insert(key.into());
        }
    }

    /// The keys so far; later ones are recorded from zero.
    ///
    /// # Errors
    /// See [`TooManyChanges`].
    pub fn take(&mut self) -> Result<HashSet<Box<[u8]>>, TooManyChanges> {
        if self.bytes > MOST_BYTES {
            return Err(TooManyChanges);
        }
        self.bytes = 0;
        Ok(self.keys.as_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Changes are not recorded any more. The result is to be dropped without a lock.
    pub fn end(&mut self) -> Self {
        std::mem::take(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_recorded_once_and_within_a_bound() {
        let mut changed = ChangedKeys::default();
        changed.note(b"before");
        assert_eq!((Ok(HashSet::new()), false), (changed.take(), changed.are_recorded()));
        changed.begin();
        for _ in 0..2 {
            changed.note(b"a");
        }
        changed.note(b"b");
        assert_eq!(2, changed.take().unwrap().len());
        changed.note(b"c");
        assert_eq!(Ok(HashSet::from([b"c"[..].into()])), changed.take());
        let long = vec![0; MOST_BYTES];
        changed.note(&long);
        changed.note(b"d");
        assert_eq!(Err(TooManyChanges), changed.take());
        changed.end();
        assert_eq!((Ok(HashSet::new()), false), (changed.take(), changed.are_recorded()));
    }
}

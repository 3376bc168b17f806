//! The names that clients requested in TLS handshakes and no certificate has, in bounded memory.

use larder_counters::top::{PLACE, TopSketch, WAYS, heaviest};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

/// The most names that are remembered: the most frequent ones.
const NAMES: usize = 8 * WAYS;

/// The names with the numbers of their handshakes. Written only for such a name.
#[derive(Debug)]
pub struct UnknownNames {
    sketch: Mutex<TopSketch>,
    /// Secret: otherwise a client could construct names that replace a given one.
    seed: RandomState,
}

impl Default for UnknownNames {
    fn default() -> Self {
        Self { sketch: Mutex::new(TopSketch::new(NAMES * PLACE)), seed: RandomState::new() }
    }
}

impl UnknownNames {
    /// Counts a handshake for this name, in lower case.
    pub(crate) fn note(&self, name: &str) {
        let hash = self.seed.hash_one(name);
        self.sketch.lock().unwrap_or_else(PoisonError::into_inner).add(hash, 1, &[name.as_bytes()]);
    }

    /// The names, the most frequent first, each with the least number of handshakes since the start.
    #[must_use]
    pub fn all(&self) -> Vec<(String, u64)> {
        let sketch = self.sketch.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let found = heaviest(&[sketch], NAMES).into_iter().filter(|it| !it.cut);
        found
            .map(|it| (String::from_utf8_lossy(&it.text).into_owned(), it.weight.saturating_sub(it.error)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frequent_name_is_known_behind_many_others() {
        let names = UnknownNames::default();
        for number in 0..10_000 {
            names.note(&format!("{number}.test"));
            names.note("shop.test");
        }
        let all = names.all();
        assert!(all.len() <= NAMES, "{}", all.len());
        assert_eq!(("shop.test", true), (&*all[0].0, (9_000..=10_000).contains(&all[0].1)), "{:?}", all[0]);
    }
}

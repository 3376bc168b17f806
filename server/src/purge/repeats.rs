//! Purges that one sender repeats: the same target again and again.

use larder_stdx::clock;
use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

/// Purges that are remembered.
const KEPT: usize = 512;
/// Their greatest age, milliseconds.
const AGE: u64 = 300_000;
/// The most characters of a target.
const TARGET: usize = 100;

/// A purge that was repeated within five minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepeatedPurge {
    /// Its sender: a token, or the address of a client.
    pub by: String,
    /// Its target, such as `url http://a.example/`.
    pub target: String,
    /// How often it was sent.
    pub times: usize,
    /// The responses in RAM and on disk that it matched, in total; one for each purge whose matches were not counted.
    pub matched: u64,
}

struct SentPurge {
    at: u64,
    /// The hash of sender and target: the shown target may be that of several.
    identity: u64,
    by: String,
    target: String,
    matched: u64,
}

/// The latest purges.
#[derive(Clone, Default)]
pub(super) struct PurgeRepeats(Arc<Mutex<VecDeque<SentPurge>>>);

impl PurgeRepeats {
    /// `identity` distinguishes targets; `target` is shown. Returns the purge for [`Self::matched`].
    pub fn note(&self, by: &str, identity: &[u8], target: &str) -> u64 {
        let mut all = self.0.lock();
        if all.len() == KEPT {
            all.pop_front();
        }
        let target = target.chars().take(TARGET).collect();
        let identity = BuildHasherDefault::<DefaultHasher>::default().hash_one((by, identity));
        all.push_back(SentPurge {
            at: clock::monotonic_now().0,
            identity,
            by: by.to_owned(),
            target,
            matched: 0,
        });
        identity
    }

    /// The latest purge of these matched this number of responses.
    pub fn matched(&self, identity: u64, responses: u64) {
        if let Some(it) = self.0.lock().iter_mut().rev().find(|it| it.identity == identity) {
            it.matched += responses;
        }
    }

    /// The most repeated one.
    pub fn most(&self) -> Option<RepeatedPurge> {
        let now = clock::monotonic_now().0;
        let all = self.0.lock();
        let mut counts = HashMap::<u64, (usize, &SentPurge, u64)>::new();
        for it in all.iter().filter(|it| now.saturating_sub(it.at) <= AGE) {
            let count = counts.entry(it.identity).or_insert((0, it, 0));
            (count.0, count.2) = (count.0 + 1, count.2 + it.matched);
        }
        let (times, most, matched) = counts.into_values().max_by_key(|it| (it.0, it.1.at))?;
        Some(RepeatedPurge { by: most.by.clone(), target: most.target.clone(), times, matched })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_purge_that_is_sent_most_is_named_with_its_sender() {
        let purges = PurgeRepeats::default();
        assert_eq!(None, purges.most());
        for (by, target) in [("a", "url x"), ("b", "url x"), ("b", "url x"), ("b", "url y")] {
            purges.note(by, target.as_bytes(), target);
        }
        let most = purges.most().unwrap();
        assert_eq!(("b", "url x", 2, 0), (&*most.by, &*most.target, most.times, most.matched));
        purges.matched(purges.note("b", b"url x", "url x"), 7);
        assert_eq!((3, 7), purges.most().map(|it| (it.times, it.matched)).unwrap());
        for it in 0..2 * KEPT {
            purges.note("c", &it.to_le_bytes(), "url ***");
        }
        assert_eq!(1, purges.most().unwrap().times, "the memory is bounded");
    }
}

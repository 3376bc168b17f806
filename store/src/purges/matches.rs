//! One purge as if it were in force alone, to count the responses that it matches. `ram::purge_count` counts those in RAM,
//! `disk::matched` those on disk.

use super::Positions;
use super::rules::{PurgeRules, RequestedAt};
use crate::entry::{Entry, Stored};
use larder_semantics::purged::PurgeVerdict;

/// The responses of a tier that a purge matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PurgeMatches {
    /// Their number, counting each variant.
    pub responses: u64,
    /// Bytes of their bodies.
    pub bytes: u64,
}

impl PurgeMatches {
    pub(crate) fn add(&mut self, it: &Stored) {
        self.responses += 1;
        self.bytes += it.body.len();
    }
}

/// One purge as if it were in force alone.
pub(crate) struct PurgeMatcher {
    pub only: PurgeRules,
    pub log: Positions,
}

impl PurgeMatcher {
    /// Whether the purge applies to a response.
    pub fn matches(&self, key: &[u8], it: &Stored) -> bool {
        let epoch = RequestedAt::Here { applied: 0, log: &self.log };
        self.only.verdict(&it.subject(key), epoch) != PurgeVerdict::Keep
    }

    /// Whether it applies to a response of an entry.
    pub fn matches_any(&self, entry: &Entry) -> bool {
        entry.variants.iter().any(|it| self.matches(entry.key(), it))
    }
}

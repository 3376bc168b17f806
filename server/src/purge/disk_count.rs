//! The number of responses on disk that a purge matches, for its preview and its receipt. The index in RAM has no URLs, tags or
//! fields, so the heads of records are read for a limited time. Responses to which an earlier purge applies are not counted.

use larder_store::Store;
use larder_store::disk::DiskTier;
use larder_store::purges::{PurgeMatches, PurgeRule, PurgeScope};

/// A count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DiskCount {
    /// All of them.
    Exact(PurgeMatches),
    /// Those under the keys of the URL itself. There may be others, with fields or cookies in their keys.
    OfUrl(PurgeMatches),
    /// Estimated from the records of some keys.
    Estimate {
        /// The estimate.
        found: PurgeMatches,
        /// The keys whose records were read.
        read: u64,
        /// All keys on the disk.
        keys: u64,
    },
}

impl DiskCount {
    /// The reason for which it is not exact.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        match self {
            DiskCount::Exact(_) => None,
            DiskCount::OfUrl(_) => Some(OF_URL.to_owned()),
            DiskCount::Estimate { read, keys, .. } => Some(format!("from {read} of {keys} keys on the disk")),
        }
    }
}

pub(super) const OF_URL: &str =
    "of the URL itself; those with fields or cookies in their key are not counted";

/// Counts the responses that `rule` matches. Reads on this thread, which may wait for the device: until the monotonic microsecond
/// `until`. A tier with more than `most_keys` keys is not read for a purge of a URL, except for the keys of the URL.
#[must_use]
pub fn count_on_disk(
    disk: &DiskTier,
    store: &Store,
    rule: &PurgeRule,
    until: u64,
    most_keys: u64,
) -> DiskCount {
    if let PurgeScope::Url(key) = &rule.scope
        && disk.keys() > most_keys
    {
        return of_url(disk, store, rule, key);
    }
    let count = disk.count_until(store, rule, until);
    match &rule.scope {
        _ if count.is_whole() => DiskCount::Exact(count.found),
        PurgeScope::Url(key) => match of_url(disk, store, rule, key) {
            DiskCount::OfUrl(it) if it.responses < count.found.responses => DiskCount::OfUrl(count.found),
            it => it,
        },
        _ => DiskCount::Estimate { found: count.estimate(), read: count.read, keys: count.keys },
    }
}

fn of_url(disk: &DiskTier, store: &Store, rule: &PurgeRule, key: &[u8]) -> DiskCount {
    let counts = either_scheme(key).map(|it| disk.count_key(store, rule, &it));
    DiskCount::OfUrl(PurgeMatches {
        responses: counts.iter().map(|it| it.responses).sum(),
        bytes: counts.iter().map(|it| it.bytes).sum(),
    })
}

/// The keys of a URL by `http` and `https`.
pub(super) fn either_scheme(key: &[u8]) -> [Vec<u8>; 2] {
    let text = String::from_utf8_lossy(key);
    let rest = text.split_once(':').map_or(&*text, |it| it.1);
    ["http", "https"].map(|it| format!("{it}:{rest}").into_bytes())
}

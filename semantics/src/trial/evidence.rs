//! Evidence in recorded requests that pages are the same for all clients, whatever their cookies, and for all values of a query
//! parameter. Equal bodies are evidence; a mark of the application, a cookie that a response sets, and a difference refuse it.

mod application_faults;
mod cookies;
mod new_demanded;
mod parameters;
mod proxy_loops;
mod silent_errors;
mod uncached;
mod variants;

pub use application_faults::{Disagreement, FailingUrl, RouteFaults};
pub use cookies::{CookieEvidence, CookieSharing, EqualForAll, MissingEvidence, SharingRefusal};
pub use new_demanded::{DemandEvidence, DemandedResponses};
pub use parameters::{NeedlessParameters, ParameterEvidence, ReorderedParameters};
pub use proxy_loops::{ProxyLoop, ProxyLoops};
pub use silent_errors::{MISSING, SilentErrors};
pub use uncached::{ShareableResponses, UncachedEvidence};
pub use variants::{VariantEvidence, VaryingField};

use super::audience::{SentTimes, are_interleaved};
use super::{RecordedRequest, facts};
use std::collections::{BTreeMap, BTreeSet};

/// The different values of a cookie or parameter for which one page had equal responses: fewer prove nothing.
pub const VALUES: usize = 8;

/// The fewest requests that are evidence.
const REQUESTS: u64 = 10;

/// The most names of a route that are looked at.
const NAMES: usize = 32;

/// One response of an origin to a request for a page.
struct PageAnswer<'r> {
    /// The number of the request.
    number: usize,
    weight: u32,
    /// A hash of the client, or of the query: different ones make a comparison.
    sender: u64,
    /// Names and values that may change the page.
    pairs: Vec<(&'r [u8], &'r [u8])>,
    digest: u64,
    status: u16,
    times: SentTimes,
}

impl<'r> PageAnswer<'r> {
    fn of(number: usize, request: &RecordedRequest<'r>, sender: u64) -> Option<Self> {
        let response = request.response.filter(|it| it.is_whole() && it.status < 500)?;
        // That of validators and lengths is no evidence: different bodies may have one length.
        (facts::class_of(response.digest) != 0).then(|| Self {
            number,
            weight: request.weight,
            sender,
            pairs: Vec::new(),
            digest: response.digest,
            status: response.status,
            times: SentTimes::of(request.span),
        })
    }

    fn value(&self, name: &[u8]) -> Option<&'r [u8]> {
        self.pairs.iter().find(|it| it.0 == name).map(|it| it.1)
    }
}

/// The comparison of the responses to requests for one page.
enum PageComparison {
    /// At least two senders got equal ones.
    Equal,
    /// There was one sender.
    Single,
    /// They differed, at this request, and not only with the time.
    Differs(usize),
}

/// The values of names for which a page had equal responses.
type ComparedValues<'r> = BTreeMap<&'r [u8], BTreeSet<&'r [u8]>>;

/// Compares the responses of a page. A page may change with the time: then several senders, with several values of each of `names`, got each
/// response, and none came back after the next one.
fn compare<'r>(
    page: &[&PageAnswer<'r>],
    names: &BTreeSet<&'r [u8]>,
    compared: &mut ComparedValues<'r>,
) -> PageComparison {
    let senders: BTreeSet<u64> = page.iter().map(|it| it.sender).collect();
    let mut found = ComparedValues::new();
    for class in facts::classes() {
        let mut answers: BTreeMap<(u64, u16), Vec<&PageAnswer<'r>>> = BTreeMap::new();
        for it in page.iter().filter(|it| facts::class_of(it.digest) == class) {
            answers.entry((it.digest, it.status)).or_default().push(it);
        }
        let times =
            answers.values().filter_map(|all| all.iter().map(|it| it.times).reduce(SentTimes::joined));
        let alternates = are_interleaved(times.collect());
        for these in answers.values() {
            let is_of_one = these.iter().all(|it| it.sender == these[0].sender);
            let mut is_apart = alternates || is_of_one;
            for name in names {
                let values: BTreeSet<_> = these.iter().map(|it| it.value(name)).collect();
                let is_seen = || page.iter().any(|it| it.value(name).is_some());
                is_apart |= values.len() < 2 && is_seen();
                if values.len() > 1 {
                    found.entry(name).or_default().extend(values.into_iter().flatten());
                }
            }
            if is_apart && answers.len() > 1 {
                return PageComparison::Differs(these[0].number);
            }
        }
    }
    for (name, values) in found {
        compared.entry(name).or_default().extend(values);
    }
    if senders.len() > 1 { PageComparison::Equal } else { PageComparison::Single }
}

/// The names for which enough values were compared.
fn proven<'r>(compared: &ComparedValues<'r>) -> BTreeSet<&'r [u8]> {
    compared.iter().filter(|it| it.1.len() >= VALUES).map(|it| *it.0).collect()
}

/// The names that most answers have, of those that enough of them have.
fn frequent<'a, 'r: 'a>(of: impl Iterator<Item = &'a PageAnswer<'r>>) -> BTreeSet<&'r [u8]> {
    let mut counts: BTreeMap<&'r [u8], usize> = BTreeMap::new();
    of.flat_map(|it| &it.pairs).for_each(|it| *counts.entry(it.0).or_default() += 1);
    let mut all: Vec<_> = counts.into_iter().filter(|it| it.1 >= VALUES).collect();
    all.sort_by_key(|it| std::cmp::Reverse(it.1));
    all.into_iter().take(NAMES).map(|it| it.0).collect()
}

#[cfg(test)]
mod tests;

//! The rules for choosing one of several origins, from the set of those that may be asked. Other modules make that set.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// The rule for choosing an origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Balance {
    /// In turn, by weight.
    RoundRobin,
    /// The one with the fewest requests for its weight.
    LeastRequests,
    /// Of two chosen at random, by weight, the one with fewer requests.
    #[default]
    PowerOfTwo,
    /// By the remainder of a hash; most assignments change when an origin is added or removed.
    Hash,
    /// By the highest hash with each origin; only that origin's assignments change when it is added or removed.
    ConsistentHash,
}

impl Balance {
    /// Each with its name in the configuration.
    pub const ALL: [(&'static str, Balance); 5] = [
        ("round_robin", Balance::RoundRobin),
        ("least_requests", Balance::LeastRequests),
        ("power_of_two", Balance::PowerOfTwo),
        ("hash", Balance::Hash),
        ("consistent_hash", Balance::ConsistentHash),
    ];

    /// The rule of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Balance> {
        Self::ALL.iter().find(|it| it.0 == name).map(|it| it.1)
    }
}

/// The hash for balancing: the same in every process, so that several larders choose alike.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, 0)
}

/// Origins of one group, one bit each: there are at most 64.
pub(crate) type OriginSet = u64;

/// The most origins of a group.
pub const MOST_ORIGINS: usize = 64;

/// A rule's facts about one origin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BalanceMember {
    /// Its weight, or less during its slow start; above zero.
    pub share: u64,
    /// Requests in progress.
    pub load: u32,
    /// The hash of its name.
    pub name: u64,
}

/// The state of the rules between choices, for one worker.
pub(crate) struct Chooser {
    balance: Balance,
    /// The debt to each origin, for the rule in turn.
    credit: Box<[Cell<i64>]>,
    random: Cell<u64>,
}

impl Chooser {
    pub(crate) fn new(balance: Balance, members: usize) -> Self {
        let random = RandomState::new().hash_one(members) | 1;
        Self { balance, credit: (0..members).map(|_| Cell::new(0)).collect(), random: Cell::new(random) }
    }

    /// Chooses one of `set`, which is not empty; `of` returns the facts of each. A request without `key` is balanced by
    /// load, where the rule needs one.
    pub(crate) fn choose(
        &self,
        set: OriginSet,
        key: Option<u64>,
        of: impl Fn(usize) -> BalanceMember,
    ) -> usize {
        if set.is_power_of_two() {
            return set.trailing_zeros() as usize;
        }
        match (self.balance, key) {
            (Balance::RoundRobin, _) => self.round_robin(set, of),
            (Balance::LeastRequests, _) => self.least_requests(set, of),
            (Balance::Hash, Some(key)) => hash_remainder(set, self.credit.len(), key, of),
            (Balance::ConsistentHash, Some(key)) => rendezvous(set, key, of),
            (Balance::PowerOfTwo | Balance::Hash | Balance::ConsistentHash, _) => self.power_of_two(set, of),
        }
    }

    /// Smooth weighted round robin: each is owed its share every time, and the one with the largest debt pays for all.
    fn round_robin(&self, set: OriginSet, of: impl Fn(usize) -> BalanceMember) -> usize {
        let mut all = 0;
        let mut best = set.trailing_zeros() as usize;
        for at in each(set) {
            let share = i64::try_from(of(at).share).unwrap_or(i64::MAX);
            all += share;
            self.credit[at].set(self.credit[at].get() + share);
            if self.credit[at].get() > self.credit[best].get() {
                best = at;
            }
        }
        self.credit[best].set(self.credit[best].get() - all);
        best
    }

    /// Equally loaded origins are used in turn: by weight, where none has requests.
    fn least_requests(&self, set: OriginSet, of: impl Fn(usize) -> BalanceMember) -> usize {
        let mut least: Option<BalanceMember> = None;
        let mut ties: OriginSet = 0;
        for at in each(set) {
            let it = of(at);
            match least.map(|least| load_of(&it, &least).cmp(&load_of(&least, &it))) {
                Some(std::cmp::Ordering::Greater) => {}
                Some(std::cmp::Ordering::Equal) => ties |= 1 << at,
                Some(std::cmp::Ordering::Less) | None => (least, ties) = (Some(it), 1 << at),
            }
        }
        self.round_robin(ties, of)
    }

    fn power_of_two(&self, set: OriginSet, of: impl Fn(usize) -> BalanceMember) -> usize {
        let first = self.weighted_random(set, &of);
        let second = self.weighted_random(set & !(1 << first), &of);
        let (a, b) = (of(first), of(second));
        if load_of(&b, &a) < load_of(&a, &b) { second } else { first }
    }

    fn weighted_random(&self, set: OriginSet, of: impl Fn(usize) -> BalanceMember) -> usize {
        let all: u64 = each(set).map(|it| of(it).share).sum();
        // xorshift64*: guessing it gains nothing.
        let mut it = self.random.get();
        it ^= it >> 12;
        it ^= it << 25;
        it ^= it >> 27;
        self.random.set(it);
        nth_share(set, it.wrapping_mul(0x2545_F491_4F6C_DD1D) % all.max(1), of)
    }
}

/// The load of `it`, for comparison with `load_of(other, it)`: without a division.
fn load_of(it: &BalanceMember, other: &BalanceMember) -> u128 {
    u128::from(it.load) * u128::from(other.share)
}

/// The origin whose share contains `at`, of the sum of all shares.
fn nth_share(set: OriginSet, at: u64, of: impl Fn(usize) -> BalanceMember) -> usize {
    let mut left = at;
    for it in each(set) {
        match left.checked_sub(of(it).share) {
            Some(rest) => left = rest,
            None => return it,
        }
    }
    set.trailing_zeros() as usize
}

/// By remainder among all, so that the assignments of available origins do not change; another hash spreads those of the
/// unavailable ones.
fn hash_remainder(set: OriginSet, members: usize, key: u64, of: impl Fn(usize) -> BalanceMember) -> usize {
    let all = if members >= MOST_ORIGINS { OriginSet::MAX } else { (1 << members) - 1 };
    let pick = |among: OriginSet, key: u64| {
        let all: u64 = each(among).map(|it| of(it).share).sum();
        nth_share(among, key % all.max(1), &of)
    };
    match pick(all, key) {
        it if set & (1 << it) != 0 => it,
        it => pick(set, mixed(key, it as u64)),
    }
}

/// Weighted rendezvous: each draws a number from the key, and the weights stretch it so that each is highest in
/// proportion to its share.
#[allow(clippy::cast_precision_loss, reason = "a hash becomes a number between 0 and 1")]
fn rendezvous(set: OriginSet, key: u64, of: impl Fn(usize) -> BalanceMember) -> usize {
    let mut best = (f64::NEG_INFINITY, set.trailing_zeros() as usize);
    for at in each(set) {
        let it = of(at);
        let drawn = ((mixed(key, it.name) >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let score = -(it.share as f64) / drawn.ln();
        if score > best.0 {
            best = (score, at);
        }
    }
    best.1
}

fn mixed(key: u64, with: u64) -> u64 {
    xxh3_64_with_seed(&key.to_le_bytes(), with)
}

/// The members of a set.
pub(crate) fn each(set: OriginSet) -> impl Iterator<Item = usize> {
    let mut left = set;
    std::iter::from_fn(move || {
        let at = left.trailing_zeros() as usize;
        (left != 0).then(|| {
            left &= left - 1;
            at
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often each of three with weights 1, 2 and 5 is chosen, of `times`, if none has anything to do.
    fn counts(balance: Balance, set: OriginSet, times: u64) -> [u64; 3] {
        let chooser = Chooser::new(balance, 3);
        let mut counts = [0; 3];
        for it in 0..times {
            counts[chooser.choose(set, Some(hash(&it.to_le_bytes())), idle)] += 1;
        }
        counts
    }

    fn idle(at: usize) -> BalanceMember {
        BalanceMember { share: [100, 200, 500][at], load: 0, name: hash(&[b'a' + at as u8]) }
    }

    #[test]
    fn shares_are_by_weight() {
        for (_, balance) in Balance::ALL {
            let found = counts(balance, 0b111, 8000);
            // Without replacement the lightest of three is a little oftener one of two; ties go to the first.
            for (count, expect) in found.iter().zip([1000, 2000, 5000]) {
                assert!(count.abs_diff(expect) <= 250, "{balance:?}: {found:?}");
            }
            let found = counts(balance, 0b101, 6000);
            assert!(found[1] == 0 && found[0].abs_diff(1000) <= 1000, "{balance:?}: {found:?}");
        }
    }

    #[test]
    fn in_turn_is_smooth() {
        let chooser = Chooser::new(Balance::RoundRobin, 3);
        let found: Vec<usize> = (0..8).map(|_| chooser.choose(0b111, None, idle)).collect();
        assert_eq!(vec![2, 1, 2, 0, 2, 2, 1, 2], found);
    }

    #[test]
    fn the_origin_with_the_least_load_for_its_weight_is_chosen() {
        let busy = |loads: [u32; 3]| move |at: usize| BalanceMember { load: loads[at], ..idle(at) };
        let least = Chooser::new(Balance::LeastRequests, 3);
        assert_eq!(1, least.choose(0b111, None, busy([1, 1, 3])));
        assert_eq!(2, least.choose(0b111, None, busy([1, 2, 4])));
        assert_eq!(0, least.choose(0b101, None, busy([0, 0, 1])));
        let two = Chooser::new(Balance::PowerOfTwo, 3);
        assert!(
            (0..100).all(|_| two.choose(0b111, None, busy([0, 0, 1])) != 2),
            "it is never the better of two"
        );
    }

    #[test]
    fn keys_keep_their_origin_when_another_origin_goes() {
        for balance in [Balance::Hash, Balance::ConsistentHash] {
            let chooser = Chooser::new(balance, 3);
            let mut moved = [0; 2];
            for it in 0..1000u64 {
                let key = Some(hash(&it.to_le_bytes()));
                let (before, after) = (chooser.choose(0b111, key, idle), chooser.choose(0b011, key, idle));
                assert!(before == after || before == 2, "{balance:?}");
                assert_eq!(before, chooser.choose(0b111, key, idle));
                if before == 2 {
                    moved[after] += 1;
                }
            }
            assert!(moved[0] > 100 && moved[1] > moved[0], "{balance:?}: spread by weight: {moved:?}");
        }
    }

    #[test]
    fn an_added_origin_takes_only_its_share_of_consistent_keys() {
        let chooser = Chooser::new(Balance::ConsistentHash, 4);
        let of = |at: usize| BalanceMember { share: 100, load: 0, name: hash(&[at as u8]) };
        let moved = (0..1000u64).filter(|it| {
            let key = Some(hash(&it.to_le_bytes()));
            let (three, four) = (chooser.choose(0b0111, key, of), chooser.choose(0b1111, key, of));
            assert!(three == four || four == 3);
            three != four
        });
        assert!((200..=300).contains(&moved.count()));
    }
}

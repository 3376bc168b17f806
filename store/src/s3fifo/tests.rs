//! The policy against a second, naive writing of the paper, and the two promises: Zipf within 1 %, scans do no harm.

use super::*;

/// xorshift: the traces are the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Ids by Zipf's law with exponent `skew`, drawn from the inverted cumulative distribution.
fn zipf(objects: usize, skew: f64, length: usize, seed: u64) -> Vec<u64> {
    let mut cumulative = Vec::with_capacity(objects);
    let mut sum = 0.0;
    for rank in 1..=objects {
        sum += (rank as f64).powf(-skew);
        cumulative.push(sum);
    }
    let mut random = Random(seed);
    (0..length).map(|_| cumulative.partition_point(|it| *it < random.unit() * sum) as u64).collect()
}

/// 100 to 20,000 bytes, always the same for an id.
fn size_of(id: u64) -> u64 {
    100 + Random(id.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1).next() % 19_900
}

/// A cache that is nothing but the policy.
struct Simulated {
    policy: S3Fifo<u64>,
    resident: HashMap<u64, u8>,
    capacity: u64,
}

impl Simulated {
    fn new(capacity: u64) -> Self {
        Self { policy: S3Fifo::new(capacity), resident: HashMap::new(), capacity }
    }

    fn hits(&mut self, id: u64) -> bool {
        if let Some(uses) = self.resident.get_mut(&id) {
            *uses = (*uses + 1).min(MOST_USES);
            return true;
        }
        while self.policy.bytes() + size_of(id) > self.capacity {
            let resident = &mut self.resident;
            let gone = self.policy.evict(|id, count| {
                let uses = resident.get_mut(&id).unwrap();
                std::mem::replace(uses, count.apply(*uses))
            });
            self.resident.remove(&gone.unwrap());
        }
        self.policy.insert(id, size_of(id));
        self.resident.insert(id, 0);
        false
    }
}

/// The paper's algorithm 1, written down from its text with vectors.
struct Reference {
    small: VecDeque<(u64, u8)>,
    main: VecDeque<(u64, u8)>,
    ghost: VecDeque<u64>,
    capacity: u64,
}

impl Reference {
    fn total(queue: &VecDeque<(u64, u8)>) -> u64 {
        queue.iter().map(|it| size_of(it.0)).sum()
    }

    fn hits(&mut self, id: u64) -> bool {
        if let Some(it) = self.small.iter_mut().chain(&mut self.main).find(|it| it.0 == id) {
            it.1 = (it.1 + 1).min(3);
            return true;
        }
        while Self::total(&self.small) + Self::total(&self.main) + size_of(id) > self.capacity {
            self.evict();
        }
        match self.ghost.iter().position(|it| *it == id) {
            Some(at) => {
                self.ghost.remove(at);
                self.main.push_back((id, 0));
            }
            None => self.small.push_back((id, 0)),
        }
        false
    }

    fn evict(&mut self) {
        if Self::total(&self.small) * 10 > self.capacity || self.main.is_empty() {
            let Some((id, uses)) = self.small.pop_front() else { return };
            if uses > 1 {
                return self.main.push_back((id, 0));
            }
            self.ghost.push_back(id);
            while self.ghost.iter().map(|it| size_of(*it)).sum::<u64>() > self.capacity / 10 * 9 {
                self.ghost.pop_front();
            }
            return;
        }
        match self.main.pop_front() {
            Some((id, uses)) if uses > 0 => self.main.push_back((id, uses - 1)),
            Some(_) | None => {}
        }
    }
}

#[track_caller]
fn check_against_reference(skew: f64, objects: usize, capacity: u64) {
    let trace = zipf(objects, skew, 40_000, 0x5EED);
    let mut ours = Simulated::new(capacity);
    let mut theirs =
        Reference { small: VecDeque::new(), main: VecDeque::new(), ghost: VecDeque::new(), capacity };
    let our_misses = trace.iter().filter(|it| !ours.hits(**it)).count() as f64 / trace.len() as f64;
    let their_misses = trace.iter().filter(|it| !theirs.hits(**it)).count() as f64 / trace.len() as f64;
    assert!(
        (our_misses - their_misses).abs() <= 0.01 * their_misses,
        "skew {skew}: {our_misses} against {their_misses}"
    );
}

#[test]
fn zipf_misses_are_those_of_the_paper() {
    check_against_reference(0.8, 5_000, 2_000_000);
    check_against_reference(1.0, 5_000, 2_000_000);
    check_against_reference(1.2, 5_000, 500_000);
}

#[test]
fn a_scan_does_not_flush_the_hot_set() {
    let mut cache = Simulated::new(2_000_000);
    let hot = 0..100u64; // About 1 MB.
    for _ in 0..5 {
        for id in hot.clone() {
            cache.hits(id);
        }
    }
    for id in 10_000..20_000 {
        cache.hits(id); // 100 MB that nobody asks for again.
    }
    let survivors = hot.clone().filter(|it| cache.resident.contains_key(it)).count();
    assert!(survivors >= 95, "{survivors} of 100");
}

#[test]
fn an_eviction_looks_at_a_bounded_number() {
    let mut policy: S3Fifo<u64> = S3Fifo::new(1_000_000);
    for id in 0..10_000 {
        policy.insert(id, 100);
    }
    let mut looks = 0;
    let gone = policy.evict(|_, _| {
        looks += 1;
        MOST_USES
    });
    assert!(gone.is_some());
    assert!(looks <= MOST_EXAMINED + 1, "{looks}");
}

#[test]
fn bytes_and_places_stay_right() {
    let mut policy: S3Fifo<u64> = S3Fifo::new(1000);
    let a = policy.insert(1, 10);
    let b = policy.insert(2, 20);
    let c = policy.insert(3, 30);
    policy.remove(b);
    policy.resize(c, 300);
    assert_eq!((2, 310), (policy.len(), policy.bytes()));
    assert_eq!(Some(1), policy.evict(|_, _| 0));
    assert_eq!(Some(3), policy.evict(|_, _| 0));
    assert_eq!(None, policy.evict(|_, _| 0));
    assert_eq!(0, policy.bytes());
    let again = policy.insert(1, 10);
    assert!([a, b, c].contains(&again), "nodes are used again");
    assert_eq!(FifoQueue::Main, policy.nodes[again.0 as usize].queue, "the ghost knew it");
}

#[test]
fn departures_are_remembered_within_bounds() {
    let mut policy: S3Fifo<u64> = S3Fifo::new(1 << 40);
    for id in 0..50_000 {
        policy.insert(id, 1);
        policy.evict(|_, _| 0);
        if id % 3 == 0 {
            let back = policy.insert(id, 1);
            policy.remove(back);
        }
    }
    assert!(policy.ghosts.known.len() <= GHOSTS);
    assert!(policy.ghosts.order.len() <= 2 * GHOSTS + 1);
    assert_eq!(policy.ghosts.known.len() as u64, policy.ghosts.bytes);
}

#[test]
fn an_empty_cache_frees_its_bookkeeping() {
    let mut policy: S3Fifo<u64> = S3Fifo::new(1000);
    let handles: Vec<_> = (0..100).map(|id| policy.insert(id, 1)).collect();
    assert!((0..50).all(|_| policy.evict(|_, _| 0).is_some()));
    drop(policy.shrink(|_, _| unreachable!("there is not too much for fifty")));
    assert!(policy.footprint() > 0 && !policy.ghosts.known.is_empty());
    handles[50..].iter().for_each(|it| policy.remove(*it));
    drop(policy.shrink(|_, _| unreachable!("there is none to be moved")));
    assert_eq!((0, 0, 0), (policy.footprint(), policy.untouched(), policy.ghosts.known.len()));
}

#[test]
fn a_walk_visits_every_entry_that_stays_while_other_entries_change() {
    let mut policy: S3Fifo<u64> = S3Fifo::new(1 << 30);
    let stays: Vec<u64> = (0..20_000).collect();
    let mut goes: Vec<(u64, Handle)> = Vec::new();
    for id in &stays {
        policy.insert(*id, 100);
        goes.push((1_000_000 + id, policy.insert(1_000_000 + id, 100)));
    }
    let (mut seen, mut place, mut new) = (Vec::new(), Some(WalkPosition::default()), 2_000_000);
    while let Some(from) = place {
        let before = seen.len();
        place = policy.walk(from, 64, |id| seen.push(id));
        assert!(seen.len() - before <= 64);
        for (_, handle) in goes.drain(goes.len().saturating_sub(50)..) {
            policy.remove(handle);
        }
        new += 1;
        policy.insert(new, 100);
    }
    seen.retain(|it| *it < 1_000_000);
    assert_eq!(stays, seen, "each once, in the order in which they came");
}

#[test]
fn a_walk_restarts_when_all_entries_were_moved() {
    let mut policy: S3Fifo<u64> = S3Fifo::new(1 << 30);
    let handles: Vec<Handle> = (0..10_000).map(|id| policy.insert(id, 100)).collect();
    let place = policy.walk(WalkPosition::default(), 9_000, |_| {}).unwrap();
    handles.iter().skip(1000).for_each(|it| policy.remove(*it));
    drop(policy.shrink(|_, _| {}));
    let mut seen = Vec::new();
    assert_eq!(None, policy.walk(place, 10_000, |id| seen.push(id)));
    assert_eq!((0..1000).collect::<Vec<_>>(), seen);
}

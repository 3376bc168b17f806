//! The tables under threads, in every order of the steps of two threads, and with more keys than slots.

use super::*;
use std::collections::HashSet;

/// An event each: the number is the count of events.
fn count(table: &RateTable, key: u64) {
    table.change::<()>(key, |it| Ok(it + 1)).unwrap();
}

fn key_of(number: u64) -> u64 {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (number >> 7)
}

#[test]
fn threads_lose_no_event_of_a_key() {
    let table = RateTable::new(64);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..50_000_u64).for_each(|it| count(&table, key_of(1 + it % 3))));
        }
    });
    for key in 1..4 {
        let slots: Vec<_> =
            table.sets.iter().flat_map(|it| &it.0).filter(|it| it.key.load(Acquire) == key_of(key)).collect();
        // Two threads that add a key at once may use two slots; the sum is exact.
        let sum: u64 = slots.iter().map(|it| number(it.word.load(Acquire))).sum();
        assert!((66_664..=66_668).contains(&sum), "{sum}");
    }
}

/// Without other threads, a change is one judgement, and is in two cache lines.
#[test]
fn a_change_judges_once() {
    let (table, judged) = (RateTable::default(), std::cell::Cell::new(0));
    let change = |answer: Result<u64, ()>| {
        judged.set(0);
        let result = table.change(key_of(1), |_| {
            judged.set(judged.get() + 1);
            answer
        });
        assert_eq!((answer.map(drop), 1), (result, judged.get()), "{answer:?}");
    };
    [Err(()), Ok(1), Ok(2), Err(())].into_iter().for_each(change);
    assert!(table.sets.iter().all(|it| it.0.as_ptr().addr() % 128 == 0));
}

#[test]
fn ten_million_keys_pass_and_a_busy_one_stays() {
    let table = RateTable::default();
    assert_eq!(4 << 20, table.bytes());
    let busy = key_of(u64::MAX / 3);
    for it in 1..10_000_000_u64 {
        // Time passes: the number of a key that was used once is its time.
        table.change::<()>(key_of(it), |before| Ok(before.max(it) + 1)).unwrap();
        if it % 1000 == 0 {
            table.change::<()>(busy, |before| Ok(before.max(it) + 2000)).unwrap();
        }
    }
    assert!(table.get(busy) > 10_000_000, "{}", table.get(busy));
    let exact = (9_900_000..10_000_000_u64).filter(|it| table.get(key_of(*it)) == it + 1).count();
    assert!(exact > 99_900, "{exact} of the latest 100000");
}

/// A thread that changes one key, as steps of one access to memory each; the same steps as `RateTable::change` over a set of one
/// slot.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Step {
    ReadKey,
    ReadWord(bool),
    Swap { word: u64, own: bool },
    WriteKey,
    Done,
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Model {
    key: u64,
    word: u64,
    threads: [(u64, Step); 3],
}

const K: [u64; 2] = [1 << 60 | 1, 2 << 60 | 2];

impl Model {
    /// The states after one step of a thread.
    fn step(&self, at: usize) -> Option<Model> {
        let mut next = self.clone();
        let (key, step) = self.threads[at].clone();
        next.threads[at].1 = match step {
            Step::ReadKey => Step::ReadWord(self.key == key),
            Step::ReadWord(own) => Step::Swap { word: self.word, own: own && self.word & 0xfff == tag(key) },
            Step::Swap { word, .. } if self.word != word => Step::ReadKey,
            Step::Swap { word, own } => {
                // A number is the sum of the events of its key; a number of another key is never added to.
                if own {
                    assert_eq!(tag(key), word & 0xfff, "an event was counted for another key");
                }
                next.word = pack(if own { number(word) + 1 } else { 1 }, key);
                if own { Step::Done } else { Step::WriteKey }
            }
            Step::WriteKey => {
                next.key = key;
                Step::Done
            }
            Step::Done => return None,
        };
        Some(next)
    }
}

/// Three threads over two keys and one slot, in every order of their steps: every order ends, and the slot is that of one key with
/// at most its own events, or is nobody's.
#[test]
fn every_order_of_the_steps() {
    for keys in [[0, 0, 0], [0, 0, 1], [0, 1, 0], [0, 1, 1]] {
        let threads = keys.map(|it| (K[it], Step::ReadKey));
        let mut open = vec![Model { key: 0, word: 0, threads }];
        let mut seen = HashSet::new();
        let mut ends = 0;
        while let Some(model) = open.pop() {
            if !seen.insert(model.clone()) {
                continue;
            }
            let next: Vec<_> = (0..3).filter_map(|it| model.step(it)).collect();
            if next.is_empty() {
                ends += 1;
                let events = |key: u64| keys.iter().filter(|it| K[**it] == key).count() as u64;
                let owner = K.into_iter().find(|it| tag(*it) == model.word & 0xfff).unwrap();
                assert!((1..=events(owner)).contains(&number(model.word)));
                if keys == [0, 0, 0] {
                    assert!(model.key == K[0]);
                }
            }
            open.extend(next);
        }
        assert!(ends > 0);
    }
}

#[test]
fn counts_in_progress() {
    let table = CountTable::default();
    let first = table.enter(key_of(1), 2).unwrap().unwrap();
    let second = table.enter(key_of(1), 2).unwrap().unwrap();
    assert_eq!(Err(2), table.enter(key_of(1), 2));
    assert!(table.enter(key_of(2), 2).is_ok());
    table.leave(&first);
    let third = table.enter(key_of(1), 2).unwrap().unwrap();
    assert_eq!(Err(2), table.enter(key_of(1), 2));
    table.leave(&second);
    table.leave(&third);
    assert_eq!(1, table.words.iter().filter(|it| it.load(Acquire) != 0).count(), "only the other key");
}

#[test]
fn threads_never_exceed_a_count() {
    use std::sync::atomic::AtomicU32;
    let (table, now, most) = (CountTable::default(), AtomicU32::new(0), AtomicU32::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..20_000 {
                    if let Ok(Some(counted)) = table.enter(key_of(7), 2) {
                        most.fetch_max(now.fetch_add(1, Acquire) + 1, Acquire);
                        now.fetch_sub(1, Acquire);
                        table.leave(&counted);
                    }
                }
            });
        }
    });
    assert!(table.words.iter().all(|it| it.load(Acquire) == 0));
    assert!(most.load(Acquire) <= 2, "{}", most.load(Acquire));
}

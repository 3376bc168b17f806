//! How exact the heaviest are, against a count of everything.

use super::*;
use proptest::prelude::*;

/// A generator of numbers (splitmix64), the same in every run.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    /// A rank from 1 to `ranks`, by Zipf's law with exponent 1: the inverse of the logarithm.
    fn zipf(&mut self, ranks: u32) -> u32 {
        let even = (self.next() >> 11) as f64 / (1u64 << 53) as f64;
        let rank = (even * (f64::from(ranks) + 1.0).ln()).exp();
        (rank as u32).clamp(1, ranks)
    }
}

fn mixed(it: u64) -> u64 {
    let it = (it ^ (it >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let it = (it ^ (it >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    it ^ (it >> 31)
}

/// The URL of a rank.
fn url(rank: u32) -> String {
    format!("www.example.com/section/{}/page-{rank}.html", rank % 100)
}

const URLS: u32 = 10_000_000;

/// `requests` over [`URLS`] by Zipf's law, spread by chance over as many sketches as there are workers, in `bytes` all
/// together; `weigh` says what a request to a rank weighs.
fn check_zipf(workers: usize, bytes: usize, requests: u32, weigh: fn(u32) -> u64) {
    let mut parts = vec![TopSketch::new(bytes / workers); workers];
    let mut truth = vec![0u64; URLS as usize + 1];
    let mut dice = Dice(4);
    for _ in 0..requests {
        let rank = dice.zipf(URLS);
        let weight = weigh(rank);
        truth[rank as usize] += weight;
        let worker = dice.next() as usize % workers;
        // Only a URL that is not there is looked at: making a text for each would be all that this test does.
        let text = rank.to_le_bytes();
        parts[worker].add(mixed(u64::from(rank)), weight, &[b"rank", &text]);
    }
    assert!(parts.iter().map(TopSketch::bytes).sum::<usize>() <= bytes);
    assert_eq!(truth.iter().sum::<u64>(), parts.iter().map(TopSketch::total).sum::<u64>());
    let mut ranks: Vec<u32> = (1..=URLS).collect();
    ranks.select_nth_unstable_by_key(100, |it| std::cmp::Reverse(truth[*it as usize]));
    let least = ranks[..100].iter().map(|it| truth[*it as usize]).min().unwrap();
    let found = heaviest(&parts, 100);
    assert_eq!(100, found.len());
    for it in &found {
        let rank = u32::from_le_bytes(it.text[4..].try_into().unwrap());
        let true_weight = truth[rank as usize];
        let off = it.weight.abs_diff(true_weight);
        assert!(off <= it.error, "{workers} workers: rank {rank}: {it:?}, but {true_weight}");
        assert!(off * 20 <= true_weight, "{workers} workers: rank {rank}: {it:?}, but {true_weight}");
        // One of the hundred, or as heavy as one of them but for a twentieth: those near the hundredth are as many.
        assert!(
            true_weight * 20 >= least * 19,
            "{workers} workers: rank {rank} is not of the hundred: {it:?}"
        );
    }
    let of_them = |rank: &u32| found.iter().any(|it| it.text[4..] == rank.to_le_bytes());
    let members = ranks[..100].iter().filter(|it| of_them(it)).count();
    assert!(members >= 95, "{workers} workers: {members} of the hundred");
}

/// As the server has it for each of four sorts of weight: a quarter of 32 MiB, and 4096 places a worker at most.
fn bytes(workers: usize) -> usize {
    (32 * 1024 * 1024 / 4).min(workers * 4096 * PLACE)
}

#[test]
fn the_top_hundred_of_ten_million_urls() {
    check_zipf(1, bytes(1), 5_000_000, |_| 1);
    check_zipf(16, bytes(16), 5_000_000, |_| 1);
}

#[test]
fn the_top_hundred_by_weight() {
    // A size that has nothing to do with how often a URL is asked for.
    check_zipf(4, bytes(4), 5_000_000, |rank| 1000 + mixed(u64::from(rank) + 77) % 4000);
}

#[test]
fn a_place_is_taken_over_with_the_weight_of_the_lightest() {
    let mut top = TopSketch::new(WAYS * PLACE);
    for it in 1..=WAYS as u64 {
        top.add(it, 10 + it, &[b"old", b""]);
    }
    top.add(1000, 5, &[b"host", b"/new"]);
    let found = heaviest(&[top.clone()], 100);
    assert_eq!(WAYS, found.len());
    let new = found.iter().find(|it| it.text == b"host/new").unwrap();
    assert_eq!((16, 11), (new.weight, new.error), "the lightest weighed 11");
    assert!(!found.iter().any(|it| it.weight == 11));
    assert_eq!(5 + (11..=26).sum::<u64>(), top.total());
    top.clear();
    assert_eq!((0, Vec::new()), (top.total(), heaviest(&[top], 9)));
}

#[test]
fn long_texts_are_cut() {
    let mut top = TopSketch::new(0);
    let long = "x".repeat(400);
    top.add(1, 3, &[b"host", long.as_bytes()]);
    top.add(2, 2, &[&[b'y'; TEXT], b""]);
    top.add(3, 1, &[&[b'z'; TEXT], b"z"]);
    let found = heaviest(&[top], 9);
    assert_eq!([TEXT, TEXT, TEXT], [0, 1, 2].map(|it| found[it].text.len()));
    assert_eq!([true, false, true], [0, 1, 2].map(|it| found[it].cut));
    assert!(url(7).len() < TEXT, "an ordinary URL is not cut");
}

proptest! {
    /// Whatever comes, in whatever order: what is told differs from the truth by its error at most, and nothing is lost.
    #[test]
    fn errors_are_never_too_small(stream in proptest::collection::vec((0u64..60, 0u64..100, 0usize..3), 0..600)) {
        let mut parts = vec![TopSketch::new(2 * WAYS * PLACE); 3];
        let mut truth: HashMap<u64, u64> = HashMap::new();
        for (name, weight, part) in stream {
            parts[part].add(mixed(name), weight, &[&name.to_le_bytes(), b""]);
            *truth.entry(name).or_default() += weight;
        }
        for it in heaviest(&parts, 100) {
            let name = u64::from_le_bytes(it.text.try_into().unwrap());
            prop_assert!(it.weight.abs_diff(truth[&name]) <= it.error, "{name}: {} {}", it.weight, it.error);
        }
        prop_assert_eq!(truth.values().sum::<u64>(), parts.iter().map(TopSketch::total).sum::<u64>());
    }
}

#[test]
fn the_growth_since_a_mark_is_that_of_the_keys_and_not_of_their_slots() {
    let mut top = TopSketch::new(64 * WAYS * PLACE);
    let add =
        |top: &mut TopSketch, key: u64, weight| top.add(mixed(key), weight, &[key.to_string().as_bytes()]);
    (1..200).for_each(|key| add(&mut top, key, 1000 - key));
    let report = |top: &TopSketch, mark: &mut TopMark| -> Vec<(String, u64)> {
        let grown = top.grown(mark, 3);
        grown.into_iter().map(|it| (String::from_utf8(it.text).unwrap(), it.weight)).collect()
    };
    let mut mark = top.mark();
    assert!(report(&top, &mut mark).is_empty());
    // A key that was light, one that was heavy, and a new one.
    add(&mut top, 199, 5000);
    add(&mut top, 1, 7);
    add(&mut top, 500, 300);
    let expect = [("199", 5000), ("500", 300), ("1", 7)].map(|it| (it.0.to_owned(), it.1));
    assert_eq!(expect.to_vec(), report(&top, &mut mark));
    assert!(report(&top, &mut mark).is_empty());
}

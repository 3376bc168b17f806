//! The memory of the index, and the replacement of records.

use super::super::index::{Index, IndexPut, KnownRecord, RecordLocation};

fn known(stamp: u64, variant: u32, names: u16) -> KnownRecord {
    let spot = RecordLocation { segment: 1, offset: u32::try_from(stamp).unwrap(), size: 9 };
    KnownRecord { location: spot, stamp, variant, names, flags: 0 }
}

fn stamps(index: &Index) -> Vec<u64> {
    index.find(7).iter().map(|it| it.stamp).collect()
}

#[test]
fn a_response_takes_a_hundred_bytes_at_most() {
    let index = Index::new();
    let empty = index.memory();
    // A hash of its own for each, as a hash function would give them.
    for stamp in 1..300_000u64 {
        index.put(stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15), &known(stamp, 1, 0));
        if stamp > 20_000 && stamp % 1000 == 0 {
            let each = (index.memory() - empty) / stamp;
            assert!(each <= 100, "{each} bytes with {stamp} responses");
        }
    }
}

#[test]
fn memory_comes_back() {
    let index = Index::new();
    let empty = index.memory();
    let hash = |stamp: u64| stamp.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (1..100_000).for_each(|it| {
        let _ = index.put(hash(it), &known(it, 1, 0));
    });
    (1..100_000).for_each(|it| {
        let _ = index.remove(hash(it), 100_000);
    });
    assert_eq!(0, index.objects());
    assert!(index.memory() < empty + 2_000_000, "{}", index.memory());
}

#[test]
fn the_order_of_arrival_does_not_matter() {
    let records = [known(1, 1, 1), known(2, 2, 1), known(3, 9, 0), known(4, 3, 1), known(5, 1, 1)];
    // Newest first: the one that does not vary hides what is older.
    for turn in 0..120 {
        let (mut left, mut rest) = (records.to_vec(), turn);
        let index = Index::new();
        while !left.is_empty() {
            let it = left.remove(rest % left.len());
            rest /= left.len() + 1;
            index.put(7, &it);
        }
        assert_eq!([5, 4, 3], stamps(&index)[..], "turn {turn}");
        assert_eq!(3, index.objects());
    }
}

#[test]
fn a_record_older_than_a_removal_is_rejected() {
    let index = Index::new();
    index.put(7, &known(1, 1, 0));
    assert_eq!(1, index.remove(7, 5));
    assert_eq!(IndexPut::Superseded, index.put(7, &known(4, 1, 0)));
    assert_eq!(IndexPut::Inserted, index.put(7, &known(6, 1, 0)));
}

#[test]
fn variants_are_bounded() {
    let index = Index::new();
    (1..100).for_each(|it| {
        let _ = index.put(7, &known(it, u32::try_from(it).unwrap(), 1));
    });
    assert_eq!((68..100).rev().collect::<Vec<_>>(), stamps(&index));
}

#[test]
fn all_records_of_a_removed_segment_are_removed() {
    let index = Index::new();
    (1..50).for_each(|it| {
        let _ = index.put(it, &known(it, 1, 0));
    });
    let elsewhere =
        KnownRecord { location: RecordLocation { segment: 2, offset: 0, size: 1 }, ..known(60, 2, 1) };
    index.put(7, &elsewhere);
    index.remove_segment(1);
    assert_eq!(1, index.objects());
    assert_eq!([60], stamps(&index)[..]);
}

//! What one who was left behind knows of the bytes that it has.

use super::*;

/// What a body of these bytes sums up to.
fn sum_of(store: &Store, bytes: &[u8]) -> Option<PrefixSum> {
    let mut summing = store.summing();
    bytes.chunks(1000).for_each(|it| summing.add(it));
    Some(summing.sum())
}

#[tokio::test(start_paused = true)]
async fn who_is_left_behind_knows_the_sum_of_what_it_has() {
    let store = store(8 << 20);
    let body: Vec<u8> = (0..8u32 << 20).map(|it| (it.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let (mut writer, mut fast) = lead(&store, b"k");
    // One has nothing, one stands within what will be one chunk, one where it ceases to be kept, one beyond.
    let mut slow: Vec<FillReader> = (0..4).map(|_| follow(&store, b"k")).collect();
    writer.head(shared(), true);
    push(&mut writer, &body[..3000]);
    drain(&mut slow[1]);
    push(&mut writer, &body[3000..6000]);
    let mut at = 6000;
    assert_eq!(None, fast.sum());
    while writer.may_store() {
        writer.push(Bytes::copy_from_slice(&body[at..at + CHUNK]), MOST).await.unwrap();
        at += CHUNK;
        drain(&mut fast);
        drain(&mut slow[3]);
        if at < 1 << 20 {
            drain(&mut slow[2]);
        }
    }
    assert_eq!(3, store.counters.fill_laggards.get());
    while store.counters.fill_laggards.get() < 4 {
        writer.push(Bytes::copy_from_slice(&body[at..at + CHUNK]), MOST).await.unwrap();
        at += CHUNK;
        drain(&mut fast);
    }
    let mut stood = Vec::new();
    for it in &mut slow {
        assert!(matches!(now(it.next()), Some(Err(FillEnd::LeftBehind))));
        let at = it.position();
        stood.push(at);
        assert_eq!(sum_of(&store, &body[..at as usize]), it.sum(), "{at}");
    }
    assert_eq!((0, 3000), (stood[0], stood[1]));
    assert!(stood[2] > 3000 && stood[3] > stood[2], "{stood:?}");
    // The one that goes on alone is summed up no more.
    drop(slow);
    writer.push(Bytes::from_static(&[1; 5000]), MOST).await.unwrap();
    drain(&mut fast);
    assert_eq!(None, fast.sum());
}

#[test]
fn what_is_private_or_tagged_or_read_by_one_is_not_summed_up() {
    let clock = clock();
    let _within = clock.enter();
    let mut tagged = head();
    tagged.meta.etag = Some((*b"\"a\"").into());
    let heads =
        [(shared(), 0), (FillHead::Private(Arc::new(head())), 1), (FillHead::Shared(Arc::new(tagged)), 1)];
    for (head, followers) in heads {
        let store = store(8 << 20);
        let (mut writer, mut reader) = lead(&store, b"k");
        let _followers: Vec<FillReader> = (0..followers).map(|_| follow(&store, b"k")).collect();
        writer.head(head, false);
        push(&mut writer, &[7; 65536]);
        drain(&mut reader);
        assert_eq!(None, reader.sum());
    }
}

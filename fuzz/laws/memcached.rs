//! What must hold for any bytes that come from a memcached, in either protocol.

use larder_wire::memcached::{Expected, FleetKey, Kind, Parsed, Protocol, Reply};

/// The largest value that is taken.
const MOST: usize = 100;

/// Panics where a law is broken. The first byte chooses what was asked.
pub fn check(protocol: Protocol, raw: &[u8]) {
    const KINDS: [Kind; 7] =
        [Kind::Get, Kind::Set, Kind::Add, Kind::Delete, Kind::Increment, Kind::Touch, Kind::Noop];
    let Some((first, raw)) = raw.split_first() else { return };
    let kind = KINDS[usize::from(first % 7)];
    let key = FleetKey::new(*b"key").unwrap();
    let key = (first & 0x80 != 0).then_some(&key);
    let expected = Expected { opaque: 7, kind, key, most: MOST };
    let whole = protocol.parse(raw, &expected);
    match &whole {
        Ok(Parsed::Reply(reply, length)) => {
            assert!((1..=raw.len()).contains(length));
            assert_eq!(whole, protocol.parse(&raw[..*length], &expected), "what follows changes nothing");
            fits(kind, reply, *length);
        }
        Ok(Parsed::More(needed)) => {
            assert!(*needed > raw.len(), "more is asked for than there is");
            assert!(*needed <= raw.len() + 1 + MOST + 2048, "what is asked for is bounded");
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    for cut in (0..raw.len()).step_by(1 + raw.len() / 100) {
        match protocol.parse(&raw[..cut], &expected) {
            Ok(Parsed::More(needed)) => {
                // Where the whole is a reply, it is never longer than what was asked for on the way.
                if let Ok(Parsed::Reply(_, length)) = whole {
                    assert!(needed <= length.max(cut + 1), "{needed} at {cut} of {length}");
                }
            }
            other => assert_eq!(whole, other, "cut at {cut}"),
        }
    }
}

fn fits(kind: Kind, reply: &Reply, length: usize) {
    match reply {
        Reply::Hit(hit) => {
            assert_eq!(Kind::Get, kind);
            assert!(hit.value.start <= hit.value.end && hit.value.end <= length && hit.value.len() <= MOST);
        }
        Reply::Miss => assert_eq!(Kind::Get, kind),
        Reply::Number(_) => assert_eq!(Kind::Increment, kind),
        Reply::Exists | Reply::NotStored | Reply::NotFound => {
            assert!(kind != Kind::Noop && kind != Kind::Get)
        }
        Reply::Done => assert!(kind != Kind::Get && kind != Kind::Increment),
        Reply::Refused(_) => {}
    }
}

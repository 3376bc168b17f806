//! Laws for any bytes from a memcached, in either protocol.

use larder_wire::memcached::{Expected, FleetKey, MemcachedProtocol, MemcachedReply, ParsedReply, ReplyKind};

/// The largest value that is taken.
const MOST: usize = 100;

/// Panics where a law is broken. The first byte chooses what was asked.
pub fn check(protocol: MemcachedProtocol, raw: &[u8]) {
    const KINDS: [ReplyKind; 7] = [
        ReplyKind::Get,
        ReplyKind::Set,
        ReplyKind::Add,
        ReplyKind::Delete,
        ReplyKind::Increment,
        ReplyKind::Touch,
        ReplyKind::Noop,
    ];
    let Some((first, raw)) = raw.split_first() else { return };
    let kind = KINDS[usize::from(first % 7)];
    let key = FleetKey::new(*b"key").unwrap();
    let key = (first & 0x80 != 0).then_some(&key);
    let expected = Expected { opaque: 7, kind, key, most: MOST };
    let whole = protocol.parse(raw, &expected);
    match &whole {
        Ok(ParsedReply::Reply(reply, length)) => {
            assert!((1..=raw.len()).contains(length));
            assert_eq!(whole, protocol.parse(&raw[..*length], &expected), "what follows changes nothing");
            fits(kind, reply, *length);
        }
        Ok(ParsedReply::More(needed)) => {
            assert!(*needed > raw.len(), "more is asked for than there is");
            assert!(*needed <= raw.len() + 1 + MOST + 2048, "what is asked for is bounded");
        }
        Err(why) => assert!(!why.to_string().is_empty()),
    }
    for cut in (0..raw.len()).step_by(1 + raw.len() / 100) {
        match protocol.parse(&raw[..cut], &expected) {
            Ok(ParsedReply::More(needed)) => {
                // Where the whole is a reply, it is never longer than what was asked for on the way.
                if let Ok(ParsedReply::Reply(_, length)) = whole {
                    assert!(needed <= length.max(cut + 1), "{needed} at {cut} of {length}");
                }
            }
            other => assert_eq!(whole, other, "cut at {cut}"),
        }
    }
}

fn fits(kind: ReplyKind, reply: &MemcachedReply, length: usize) {
    match reply {
        MemcachedReply::Hit(hit) => {
            assert_eq!(ReplyKind::Get, kind);
            assert!(hit.value.start <= hit.value.end && hit.value.end <= length && hit.value.len() <= MOST);
        }
        MemcachedReply::Miss => assert_eq!(ReplyKind::Get, kind),
        MemcachedReply::Number(_) => assert_eq!(ReplyKind::Increment, kind),
        MemcachedReply::Exists | MemcachedReply::NotStored | MemcachedReply::NotFound => {
            assert!(kind != ReplyKind::Noop && kind != ReplyKind::Get)
        }
        MemcachedReply::Done => assert!(kind != ReplyKind::Get && kind != ReplyKind::Increment),
        MemcachedReply::Refused(_) => {}
    }
}

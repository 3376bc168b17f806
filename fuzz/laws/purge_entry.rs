//! Laws for any bytes in place of an entry of the purge log. Run by the fuzzer, and with small inputs as a test of
//! `wire`.

use larder_wire::purge_entry::{MOST_LOGS, MOST_NAME, MOST_TEXT, NodeReport, Numbered, PurgeEntry};

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    if let Some(entry) = PurgeEntry::read(raw) {
        assert_eq!(Ok(raw.to_vec()), entry.write(), "there is one way to write it");
        assert!(raw.len() <= MOST_TEXT + 32);
    }
    if let Some(node) = NodeReport::read(raw) {
        assert_eq!(raw, node.write(), "there is one way to write it");
        assert!(node.name.len() <= MOST_NAME && node.followed.len() <= MOST_LOGS);
    }
    if let Some(it) = Numbered::read(raw) {
        assert_eq!(Some(it), Numbered::read(&it.write()));
    }
}

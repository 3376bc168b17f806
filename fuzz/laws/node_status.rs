//! Laws for any bytes in place of the status of a node. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::node_status::{MOST, MOST_NODE_NAME, MOST_WORD, NodeStatus, ReadStatus};

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    if let ReadStatus::Status(it) = NodeStatus::read(raw) {
        assert_eq!(raw, it.write(), "there is one way to write it");
        assert!(raw.len() <= MOST && it.name.len() <= MOST_NODE_NAME);
        assert!(it.version.len() <= MOST_WORD && it.finding.len() <= MOST_WORD);
        assert!(!it.name.chars().any(char::is_control));
        assert_eq!(ReadStatus::Damaged, NodeStatus::read(&raw[..raw.len() - 1]), "a part is none");
    }
}

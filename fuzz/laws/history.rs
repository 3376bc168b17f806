//! Laws for any bytes in place of a record of the history's file. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_wire::history::{FRAME, HistoryRecord, MOST, ReadHistory, is_interrupted};

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    if let ReadHistory::Record(record, length) = HistoryRecord::read(raw) {
        assert!(length <= raw.len() && length <= FRAME + MOST);
        let mut again = Vec::new();
        record.write(&mut again);
        assert_eq!(&raw[..length], again, "there is one way to write it");
        assert_eq!(ReadHistory::End, HistoryRecord::read(&raw[..length - 1]));
        assert!(!is_interrupted(&raw[..length]), "it is whole");
    }
}

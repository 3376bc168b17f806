//! The status of a node, as it writes it to the memcached servers for the other nodes: one checksummed record of at most
//! 1 KiB. Any program that can reach the servers may have written the input. The positions in the purge logs are in
//! `purge_entry::NodeReport`.
//!
//! | at | bytes | content |
//! |---|---|---|
//! | 0 | 4 | `lns` and the version, `1` |
//! | 4 | 8 each | run, number of the record, Unix time, uptime in milliseconds, keys, RAM used, RAM budget, disk used, disk budget, requests, hits, misses, passes |
//! | 108 | 4 each | process id, milliseconds of the counts |
//! | 116 | 1 each | state, in sync, version of the envelope, lengths of three texts |
//! | 122 | | name, version of larder, finding |
//! | behind them | 8 | XXH3-64 of all preceding bytes |

use larder_semantics::server_state::StateWord;
use xxhash_rust::xxh3::xxh3_64;

/// The most bytes of a record.
pub const MOST: usize = 1024;

/// The longest name of a node, bytes.
pub const MOST_NODE_NAME: usize = 128;

/// The longest version of larder, and the longest name of a finding, bytes.
pub const MOST_WORD: usize = 48;

/// The first bytes of a record of any version.
const MAGIC: &[u8; 3] = b"lns";

/// The version that is written, behind [`MAGIC`].
const VERSION: u8 = b'1';

/// Bytes of the checksum.
const CHECKSUM: usize = 8;

/// The requests within the time before a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecentCounts {
    /// The time, at most about a minute, milliseconds; 0 if nothing was counted.
    pub millis: u32,
    /// Requests of clients.
    pub requests: u64,
    /// Hits in the cache.
    pub hits: u64,
    /// Misses of the cache.
    pub misses: u64,
    /// Requests that bypassed the cache.
    pub passes: u64,
}

/// The bytes that a tier uses, and its budget; 0 without the tier.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TierUse {
    /// Bytes in use.
    pub used: u64,
    /// The most bytes.
    pub budget: u64,
}

/// The status of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeStatus {
    /// Random, different in each run: that of the node's report in the purge log.
    pub run: u64,
    /// The number of this record in its run, from 1.
    pub number: u64,
    /// The time of the record, Unix seconds by the clock of the node.
    pub wall: u64,
    /// Milliseconds since the start of the node.
    pub uptime: u64,
    /// A sum of its rules for keys and of the servers that it chooses for them; 0 if not known. Nodes with different ones do not share pages.
    pub keys: u64,
    /// The RAM tier.
    pub ram: TierUse,
    /// The disk tier.
    pub disk: TierUse,
    /// The requests of the last minute.
    pub recent: RecentCounts,
    /// Its process id.
    pub pid: u32,
    /// The state of the node; `None` if it is not judged there.
    pub state: Option<StateWord>,
    /// Whether it follows the purge logs.
    pub in_sync: bool,
    /// The version of the envelopes that it writes.
    pub envelope: u8,
    /// Its name for operators; at most [`MOST_NODE_NAME`] bytes.
    pub name: Box<str>,
    /// Its version of larder; at most [`MOST_WORD`] bytes.
    pub version: Box<str>,
    /// The name of its worst finding; at most [`MOST_WORD`] bytes, empty without one.
    pub finding: Box<str>,
}

/// The result of reading a record.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there are as many as nodes")]
pub enum ReadStatus {
    /// A record.
    Status(NodeStatus),
    /// One of another version of larder.
    OtherVersion,
    /// Damaged, or of another program.
    Damaged,
}

impl NodeStatus {
    /// Its bytes in the server. Texts that are too long are truncated; characters that a reader rejects are omitted.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let RecentCounts { millis, requests, hits, misses, passes } = self.recent;
        let numbers = [self.run, self.number, self.wall, self.uptime, self.keys];
        let tiers = [self.ram.used, self.ram.budget, self.disk.used, self.disk.budget];
        let mut out = Vec::with_capacity(512);
        out.extend_from_slice(MAGIC);
        out.push(VERSION);
        for it in numbers.into_iter().chain(tiers).chain([requests, hits, misses, passes]) {
            out.extend_from_slice(&it.to_le_bytes());
        }
        for it in [self.pid, millis] {
            out.extend_from_slice(&it.to_le_bytes());
        }
        let state = match self.state {
            None => 0,
            Some(StateWord::Healthy) => 1,
            Some(StateWord::Degraded) => 2,
            Some(StateWord::Failing) => 3,
        };
        out.extend_from_slice(&[state, u8::from(self.in_sync), self.envelope]);
        let name = permitted(&self.name, MOST_NODE_NAME, is_shown);
        let words = [&self.version, &self.finding].map(|it| permitted(it, MOST_WORD, is_word));
        #[allow(clippy::cast_possible_truncation, reason = "the bounds are below 256")]
        out.extend_from_slice(&[name.len() as u8, words[0].len() as u8, words[1].len() as u8]);
        for it in [&name, &words[0], &words[1]] {
            out.extend_from_slice(it.as_bytes());
        }
        out.extend_from_slice(&xxh3_64(&out).to_le_bytes());
        out
    }

    /// Parses a status, which must fill `bytes`.
    #[must_use]
    pub fn read(bytes: &[u8]) -> ReadStatus {
        match bytes.strip_prefix(MAGIC) {
            Some([VERSION, ..]) => Self::read_checked(bytes).map_or(ReadStatus::Damaged, ReadStatus::Status),
            Some([b'2'..=b'9', ..]) => ReadStatus::OtherVersion,
            _ => ReadStatus::Damaged,
        }
    }

    fn read_checked(bytes: &[u8]) -> Option<Self> {
        if bytes.len() > MOST {
            return None;
        }
        let (content, sum) = bytes.split_last_chunk::<CHECKSUM>()?;
        if xxh3_64(content) != u64::from_le_bytes(*sum) {
            return None;
        }
        let mut rest = content.get(MAGIC.len() + 1..)?;
        let mut number = || take(&mut rest).map(u64::from_le_bytes);
        let mut it = Self {
            run: number()?,
            number: number()?,
            wall: number()?,
            uptime: number()?,
            keys: number()?,
            ram: TierUse { used: number()?, budget: number()? },
            disk: TierUse { used: number()?, budget: number()? },
            ..Self::default()
        };
        let [requests, hits, misses, passes] = [number()?, number()?, number()?, number()?];
        it.pid = u32::from_le_bytes(take(&mut rest)?);
        let millis = u32::from_le_bytes(take(&mut rest)?);
        it.recent = RecentCounts { millis, requests, hits, misses, passes };
        let [state, in_sync, envelope, name, version, finding] = take(&mut rest)?;
        it.state = match state {
            0 => None,
            1 => Some(StateWord::Healthy),
            2 => Some(StateWord::Degraded),
            3 => Some(StateWord::Failing),
            _ => return None,
        };
        (it.in_sync, it.envelope) = (in_sync == 1, envelope);
        it.name = text(&mut rest, name, MOST_NODE_NAME, is_shown)?;
        it.version = text(&mut rest, version, MOST_WORD, is_word)?;
        it.finding = text(&mut rest, finding, MOST_WORD, is_word)?;
        (in_sync <= 1 && rest.is_empty()).then_some(it)
    }
}

/// Whether a name may have this character: none that is invisible, or changes the direction of a text.
fn is_shown(it: char) -> bool {
    !it.is_control()
        && !matches!(it, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

fn is_word(it: char) -> bool {
    it.is_ascii_alphanumeric() || matches!(it, '-' | '.' | '+' | '_')
}

/// The permitted characters of a text, up to `most` bytes.
fn permitted(text: &str, most: usize, is_permitted: fn(char) -> bool) -> String {
    let mut out = String::new();
    for it in text.chars().filter(|it| is_permitted(*it)) {
        if out.len() + it.len_utf8() > most {
            break;
        }
        out.push(it);
    }
    out
}

fn text(rest: &mut &[u8], length: u8, most: usize, is_permitted: fn(char) -> bool) -> Option<Box<str>> {
    let (text, behind) = rest.split_at_checked(usize::from(length))?;
    *rest = behind;
    let text = std::str::from_utf8(text).ok()?;
    (text.len() <= most && text.chars().all(is_permitted)).then(|| text.into())
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (it, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*it)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full() -> NodeStatus {
        NodeStatus {
            run: u64::MAX,
            number: 2,
            wall: 1_700_000_000,
            uptime: 86_400_000,
            keys: 5,
            ram: TierUse { used: 6, budget: 7 },
            disk: TierUse { used: 8, budget: 9 },
            recent: RecentCounts { millis: 60_000, requests: 100, hits: 90, misses: 6, passes: 4 },
            pid: 4711,
            state: Some(StateWord::Degraded),
            in_sync: true,
            envelope: 1,
            name: "küche 0.0.0.0:80".into(),
            version: "0.9.1-rc.1+x_y".into(),
            finding: "memcached-down".into(),
        }
    }

    #[test]
    fn a_record_reads_as_it_was_written() {
        for state in [None, Some(StateWord::Healthy), Some(StateWord::Degraded), Some(StateWord::Failing)] {
            let status = NodeStatus { state, ..full() };
            assert_eq!(ReadStatus::Status(status.clone()), NodeStatus::read(&status.write()));
        }
        assert_eq!(
            ReadStatus::Status(NodeStatus::default()),
            NodeStatus::read(&NodeStatus::default().write())
        );
    }

    /// Every byte is in the checksum, and a part of a record is none.
    #[test]
    fn damage_is_noticed() {
        let bytes = full().write();
        for at in 0..bytes.len() {
            assert_ne!(ReadStatus::Status(full()), NodeStatus::read(&bytes[..at]), "cut at {at}");
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(!matches!(NodeStatus::read(&other), ReadStatus::Status(_)), "changed at {at}");
        }
        assert_eq!(ReadStatus::Damaged, NodeStatus::read(&[&bytes[..], b"x"].concat()));
        assert_eq!(ReadStatus::OtherVersion, NodeStatus::read(b"lns2 of a later version"));
        assert_eq!(ReadStatus::Damaged, NodeStatus::read(b"<script>"));
    }

    /// A valid checksum proves nothing: any program can compute it.
    #[test]
    fn texts_have_bounds_and_permitted_characters() {
        let signed = |mut bytes: Vec<u8>| {
            let end = bytes.len() - CHECKSUM;
            bytes.truncate(end);
            bytes.extend_from_slice(&xxh3_64(&bytes).to_le_bytes());
            NodeStatus::read(&bytes)
        };
        let find = |bytes: &[u8], what: &[u8]| bytes.windows(what.len()).position(|it| it == what).unwrap();
        for wrong in [&b"\x1b[31"[..], b"\n\n\n\n", "\u{202e}x".as_bytes(), b"\xff\xff\xff\xff"] {
            let mut bytes = full().write();
            let at = find(&bytes, b"0.0.");
            bytes[at..at + 4].copy_from_slice(wrong);
            assert_eq!(ReadStatus::Damaged, signed(bytes), "{wrong:?}");
        }
        let mut bytes = full().write();
        let at = find(&bytes, b"memcached");
        bytes[at] = b'<';
        assert_eq!(ReadStatus::Damaged, signed(bytes));
        for (at, value) in [(116, 4), (117, 2), (119, 129), (120, 49), (121, 255)] {
            let mut bytes = full().write();
            bytes[at] = value;
            assert_eq!(ReadStatus::Damaged, signed(bytes), "{at}");
        }
    }

    #[test]
    fn long_texts_are_truncated_and_a_record_stays_within_its_bound() {
        let long = NodeStatus {
            name: "é\u{202e}\n".repeat(200).into(),
            version: "1 ".repeat(200).into(),
            finding: "<b>".repeat(200).into(),
            ..full()
        };
        let bytes = long.write();
        assert!(bytes.len() <= 122 + MOST_NODE_NAME + 2 * MOST_WORD + CHECKSUM && bytes.len() <= MOST);
        let ReadStatus::Status(read) = NodeStatus::read(&bytes) else { panic!() };
        assert_eq!(
            ("é".repeat(64), "1".repeat(48), "b".repeat(48)),
            (read.name.into(), read.version.into(), read.finding.into())
        );
    }
}

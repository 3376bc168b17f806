//! The items of the purge log in the memcached servers: one purge, one node, and a number with the random name of its
//! series. Any program that can reach the servers may have written the input.

/// The longest key, prefix, tag or expression in an entry. Longer ones are rejected when they are created.
pub const MOST_TEXT: usize = 8192;

/// The most logs with a position in a node's record.
pub const MOST_LOGS: usize = 64;

/// The longest name of a node.
pub const MOST_NAME: usize = 128;

/// Bits of the number within a [`Numbered`].
const NUMBER_BITS: u32 = 24;

/// The largest name of a series: the topmost bit stays free, so that no addition wraps.
pub const LARGEST_NAME: u64 = (1 << (63 - NUMBER_BITS)) - 1;

/// The first bytes of an entry, with its version.
const ENTRY: &[u8; 4] = b"lpe1";

/// The first bytes of a node, with its version.
const NODE: &[u8; 4] = b"lpn1";

/// A counter in a server, incremented by `incr`: the name of the series in the upper bits, the number in the lower. As it
/// is one item, a number is never visible without its series; a server that lost it gets another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Numbered {
    /// The random name; at most [`LARGEST_NAME`].
    pub name: u64,
    /// The number of increments; below 2^24. The next after the last belongs to another series, as required.
    pub number: u64,
}

impl Numbered {
    /// The beginning of the series `random`, of which the bits of a name are used.
    #[must_use]
    pub fn first(random: u64) -> Self {
        Self { name: (random & LARGEST_NAME).max(1), number: 0 }
    }

    /// Its value in the server.
    #[must_use]
    pub fn write(self) -> Vec<u8> {
        (self.name << NUMBER_BITS | self.number).to_string().into_bytes()
    }

    /// Parses the value in the server: decimal digits, with optional trailing spaces from `incr`.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let digits = bytes.trim_ascii_end();
        if bytes.len() > 20 || digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        Self::of(std::str::from_utf8(digits).ok()?.parse().ok()?)
    }

    /// Splits the result of `incr`.
    #[must_use]
    pub fn of(value: u64) -> Option<Self> {
        let name = value >> NUMBER_BITS;
        (1..=LARGEST_NAME).contains(&name).then_some(Self { name, number: value & ((1 << NUMBER_BITS) - 1) })
    }
}

/// The target of a purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// One key.
    Url(Box<[u8]>),
    /// Every key with this prefix.
    Prefix(Box<[u8]>),
    /// Every response with this tag.
    Tag(Box<str>),
    /// Every response for which this expression is true, as text.
    Where(Box<str>),
    /// Every response.
    All,
}

/// The effect on purged responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeEffect {
    /// Stale.
    Soft,
    /// To be validated before use.
    Validate,
    /// Removed.
    Hard,
}

/// One purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeEntry {
    /// Random: the same in the logs of all servers.
    pub id: u128,
    /// The time of the request, in seconds since the epoch by the clock of the receiving node. For display.
    pub wall: u64,
    /// Its effect.
    pub effect: PurgeEffect,
    /// Its target.
    pub about: About,
}

/// The text is longer than [`MOST_TEXT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLong(pub usize);

impl std::fmt::Display for TooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a purge for all nodes is limited to {MOST_TEXT} bytes; this one has {}", self.0)
    }
}

impl PurgeEntry {
    /// Its bytes in the server.
    ///
    /// # Errors
    /// Its text is too long.
    pub fn write(&self) -> Result<Vec<u8>, TooLong> {
        let (kind, text): (u8, &[u8]) = match &self.about {
            About::Url(it) => (0, it),
            About::Prefix(it) => (1, it),
            About::Tag(it) => (2, it.as_bytes()),
            About::Where(it) => (3, it.as_bytes()),
            About::All => (4, b""),
        };
        if text.len() > MOST_TEXT {
            return Err(TooLong(text.len()));
        }
        let deed = match self.effect {
            PurgeEffect::Soft => 0,
            PurgeEffect::Validate => 1,
            PurgeEffect::Hard => 2,
        };
        let mut out = Vec::with_capacity(32 + text.len());
        out.extend_from_slice(ENTRY);
        out.extend_from_slice(&self.id.to_le_bytes());
        out.extend_from_slice(&self.wall.to_le_bytes());
        out.extend_from_slice(&[deed, kind]);
        out.extend_from_slice(text);
        Ok(out)
    }

    /// Parses a purge entry, which must fill `bytes`; `None` for any other input.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(ENTRY)?;
        let id = u128::from_le_bytes(take(&mut rest)?);
        let wall = u64::from_le_bytes(take(&mut rest)?);
        let [deed, kind] = take(&mut rest)?;
        let deed = match deed {
            0 => PurgeEffect::Soft,
            1 => PurgeEffect::Validate,
            2 => PurgeEffect::Hard,
            _ => return None,
        };
        if rest.len() > MOST_TEXT {
            return None;
        }
        let text = || std::str::from_utf8(rest).ok().map(Box::from);
        let about = match kind {
            0 => About::Url(rest.into()),
            1 => About::Prefix(rest.into()),
            2 => About::Tag(text()?),
            3 => About::Where(text()?),
            4 if rest.is_empty() => About::All,
            _ => return None,
        };
        Some(Self { id, wall, effect: deed, about })
    }
}

/// One node's report about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Random, different in each run.
    pub id: u64,
    /// The number of servers that it follows: nodes with different servers cannot agree.
    pub servers: u64,
    /// The time of the report, in seconds since the epoch by its own clock. For display, and for dropping it after
    /// minutes.
    pub wall: u64,
    /// It has stopped, and serves no more requests.
    pub left: bool,
    /// Its name for display; at most [`MOST_NAME`] bytes.
    pub name: Box<str>,
    /// The last applied entry of each log; at most [`MOST_LOGS`].
    pub followed: Vec<(u64, u64)>,
}

impl NodeReport {
    /// Its bytes in the server. A longer name is truncated, logs beyond the limit are omitted.
    #[must_use]
    pub fn write(&self) -> Vec<u8> {
        let name = &self.name[..cut(&self.name, MOST_NAME)];
        let followed = &self.followed[..self.followed.len().min(MOST_LOGS)];
        let mut out = NODE.to_vec();
        for it in [self.id, self.servers, self.wall] {
            out.extend_from_slice(&it.to_le_bytes());
        }
        out.push(u8::from(self.left));
        #[allow(clippy::cast_possible_truncation, reason = "both bounds are below 256")]
        out.extend_from_slice(&[name.len() as u8, followed.len() as u8]);
        out.extend_from_slice(name.as_bytes());
        for (log, entry) in followed {
            out.extend_from_slice(&log.to_le_bytes());
            out.extend_from_slice(&entry.to_le_bytes());
        }
        out
    }

    /// Parses a node report, which must fill `bytes`; `None` for any other input.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(NODE)?;
        let id = u64::from_le_bytes(take(&mut rest)?);
        let servers = u64::from_le_bytes(take(&mut rest)?);
        let wall = u64::from_le_bytes(take(&mut rest)?);
        let [left, name, logs] = take(&mut rest)?;
        let (name, logs) = (usize::from(name), usize::from(logs));
        if left > 1 || name > MOST_NAME || logs > MOST_LOGS || rest.len() != name + logs * 16 {
            return None;
        }
        let (name, mut rest) = rest.split_at(name);
        let name = std::str::from_utf8(name).ok().filter(|it| !it.chars().any(char::is_control))?.into();
        let mut followed = Vec::with_capacity(logs);
        for _ in 0..logs {
            followed.push((u64::from_le_bytes(take(&mut rest)?), u64::from_le_bytes(take(&mut rest)?)));
        }
        Some(Self { id, servers, wall, left: left == 1, name, followed })
    }
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (it, behind) = rest.split_first_chunk()?;
    *rest = behind;
    Some(*it)
}

/// The position at which `text` may be cut to at most `most` bytes.
fn cut(text: &str, most: usize) -> usize {
    (0..=most.min(text.len())).rev().find(|it| text.is_char_boundary(*it)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_counts_within_its_series_and_then_begins_another() {
        let first = Numbered::first(u64::MAX);
        let value: u64 = String::from_utf8(first.write()).unwrap().parse().unwrap();
        assert_eq!(Some(Numbered { name: LARGEST_NAME, number: 1 }), Numbered::of(value + 1));
        let small = Numbered::of(1 << 24 | 0xff_ffff).unwrap();
        assert_eq!(
            Some(Numbered { name: 2, number: 0 }),
            Numbered::of((1 << 24 | 0xff_ffff) + 1),
            "{small:?}"
        );
        for odd in ["", " 5", "+5", "-1", "0", "5", "16777215", "99999999999999999999", "123456789x"] {
            assert_eq!(None, Numbered::read(odd.as_bytes()), "{odd:?}");
        }
    }

    #[test]
    fn a_text_that_is_too_long_is_an_error() {
        let about = About::Tag("x".repeat(MOST_TEXT + 1).into());
        let entry = PurgeEntry { id: 1, wall: 2, effect: PurgeEffect::Hard, about };
        assert_eq!(Err(TooLong(MOST_TEXT + 1)), entry.write());
        let node = NodeReport {
            id: 1,
            servers: 2,
            wall: 3,
            left: false,
            name: "é".repeat(100).into(),
            followed: vec![(1, 2); 70],
        };
        let read = NodeReport::read(&node.write()).unwrap();
        assert_eq!((128, MOST_LOGS), (read.name.len(), read.followed.len()));
    }
}

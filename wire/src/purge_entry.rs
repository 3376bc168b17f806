//! What nodes write into the memcached servers to tell each other of purges: one purge, one node, and a number that
//! carries the random name of its series. Whoever can reach the servers may have written what is read here.

/// The longest key, prefix, tag or expression that an entry carries. Longer ones are refused where they are made.
pub const MOST_TEXT: usize = 8192;

/// The most logs whose positions a node tells.
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

/// A counter in a server, which its `incr` moves: the name of the series above, the number below. As it is one item,
/// nobody ever sees a number without its series; a server that forgot it gets another name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Numbered {
    /// The random name; at most [`LARGEST_NAME`].
    pub name: u64,
    /// How often it was counted up; below 2^24. The next after the last belongs to another series, as it must.
    pub number: u64,
}

impl Numbered {
    /// The beginning of the series `random`, of which as many bits are taken as a name has.
    #[must_use]
    pub fn first(random: u64) -> Self {
        Self { name: (random & LARGEST_NAME).max(1), number: 0 }
    }

    /// What stands in the server.
    #[must_use]
    pub fn write(self) -> Vec<u8> {
        (self.name << NUMBER_BITS | self.number).to_string().into_bytes()
    }

    /// Reads what stands in the server: decimal digits, which `incr` may have left spaces behind. Nothing else.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Option<Self> {
        let digits = bytes.trim_ascii_end();
        if bytes.len() > 20 || digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        Self::of(std::str::from_utf8(digits).ok()?.parse().ok()?)
    }

    /// Takes apart what `incr` answered.
    #[must_use]
    pub fn of(value: u64) -> Option<Self> {
        let name = value >> NUMBER_BITS;
        (1..=LARGEST_NAME).contains(&name).then_some(Self { name, number: value & ((1 << NUMBER_BITS) - 1) })
    }
}

/// What a purge is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum About {
    /// One key.
    Url(Box<[u8]>),
    /// Every key that begins so.
    Prefix(Box<[u8]>),
    /// Everything with this tag.
    Tag(Box<str>),
    /// Everything that this expression is true of, as text.
    Where(Box<str>),
    /// Everything.
    All,
}

/// What becomes of what is purged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PurgeEffect {
    /// Stale.
    Soft,
    /// To be validated before use.
    Validate,
    /// Gone.
    Hard,
}

/// One purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeEntry {
    /// Random: the same in every server's log.
    pub id: u128,
    /// When it was asked for, in seconds since the epoch by the clock of the node that was asked. For people.
    pub wall: u64,
    /// What becomes of it.
    pub deed: PurgeEffect,
    /// What it is about.
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
    /// What stands in the server.
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
        let deed = match self.deed {
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

    /// Reads one that fills `bytes` to its end; `None` for whatever is not exactly that.
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
        Some(Self { id, wall, deed, about })
    }
}

/// One node, as it tells of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeReport {
    /// Random, of this run.
    pub id: u64,
    /// How many servers it follows: nodes that follow others cannot agree.
    pub servers: u64,
    /// When it told, in seconds since the epoch by its own clock. For people, and for forgetting it after minutes.
    pub wall: u64,
    /// It has stopped, and answers nobody any more.
    pub left: bool,
    /// What people call it; at most [`MOST_NAME`] bytes.
    pub name: Box<str>,
    /// Which entry of which log it has applied; at most [`MOST_LOGS`].
    pub followed: Vec<(u64, u64)>,
}

impl NodeReport {
    /// What stands in the server. A longer name is cut, logs beyond the bound are left out.
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

    /// Reads one that fills `bytes` to its end; `None` for whatever is not exactly that.
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

/// Where `text` may be cut so that at most `most` bytes are left.
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
    fn what_is_too_long_is_said() {
        let about = About::Tag("x".repeat(MOST_TEXT + 1).into());
        let entry = PurgeEntry { id: 1, wall: 2, deed: PurgeEffect::Hard, about };
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

//! Memcached's protocols as bytes: what is asked and answered, alike for both. How each is written is in `meta` and
//! `binary`; connections, deadlines and the choice of a server are not here.
//!
//! A connection answers in the order in which it was asked. Each request carries a number, the *opaque*, that its reply
//! brings back: a reply with another means that the connection has lost count, and everything on it is doubtful.

pub mod binary;
pub mod meta;

use std::ops::Range;

/// The most bytes of a key (both protocols).
pub const MAX_KEY: usize = 250;

/// The longest time that memcached takes for a span; above it is a date. 30 days.
pub const MAX_EXPIRE: u32 = 30 * 24 * 3600;

/// A key that may go to a server: 1 to 250 graphic ASCII bytes, so that no key can end a command and begin another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetKey(Box<[u8]>);

impl FleetKey {
    /// `key`, if it may go out: no more than [`MAX_KEY`] bytes, and none that is a space, a control character or not
    /// ASCII.
    #[must_use]
    pub fn new(key: impl Into<Box<[u8]>>) -> Option<FleetKey> {
        let key = key.into();
        let fits = (1..=MAX_KEY).contains(&key.len()) && key.iter().all(u8::is_ascii_graphic);
        fits.then_some(FleetKey(key))
    }

    /// The bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The same as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Graphic ASCII, or there would be no key.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// A value that is written. What lies in memory already need not be copied for that: the caller sends it itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemcachedValue<'a> {
    /// Its first bytes, in pieces, which are a part of the request's text.
    pub pieces: &'a [&'a [u8]],
    /// How many more the caller sends behind that text, and [`MemcachedProtocol::end_of_value`] behind them.
    pub behind: usize,
}

impl<'a> MemcachedValue<'a> {
    /// One that is all in the request's text.
    #[must_use]
    pub fn of(pieces: &'a [&'a [u8]]) -> Self {
        MemcachedValue { pieces, behind: 0 }
    }

    /// Bytes of all of it.
    #[must_use]
    pub fn length(&self) -> usize {
        self.pieces.iter().map(|it| it.len()).sum::<usize>() + self.behind
    }

    /// Appends what of it is in the request's text.
    fn write(&self, out: &mut Vec<u8>) {
        self.pieces.iter().for_each(|it| out.extend_from_slice(it));
    }
}

/// What is asked of a server. Expiries are seconds: 0 is never, and more than [`MAX_EXPIRE`] are that many.
#[derive(Clone, Copy, Debug)]
pub enum MemcachedRequest<'a> {
    /// Reads a value.
    Get {
        /// Which.
        key: &'a FleetKey,
        /// The reply brings the key back, and [`Expected::key`] is compared with it.
        named: bool,
        /// Where there is nothing, an empty value is made that expires so, and this request wins
        /// ([`MemcachedLease::Won`]). Meta protocol only: otherwise a miss is a miss.
        vivify: Option<u32>,
        /// One request wins when the value has less than so many seconds left. Meta protocol only.
        recache: Option<u32>,
    },
    /// Writes a value.
    Set {
        /// Which.
        key: &'a FleetKey,
        /// The value.
        value: MemcachedValue<'a>,
        /// The client's own number, kept with it.
        flags: u32,
        /// Expires so.
        expire: u32,
        /// Only in place of the value that has this number: otherwise [`MemcachedReply::Exists`].
        cas: Option<u64>,
        /// Where `cas` is older than what is there, it is written all the same and marked stale. Meta protocol only.
        stale_if_older: bool,
    },
    /// Writes a value where there is none; otherwise [`MemcachedReply::NotStored`].
    Add {
        /// Which.
        key: &'a FleetKey,
        /// The value.
        value: MemcachedValue<'a>,
        /// The client's own number, kept with it.
        flags: u32,
        /// Expires so.
        expire: u32,
    },
    /// Removes a value.
    Delete {
        /// Which.
        key: &'a FleetKey,
        /// It is only marked stale, and expires so: the next request wins. Meta protocol only: otherwise it is removed.
        stale: Option<u32>,
        /// Only the value that has this number: otherwise [`MemcachedReply::Exists`].
        cas: Option<u64>,
    },
    /// Adds to a number, which wraps at 2^64, and brings it back.
    Increment {
        /// Which.
        key: &'a FleetKey,
        /// How much.
        by: u64,
        /// Where there is nothing: the value to begin with, and when it expires. Otherwise [`MemcachedReply::NotFound`].
        begin: Option<(u64, u32)>,
    },
    /// Changes when a value expires.
    Touch {
        /// Which.
        key: &'a FleetKey,
        /// Expires so.
        expire: u32,
    },
    /// Asks whether the server is there.
    Noop,
}

/// What kind of request a reply is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyKind {
    /// [`MemcachedRequest::Get`].
    Get,
    /// [`MemcachedRequest::Set`].
    Set,
    /// [`MemcachedRequest::Add`].
    Add,
    /// [`MemcachedRequest::Delete`].
    Delete,
    /// [`MemcachedRequest::Increment`].
    Increment,
    /// [`MemcachedRequest::Touch`].
    Touch,
    /// [`MemcachedRequest::Noop`].
    Noop,
}

impl MemcachedRequest<'_> {
    /// The value that it writes.
    #[must_use]
    pub fn value(&self) -> Option<MemcachedValue<'_>> {
        match self {
            MemcachedRequest::Set { value, .. } | MemcachedRequest::Add { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// Its kind.
    #[must_use]
    pub fn kind(&self) -> ReplyKind {
        match self {
            MemcachedRequest::Get { .. } => ReplyKind::Get,
            MemcachedRequest::Set { .. } => ReplyKind::Set,
            MemcachedRequest::Add { .. } => ReplyKind::Add,
            MemcachedRequest::Delete { .. } => ReplyKind::Delete,
            MemcachedRequest::Increment { .. } => ReplyKind::Increment,
            MemcachedRequest::Touch { .. } => ReplyKind::Touch,
            MemcachedRequest::Noop => ReplyKind::Noop,
        }
    }
}

/// What the next reply of a connection must be about.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The number of the oldest request that is not answered.
    pub opaque: u32,
    /// What it asks.
    pub kind: ReplyKind,
    /// The key that the reply must bring, if [`MemcachedRequest::Get::named`] asked for it.
    pub key: Option<&'a FleetKey>,
    /// The largest value that is taken, bytes.
    pub most: usize,
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemcachedReply {
    /// The value.
    Hit(Hit),
    /// There is none.
    Miss,
    /// Done: stored, deleted, touched, or alive.
    Done,
    /// The number after [`MemcachedRequest::Increment`].
    Number(u64),
    /// There is one already ([`MemcachedRequest::Add`]).
    NotStored,
    /// It has changed since ([`MemcachedRequest::Set::cas`]).
    Exists,
    /// There is nothing to replace, delete, touch or add to.
    NotFound,
    /// The server did not do it.
    Refused(MemcachedRefusal),
}

/// A value that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Where in the buffer it lies, so that it can be taken without being copied.
    pub value: Range<usize>,
    /// The client's own number.
    pub flags: u32,
    /// The number of this very value; 0 where it was not told.
    pub cas: u64,
    /// Seconds until it expires.
    pub ttl: Ttl,
    /// Who makes it anew.
    pub lease: MemcachedLease,
    /// It was marked stale.
    pub stale: bool,
}

/// When a value expires.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ttl {
    /// Not told: the binary protocol does not.
    #[default]
    Unknown,
    /// Never.
    Never,
    /// After so many seconds.
    Seconds(u32),
}

/// Who makes a value anew (meta protocol).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcachedLease {
    /// Nobody needs to.
    #[default]
    None,
    /// Whoever gets this reply, and nobody else.
    Won,
    /// Somebody else.
    Taken,
}

/// Why a server did not do it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemcachedRefusal {
    /// The value is larger than it takes.
    TooLarge,
    /// It has no memory for it.
    OutOfMemory,
    /// It says so for a reason of its own.
    Server,
    /// It says that the request is wrong.
    Client,
    /// It does not know the command, so probably not the protocol.
    UnknownCommand,
}

impl MemcachedRefusal {
    /// Whether the connection is closed: a server that does not understand may take a value for commands.
    #[must_use]
    pub fn closes(self) -> bool {
        matches!(self, MemcachedRefusal::Client | MemcachedRefusal::UnknownCommand)
    }
}

/// What came of looking for a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedReply {
    /// A reply, and how many bytes it takes from the buffer.
    Reply(MemcachedReply, usize),
    /// Not whole: there must be so many bytes at least.
    More(usize),
}

/// Why a connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadReply {
    /// No reply of this protocol.
    Foreign,
    /// A line does not end, or a value is not followed by the end of its line.
    Line,
    /// A number that cannot be read.
    Number,
    /// The reply to another request.
    Opaque,
    /// The reply is about another key.
    Key,
    /// Nothing that can follow what was asked.
    Unexpected,
    /// The value is larger than is taken.
    TooLarge,
}

impl std::fmt::Display for BadReply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            BadReply::Foreign => "the answer of the server is not in this protocol",
            BadReply::Line => "a line of the server's answer has the wrong length",
            BadReply::Number => "a number in the server's answer is invalid",
            BadReply::Opaque => "the server's answer belongs to another request",
            BadReply::Key => "the server's answer is for another key",
            BadReply::Unexpected => "the server's answer does not match the request type",
            BadReply::TooLarge => "the server's answer is too large",
        })
    }
}

impl std::error::Error for BadReply {}

/// Which protocol a server is spoken to in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcachedProtocol {
    /// The meta commands (memcached 1.6 and later).
    #[default]
    Meta,
    /// The binary protocol, for older servers.
    Binary,
}

impl MemcachedProtocol {
    /// Appends a request.
    pub fn write(self, request: &MemcachedRequest<'_>, opaque: u32, out: &mut Vec<u8>) {
        match self {
            MemcachedProtocol::Meta => meta::write(request, opaque, out),
            MemcachedProtocol::Binary => binary::write(request, opaque, out),
        }
    }

    /// What stands behind a value of which the caller sends the last bytes ([`MemcachedValue::behind`]).
    #[must_use]
    pub fn end_of_value(self) -> &'static [u8] {
        match self {
            MemcachedProtocol::Meta => b"\r\n",
            MemcachedProtocol::Binary => b"",
        }
    }

    /// Looks for a reply at the beginning of `buffer`.
    ///
    /// # Errors
    /// The connection cannot be used any more.
    pub fn parse(self, buffer: &[u8], expected: &Expected<'_>) -> Result<ParsedReply, BadReply> {
        match self {
            MemcachedProtocol::Meta => meta::parse(buffer, expected),
            MemcachedProtocol::Binary => binary::parse(buffer, expected),
        }
    }
}

/// An expiry as memcached takes it for a span: what is longer would be a date, long ago.
fn expire(seconds: u32) -> u32 {
    seconds.min(MAX_EXPIRE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clean_key_goes_out() {
        assert_eq!("a:/?%~!", FleetKey::new(*b"a:/?%~!").unwrap().as_str());
        assert!(FleetKey::new(vec![b'a'; 250]).is_some());
        for bad in [&b""[..], b"a b", b"a\r\nflush_all", b"a\0", b"\x7f", b"\xc3\xa4", &[b'a'; 251]] {
            assert_eq!(None, FleetKey::new(bad), "{bad:?}");
        }
    }
}

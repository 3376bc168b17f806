//! Memcached's protocols as bytes: requests and replies, common to both. Their encodings are in `meta` and `binary`;
//! connections, deadlines and the choice of a server are not here.
//!
//! A connection answers in order. Each request has a number, the *opaque*, which its reply repeats: another number means
//! that the connection is out of step, and every later reply on it is unreliable.

pub mod binary;
pub mod meta;

use std::ops::Range;

/// The most bytes of a key (both protocols).
pub const MAX_KEY: usize = 250;

/// The largest relative expiry of memcached; a larger number is a date. 30 days.
pub const MAX_EXPIRE: u32 = 30 * 24 * 3600;

/// A valid key: 1 to 250 graphic ASCII bytes, so that no key can end a command and begin another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FleetKey(Box<[u8]>);

impl FleetKey {
    /// `key`, if it is valid: no more than [`MAX_KEY`] bytes, and no space, control character or non-ASCII byte.
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
        // Graphic ASCII by construction.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// A value to write. Bytes that are in memory already need not be copied: the caller sends them itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemcachedValue<'a> {
    /// Its first bytes, in pieces, which are part of the request's text.
    pub pieces: &'a [&'a [u8]],
    /// The number of further bytes that the caller sends after that text, followed by
    /// [`MemcachedProtocol::end_of_value`].
    pub behind: usize,
}

impl<'a> MemcachedValue<'a> {
    /// A value that is completely in the request's text.
    #[must_use]
    pub fn of(pieces: &'a [&'a [u8]]) -> Self {
        MemcachedValue { pieces, behind: 0 }
    }

    /// Its total number of bytes.
    #[must_use]
    pub fn length(&self) -> usize {
        self.pieces.iter().map(|it| it.len()).sum::<usize>() + self.behind
    }

    /// Appends the part in the request's text.
    fn write(&self, out: &mut Vec<u8>) {
        self.pieces.iter().for_each(|it| out.extend_from_slice(it));
    }
}

/// A request to a server. Expiries are seconds: 0 is never, and values above [`MAX_EXPIRE`] are relative as well.
#[derive(Clone, Copy, Debug)]
pub enum MemcachedRequest<'a> {
    /// Reads a value.
    Get {
        /// The key.
        key: &'a FleetKey,
        /// Whether the reply repeats the key, to be compared with [`Expected::key`].
        named: bool,
        /// If there is no value, an empty one with this expiry is created, and this request gets the recompute token
        /// ([`MemcachedLease::Won`]). Meta protocol only: otherwise a miss is a miss.
        vivify: Option<u32>,
        /// One request gets the recompute token when the value has less than this number of seconds left. Meta protocol
        /// only.
        recache: Option<u32>,
    },
    /// Writes a value.
    Set {
        /// The key.
        key: &'a FleetKey,
        /// The value.
        value: MemcachedValue<'a>,
        /// The client flags, stored with it.
        flags: u32,
        /// Its expiry.
        expire: u32,
        /// Only to replace the value with this CAS number: otherwise [`MemcachedReply::Exists`].
        cas: Option<u64>,
        /// With an older `cas` than that of the current value, it is written even so and marked stale. Meta protocol
        /// only.
        stale_if_older: bool,
    },
    /// Writes a value if there is none; otherwise [`MemcachedReply::NotStored`].
    Add {
        /// The key.
        key: &'a FleetKey,
        /// The value.
        value: MemcachedValue<'a>,
        /// The client flags, stored with it.
        flags: u32,
        /// Its expiry.
        expire: u32,
    },
    /// Removes a value.
    Delete {
        /// The key.
        key: &'a FleetKey,
        /// It is only marked stale, with this expiry: the next request gets the recompute token. Meta protocol only:
        /// otherwise it is removed.
        stale: Option<u32>,
        /// Only the value with this CAS number: otherwise [`MemcachedReply::Exists`].
        cas: Option<u64>,
    },
    /// Adds to a number, which wraps at 2^64, and returns it.
    Increment {
        /// The key.
        key: &'a FleetKey,
        /// The increment.
        by: u64,
        /// If there is no value: the initial value, and its expiry. Otherwise [`MemcachedReply::NotFound`].
        begin: Option<(u64, u32)>,
    },
    /// Changes when a value expires.
    Touch {
        /// The key.
        key: &'a FleetKey,
        /// Its expiry.
        expire: u32,
    },
    /// Checks whether the server responds.
    Noop,
}

/// The kind of request of a reply.
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

/// The expected properties of a connection's next reply.
#[derive(Clone, Copy, Debug)]
pub struct Expected<'a> {
    /// The number of the oldest unanswered request.
    pub opaque: u32,
    /// Its kind.
    pub kind: ReplyKind,
    /// The key that the reply must have, if requested by [`MemcachedRequest::Get::named`].
    pub key: Option<&'a FleetKey>,
    /// The largest accepted value, bytes.
    pub most: usize,
}

/// The reply of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MemcachedReply {
    /// The value.
    Hit(Hit),
    /// There is none.
    Miss,
    /// Success: stored, deleted, touched, or alive.
    Done,
    /// The number after [`MemcachedRequest::Increment`].
    Number(u64),
    /// There is one already ([`MemcachedRequest::Add`]).
    NotStored,
    /// It has changed meanwhile ([`MemcachedRequest::Set::cas`]).
    Exists,
    /// There is no value to replace, delete, touch or add to.
    NotFound,
    /// The server refused.
    Refused(MemcachedRefusal),
}

/// A value that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its range in the buffer, so that it can be taken without a copy.
    pub value: Range<usize>,
    /// The client flags.
    pub flags: u32,
    /// Its CAS number; 0 if the reply has none.
    pub cas: u64,
    /// Seconds until it expires.
    pub ttl: Ttl,
    /// The state of the recompute token.
    pub lease: MemcachedLease,
    /// Whether it was marked stale.
    pub stale: bool,
}

/// The expiry of a value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ttl {
    /// Unknown: the binary protocol does not report it.
    #[default]
    Unknown,
    /// Never.
    Never,
    /// After this number of seconds.
    Seconds(u32),
}

/// The recompute token of a value (meta protocol).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MemcachedLease {
    /// No recomputation needed.
    #[default]
    None,
    /// This reply has the token.
    Won,
    /// Another client has the token.
    Taken,
}

/// The reason for a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemcachedRefusal {
    /// The value is larger than the server accepts.
    TooLarge,
    /// It has no memory for it.
    OutOfMemory,
    /// Another error of the server.
    Server,
    /// The server rejects the request as invalid.
    Client,
    /// The server does not know the command, and probably not the protocol.
    UnknownCommand,
}

impl MemcachedRefusal {
    /// Whether the connection is closed: a server that misinterprets a command may take a value for commands.
    #[must_use]
    pub fn closes(self) -> bool {
        matches!(self, MemcachedRefusal::Client | MemcachedRefusal::UnknownCommand)
    }
}

/// The result of parsing a reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedReply {
    /// A reply, and its number of bytes in the buffer.
    Reply(MemcachedReply, usize),
    /// Incomplete: at least this number of bytes is needed.
    More(usize),
}

/// The reason why a connection cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadReply {
    /// Not a reply of this protocol.
    Foreign,
    /// A line does not end, or a value is not followed by the end of its line.
    Line,
    /// An invalid number.
    Number,
    /// The reply to another request.
    Opaque,
    /// The reply has another key.
    Key,
    /// A reply that does not fit the request.
    Unexpected,
    /// The value is larger than accepted.
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

/// The protocol of a server.
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

    /// The bytes after a value whose last bytes the caller sends ([`MemcachedValue::behind`]).
    #[must_use]
    pub fn end_of_value(self) -> &'static [u8] {
        match self {
            MemcachedProtocol::Meta => b"\r\n",
            MemcachedProtocol::Binary => b"",
        }
    }

    /// Parses a reply at the beginning of `buffer`.
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

/// A relative expiry: a larger one would be interpreted as a date in the past.
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

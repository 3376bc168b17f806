//! The facts in the fields of a head about the message itself: its length, its coding, its connection. Gathered in one
//! pass, judged by `request` and `response`, which differ in their tolerance.

use larder_semantics::field::{Field, is_same_name};

/// The lines of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldCount<'a> {
    /// No line has this name.
    #[default]
    Absent,
    /// One line has it, with this value.
    Once(&'a [u8]),
    /// Several have it, all with this value.
    Same(&'a [u8]),
    /// Several have it, with different values.
    Differing,
}

impl<'a> FieldCount<'a> {
    fn add(&mut self, value: &'a [u8]) {
        *self = match *self {
            FieldCount::Absent => FieldCount::Once(value),
            FieldCount::Once(it) | FieldCount::Same(it) if it == value => FieldCount::Same(it),
            _ => FieldCount::Differing,
        };
    }
}

/// The fields that concern the message and not its content.
#[derive(Debug, Default)]
pub(crate) struct MessageFacts<'a> {
    pub host: FieldCount<'a>,
    pub content_length: FieldCount<'a>,
    pub transfer_encoding: FieldCount<'a>,
    pub expect: FieldCount<'a>,
    /// `Connection` has `close`, or an invalid token: then it is better to close the connection.
    pub close: bool,
    /// `Connection` has `keep-alive`.
    pub keep_alive: bool,
}

impl<'a> MessageFacts<'a> {
    /// Examines every line once; the length of a name excludes most of them.
    #[inline]
    pub(crate) fn note(&mut self, name: &str, value: &'a [u8]) {
        match name.len() {
            4 if is_same_name(name, "host") => self.host.add(value),
            6 if is_same_name(name, "expect") => self.expect.add(value),
            10 if is_same_name(name, "connection") => self.options(value),
            14 if is_same_name(name, "content-length") => self.content_length.add(value),
            17 if is_same_name(name, "transfer-encoding") => self.transfer_encoding.add(value),
            _ => {}
        }
    }

    /// Parses one `Connection` value (RFC 9110 §7.6.1).
    fn options(&mut self, value: &[u8]) {
        for option in value.split(|it| *it == b',').map(<[u8]>::trim_ascii) {
            if option.eq_ignore_ascii_case(b"keep-alive") {
                self.keep_alive = true;
            } else if option.eq_ignore_ascii_case(b"close") || !option.iter().all(|it| is_token_byte(*it)) {
                self.close = true;
            }
        }
    }

    /// Whether the connection is kept after this message (RFC 9112 §9.3).
    pub(crate) fn persists(&self, version: super::Version) -> bool {
        match version {
            super::Version::Http11 | super::Version::Http2 | super::Version::Http3 => !self.close,
            super::Version::Http10 => self.keep_alive && !self.close,
        }
    }
}

impl<'a> FromIterator<Field<'a>> for MessageFacts<'a> {
    fn from_iter<T: IntoIterator<Item = Field<'a>>>(fields: T) -> Self {
        let mut facts = Self::default();
        for it in fields {
            facts.note(it.name, it.value);
        }
        facts
    }
}

/// A byte of a token (RFC 9110 §5.6.2).
pub(crate) const fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#'
                | b'$'
                | b'%'
                | b'&'
                | b'\''
                | b'*'
                | b'+'
                | b'-'
                | b'.'
                | b'^'
                | b'_'
                | b'`'
                | b'|'
                | b'~'
        )
}

/// Parses a `Content-Length` value: digits only, at most 2^63 - 1 (RFC 9110 §8.6).
pub(crate) fn length(value: &[u8]) -> Option<u64> {
    if value.is_empty() {
        return None;
    }
    let mut sum: i64 = 0;
    for it in value {
        if !it.is_ascii_digit() {
            return None;
        }
        sum = sum.checked_mul(10)?.checked_add(i64::from(it - b'0'))?;
    }
    u64::try_from(sum).ok()
}

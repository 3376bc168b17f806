//! The meta commands of memcached (its doc/protocol.txt): one line for a request or a reply, some with a value. Requests
//! and replies are defined in the module above.

use super::{
    BadReply, Expected, FleetKey, Hit, MemcachedLease, MemcachedRefusal, MemcachedReply, MemcachedRequest,
    MemcachedValue, ParsedReply, ReplyKind, Ttl, expire,
};

/// The longest reply line, its end included: a key, a dozen flags, or an error message.
const MAX_LINE: usize = 1024;

/// Appends a request.
pub fn write(request: &MemcachedRequest<'_>, opaque: u32, out: &mut Vec<u8>) {
    match *request {
        MemcachedRequest::Get { key, named, vivify, recache } => {
            command(b"mg ", key, out);
            out.extend_from_slice(b" v f c t");
            if named {
                out.extend_from_slice(b" k");
            }
            flag(b'O', opaque, out);
            if let Some(seconds) = vivify {
                flag(b'N', expire(seconds), out);
            }
            if let Some(seconds) = recache {
                flag(b'R', expire(seconds), out);
            }
        }
        MemcachedRequest::Set { key, value, flags, expire, cas, stale_if_older } => {
            store(key, value, flags, expire, opaque, out);
            if let Some(cas) = cas {
                flag(b'C', cas, out);
            }
            if stale_if_older {
                out.extend_from_slice(b" I");
            }
            out.extend_from_slice(b"\r\n");
            value.write(out);
        }
        MemcachedRequest::Add { key, value, flags, expire } => {
            store(key, value, flags, expire, opaque, out);
            out.extend_from_slice(b" ME\r\n");
            value.write(out);
        }
        MemcachedRequest::Delete { key, stale, cas } => {
            command(b"md ", key, out);
            flag(b'O', opaque, out);
            if let Some(cas) = cas {
                flag(b'C', cas, out);
            }
            if let Some(seconds) = stale {
                out.extend_from_slice(b" I");
                flag(b'T', expire(seconds), out);
            }
        }
        MemcachedRequest::Increment { key, by, begin } => {
            command(b"ma ", key, out);
            out.extend_from_slice(b" v");
            flag(b'O', opaque, out);
            flag(b'D', by, out);
            if let Some((value, seconds)) = begin {
                flag(b'J', value, out);
                flag(b'N', expire(seconds), out);
            }
        }
        MemcachedRequest::Touch { key, expire: seconds } => {
            command(b"mg ", key, out);
            flag(b'O', opaque, out);
            flag(b'T', expire(seconds), out);
        }
        MemcachedRequest::Noop => out.extend_from_slice(b"mn"),
    }
    if request.value().is_none_or(|it| it.behind == 0) {
        out.extend_from_slice(b"\r\n");
    }
}

fn command(name: &[u8; 3], key: &FleetKey, out: &mut Vec<u8>) {
    out.extend_from_slice(name);
    out.extend_from_slice(key.as_bytes());
}

fn store(
    key: &FleetKey,
    value: MemcachedValue<'_>,
    flags: u32,
    seconds: u32,
    opaque: u32,
    out: &mut Vec<u8>,
) {
    let length = value.length();
    // Exactly the size with the longest numbers: the buffer may wait in a queue.
    out.reserve_exact(length - value.behind + key.as_bytes().len() + 96);
    command(b"ms ", key, out);
    out.push(b' ');
    number(length as u64, out);
    flag(b'O', opaque, out);
    flag(b'F', flags, out);
    flag(b'T', expire(seconds), out);
}

fn flag(name: u8, value: impl Into<u64>, out: &mut Vec<u8>) {
    out.extend_from_slice(&[b' ', name]);
    number(value.into(), out);
}

fn number(mut value: u64, out: &mut Vec<u8>) {
    let start = out.len();
    loop {
        // Below ten.
        out.push(b'0' + u8::try_from(value % 10).unwrap_or(0));
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out[start..].reverse();
}

/// Parses the expected reply at the beginning of `buffer`. A value is not examined before it is complete.
///
/// # Errors
/// The bytes are not the expected reply: the connection cannot be used any more.
pub fn parse(buffer: &[u8], expected: &Expected<'_>) -> Result<ParsedReply, BadReply> {
    let window = &buffer[..buffer.len().min(MAX_LINE)];
    // Detected early, so that a foreign server is not read for a whole line.
    if !begins_a_reply(window) {
        return Err(BadReply::Foreign);
    }
    let Some(feed) = memchr::memchr(b'\n', window) else {
        let is_over = window.len() == MAX_LINE;
        return if is_over { Err(BadReply::Line) } else { Ok(ParsedReply::More(buffer.len() + 1)) };
    };
    let line = window[..feed].strip_suffix(b"\r").ok_or(BadReply::Line)?;
    if line.iter().any(u8::is_ascii_control) {
        return Err(BadReply::Line);
    }
    let mut words = line.split(|it| *it == b' ').filter(|it| !it.is_empty());
    let name = words.next().ok_or(BadReply::Foreign)?;
    let length = feed + 1;
    let reply = match (name, expected.kind) {
        (b"VA", ReplyKind::Get | ReplyKind::Increment) => return value(words, buffer, length, expected),
        (b"EN", ReplyKind::Get) => MemcachedReply::Miss,
        (b"EN", ReplyKind::Touch)
        | (b"NF", ReplyKind::Set | ReplyKind::Delete | ReplyKind::Increment | ReplyKind::Touch) => {
            MemcachedReply::NotFound
        }
        (b"HD", ReplyKind::Set | ReplyKind::Add | ReplyKind::Delete | ReplyKind::Touch) => {
            MemcachedReply::Done
        }
        (b"NS", ReplyKind::Set | ReplyKind::Add | ReplyKind::Increment) => MemcachedReply::NotStored,
        (b"EX", ReplyKind::Set | ReplyKind::Delete | ReplyKind::Increment) => MemcachedReply::Exists,
        (b"MN", ReplyKind::Noop) => return Ok(ParsedReply::Reply(MemcachedReply::Done, length)),
        (b"ERROR" | b"CLIENT_ERROR" | b"SERVER_ERROR", _) => {
            return Ok(ParsedReply::Reply(MemcachedReply::Refused(refusal(name, line)), length));
        }
        (b"VA" | b"EN" | b"NF" | b"HD" | b"NS" | b"EX" | b"MN", _) => return Err(BadReply::Unexpected),
        _ => return Err(BadReply::Foreign),
    };
    let flags = Flags::read(words, expected)?;
    // Some servers reply to a miss without flags; the order of replies identifies the request.
    if !flags.numbered && reply != MemcachedReply::Miss && reply != MemcachedReply::NotFound {
        return Err(BadReply::Opaque);
    }
    Ok(ParsedReply::Reply(reply, length))
}

/// Whether the bytes are the beginning of the first word of a reply.
fn begins_a_reply(bytes: &[u8]) -> bool {
    const WORDS: [&[u8]; 10] =
        [b"VA", b"HD", b"EN", b"NS", b"EX", b"NF", b"MN", b"ERROR", b"CLIENT_ERROR", b"SERVER_ERROR"];
    let end = bytes.iter().position(|it| matches!(it, b' ' | b'\r' | b'\n'));
    let word = &bytes[..end.unwrap_or(bytes.len())];
    WORDS.iter().any(|it| if end.is_some() { *it == word } else { it.starts_with(word) })
}

fn refusal(name: &[u8], line: &[u8]) -> MemcachedRefusal {
    let says = |text: &[u8]| memchr::memmem::find(line, text).is_some();
    match name {
        b"ERROR" => MemcachedRefusal::UnknownCommand,
        b"CLIENT_ERROR" => MemcachedRefusal::Client,
        _ if says(b"too large") => MemcachedRefusal::TooLarge,
        _ if says(b"out of memory") => MemcachedRefusal::OutOfMemory,
        _ => MemcachedRefusal::Server,
    }
}

/// `VA`, after its name: the size, flags, and then the value on a line of its own.
fn value<'a>(
    mut words: impl Iterator<Item = &'a [u8]>,
    buffer: &[u8],
    start: usize,
    expected: &Expected<'_>,
) -> Result<ParsedReply, BadReply> {
    let size = words.next().and_then(digits).ok_or(BadReply::Number)?;
    let flags = Flags::read(words, expected)?;
    if !flags.numbered {
        return Err(BadReply::Opaque);
    }
    if expected.key.is_some() && !flags.named {
        return Err(BadReply::Key);
    }
    // A number has at most 20 digits.
    let most = if expected.kind == ReplyKind::Get { expected.most } else { 32 };
    let size = usize::try_from(size).ok().filter(|it| *it <= most).ok_or(BadReply::TooLarge)?;
    let end = start + size;
    let Some(after) = buffer.get(end..end + 2) else { return Ok(ParsedReply::More(end + 2)) };
    if after != b"\r\n" {
        return Err(BadReply::Line);
    }
    let reply = if expected.kind == ReplyKind::Get {
        MemcachedReply::Hit(Hit { value: start..end, ..flags.hit })
    } else {
        MemcachedReply::Number(digits(buffer[start..end].trim_ascii_end()).ok_or(BadReply::Number)?)
    };
    Ok(ParsedReply::Reply(reply, end + 2))
}

/// The flags of a reply.
struct Flags {
    hit: Hit,
    /// Whether the opaque was present and right.
    numbered: bool,
    /// Whether the key was present and right.
    named: bool,
}

impl Flags {
    fn read<'a>(words: impl Iterator<Item = &'a [u8]>, expected: &Expected<'_>) -> Result<Self, BadReply> {
        let hit = Hit {
            value: 0..0,
            flags: 0,
            cas: 0,
            ttl: Ttl::Unknown,
            lease: MemcachedLease::None,
            stale: false,
        };
        let mut flags = Flags { hit, numbered: false, named: false };
        for word in words {
            let (name, rest) = (word[0], &word[1..]);
            let number = || digits(rest).ok_or(BadReply::Number);
            match name {
                b'O' if digits(rest) == Some(expected.opaque.into()) => flags.numbered = true,
                b'O' => return Err(BadReply::Opaque),
                b'k' => match expected.key {
                    Some(key) if key.as_bytes() != rest => return Err(BadReply::Key),
                    Some(_) => flags.named = true,
                    None => {}
                },
                b'f' => flags.hit.flags = u32::try_from(number()?).map_err(|_| BadReply::Number)?,
                b'c' => flags.hit.cas = number()?,
                b't' if rest == b"-1" => flags.hit.ttl = Ttl::Never,
                b't' => flags.hit.ttl = Ttl::Seconds(u32::try_from(number()?).unwrap_or(u32::MAX)),
                b'W' => flags.hit.lease = MemcachedLease::Won,
                b'Z' if flags.hit.lease == MemcachedLease::None => flags.hit.lease = MemcachedLease::Taken,
                b'X' => flags.hit.stale = true,
                // Sizes, times of use, and flags of later servers.
                _ => {}
            }
        }
        Ok(flags)
    }
}

/// Parses digits only.
fn digits(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

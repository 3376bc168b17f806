//! The PROXY header, versions 1 and 2, by which a proxy that forwards bytes sends the client address (HAProxy's
//! `proxy-protocol.txt`). Read from clients, written to origins. The trusted senders, and the use of the address, are not here.

#[cfg(test)]
mod tests;
mod write;

pub use write::{ConnectionEnds, PreambleVersion, write};

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The most bytes of a header. Version 1 has 107; version 2 could announce 64 KiB, which proxies do not use.
pub const MOST: usize = 4096;
/// The most bytes of a version 1 header, with its CR and LF (section 2.1).
const LINE: usize = 107;
/// The beginning of a version 1 header.
const WORD: &[u8] = b"PROXY ";
/// The beginning of a version 2 header.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of version 2 before the addresses.
const FIXED: usize = 16;
/// The type of the checksum of all bytes (`PP2_TYPE_CRC32C`).
const CHECKSUM: u8 = 0x03;

/// The source of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionSource {
    /// A client at this address.
    Client(SocketAddr),
    /// The proxy itself (`LOCAL`, for example health checks), or a client without an address: `UNKNOWN`, a Unix socket,
    /// datagrams.
    Peer,
}

/// The result of parsing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedPreamble {
    /// A header of this number of bytes.
    Header(ConnectionSource, usize),
    /// The beginning of one.
    Partial,
}

/// The reason why the bytes are not a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreambleError {
    /// They do not begin like one.
    Missing,
    /// They begin like one, and are malformed.
    Malformed,
    /// It is longer than [`MOST`].
    TooLong,
    /// Its checksum is wrong.
    Checksum,
}

/// Parses the header at the start of `bytes`. An error is final, with any further bytes.
///
/// # Errors
/// It is not a header.
pub fn parse(bytes: &[u8]) -> Result<ParsedPreamble, PreambleError> {
    let begins = |with: &[u8]| {
        let known = bytes.len().min(with.len());
        bytes[..known] == with[..known]
    };
    match (bytes.len() < WORD.len() && begins(WORD), begins(SIGNATURE)) {
        (true, _) => Ok(ParsedPreamble::Partial),
        (false, true) => version_2(bytes),
        (false, false) if begins(WORD) => version_1(bytes),
        (false, false) => Err(PreambleError::Missing),
    }
}

fn version_1(bytes: &[u8]) -> Result<ParsedPreamble, PreambleError> {
    let within = &bytes[..bytes.len().min(LINE)];
    let end = match within.iter().position(|it| matches!(it, b'\r' | b'\n')) {
        Some(end) if within[end..].starts_with(b"\r\n") => end,
        Some(end) if within.len() < LINE && within[end..] == *b"\r" => return Ok(ParsedPreamble::Partial),
        None if within.len() < LINE => return Ok(ParsedPreamble::Partial),
        _ => return Err(PreambleError::Malformed),
    };
    let source = source_of_line(&within[WORD.len()..end]).ok_or(PreambleError::Malformed)?;
    Ok(ParsedPreamble::Header(source, end + 2))
}

/// The part after `PROXY `.
fn source_of_line(line: &[u8]) -> Option<ConnectionSource> {
    if let Some(rest) = line.strip_prefix(b"UNKNOWN") {
        // The rest of the line must be ignored.
        return (rest.is_empty() || rest[0] == b' ').then_some(ConnectionSource::Peer);
    }
    let text = std::str::from_utf8(line).ok()?;
    let mut words = text.split(' ');
    let address: fn(&str) -> Option<IpAddr> = match words.next()? {
        "TCP4" => |it| it.parse().ok().map(IpAddr::V4),
        "TCP6" => |it| it.parse().ok().map(IpAddr::V6),
        _ => return None,
    };
    let (from, _to) = (address(words.next()?)?, address(words.next()?)?);
    let (from_port, _to_port) = (port(words.next()?)?, port(words.next()?)?);
    words.next().is_none().then_some(ConnectionSource::Client(SocketAddr::new(from, from_port)))
}

/// Digits without a sign or leading zeros.
fn port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|it| it.is_ascii_digit()) && (text == "0" || !text.starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}

fn version_2(bytes: &[u8]) -> Result<ParsedPreamble, PreambleError> {
    let Some(command) = bytes.get(SIGNATURE.len()) else { return Ok(ParsedPreamble::Partial) };
    if !matches!(command, 0x20 | 0x21) {
        return Err(PreambleError::Malformed);
    }
    let Some(fixed) = bytes.get(..FIXED) else { return Ok(ParsedPreamble::Partial) };
    let length = FIXED + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if length > MOST {
        return Err(PreambleError::TooLong);
    }
    let Some(header) = bytes.get(..length) else { return Ok(ParsedPreamble::Partial) };
    let source = match command {
        // The rest of its own connections is skipped unparsed.
        0x20 => ConnectionSource::Peer,
        _ => source_of_block(header)?,
    };
    Ok(ParsedPreamble::Header(source, length))
}

/// The source in a complete header of a forwarded connection.
fn source_of_block(header: &[u8]) -> Result<ConnectionSource, PreambleError> {
    let block = &header[FIXED..];
    let (family, transport) = (header[13] >> 4, header[13] & 15);
    let taken = match (family, transport) {
        // The content after an address of another family is unknown.
        (0, 0..=2) | (1..=3, 0) => return Ok(ConnectionSource::Peer),
        (1, 1 | 2) => 12,
        (2, 1 | 2) => 36,
        (3, 1 | 2) => 216,
        _ => return Err(PreambleError::Malformed),
    };
    let (addresses, _) = block.split_at_checked(taken).ok_or(PreambleError::Malformed)?;
    check(header, FIXED + taken)?;
    let port = |at: usize| u16::from_be_bytes([addresses[at], addresses[at + 1]]);
    Ok(match header[13] {
        0x11 => {
            ConnectionSource::Client(SocketAddr::new(IpAddr::V4(Ipv4Addr::from(part(addresses))), port(8)))
        }
        0x21 => {
            ConnectionSource::Client(SocketAddr::new(IpAddr::V6(Ipv6Addr::from(part(addresses))), port(32)))
        }
        _ => ConnectionSource::Peer,
    })
}

/// The first bytes, which are known to exist.
fn part<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| bytes[at])
}

/// Checks the fields from `at` on: types, lengths and values, of which only the checksum is used.
fn check(header: &[u8], mut at: usize) -> Result<(), PreambleError> {
    let mut sum = None;
    while at < header.len() {
        let [kind, high, low, ..] = header[at..] else { return Err(PreambleError::Malformed) };
        let (from, length) = (at + 3, usize::from(u16::from_be_bytes([high, low])));
        let value = header.get(from..from + length).ok_or(PreambleError::Malformed)?;
        if kind == CHECKSUM {
            let value = <[u8; 4]>::try_from(value).map_err(|_| PreambleError::Malformed)?;
            if sum.replace((from, u32::from_be_bytes(value))).is_some() {
                return Err(PreambleError::Malformed);
            }
        }
        at = from + length;
    }
    match sum {
        Some((from, checksum)) if checksum != crc32c(&[&header[..from], &[0; 4], &header[from + 4..]]) => {
            Err(PreambleError::Checksum)
        }
        _ => Ok(()),
    }
}

/// CRC-32C (RFC 3720 appendix B.4), bit by bit: few proxies send it, and once per connection.
fn crc32c(parts: &[&[u8]]) -> u32 {
    const REVERSED: u32 = 0x82f6_3b78;
    let step = |sum: u32| (sum >> 1) ^ (REVERSED & (sum & 1).wrapping_neg());
    let bytes = parts.iter().flat_map(|it| it.iter());
    !bytes.fold(!0, |sum: u32, it| (0..8).fold(sum ^ u32::from(*it), |sum, _| step(sum)))
}

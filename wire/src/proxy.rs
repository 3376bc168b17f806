//! The header of the PROXY protocol, versions 1 and 2, by which a proxy that forwards bytes says whose connection it is
//! (HAProxy's `proxy-protocol.txt`). Which proxies may say so, and what becomes of it, is not here; nor is writing it.

#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Bytes of a header at most. One of version 1 has 107; version 2 could announce 64 KiB, of which nobody sends a part.
pub const MOST: usize = 4096;
/// Bytes of a header of version 1 at most, with its CR and LF (section 2.1).
const LINE: usize = 107;
/// What a header of version 1 begins with.
const WORD: &[u8] = b"PROXY ";
/// What a header of version 2 begins with.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";
/// Bytes of version 2 before the addresses.
const FIXED: usize = 16;
/// The type of the checksum of all bytes (`PP2_TYPE_CRC32C`).
const CHECKSUM: u8 = 0x03;

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionSource {
    /// Of a client at this address.
    Client(SocketAddr),
    /// The proxy's own (`LOCAL`, as of its health checks), or of somebody whose address it does not say: `UNKNOWN`, a
    /// Unix socket, datagrams.
    Peer,
}

/// What is at the start of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParsedPreamble {
    /// A header of so many bytes.
    Header(ConnectionSource, usize),
    /// The beginning of one.
    Partial,
}

/// Why no header will come of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreambleError {
    /// It does not begin as one does.
    Missing,
    /// It begins as one, and breaks its rules.
    Malformed,
    /// It is longer than [`MOST`].
    TooLong,
    /// Its checksum is that of other bytes.
    Checksum,
}

/// Reads the header that `bytes` begin with. What is wrong stays so, whatever comes behind.
///
/// # Errors
/// It is none.
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

/// What stands behind `PROXY `.
fn source_of_line(line: &[u8]) -> Option<ConnectionSource> {
    if let Some(rest) = line.strip_prefix(b"UNKNOWN") {
        // Whatever it says then is to be ignored.
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

/// Digits without a sign and without zeros before them.
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
        // The rest of its own connections is to be skipped unread.
        0x20 => ConnectionSource::Peer,
        _ => source_of_block(header)?,
    };
    Ok(ParsedPreamble::Header(source, length))
}

/// The source that a whole header of a connection which is forwarded names.
fn source_of_block(header: &[u8]) -> Result<ConnectionSource, PreambleError> {
    let block = &header[FIXED..];
    let (family, transport) = (header[13] >> 4, header[13] & 15);
    let taken = match (family, transport) {
        // What stands behind an address that is none of these is not known.
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

/// The first bytes, of which is known that they are there.
fn part<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|at| bytes[at])
}

/// Looks through what stands from `at` on: types, lengths and values, of which the checksum alone is of use here.
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
        Some((from, told)) if told != crc32c(&[&header[..from], &[0; 4], &header[from + 4..]]) => {
            Err(PreambleError::Checksum)
        }
        _ => Ok(()),
    }
}

/// CRC-32C (RFC 3720 appendix B.4), bit by bit: few proxies send it, and once a connection.
fn crc32c(parts: &[&[u8]]) -> u32 {
    const REVERSED: u32 = 0x82f6_3b78;
    let step = |sum: u32| (sum >> 1) ^ (REVERSED & (sum & 1).wrapping_neg());
    let bytes = parts.iter().flat_map(|it| it.iter());
    !bytes.fold(!0, |sum: u32, it| (0..8).fold(sum ^ u32::from(*it), |sum, _| step(sum)))
}

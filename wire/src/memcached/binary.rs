//! Memcached's binary protocol: a header of 24 bytes before each request and reply, numbers big-endian. For servers
//! without the meta commands. Requests and replies are defined in the module above.

use super::{
    BadReply, Expected, FleetKey, Hit, MemcachedLease, MemcachedRefusal, MemcachedReply, MemcachedRequest,
    MemcachedValue, ParsedReply, ReplyKind, Ttl, expire,
};

/// Bytes of a header.
const HEADER: usize = 24;

/// The first byte of a request, and of a reply.
const REQUEST: u8 = 0x80;
const REPLY: u8 = 0x81;

/// The most bytes behind the header of a reply without a value: a key, extras, an error message.
const MAX_OTHER: usize = 1024;

/// "Create no value if there is none", instead of an expiry.
const NO_BEGIN: u32 = u32::MAX;

mod opcode {
    pub(super) const GET: u8 = 0x00;
    pub(super) const SET: u8 = 0x01;
    pub(super) const ADD: u8 = 0x02;
    pub(super) const DELETE: u8 = 0x04;
    pub(super) const INCREMENT: u8 = 0x05;
    pub(super) const NOOP: u8 = 0x0a;
    pub(super) const GET_NAMED: u8 = 0x0c;
    pub(super) const TOUCH: u8 = 0x1c;
}

/// Appends a request. Options of the meta protocol are omitted.
pub fn write(request: &MemcachedRequest<'_>, opaque: u32, out: &mut Vec<u8>) {
    let frame = BinaryFrame { opaque, ..BinaryFrame::default() };
    match *request {
        MemcachedRequest::Get { key, named, .. } => {
            let opcode = if named { opcode::GET_NAMED } else { opcode::GET };
            BinaryFrame { opcode, key: Some(key), ..frame }.write(out);
        }
        MemcachedRequest::Set { key, value, flags, expire: seconds, cas, .. } => {
            let extras = stored(flags, seconds);
            let cas = cas.unwrap_or(0);
            BinaryFrame { opcode: opcode::SET, key: Some(key), extras: &extras, value, cas, ..frame }
                .write(out);
        }
        MemcachedRequest::Add { key, value, flags, expire: seconds } => {
            let extras = stored(flags, seconds);
            BinaryFrame { opcode: opcode::ADD, key: Some(key), extras: &extras, value, ..frame }.write(out);
        }
        MemcachedRequest::Delete { key, cas, .. } => {
            BinaryFrame { opcode: opcode::DELETE, key: Some(key), cas: cas.unwrap_or(0), ..frame }.write(out);
        }
        MemcachedRequest::Increment { key, by, begin } => {
            let (value, seconds) = begin.map_or((0, NO_BEGIN), |(value, seconds)| (value, expire(seconds)));
            let mut extras = [0; 20];
            extras[..8].copy_from_slice(&by.to_be_bytes());
            extras[8..16].copy_from_slice(&value.to_be_bytes());
            extras[16..].copy_from_slice(&seconds.to_be_bytes());
            BinaryFrame { opcode: opcode::INCREMENT, key: Some(key), extras: &extras, ..frame }.write(out);
        }
        MemcachedRequest::Touch { key, expire: seconds } => {
            let extras = expire(seconds).to_be_bytes();
            BinaryFrame { opcode: opcode::TOUCH, key: Some(key), extras: &extras, ..frame }.write(out);
        }
        MemcachedRequest::Noop => BinaryFrame { opcode: opcode::NOOP, ..frame }.write(out),
    }
}

/// The extras of `Set` and `Add`.
fn stored(flags: u32, seconds: u32) -> [u8; 8] {
    let mut extras = [0; 8];
    extras[..4].copy_from_slice(&flags.to_be_bytes());
    extras[4..].copy_from_slice(&expire(seconds).to_be_bytes());
    extras
}

#[derive(Clone, Copy, Default)]
struct BinaryFrame<'a> {
    opcode: u8,
    opaque: u32,
    cas: u64,
    extras: &'a [u8],
    key: Option<&'a FleetKey>,
    value: MemcachedValue<'a>,
}

impl BinaryFrame<'_> {
    fn write(&self, out: &mut Vec<u8>) {
        let key = self.key.map_or(&b""[..], FleetKey::as_bytes);
        let body = self.extras.len() + key.len() + self.value.length();
        out.reserve_exact(HEADER + body - self.value.behind);
        // A key has 250 bytes at most, extras 20; no value of 4 GiB occurs here, and none would be valid.
        let small = |it: usize| u8::try_from(it).unwrap_or(u8::MAX);
        out.extend_from_slice(&[
            REQUEST,
            self.opcode,
            0,
            small(key.len()),
            small(self.extras.len()),
            0,
            0,
            0,
        ]);
        out.extend_from_slice(&u32::try_from(body).unwrap_or(u32::MAX).to_be_bytes());
        out.extend_from_slice(&self.opaque.to_be_bytes());
        out.extend_from_slice(&self.cas.to_be_bytes());
        out.extend_from_slice(self.extras);
        out.extend_from_slice(key);
        self.value.write(out);
    }
}

/// Parses the expected reply at the beginning of `buffer`. A value is not examined before it is complete.
///
/// # Errors
/// The bytes are not the expected reply: the connection cannot be used any more.
pub fn parse(buffer: &[u8], expected: &Expected<'_>) -> Result<ParsedReply, BadReply> {
    match buffer.first() {
        Some(&REPLY) => {}
        Some(_) => return Err(BadReply::Foreign),
        None => return Ok(ParsedReply::More(HEADER)),
    }
    let Some(header) = buffer.first_chunk::<HEADER>() else { return Ok(ParsedReply::More(HEADER)) };
    let opcode = match (expected.kind, expected.key) {
        (ReplyKind::Get, None) => opcode::GET,
        (ReplyKind::Get, Some(_)) => opcode::GET_NAMED,
        (ReplyKind::Set, _) => opcode::SET,
        (ReplyKind::Add, _) => opcode::ADD,
        (ReplyKind::Delete, _) => opcode::DELETE,
        (ReplyKind::Increment, _) => opcode::INCREMENT,
        (ReplyKind::Touch, _) => opcode::TOUCH,
        (ReplyKind::Noop, _) => opcode::NOOP,
    };
    let [_, answered, k0, k1, extras, _, s0, s1, b0, b1, b2, b3, o0, o1, o2, o3, cas @ ..] = *header;
    if u32::from_be_bytes([o0, o1, o2, o3]) != expected.opaque {
        return Err(BadReply::Opaque);
    }
    if answered != opcode {
        return Err(BadReply::Unexpected);
    }
    let status = u16::from_be_bytes([s0, s1]);
    let body = usize::try_from(u32::from_be_bytes([b0, b1, b2, b3])).map_err(|_| BadReply::TooLarge)?;
    let key = usize::from(u16::from_be_bytes([k0, k1]));
    let before = usize::from(extras) + key;
    let value = body.checked_sub(before).ok_or(BadReply::Number)?;
    let is_hit = expected.kind == ReplyKind::Get && status == 0;
    let most = if is_hit { expected.most } else { MAX_OTHER };
    if value > most || before > MAX_OTHER {
        return Err(BadReply::TooLarge);
    }
    let end = HEADER + body;
    if buffer.len() < end {
        return Ok(ParsedReply::More(end));
    }
    let (start, extras) = (HEADER + before, &buffer[HEADER..HEADER + usize::from(extras)]);
    if is_hit {
        let named = &buffer[HEADER + extras.len()..start];
        if expected.key.is_some_and(|it| it.as_bytes() != named) {
            return Err(BadReply::Key);
        }
        let flags = u32::from_be_bytes(extras.try_into().map_err(|_| BadReply::Number)?);
        let cas = u64::from_be_bytes(cas);
        let hit = Hit {
            value: start..end,
            flags,
            cas,
            ttl: Ttl::Unknown,
            lease: MemcachedLease::None,
            stale: false,
        };
        return Ok(ParsedReply::Reply(MemcachedReply::Hit(hit), end));
    }
    let reply = reply(status, expected.kind, &buffer[start..end])?;
    Ok(ParsedReply::Reply(reply, end))
}

/// A reply without a value.
fn reply(status: u16, kind: ReplyKind, value: &[u8]) -> Result<MemcachedReply, BadReply> {
    Ok(match (status, kind) {
        (0, ReplyKind::Increment) => {
            MemcachedReply::Number(u64::from_be_bytes(value.try_into().map_err(|_| BadReply::Number)?))
        }
        (0, _) => MemcachedReply::Done,
        // Statuses of writes only.
        (2 | 3 | 5, ReplyKind::Get) | (_, ReplyKind::Noop) => return Err(BadReply::Unexpected),
        (1, ReplyKind::Get) => MemcachedReply::Miss,
        (1, _) => MemcachedReply::NotFound,
        // For `Add` the status is "exists" where the meta protocol has "not stored".
        (2, ReplyKind::Add) | (5, _) => MemcachedReply::NotStored,
        (2, _) => MemcachedReply::Exists,
        (3, _) => MemcachedReply::Refused(MemcachedRefusal::TooLarge),
        (4 | 6, _) => MemcachedReply::Refused(MemcachedRefusal::Client),
        (0x81 | 0x83, _) => MemcachedReply::Refused(MemcachedRefusal::UnknownCommand),
        (0x82, _) => MemcachedReply::Refused(MemcachedRefusal::OutOfMemory),
        _ => MemcachedReply::Refused(MemcachedRefusal::Server),
    })
}

//! Laws for any bytes as an envelope. Run by the fuzzer, and with small inputs as a test of `wire`.

use larder_semantics::policy::Policy;
use larder_stdx::clock::WallTime;
use larder_wire::envelope::{Envelope, EnvelopeError, MAGIC, Mark, PartHead, head_length, older, sum};

/// Panics where a law is broken.
pub fn check(raw: &[u8]) {
    let _ = one(raw);
    // No noise has the right checksum: give it one, so that what lies behind it is reached.
    if let Some(sealed) = sealed(raw) {
        assert!(!matches!(
            one(&sealed),
            Err(EnvelopeError::HeadSum | EnvelopeError::Short | EnvelopeError::Foreign)
        ));
    }
    if let Ok(mark) = Mark::read(raw) {
        assert_eq!(Err(EnvelopeError::Mark), Envelope::read(raw), "a mark is no response");
        let mut again = Vec::new();
        mark.write(&mut again);
        if again.len() <= larder_wire::envelope::MAX_HEAD {
            assert_eq!(Ok(mark), Mark::read(&again));
        }
    }
    if let Ok(page) = older(raw) {
        assert_eq!(raw.len(), page.body.len() + memchr(raw) + 1);
        assert!(page.content_type.iter().all(|it| it.is_ascii() && !it.is_ascii_control() || *it == b'\t'));
    }
}

fn memchr(raw: &[u8]) -> usize {
    raw.iter().position(|it| *it == 0).unwrap()
}

fn sealed(raw: &[u8]) -> Option<Vec<u8>> {
    let mut raw = raw.to_vec();
    raw.extend_from_slice(&[0; 4]);
    raw.get_mut(..4)?.copy_from_slice(&MAGIC);
    raw.get_mut(4..6)?.copy_from_slice(&[1, 0]);
    let length = u32::try_from(raw.len()).ok()?;
    raw.get_mut(8..12)?.copy_from_slice(&length.to_le_bytes());
    let end = raw.len().checked_sub(4).filter(|it| *it >= 24)?;
    let sum = sum(&raw[..end]);
    raw[end..].copy_from_slice(&sum.to_le_bytes());
    Some(raw)
}

fn one(raw: &[u8]) -> Result<usize, EnvelopeError> {
    let read = Envelope::read(raw);
    let filled = Envelope::read_filled(raw, &Policy::default(), WallTime(1_000_000_000));
    match &read {
        Ok((envelope, length)) => {
            assert_eq!(read, filled);
            obeys(raw, envelope, *length);
        }
        Err(EnvelopeError::NoFacts) => {}
        Err(why) => {
            assert_eq!(Err(*why), filled);
            assert!(!why.to_string().is_empty());
        }
    }
    if let Ok((envelope, length)) = filled {
        obeys_alike(&envelope, length, raw);
        return Ok(length);
    }
    read.map(|it| it.1)
}

fn obeys(raw: &[u8], envelope: &Envelope, length: usize) {
    assert_eq!(Ok(Some(length)), head_length(raw));
    let head = &raw[..length];
    for cut in (0..length).step_by(1 + length / 100) {
        assert!(Envelope::read(&head[..cut]).is_err(), "cut at {cut}");
    }
    assert_eq!(Ok((envelope.clone(), length)), Envelope::read(head), "the body changes nothing");
    let mut harmed = head.to_vec();
    for at in (0..length).step_by(1 + length / 100) {
        harmed[at] ^= 0x10;
        assert!(Envelope::read(&harmed).is_err(), "harmed at {at}");
        harmed[at] ^= 0x10;
    }
}

/// A parsed envelope is written and parsed to the same value.
fn obeys_alike(envelope: &Envelope, length: usize, raw: &[u8]) {
    assert!(length <= raw.len() && !envelope.key.is_empty());
    for it in envelope.fields.iter().chain(envelope.trailers.iter().flat_map(|it| it.iter())) {
        assert!(!it.name.is_empty() && it.name.bytes().all(|it| it.is_ascii_graphic() && it != b':'));
        assert!(it.value.iter().all(|it| *it == b'\t' || *it >= b' ' && *it != 0x7f), "a control character");
    }
    let mut again = Vec::new();
    envelope.write(&mut again);
    if again.len() <= larder_wire::envelope::MAX_HEAD {
        assert_eq!(Ok((envelope.clone(), again.len())), Envelope::read(&again));
    }
    let body = &raw[length..];
    let holds = envelope.body.check(body).is_ok();
    assert_eq!(holds, body.len() as u64 == envelope.body.length && sum(body) == envelope.body.sum);
    if let Some(parts) = envelope.body.parts {
        assert!(parts.size > 0 && parts.count > 0);
        let _ = PartHead::open(body, &parts, envelope.body.length, parts.count - 1);
    }
}

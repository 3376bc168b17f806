//! The missing part of a ClientHello that rustls rejects: for some, rustls sends `handshake_failure` and RFC 8446
//! requires another alert. Parsed only after the rejection; there are no keys yet, so the alert can be written here.

use rustls::{Error, InvalidMessage, PeerIncompatible};

/// The bytes before a record's content.
pub(super) const HEADER: usize = 5;

/// Alerts (RFC 8446 §6.2).
const PROTOCOL_VERSION: u8 = 70;
const MISSING_EXTENSION: u8 = 109;
const UNRECOGNIZED_NAME: u8 = 112;

/// Extensions: supported_groups, signature_algorithms, pre_shared_key, supported_versions, key_share.
const GROUPS: u16 = 10;
const SIGNATURES: u16 = 13;
const SHARED_KEY: u16 = 41;
const VERSIONS: u16 = 43;
const KEY_SHARE: u16 = 51;

/// The error and alert that replace `error`; `None` if rustls's is right. `bytes` begin with the record in which the
/// message began, its pieces already joined.
pub fn rejection(error: &Error, bytes: &[u8]) -> Option<(Error, u8)> {
    let Error::PeerIncompatible(why) = error else {
        // RFC 6066 section 3, for a name without a certificate.
        return matches!(error, Error::General(_)).then(|| (error.clone(), UNRECOGNIZED_NAME));
    };
    let hello = Hello::parse(bytes.get(HEADER..)?)?;
    match hello.version {
        ..=0x302 => Some((PeerIncompatible::Tls12NotOffered.into(), PROTOCOL_VERSION)),
        // RFC 8446 §9.2.
        0x304 if hello.lacks_an_extension() => {
            Some((InvalidMessage::MissingData("extension").into(), MISSING_EXTENSION))
        }
        _ if *why == PeerIncompatible::SignatureAlgorithmsExtensionRequired => {
            // In TLS 1.2 its absence means SHA-1 (RFC 5246 §7.4.1.4.1), which larder does not use.
            Some((PeerIncompatible::NoSignatureSchemesInCommon.into(), 40))
        }
        _ => None,
    }
}

/// A ClientHello, as far as it is parsed.
struct Hello<'b> {
    /// The latest existing version that it offers.
    version: u16,
    extensions: &'b [u8],
}

impl<'b> Hello<'b> {
    fn parse(message: &'b [u8]) -> Option<Self> {
        let mut rest = message.strip_prefix(&[1])?;
        take(&mut rest, 3)?; // Its length.
        let legacy = number(take(&mut rest, 2)?);
        take(&mut rest, 32)?;
        let session = usize::from(take(&mut rest, 1)?[0]);
        take(&mut rest, session)?;
        prefixed(&mut rest)?; // Suites.
        let compressions = usize::from(take(&mut rest, 1)?[0]);
        take(&mut rest, compressions)?;
        let mut it = Self { version: legacy.min(0x303), extensions: prefixed(&mut rest).unwrap_or_default() };
        if let Some(versions) = it.extension(VERSIONS) {
            let all = versions.get(1..).unwrap_or_default().chunks_exact(2).map(number);
            it.version = all.filter(|it| *it <= 0x304).max().unwrap_or_default();
        }
        Some(it)
    }

    fn extension(&self, kind: u16) -> Option<&'b [u8]> {
        let mut rest = self.extensions;
        loop {
            let found = number(take(&mut rest, 2)?);
            let content = prefixed(&mut rest)?;
            if found == kind {
                return Some(content);
            }
        }
    }

    fn lacks_an_extension(&self) -> bool {
        let lacks = |kind| self.extension(kind).is_none();
        lacks(SHARED_KEY) && [SIGNATURES, GROUPS, KEY_SHARE].into_iter().any(lacks)
    }
}

fn number(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |sum, it| sum << 8 | u16::from(*it))
}

fn take<'b>(rest: &mut &'b [u8], count: usize) -> Option<&'b [u8]> {
    let (taken, behind) = rest.split_at_checked(count)?;
    *rest = behind;
    Some(taken)
}

/// A field with a two-byte length prefix.
fn prefixed<'b>(rest: &mut &'b [u8]) -> Option<&'b [u8]> {
    let length = usize::from(number(take(rest, 2)?));
    take(rest, length)
}

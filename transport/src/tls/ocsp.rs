//! The check of an OCSP response before it is stapled: only that the file is one. Clients check its subject, issuer and
//! validity.

/// The type of the only existing response (RFC 6960 §4.2.1): id-pkix-ocsp-basic.
const BASIC: &[u8] = &[0x2b, 6, 1, 5, 5, 7, 48, 1, 1];

const SEQUENCE: u8 = 0x30;
const ENUMERATED: u8 = 0x0a;
const RESPONSE: u8 = 0xa0;
const OBJECT: u8 = 6;
const OCTETS: u8 = 4;

/// Whether these bytes are a successful OCSPResponse.
///
/// # Errors
/// The actual content, as the end of a sentence that begins with the file's name.
pub fn check(bytes: &[u8]) -> Result<(), String> {
    let wrong = || "is not an OCSP response in DER, as written by `openssl ocsp -respout`.".to_owned();
    let (status, response) = parse(bytes).ok_or_else(wrong)?;
    let meaning = match status {
        0 => return response.filter(|it| is_basic(it).is_some()).map(drop).ok_or_else(wrong),
        1 => "the request was malformed",
        2 => "the responder has an internal error",
        3 => "the responder asks to retry later",
        5 => "the request must be signed",
        6 => "the responder is not authorized for this certificate",
        _ => return Err(wrong()),
    };
    Err(format!("is an OCSP response without a certificate status: {meaning} ({status}); fetch it again."))
}

/// The status, and the response itself if there is one.
fn parse(bytes: &[u8]) -> Option<(u8, Option<&[u8]>)> {
    let mut inner = single_element(bytes, SEQUENCE)?;
    let &[status] = next(&mut inner, ENUMERATED)? else { return None };
    let response = match inner.is_empty() {
        true => None,
        false => Some(single_element(inner, RESPONSE)?),
    };
    Some((status, response))
}

/// The type, and a sequence of three or four elements: data, algorithm, signature, certificates.
fn is_basic(response: &[u8]) -> Option<()> {
    let mut parts = single_element(response, SEQUENCE)?;
    let is_known = next(&mut parts, OBJECT)? == BASIC;
    let mut basic = single_element(single_element(parts, OCTETS)?, SEQUENCE)?;
    next(&mut basic, SEQUENCE)?;
    next(&mut basic, SEQUENCE)?;
    next(&mut basic, 3)?;
    is_known.then_some(())
}

/// The content of an element that consists of all these bytes.
fn single_element(mut bytes: &[u8], tag: u8) -> Option<&[u8]> {
    let content = next(&mut bytes, tag)?;
    bytes.is_empty().then_some(content)
}

/// The content of the next element, if it has that tag; lengths are minimal (X.690 §10.1).
fn next<'b>(bytes: &mut &'b [u8], tag: u8) -> Option<&'b [u8]> {
    let (found, rest) = bytes.split_first()?;
    let (first, mut rest) = rest.split_first()?;
    let length = match usize::from(*first) {
        length @ ..=0x7f => length,
        count @ 0x81..=0x83 => {
            let (digits, behind) = rest.split_at_checked(count - 0x80)?;
            rest = behind;
            let length = digits.iter().fold(0, |sum, it| sum << 8 | usize::from(*it));
            if digits[0] == 0 || length < 0x80 {
                return None;
            }
            length
        }
        _ => return None,
    };
    let (content, behind) = rest.split_at_checked(length)?;
    *bytes = behind;
    (*found == tag).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = match u8::try_from(content.len()) {
            Ok(it @ ..0x80) => vec![it],
            Ok(it) => vec![0x81, it],
            Err(_) => [&[0x82][..], &u16::try_from(content.len()).unwrap().to_be_bytes()].concat(),
        };
        [&[tag][..], &length, content].concat()
    }

    /// A response with `said` in place of the status of the certificate.
    fn response(status: u8, text: &[u8]) -> Vec<u8> {
        let (data, none) = (element(SEQUENCE, text), element(SEQUENCE, &[]));
        let basic = element(SEQUENCE, &[data, none, element(3, &[0])].concat());
        let typed = element(SEQUENCE, &[element(OBJECT, BASIC), element(OCTETS, &basic)].concat());
        let status = element(ENUMERATED, &[status]);
        element(SEQUENCE, &[status, element(RESPONSE, &typed)].concat())
    }

    #[test]
    fn a_malformed_or_unsuccessful_ocsp_response_is_rejected() {
        for length in [0, 20, 100, 200, 300, 5000] {
            let good = response(0, &vec![7; length]);
            assert_eq!(Ok(()), check(&good), "{length}");
            for cut in (0..good.len().min(60)).chain([good.len() - 1]) {
                assert!(check(&good[..cut]).is_err(), "{length} {cut}");
            }
            assert!(check(&[&good[..], b"\n"].concat()).is_err());
        }
        for noise in [
            &b""[..],
            b"said at first",
            &[0x30, 0],
            &[0x30, 3, 0x0a, 1, 0],
            &[0x30, 0x84, 0, 0, 0, 0],
            &[0xff; 400],
        ] {
            assert!(check(noise).unwrap_err().starts_with("is not an OCSP response in DER"), "{noise:?}");
        }
        let later = check(&[0x30, 3, 0x0a, 1, 3]).unwrap_err();
        assert!(later.contains("asks to retry later (3)"), "{later}");
    }
}

//! The escaping of request bytes within cache keys and variant keys: two different texts have two different escaped forms.

/// Appends `text`; a space, a backslash, a control character and every byte for which `also` is true are written as a
/// backslash and two hexadecimal digits. Different texts have different results.
pub(crate) fn escape(text: &[u8], also: impl Fn(u8) -> bool, out: &mut Vec<u8>) {
    // No branch within, so that the scan is vectorised.
    let special = |it: u8| (it <= b' ') | (it == b'\\') | (it == 0x7f) | also(it);
    if !text.iter().fold(false, |found, it| found | special(*it)) {
        return out.extend_from_slice(text);
    }
    for it in text {
        if special(*it) {
            push_escaped(*it, out);
        } else {
            out.push(*it);
        }
    }
}

/// Appends one byte as a backslash and two hexadecimal digits.
fn push_escaped(byte: u8, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    out.extend_from_slice(&[b'\\', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
}

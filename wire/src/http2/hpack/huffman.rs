//! The Huffman code of field strings (RFC 7541 §5.2, Appendix B). It is canonical, so that the lengths of its codes
//! define it.

/// Bits of each byte's code, and of the end mark, which no string has.
const LENGTHS: [u8; 257] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, //
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28, //
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, //
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, //
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, //
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, //
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5, //
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, //
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23, //
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, //
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, //
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23, //
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, //
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, //
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23, //
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26, //
    30,
];
const END: u16 = 256;
const LONGEST: usize = 30;
/// Bits of the first lookup: the codes of nearly all text.
const SHORT: u32 = 9;

struct Tables {
    /// By the next [`SHORT`] bits: a byte and the length of its code; length 0 if that is longer.
    short: [(u8, u8); 1 << SHORT],
    /// All symbols in the order of their codes.
    symbols: [u16; 257],
    /// By length: the first code, and its index in `symbols`.
    first: [(u32, u16); LONGEST + 1],
    /// By length: the number of codes.
    count: [u16; LONGEST + 1],
    /// By byte: its code.
    codes: [u32; 257],
}

static TABLES: Tables = tables();

const fn tables() -> Tables {
    let mut it = Tables {
        short: [(0, 0); 1 << SHORT],
        symbols: [0; 257],
        first: [(0, 0); LONGEST + 1],
        count: [0; LONGEST + 1],
        codes: [0; 257],
    };
    let mut place = 0;
    let mut code = 0u32;
    let mut length = 1;
    while length <= LONGEST {
        code <<= 1;
        it.first[length] = (code, place);
        let mut symbol = 0u16;
        while symbol <= END {
            if LENGTHS[symbol as usize] as usize == length {
                it.symbols[place as usize] = symbol;
                it.codes[symbol as usize] = code;
                if length <= SHORT as usize {
                    let spare = SHORT - length as u32;
                    let mut rest = 0;
                    while rest < 1 << spare {
                        #[allow(clippy::cast_possible_truncation, reason = "END has a long code")]
                        let entry = (symbol as u8, length as u8);
                        it.short[((code << spare) | rest) as usize] = entry;
                        rest += 1;
                    }
                }
                place += 1;
                code += 1;
                it.count[length] += 1;
            }
            symbol += 1;
        }
        length += 1;
    }
    it
}

/// The number of bytes of a text in this code.
pub(super) fn length(text: &[u8]) -> usize {
    let bits: usize = text.iter().map(|it| usize::from(LENGTHS[usize::from(*it)])).sum();
    bits.div_ceil(8)
}

/// Appends a text in this code.
pub(super) fn encode(text: &[u8], out: &mut Vec<u8>) {
    // Bits that are not written yet, at the low end; less than a byte between two iterations.
    let (mut bits, mut held) = (0u64, 0u32);
    for it in text {
        let length = u32::from(LENGTHS[usize::from(*it)]);
        bits = bits << length | u64::from(TABLES.codes[usize::from(*it)]);
        held += length;
        while held >= 8 {
            held -= 8;
            out.push((bits >> held & 0xff) as u8);
        }
    }
    if held > 0 {
        out.push((bits << (8 - held) & 0xff) as u8 | (0xff >> held));
    }
}

/// Appends the text of `coded`; `None` if it is invalid: with the end mark, or with padding other than less than a byte
/// of ones.
pub(super) fn decode(coded: &[u8], out: &mut Vec<u8>) -> Option<()> {
    each(coded, |byte| out.push(byte))
}

/// The number of bytes of the text of `coded`.
pub(super) fn decoded_length(coded: &[u8]) -> Option<usize> {
    let mut length = 0;
    each(coded, |_| length += 1)?;
    Some(length)
}

#[inline(always)]
fn each(coded: &[u8], mut take: impl FnMut(u8)) -> Option<()> {
    // The next bits, from the highest on; `held` of them belong to the string.
    let (mut bits, mut held) = (0u64, 0u32);
    let mut rest = coded.iter();
    loop {
        while held <= 56 {
            let Some(byte) = rest.next() else { break };
            bits |= u64::from(*byte) << (56 - held);
            held += 8;
        }
        // The end, or the padding.
        if held < 8 && bits.leading_ones() >= held {
            return Some(());
        }
        let (byte, length) = TABLES.short[(bits >> (64 - SHORT)) as usize];
        let length = u32::from(length);
        let (byte, length) = if length > 0 { (byte, length) } else { long(bits)? };
        if length > held {
            return None; // Less than a code is left.
        }
        take(byte);
        bits <<= length;
        held -= length;
    }
}

/// A code longer than the first lookup.
#[cold]
fn long(bits: u64) -> Option<(u8, u32)> {
    for length in SHORT + 1..=LONGEST as u32 {
        let code = u32::try_from(bits >> (64 - length)).ok()?;
        let (first, place) = TABLES.first[length as usize];
        let at = code.checked_sub(first)?;
        if at < u32::from(TABLES.count[length as usize]) {
            let symbol = TABLES.symbols[usize::from(place) + at as usize];
            return u8::try_from(symbol).ok().map(|it| (it, length));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The code of one byte.
    fn code(byte: u8) -> (u32, u32) {
        let length = usize::from(LENGTHS[usize::from(byte)]);
        let (first, place) = TABLES.first[length];
        let at = TABLES.symbols[usize::from(place)..].iter().position(|it| *it == u16::from(byte)).unwrap();
        (first + u32::try_from(at).unwrap(), u32::try_from(length).unwrap())
    }

    /// Bit by bit.
    fn encode(text: &[u8]) -> Vec<u8> {
        let mut bits: Vec<bool> = Vec::new();
        for it in text {
            let (code, length) = code(*it);
            bits.extend((0..length).rev().map(|at| code >> at & 1 == 1));
        }
        bits.resize(bits.len().next_multiple_of(8), true);
        bits.chunks(8).map(|it| it.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit))).collect()
    }

    #[track_caller]
    fn check(coded: &[u8], expect: Option<&[u8]>) {
        let mut out = Vec::new();
        let got = decode(coded, &mut out).map(|()| &out[..]);
        assert_eq!(expect, got, "{coded:x?}");
    }

    #[test]
    fn the_code_is_that_of_the_appendix() {
        assert_eq!((0x1ff8, 13), code(0));
        assert_eq!((0x0, 5), code(b'0'));
        assert_eq!((0x3fff_fffc, 30), code(b'\n'));
        assert_eq!((0x7fff0, 19), code(b'\\'));
        assert_eq!((0x03ff_ffee, 26), code(255));
    }

    #[test]
    fn only_ones_shorter_than_a_byte_pad() {
        check(&[], Some(b""));
        check(&encode(b"www.example.com"), Some(b"www.example.com"));
        check(&[0x1f], Some(b"a"));
        check(&[0x1e], None);
        check(&[0x1f, 0xff], None);
        check(&[0xff], None);
        check(&[0xff; 4], None);
        check(&[0xff, 0xff, 0xff, 0xfc], None);
    }

    proptest! {
        #[test]
        fn an_encoded_text_is_decoded_to_the_same(text in proptest::collection::vec(any::<u8>(), 0..60)) {
            let mut coded = Vec::new();
            super::encode(&text, &mut coded);
            assert_eq!((encode(&text), coded.len()), (coded.clone(), length(&text)));
            check(&coded, Some(&text));
        }

        #[test]
        fn no_bytes_panic_and_one_code_has_one_text(coded in proptest::collection::vec(any::<u8>(), 0..40)) {
            let mut out = Vec::new();
            if decode(&coded, &mut out).is_some() {
                assert_eq!(coded, encode(&out));
            }
        }
    }
}

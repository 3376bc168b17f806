//! Short texts, such as names of fields, compared eight bytes at a time.

/// Whether two names are the same, in any case of their ASCII letters: eight bytes at a time, since every field of every head is
/// compared with several names.
#[must_use]
#[inline]
pub fn is_same_name(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    match (one.last_chunk::<8>(), other.last_chunk::<8>()) {
        (Some(end), Some(other_end)) => {
            let (words, others) = (one.as_chunks::<8>().0, other.as_chunks::<8>().0);
            is_same_word(*end, *other_end) && words.iter().zip(others).all(|it| is_same_word(*it.0, *it.1))
        }
        _ => match (ends(one), ends(other)) {
            (Some(it), Some(other)) => is_same_word(it, other),
            _ => one.eq_ignore_ascii_case(other),
        },
    }
}

/// The first and the last four bytes of a text of four to eight.
#[inline]
fn ends(text: &[u8]) -> Option<[u8; 8]> {
    let ([a, b, c, d], [e, f, g, h]) = (text.first_chunk::<4>()?, text.last_chunk::<4>()?);
    Some([*a, *b, *c, *d, *e, *f, *g, *h])
}

#[inline]
fn is_same_word(one: [u8; 8], other: [u8; 8]) -> bool {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    const CASE: u64 = 0x2020_2020_2020_2020;
    let (one, other) = (u64::from_ne_bytes(one), u64::from_ne_bytes(other));
    let differing = one ^ other;
    if differing & !CASE != 0 {
        return false;
    }
    // The high bit of each byte that is a letter: no sum of seven bits reaches the next byte.
    let lower = one | CASE;
    let low = lower & !HIGH;
    let letters = (low + 0x1f1f_1f1f_1f1f_1f1f) & !(low + 0x0505_0505_0505_0505) & !lower & HIGH;
    differing << 2 & !letters == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn names_are_the_same_in_any_case(one in "[ -~]{0,20}", flips in any::<u32>(), at in 0usize..20, other: char) {
            let mut same: Vec<u8> = one.clone().into_bytes();
            for (at, it) in same.iter_mut().enumerate() {
                if flips >> at & 1 == 1 {
                    *it ^= 0x20;
                }
            }
            let same = String::from_utf8(same).unwrap();
            prop_assert_eq!(one.eq_ignore_ascii_case(&same), is_same_name(&one, &same));
            let mut changed = one.to_ascii_uppercase();
            if at < changed.len() {
                changed.replace_range(at..=at, &other.to_string());
            }
            prop_assert_eq!(one.eq_ignore_ascii_case(&changed), is_same_name(&one, &changed));
        }
    }

    #[test]
    fn every_byte_has_the_case_of_its_letter_only() {
        let text = |it: char| [it; 9].iter().collect::<String>();
        for (one, other) in (0..=255u8).flat_map(|one| (0..=255u8).map(move |other| (one, other))) {
            let (one, other) = (text(char::from(one)), text(char::from(other)));
            assert_eq!(one.eq_ignore_ascii_case(&other), is_same_name(&one, &other), "{one} {other}");
        }
    }
}

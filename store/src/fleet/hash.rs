//! The hashes by which memcached clients choose a server, bit for bit as libhashkit (of libmemcached) computes them,
//! peculiarities included: otherwise an application and larder would look for one key on two servers. `ring` uses the
//! hash.

/// The hash function.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum KeyHashFunction {
    /// libmemcached's default: Bob Jenkins' "one at a time".
    #[default]
    Default,
    /// The first four bytes of the MD5 sum.
    Md5,
    /// Fifteen bits of a CRC-32.
    Crc,
    /// FNV-1, 32 bits.
    Fnv1_32,
    /// FNV-1, 64 bits, of which the lower half is used.
    Fnv1_64,
    /// FNV-1a, 32 bits.
    Fnv1a32,
    /// FNV-1a with the lower halves of the constants for 64 bits.
    Fnv1a64,
    /// MurmurHash2.
    Murmur,
    /// The same as [`KeyHashFunction::Default`].
    OneAtATime,
}

const FNV_32: (u32, u32) = (0x811c_9dc5, 0x0100_0193);
const FNV_64: (u64, u64) = (0xcbf2_9ce4_8422_2325, 0x0100_0000_01b3);

impl KeyHashFunction {
    /// Each with its name in the configuration.
    pub const ALL: [(&'static str, KeyHashFunction); 9] = [
        ("default", KeyHashFunction::Default),
        ("md5", KeyHashFunction::Md5),
        ("crc", KeyHashFunction::Crc),
        ("fnv1_32", KeyHashFunction::Fnv1_32),
        ("fnv1_64", KeyHashFunction::Fnv1_64),
        ("fnv1a_32", KeyHashFunction::Fnv1a32),
        ("fnv1a_64", KeyHashFunction::Fnv1a64),
        ("murmur", KeyHashFunction::Murmur),
        ("one_at_a_time", KeyHashFunction::OneAtATime),
    ];

    /// The hash function of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<KeyHashFunction> {
        Self::ALL.iter().find(|it| it.0 == name).map(|it| it.1)
    }

    /// The hash of `bytes`.
    #[must_use]
    pub fn of(self, bytes: &[u8]) -> u32 {
        match self {
            KeyHashFunction::Default | KeyHashFunction::OneAtATime => one_at_a_time(bytes),
            KeyHashFunction::Md5 => md5_word(bytes, 0),
            // Shifted and masked since the first memcached client in Perl.
            KeyHashFunction::Crc => crc32(bytes) >> 16 & 0x7fff,
            KeyHashFunction::Fnv1_32 => {
                bytes.iter().fold(FNV_32.0, |hash, it| hash.wrapping_mul(FNV_32.1) ^ extended(*it))
            }
            KeyHashFunction::Fnv1a32 => {
                bytes.iter().fold(FNV_32.0, |hash, it| (hash ^ extended(*it)).wrapping_mul(FNV_32.1))
            }
            // The lower half of a product depends on the lower halves of its factors only.
            KeyHashFunction::Fnv1_64 => {
                let (begin, prime) = fnv_64_low();
                bytes.iter().fold(begin, |hash, it| hash.wrapping_mul(prime) ^ extended(*it))
            }
            KeyHashFunction::Fnv1a64 => {
                let (begin, prime) = fnv_64_low();
                bytes.iter().fold(begin, |hash, it| (hash ^ extended(*it)).wrapping_mul(prime))
            }
            KeyHashFunction::Murmur => murmur(bytes),
        }
    }
}

/// One of the four little-endian words of the MD5 sum.
pub(super) fn md5_word(bytes: &[u8], word: usize) -> u32 {
    let sum = md5::compute(bytes).0;
    let at = word * 4;
    u32::from_le_bytes([sum[at], sum[at + 1], sum[at + 2], sum[at + 3]])
}

/// A `char` as in C on x86: signed. For ASCII it is the byte.
fn extended(byte: u8) -> u32 {
    i32::from(byte.cast_signed()).cast_unsigned()
}

#[allow(clippy::cast_possible_truncation, reason = "as libhashkit truncates them")]
fn fnv_64_low() -> (u32, u32) {
    (FNV_64.0 as u32, FNV_64.1 as u32)
}

fn one_at_a_time(bytes: &[u8]) -> u32 {
    let mut hash = 0u32;
    for it in bytes {
        hash = hash.wrapping_add(extended(*it));
        hash = hash.wrapping_add(hash << 10);
        hash ^= hash >> 6;
    }
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

/// zlib's CRC-32.
fn crc32(bytes: &[u8]) -> u32 {
    larder_wire::envelope::sum(bytes)
}

fn murmur(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    // The seed depends on the length, unlike elsewhere.
    #[allow(clippy::cast_possible_truncation, reason = "as libhashkit truncates it")]
    let length = bytes.len() as u32;
    let mut hash = 0xdead_beef_u32.wrapping_mul(length) ^ length;
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        let mut word = u32::from_le_bytes(*word).wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    if !rest.is_empty() {
        for (at, it) in rest.iter().enumerate() {
            hash ^= u32::from(*it) << (8 * at);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    // Against the real library: store/tests/libmemcached.rs.
    #[test]
    fn known_values() {
        assert_eq!(0, KeyHashFunction::Default.of(b""));
        assert_eq!(0xca2e_9442, KeyHashFunction::OneAtATime.of(b"a"));
        assert_eq!(0xb975_c10c, KeyHashFunction::Md5.of(b"a"));
        assert_eq!(0xe8b7_be43 >> 16 & 0x7fff, KeyHashFunction::Crc.of(b"a"));
        assert_eq!(0x050c_5d7e, KeyHashFunction::Fnv1_32.of(b"a"));
        assert_eq!(0xe40c_292c, KeyHashFunction::Fnv1a32.of(b"a"));
        assert_eq!(0x8601_b7be, KeyHashFunction::Fnv1_64.of(b"a"));
    }

    #[test]
    fn every_hash_has_its_name() {
        for (name, hash) in KeyHashFunction::ALL {
            assert_eq!(Some(hash), KeyHashFunction::named(name));
        }
        assert_eq!(None, KeyHashFunction::named("hsieh"));
    }
}

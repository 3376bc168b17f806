//! The password hash of Apache, `$apr1$`: a thousand rounds of MD5. It is accepted because sites move with files of it.

use larder_wire::htpasswd::APR1;

/// The longest password: `htpasswd` makes no hash of a longer one.
const LONGEST: usize = 255;

/// Whether a password has this hash.
pub(super) fn verify(password: &[u8], hash: &str) -> bool {
    let Some((salt, expected)) = hash.strip_prefix(APR1).and_then(|it| it.split_once('$')) else {
        return false;
    };
    let made = encoded(&digest(password, salt.as_bytes()));
    let differs = made.iter().zip(expected.as_bytes()).fold(0, |sum, (one, other)| sum | (one ^ other));
    password.len() <= LONGEST && made.len() == expected.len() && differs == 0
}

/// As `crypt_md5` of FreeBSD makes it, with `$apr1$` in place of `$1$`.
fn digest(password: &[u8], salt: &[u8]) -> [u8; 16] {
    let password = &password[..password.len().min(LONGEST)];
    let md5 = |parts: &[&[u8]]| {
        let mut context = md5::Context::new();
        parts.iter().for_each(|it| context.consume(it));
        context.finalize().0
    };
    let mixed = md5(&[password, salt, password]);
    let mut first: Vec<u8> = [password, APR1.as_bytes(), salt].concat();
    first.extend(mixed.iter().cycle().take(password.len()));
    let mut bits = password.len();
    while bits > 0 {
        first.push(if bits & 1 == 1 { 0 } else { password[0] });
        bits >>= 1;
    }
    let mut made = md5(&[&first]);
    for round in 0..1000 {
        let [one, other]: [&[u8]; 2] = if round & 1 == 1 { [password, &made] } else { [&made, password] };
        let salt: &[u8] = if round % 3 == 0 { b"" } else { salt };
        let again: &[u8] = if round % 7 == 0 { b"" } else { password };
        made = md5(&[one, salt, again, other]);
    }
    made
}

/// The 22 characters of a digest: three bytes in an order of their own are four characters, the last byte two.
fn encoded(digest: &[u8; 16]) -> [u8; 22] {
    const ALPHABET: &[u8; 64] = b"./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const ORDER: [[usize; 3]; 5] = [[0, 6, 12], [1, 7, 13], [2, 8, 14], [3, 9, 15], [4, 10, 5]];
    let mut out = [0; 22];
    let mut write = |at: usize, count: usize, mut value: u32| {
        for it in &mut out[at..at + count] {
            *it = ALPHABET[(value & 63) as usize];
            value >>= 6;
        }
    };
    for (group, [high, middle, low]) in ORDER.into_iter().enumerate() {
        let byte = |at: usize| u32::from(digest[at]);
        write(4 * group, 4, byte(high) << 16 | byte(middle) << 8 | byte(low));
    }
    write(20, 2, u32::from(digest[11]));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Made by `openssl passwd -apr1 -salt`.
    #[test]
    fn hashes_of_openssl() {
        let rows = [
            ("battery", "$apr1$larder..$i7NuPoTBvBQ0w0Ms5T0UF0"),
            ("a", "$apr1$x$16j9.5e7KiXmuYFAYpPJM/"),
            ("", "$apr1$q$qnoBAcGhblL0pIKbcxCkt0"),
            (
                "correct horse battery staple, und sechzehn Zeichen mehr",
                "$apr1$lZL6V/ci$5B5e8xcays.1Tk/sYm2YQ1",
            ),
            ("sechzehnZeichen.", "$apr1$12345678$fX7SlOIReN4x.wFHnqO5v1"),
            ("pässword", "$apr1$ab$fGW6NJ7kMZj/0UCz7DMr/."),
        ];
        for (password, hash) in rows {
            assert!(verify(password.as_bytes(), hash), "{password:?} {hash}");
            assert!(!verify(format!("{password}x").as_bytes(), hash));
            assert!(!verify(b"", hash) || password.is_empty());
        }
        assert!(!verify("a".repeat(256).as_bytes(), rows[0].1));
        assert!(!verify(b"a", "$apr1$") && !verify(b"a", "$apr1$x$") && !verify(b"a", ""));
    }
}

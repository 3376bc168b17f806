//! The query of a request to the admin, as forms and `URLSearchParams` write it. Which parameters there are, and what
//! they may be, is each endpoint's.

/// The parameters in order: name and value, decoded (`+` is a space).
///
/// # Errors
/// One sentence: which one is not valid.
pub fn pairs(query: &str) -> Result<Vec<(String, String)>, String> {
    let pair = |it: &str| {
        let (name, value) = it.split_once('=').unwrap_or((it, ""));
        let bad = || format!("The query has {it:?}, which is not valid: %XX must stand for UTF-8.");
        Ok((decoded(name).ok_or_else(bad)?, decoded(value).ok_or_else(bad)?))
    };
    query.split('&').filter(|it| !it.is_empty()).map(pair).collect()
}

/// `None` where it is no UTF-8, or a `%` is not followed by two hexadecimal digits.
fn decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit =
                    || char::from(bytes.next()?).to_digit(16).and_then(|it| u8::try_from(it).ok());
                digit()? << 4 | digit()?
            }
            byte => byte,
        });
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(query: &str, expect: Option<&[(&str, &str)]>) {
        let read = pairs(query).ok();
        let read: Option<Vec<(&str, &str)>> =
            read.as_ref().map(|it| it.iter().map(|it| (it.0.as_str(), it.1.as_str())).collect());
        assert_eq!(expect, read.as_deref(), "{query}");
    }

    #[test]
    fn pairs_are_decoded() {
        check("", Some(&[]));
        check("&a=b&", Some(&[("a", "b")]));
        check("uri=%2Fa%3Fb%3Dc%26d&x", Some(&[("uri", "/a?b=c&d"), ("x", "")]));
        check("a=b=c+d%2B", Some(&[("a", "b=c d+")]));
        check("a=%C3%A9", Some(&[("a", "é")]));
        check("a=%C3", None);
        check("a=%", None);
        check("a=%4", None);
        check("a=%+1", None);
    }
}

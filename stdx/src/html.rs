//! Text within HTML.

/// Text that is neither markup nor the end of an attribute, wherever in HTML it stands.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for it in text.chars() {
        match u8::try_from(it).ok().and_then(entity) {
            Some(entity) => out.push_str(entity),
            None => out.push(it),
        }
    }
    out
}

/// In place of a byte that could be markup or end an attribute; `None` for all others.
#[must_use]
pub fn entity(byte: u8) -> Option<&'static str> {
    Some(match byte {
        b'&' => "&amp;",
        b'<' => "&lt;",
        b'>' => "&gt;",
        b'"' => "&quot;",
        b'\'' => "&#39;",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!("&lt;a href=&quot;&amp;&quot; b=&#39;é&#39;&gt;", escape("<a href=\"&\" b='é'>"));
    }
}

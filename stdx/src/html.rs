//! Text within HTML.

/// Text that is neither markup nor the end of an attribute, wherever in HTML it stands.
#[must_use]
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        assert_eq!("&lt;a href=&quot;&amp;&quot; b=&#39;é&#39;&gt;", escape("<a href=\"&\" b='é'>"));
    }
}

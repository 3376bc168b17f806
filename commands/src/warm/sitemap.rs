//! The parser of sitemaps (<https://www.sitemaps.org/protocol.html>): the locations in one, as pages or further sitemaps.
//! No other XML is parsed, and no external entity is fetched.

/// The content of a sitemap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sitemap {
    /// URLs of pages.
    pub pages: Vec<String>,
    /// URLs of further sitemaps.
    pub sitemaps: Vec<String>,
    /// Whether the closing tag is missing: it was truncated.
    pub cut: bool,
    /// Whether it is XML other than a sitemap or an index of sitemaps.
    pub is_another: bool,
}

/// The most bytes of one location; the protocol allows 2,048 characters.
const LONGEST: usize = 8192;

/// Parses the text of one. Any text without a location gives none. A list of URLs, one a line, is a sitemap as well.
#[must_use]
pub fn read(text: &str) -> Sitemap {
    let mut found = Sitemap::default();
    if !text.contains('<') {
        let lines = text.lines().map(str::trim).filter(|it| it.starts_with("http"));
        found.pages.extend(lines.map(str::to_owned));
        return found;
    }
    let mut rest = text;
    let mut within_index = false;
    found.is_another = true;
    while let Some(start) = rest.find('<') {
        rest = &rest[start..];
        if let Some(comment) = rest.strip_prefix("<!--") {
            let end = comment.find("-->");
            found.cut |= end.is_none();
            rest = end.map_or("", |end| &comment[end + 3..]);
            continue;
        }
        let Some(end) = rest.find('>') else {
            found.cut = true;
            break;
        };
        let tag = &rest[1..end];
        rest = &rest[end + 1..];
        match local_name(tag) {
            "sitemap" => within_index = true,
            "/sitemap" | "url" => within_index = false,
            "urlset" | "sitemapindex" => {
                found.cut = !tag.ends_with('/');
                found.is_another = false;
            }
            "/urlset" | "/sitemapindex" => found.cut = false,
            // `image:loc` and `video:…_loc` are not pages.
            "loc" if !tag.contains(':') || tag.starts_with("sm:") || tag.starts_with("sitemap:") => {
                let Some(close) = rest.find("</") else {
                    found.cut = true; // And so may be the location.
                    break;
                };
                if let Some(url) = location(&rest[..close]) {
                    if within_index { found.sitemaps.push(url) } else { found.pages.push(url) }
                }
                rest = &rest[close..];
            }
            _ => {}
        }
    }
    found
}

/// The name of a tag without prefix and attributes; `/name` for a closing tag.
fn local_name(tag: &str) -> &str {
    let name = tag.split(|it: char| it.is_whitespace()).next().unwrap_or("");
    match name.strip_prefix('/') {
        Some(name) => match name.rsplit(':').next() {
            Some("sitemap") => "/sitemap",
            Some("urlset") => "/urlset",
            Some("sitemapindex") => "/sitemapindex",
            _ => "",
        },
        None => name.rsplit(':').next().unwrap_or(name).trim_end_matches('/'),
    }
}

/// The text of a location: entities and CDATA resolved.
fn location(text: &str) -> Option<String> {
    let text = text.trim();
    let plain = match text.strip_prefix("<![CDATA[") {
        Some(inner) => inner.strip_suffix("]]>").unwrap_or(inner).trim().to_owned(),
        None => resolve(text)?,
    };
    (!plain.is_empty() && plain.len() <= LONGEST && !plain.contains('<')).then_some(plain)
}

/// Resolves the five entities of XML and numeric character references; `None` for any other.
fn resolve(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('&') {
        out.push_str(&rest[..at]);
        let end = rest[at..].find(';')? + at;
        let character = match &rest[at + 1..end] {
            "amp" => '&',
            "lt" => '<',
            "gt" => '>',
            "quot" => '"',
            "apos" => '\'',
            number => {
                let digits = number.strip_prefix('#')?;
                let code = match digits.strip_prefix(['x', 'X']) {
                    Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                    None => digits.parse().ok()?,
                };
                char::from_u32(code)?
            }
        };
        out.push(character);
        rest = &rest[end + 1..];
    }
    out.push_str(rest);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, pages: &[&str], sitemaps: &[&str]) {
        let found = read(text);
        assert_eq!((pages.to_vec(), sitemaps.to_vec()), {
            let texts = |it: &'static [String]| it.iter().map(String::as_str).collect::<Vec<_>>();
            let found: &'static Sitemap = Box::leak(Box::new(found));
            (texts(&found.pages), texts(&found.sitemaps))
        });
    }

    #[test]
    fn sitemaps() {
        check(
            "<?xml version=\"1.0\"?>\n<urlset xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\">\n <url>\n  <loc>\n   http://h/a?b=1&amp;c=2 </loc>\
             <lastmod>2026-01-01</lastmod></url>\n <url><loc><![CDATA[http://h/b]]></loc>\
             <image:image><image:loc>http://h/i.png</image:loc></image:image></url>\n</urlset>",
            &["http://h/a?b=1&c=2", "http://h/b"],
            &[],
        );
        check(
            "<sitemapindex><sitemap><loc>http://h/1.xml.gz</loc></sitemap><sitemap><loc>http://h/2.xml</loc>\
             </sitemap></sitemapindex>",
            &[],
            &["http://h/1.xml.gz", "http://h/2.xml"],
        );
        check(
            "<sm:urlset><sm:url><sm:loc>http://h/&#x61;&#98;</sm:loc></sm:url></sm:urlset>",
            &["http://h/ab"],
            &[],
        );
        check("http://h/a\nhttp://h/b\n# no\n", &["http://h/a", "http://h/b"], &[]);
        check("<url><!-- <loc>http://h/x</loc> --><loc></loc><loc>http://h/&none;</loc></url>", &[], &[]);
        check("<url><loc>http://h/a", &[], &[]);
        check("<", &[], &[]);
        check("<!--", &[], &[]);
    }

    #[test]
    fn a_truncated_sitemap_is_recognised() {
        let whole = "<?xml version=\"1.0\"?><!-- a --><sm:urlset a=\"b\"><sm:url><sm:loc>http://h/a</sm:loc></sm:url></sm:urlset >\n<!-- b -->";
        assert_eq!((1, false), (read(whole).pages.len(), read(whole).cut));
        // Before its first tag it may be anything.
        let (begins, ends) = (whole.find("<sm:urlset").unwrap(), whole.find(" >").unwrap());
        for end in begins + 2..=ends {
            assert!(read(&whole[..end]).cut, "{}", &whole[..end]);
        }
        assert!(read("<sitemapindex><sitemap><loc>http://h/a</loc></sitemap>").cut);
        for whole in ["<sitemapindex></sitemapindex>", "<urlset/>", "<html></html>", "", "http://h/a"] {
            assert!(!read(whole).cut, "{whole}");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_is_a_panic(text in "(<[!/a-z:]{0,9}|loc>|&#?[a-z0-9]*;|<sitemap>|]]>|<!\\[CDATA\\[|\\PC){0,40}") {
            let _ = read(&text);
        }
    }
}

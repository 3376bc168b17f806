//! Purge requests as the plugins of well-known applications send them: which responses a `PURGE`, `BAN` or one of the like
//! names, by its method, its target and its fields. The permission is in `method` and `permission`.
//!
//! | sender | request |
//! |---|---|
//! | WordPress: Proxy Cache Purge, WP Rocket, Hummingbird | `PURGE /path/.*` with `X-Purge-Method: regex`; `default` or `exact` for one URL; `ban-regex` with `X-Ban-Regex` |
//! | WordPress: W3 Total Cache | `PURGE /path`, `PURGE /.*` |
//! | Drupal: Purge with a Varnish purger | `BAN /` with `Cache-Tags`, `Purge-Cache-Tags` or `X-Cache-Tags`, separated by spaces or `\|`; `BAN /.*`; `PURGE /path` |
//! | Magento | `PURGE` with `X-Magento-Tags-Pattern: ((^\|,)cat_p_1(,\|$))\|…`, or `.*` for everything |
//! | Symfony: FOSHttpCache | `BAN` with `X-Host`, `X-Url`, `X-Content-Type`, `X-Cache-Tags: (^\|,)(a\|b)(,\|$)`; `PURGEKEYS` with `xkey-softpurge`; `PURGETAGS` with `X-Cache-Tags`; `PURGE` with `Clear-Cache: true` |
//! | Laravel: varnishable | `BAN` with `X-Ban-Host` and `X-Ban-Regex` or `X-Ban-Url`; `FULLBAN` with `X-Ban-Host` |

use super::target;
use larder_semantics::field::{self, Field};
use larder_wire::message::RequestHead;

/// The most tags of one request.
const MOST_TAGS: usize = 256;

/// The target of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedByRequest {
    /// The URL of the request.
    Url,
    /// The responses with any of these tags.
    Tags(Vec<Box<str>>),
    /// The responses that fulfil a condition.
    Where(String),
    /// All responses.
    Everything,
}

/// Whether a method is one of purges.
#[inline]
#[must_use]
pub fn is_purge(method: &str) -> bool {
    matches!(method.as_bytes().first(), Some(b'P' | b'B' | b'F'))
        && matches!(method, "PURGE" | "BAN" | "PURGEKEYS" | "PURGETAGS" | "FULLBAN")
}

/// Whether a request only marks responses as stale.
#[must_use]
pub fn is_soft(fields: &[Field<'_>]) -> bool {
    let flag = |name: &str| {
        field::first(fields, name).is_some_and(|it| it == b"1" || it.eq_ignore_ascii_case(b"true"))
    };
    flag("fastly-soft-purge") || flag("soft-purge") || field::first(fields, "xkey-softpurge").is_some()
}

/// Fields whose values are tags, with the response field that carries these tags and whether a value may be a pattern.
const TAG_FIELDS: &[(&str, &str, bool)] = &[
    ("surrogate-key", "surrogate-key", false),
    ("cache-tag", "cache-tag", false),
    ("cache-tags", "cache-tags", true),
    ("purge-cache-tags", "purge-cache-tags", true),
    ("x-cache-tags", "x-cache-tags", true),
    ("x-magento-tags-pattern", "x-magento-tags", true),
    ("xkey", "xkey", false),
    ("xkey-purge", "xkey", false),
    ("xkey-softpurge", "xkey", false),
];

/// Fields of other caches that are not supported. Purging the URL instead would answer 200 and keep the other responses.
const OF_OTHERS: &[&str] = &[
    "x-cache-tags-pattern",
    "x-purge-regex",
    "x-xkey-softpurge",
    "x-key-purge",
    "x-purge-tag",
    "x-purge-tags",
    "purge-tag",
    "purge-tags",
    "x-purge-cache-tags",
    "x-purge-key",
    "x-purge-keys",
    "x-invalidate-pattern",
    "x-ban-regexp",
    "ban-regex",
    "edge-cache-tag",
    "cache-groups",
];

/// The target that a request names. `shared` is the name under which the hosts of its site share their responses, if they do.
///
/// # Errors
/// It is not understood: one sentence.
pub fn read(request: &RequestHead<'_>, shared: Option<&str>) -> Result<NamedByRequest, String> {
    let dialect = Dialect { request, shared };
    if let Some(name) = OF_OTHERS.iter().find(|it| dialect.text(it).is_ok_and(|it| it.is_some())) {
        return Err(format!("{name} is not supported; send tags in Surrogate-Key or Cache-Tag."));
    }
    if let Some(tags) = dialect.tags()? {
        return Ok(tags);
    }
    if let Some(conditions) = dialect.ban()? {
        return Ok(conditions);
    }
    if dialect.text("clear-cache")?.is_some_and(|it| it.eq_ignore_ascii_case("true")) {
        return Ok(NamedByRequest::Everything);
    }
    dialect.by_target()
}

struct Dialect<'r> {
    request: &'r RequestHead<'r>,
    shared: Option<&'r str>,
}

impl<'r> Dialect<'r> {
    fn text(&self, name: &str) -> Result<Option<&'r str>, String> {
        let value = field::first(self.request.fields, name);
        let text = value.map(|it| std::str::from_utf8(it).map_err(|_| format!("{name} is not valid UTF-8.")));
        Ok(text.transpose()?.map(str::trim))
    }

    /// The tags that its fields name; `None` without such a field.
    fn tags(&self) -> Result<Option<NamedByRequest>, String> {
        let mut tags: Vec<Box<str>> = Vec::new();
        let mut patterns = Vec::new();
        let mut is_named = false;
        for &(name, response, may_be_pattern) in TAG_FIELDS {
            for it in self.request.fields.iter().filter(|it| it.is(name)) {
                is_named = true;
                let text =
                    std::str::from_utf8(it.value).map_err(|_| format!("{name} is not valid UTF-8."))?;
                let text = text.trim();
                if may_be_pattern && matches!(text, ".*" | "*" | ".+") {
                    return Ok(Some(NamedByRequest::Everything));
                }
                let before = tags.len() + patterns.len();
                match alternatives(text).filter(|_| may_be_pattern) {
                    Some(found) => found.iter().try_for_each(|it| target::tag(it).map(|it| tags.push(it)))?,
                    None if may_be_pattern => {
                        patterns.push(format!("header[{}] ~ {}", quoted(response), quoted(text)))
                    }
                    None => {
                        let words = text.split([' ', ',', '\t']).filter(|it| !it.is_empty());
                        words.into_iter().try_for_each(|it| target::tag(it).map(|it| tags.push(it)))?;
                    }
                }
                if tags.len() + patterns.len() == before {
                    return Err(format!("{name} contains no tag; remove it to purge the URL."));
                }
            }
        }
        if tags.len() > MOST_TAGS {
            return Err(format!("{} tags; one request purges at most {MOST_TAGS}.", tags.len()));
        }
        if patterns.is_empty() {
            return Ok(is_named.then_some(NamedByRequest::Tags(tags)));
        }
        let tests = tags.iter().map(|it| format!("tag == {}", quoted(it)));
        patterns.extend(tests);
        Ok(Some(NamedByRequest::Where(patterns.join(" || "))))
    }

    /// The condition of `X-Host`, `X-Url` and the like, or of `X-Ban-Host` and the like; `None` without such a field.
    fn ban(&self) -> Result<Option<NamedByRequest>, String> {
        let mut tests = Vec::new();
        let mut is_named = false;
        for (name, subject) in
            [("x-host", "host"), ("x-url", "target"), ("x-content-type", "header[\"content-type\"]")]
        {
            if let Some(pattern) = self.text(name)? {
                is_named = true;
                if !matches!(pattern, ".*" | "*") {
                    tests.push(format!("{subject} ~ {}", quoted(pattern)));
                }
            }
        }
        let (regex, url) = (self.text("x-ban-regex")?, self.text("x-ban-url")?);
        let host = self.text("x-ban-host")?;
        if regex.is_some() || url.is_some() || host.is_some() {
            is_named = true;
            tests.push(self.of_host(host.unwrap_or(self.request.authority)));
        }
        tests.extend(regex.map(|it| format!("target ~ {}", quoted(it))));
        tests.extend(
            url.map(|it| if is_pattern(it) { begins_like(it) } else { format!("target == {}", quoted(it)) }),
        );
        Ok(match (is_named, tests.is_empty()) {
            (false, _) => None,
            (true, true) => Some(NamedByRequest::Everything),
            (true, false) => Some(NamedByRequest::Where(tests.join(" && "))),
        })
    }

    /// The URL, or the URLs of this host that a pattern in its place matches.
    fn by_target(&self) -> Result<NamedByRequest, String> {
        let (method, target) = (self.request.method, self.request.target);
        if matches!(method, "PURGEKEYS" | "PURGETAGS") {
            return Err(format!(
                "{method} names no tag; send tags in xkey-softpurge, xkey-purge or X-Cache-Tags."
            ));
        }
        if method == "FULLBAN" {
            return Err("FULLBAN names no host; send it in X-Ban-Host.".to_owned());
        }
        let is_regex = match self.text("x-purge-method")? {
            None => is_pattern(target),
            Some(it) if it.eq_ignore_ascii_case("default") || it.eq_ignore_ascii_case("exact") => false,
            Some(it) if it.eq_ignore_ascii_case("regex") => true,
            Some(it) if it.eq_ignore_ascii_case("ban-regex") => {
                return Err("X-Purge-Method: ban-regex needs the pattern in X-Ban-Regex.".to_owned());
            }
            Some(other) => {
                return Err(format!(
                    "X-Purge-Method: {} is not supported; send default, exact, regex or ban-regex.",
                    other.escape_default()
                ));
            }
        };
        if !is_regex {
            return Ok(NamedByRequest::Url);
        }
        let host = self.of_host(self.request.authority);
        Ok(NamedByRequest::Where(format!("{host} && {}", begins_like(target))))
    }

    /// The condition for responses of a host: their keys may have the name that it shares with others.
    fn of_host(&self, authority: &str) -> String {
        let until = authority.rfind(':').filter(|at| !authority[*at..].contains(']'));
        let host = authority[..until.unwrap_or(authority.len())].to_ascii_lowercase();
        match self.shared {
            Some(name) => format!("(host == {} || host == {})", quoted(&host), quoted(&format!("*{name}"))),
            None => format!("host == {}", quoted(&host)),
        }
    }
}

/// Whether a path is a pattern: a regular expression, or a path with a `*`.
pub fn is_pattern(target: &str) -> bool {
    target.contains(['*', '^', '$', '(', '[', '|', '\\'])
}

/// The condition for targets that begin like a pattern, whose `*` without a dot stands for any text.
fn begins_like(pattern: &str) -> String {
    let mut regex = String::from(if pattern.starts_with('^') { "" } else { "^" });
    let mut last = None;
    for it in pattern.chars() {
        // As in `/blog/*`: a repeated slash is not meant.
        if it == '*' && matches!(last, None | Some('/' | '-' | '_' | '=' | '?' | '&')) {
            regex.push('.');
        }
        regex.push(it);
        last = Some(it);
    }
    format!("target ~ {}", quoted(&regex))
}

/// The tags that a list or a pattern names one by one, as in `a|b`, `a b`, `(^|,)(a|b)(,|$)` or
/// `((^|,)a(,|$))|((^|,)b(,|$))`; `None` if it is another pattern.
fn alternatives(text: &str) -> Option<Vec<String>> {
    let mut tags = Vec::new();
    for part in split_top(text) {
        let part = unwrapped(part);
        let part =
            ["(^|,)", "(^|\\s)", "(^| )", "^"].iter().find_map(|it| part.strip_prefix(it)).unwrap_or(part);
        let part = ["(,|$)", "(,.+)?$", "(\\s|$)", "( |$)", "$"]
            .iter()
            .find_map(|it| part.strip_suffix(it))
            .unwrap_or(part);
        for one in split_top(unwrapped(part)) {
            for word in one.split([' ', ',', '\t']).filter(|it| !it.is_empty()) {
                tags.push(literal(word)?);
            }
        }
    }
    Some(tags)
}

/// The parts between the `|` outside of parentheses.
fn split_top(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut from, mut is_escaped) = (Vec::new(), 0_usize, 0, false);
    for (at, it) in text.char_indices() {
        match it {
            _ if std::mem::take(&mut is_escaped) => {}
            '\\' => is_escaped = true,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            '|' if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

/// A text without the parentheses around all of it.
fn unwrapped(text: &str) -> &str {
    let Some(within) = text.strip_prefix('(').and_then(|it| it.strip_suffix(')')) else { return text };
    let mut depth = 0_i64;
    for it in within.chars() {
        depth += i64::from(it == '(') - i64::from(it == ')');
        if depth < 0 {
            return text;
        }
    }
    if within.starts_with('?') { text } else { within }
}

/// The text that a pattern without operators matches, with its escapes resolved; `None` if it has operators.
fn literal(pattern: &str) -> Option<String> {
    let mut text = String::new();
    let mut all = pattern.chars();
    while let Some(it) = all.next() {
        match it {
            '\\' => text.push(all.next().filter(char::is_ascii_punctuation)?),
            '(' | ')' | '[' | ']' | '{' | '}' | '*' | '+' | '?' | '^' | '$' => return None,
            _ => text.push(it),
        }
    }
    Some(text)
}

/// A string of the expression language.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn tags(text: &str, expect: &[&str]) {
        assert_eq!(Some(expect.iter().map(|it| (*it).to_owned()).collect()), alternatives(text), "{text}");
    }

    #[test]
    fn lists_and_patterns_of_tags() {
        tags("node:1 node:1:revisions", &["node:1", "node:1:revisions"]);
        tags("node:1|node_list|config:x.y", &["node:1", "node_list", "config:x.y"]);
        tags("((^|,)cat_p_1(,|$))|((^|,)cat_p(,|$))", &["cat_p_1", "cat_p"]);
        tags("(^|,)(tag-1|tag-2)(,|$)", &["tag-1", "tag-2"]);
        tags("(tag\\-1|tag\\:2)(,.+)?$", &["tag-1", "tag:2"]);
        tags("(^|,)one(,|$)", &["one"]);
        tags("", &[]);
        for other in ["node:.*", "(^|,)cat_p_[0-9]+(,|$)", "(?i)x", "a(b"] {
            assert_eq!(None, alternatives(other), "{other}");
        }
    }

    #[test]
    fn a_star_after_a_slash_is_any_text() {
        assert_eq!("target ~ \"^/.*\"", begins_like("/.*"));
        assert_eq!("target ~ \"^/blog/.*\"", begins_like("/blog/*"));
        assert_eq!("target ~ \"^/sitemap.*\\\\.xml\"", begins_like("/sitemap.*\\.xml"));
        assert_eq!("target ~ \"^/a(/|$)\"", begins_like("^/a(/|$)"));
    }
}

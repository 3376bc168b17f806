//! Purge requests in the notation of operators and programs: URLs in several forms, tags, conditions.

use crate::input_error::InputError;
use crate::router::{Matched, RouteTarget, Router};
use larder_config::page_url;
use larder_semantics::expression::Expression;
use larder_semantics::key;
use larder_semantics::scheme::Scheme;
use larder_store::purges::{PurgeScope, Strength};
use serde_json::Value;

/// A parsed purge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PurgeRequest {
    /// Its target.
    pub scope: PurgeScope,
    /// Its strength.
    pub strength: Strength,
}

/// The most bytes of a tag.
const LONGEST_TAG: usize = 1024;

/// The names of the kinds of targets.
const SCOPES: [&str; 5] = ["url", "prefix", "tag", "where", "all"];
/// The names of the strengths.
const STRENGTHS: [(&str, Strength); 3] =
    [("soft", Strength::Soft), ("validate", Strength::Validate), ("hard", Strength::Hard)];

/// Parses the body of `POST /cache/purge`, which matches its schema.
///
/// # Errors
/// The error, its place, and a valid form.
pub fn read(body: &Value, router: &Router) -> Result<(PurgeRequest, bool), InputError> {
    Ok((PurgeRequest { scope: scope(body, router)?, strength: strength(body)? }, body["wait"] == true))
}

fn scope(body: &Value, router: &Router) -> Result<PurgeScope, InputError> {
    // `"all": false` counts as absent.
    let is_named = |it: &&str| body.get(*it).is_some_and(|it| *it != false);
    let named: Vec<&str> = SCOPES.into_iter().filter(|it| is_named(it)).collect();
    let [name] = named[..] else {
        return Err(match named[..] {
            [] => InputError::at(
                "body",
                "The target is missing; send one of \"url\", \"prefix\", \"tag\", \"where\" and \"all\": true.",
            ),
            _ => {
                let names = named.join(" and ");
                InputError::at(named[1], format!("A purge has one target; this one has {names}."))
            }
        });
    };
    let host = body["host"].as_str();
    if host.is_some() && !matches!(name, "url" | "prefix") {
        let detail = format!("\"host\" is only valid with \"url\" and \"prefix\", not with {name:?}.");
        return Err(InputError::at("host", detail));
    }
    let text = body[name].as_str().unwrap_or_default();
    let wrong = |detail| InputError::at(name, detail);
    match name {
        "url" => url(text, host, router).map(PurgeScope::Url).map_err(wrong),
        "prefix" => prefix(text, host, router).map(PurgeScope::Prefix).map_err(wrong),
        "tag" => tag(text).map(PurgeScope::Tag).map_err(wrong),
        "where" => Expression::parse(text)
            .map(PurgeScope::Where)
            .map_err(|it| InputError::at(format!("where, column {}", it.column), it.to_string())),
        _ => Ok(PurgeScope::All),
    }
}

fn strength(body: &Value) -> Result<Strength, InputError> {
    let mut chosen: Vec<(&str, Strength)> = STRENGTHS.into_iter().filter(|it| body[it.0] == true).collect();
    match (chosen.pop(), chosen.is_empty()) {
        (Some((name, _)), false) => {
            Err(InputError::at(name, "Only one of \"soft\", \"validate\" and \"hard\" can be true."))
        }
        (last, _) => Ok(last.map_or(Strength::Hard, |it| it.1)),
    }
}

/// A tag, as in a response's field.
///
/// # Errors
/// It is empty, too long, or could not occur there.
pub fn tag(text: &str) -> Result<Box<str>, String> {
    let text = text.trim();
    match text {
        "" => Err("The tag is empty.".to_owned()),
        _ if text.len() > LONGEST_TAG => Err(format!("The tag is longer than {LONGEST_TAG} bytes.")),
        _ if text.chars().any(char::is_control) => {
            Err(format!("{text:?} contains control characters, which a tag cannot have."))
        }
        _ => Ok(text.into()),
    }
}

/// The beginning of the key of every response to a URL, which its recipe may extend by a request's fields.
///
/// # Errors
/// It is not a URL of a cached route, or is one of several with different recipes.
pub fn url(text: &str, host: Option<&str>, router: &Router) -> Result<Box<[u8]>, String> {
    let (scheme, authority, target) = page_url::page(text, host)?;
    let mut keys = keys_of(scheme, &authority, &target, router)?;
    match keys.len() {
        1 => Ok(keys.remove(0)),
        _ => Err(format!(
            "Some routes for {authority}{target} have different keys (cache.key): use \"where\" with a condition on host and path."
        )),
    }
}

/// The beginnings of the keys of all responses to authority and target of a request, one for each recipe of their routes.
///
/// # Errors
/// It is not a URL of a cached route.
pub fn requested(
    scheme: Scheme,
    authority: &str,
    target: &str,
    router: &Router,
) -> Result<Vec<Box<[u8]>>, String> {
    let mut normal = String::new();
    key::authority(scheme.name(), authority, &mut normal);
    keys_of(scheme, &normal, target, router)
}

fn keys_of(scheme: Scheme, authority: &str, target: &str, router: &Router) -> Result<Vec<Box<[u8]>>, String> {
    let (scheme, authority) = &stored_under(scheme, authority, router);
    let key_of = |it: &Matched| {
        let RouteTarget::Proxy(route) = &it.target else { return None };
        let mut key = Vec::new();
        route.policy.key.of_url().write(scheme.name(), authority, target, &[], &mut key);
        Some(Box::from(key))
    };
    let mut keys: Vec<Box<[u8]>> =
        router.all_at_path(authority, target).into_iter().filter_map(key_of).collect();
    let first = router.at_path(authority, target);
    if keys.is_empty() {
        keys.extend(first.and_then(key_of));
    }
    keys.sort_unstable();
    keys.dedup();
    match first.map(|it| &it.target) {
        _ if !keys.is_empty() => Ok(keys),
        Some(RouteTarget::Files(_)) => {
            Err(format!("{authority}{target} is a static file, which is not stored in the cache."))
        }
        Some(_) => {
            Err(format!("{authority}{target} is answered by larder itself, and is not stored in the cache."))
        }
        None => Err(format!("No site has a route for {authority}{target}.")),
    }
}

/// The authority under which the pages of another one are stored: the one to which its site redirects.
pub fn canonical(scheme: Scheme, authority: &str, router: &Router) -> String {
    let mut normal = String::new();
    key::authority(scheme.name(), authority, &mut normal);
    stored_under(scheme, &normal, router).1
}

/// The scheme and authority under which the pages of these are stored: those to which their site redirects. The others have no pages.
fn stored_under(scheme: Scheme, authority: &str, router: &Router) -> (Scheme, String) {
    let moved = router.redirects(authority).and_then(|it| it.origin(scheme, authority));
    let (scheme, to) = moved.unwrap_or_else(|| (scheme, authority.to_owned()));
    let mut normal = String::new();
    key::authority(scheme.name(), &to, &mut normal);
    (scheme, normal)
}

/// The common beginning of the keys of all URLs with this prefix. A host alone means all of its paths, and no other host.
///
/// # Errors
/// Its host is not served here.
pub fn prefix(text: &str, host: Option<&str>, router: &Router) -> Result<Box<[u8]>, String> {
    let (scheme, authority, target) = page_url::beginning(text, host)?;
    let (scheme, authority) = stored_under(scheme, &authority, router);
    let recipes = router.routes(&authority).iter().filter_map(|it| match &it.target {
        RouteTarget::Proxy(route) => Some(&route.policy.key),
        RouteTarget::Files(_) | RouteTarget::Own(_) => None,
    });
    let mut prefixes: Vec<Box<[u8]>> = Vec::new();
    for recipe in recipes {
        let mut prefix = Vec::new();
        recipe.write_prefix(scheme.name(), &authority, &target, &mut prefix);
        if !prefixes.iter().any(|it| **it == *prefix) {
            prefixes.push(prefix.into());
        }
    }
    match prefixes.len() {
        1 => Ok(prefixes.remove(0)),
        0 => Err(format!("No site uses the cache for {authority}.")),
        _ => Err(format!(
            "Some routes of {authority} have the host in their keys and some do not (cache.key.ignore_host): use \
             \"where\" with a condition on the key."
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refuse(body: &str, at: &str, expect: &str) {
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(Err(InputError::at(at, expect)), read(&body, &Router::default()), "{body}");
    }

    #[test]
    fn purge_requests_are_parsed() {
        let with_wait = |body: &str| super::read(&serde_json::from_str(body).unwrap(), &Router::default());
        let read = |body: &str| with_wait(body).map(|it| it.0);
        assert!(with_wait("{\"all\": true, \"wait\": true}").is_ok_and(|it| it.1));
        let all = |strength| Ok(PurgeRequest { scope: PurgeScope::All, strength });
        assert_eq!(all(Strength::Hard), read("{\"all\": true}"));
        assert_eq!(
            all(Strength::Soft),
            read("{\"all\": true, \"soft\": true, \"wait\": true, \"hard\": false}")
        );
        assert_eq!(all(Strength::Validate), read("{\"all\": true, \"validate\": true}"));
        let tag = PurgeRequest { scope: PurgeScope::Tag("a b".into()), strength: Strength::Hard };
        assert_eq!(Ok(tag), read("{\"tag\": \" a b \", \"all\": false}"));
        refuse(
            "{}",
            "body",
            "The target is missing; send one of \"url\", \"prefix\", \"tag\", \"where\" and \"all\": true.",
        );
        refuse("{\"tag\": \"x\", \"all\": true}", "all", "A purge has one target; this one has tag and all.");
        refuse("{\"tag\": \"\"}", "tag", "The tag is empty.");
        refuse(
            "{\"all\": true, \"host\": \"h\"}",
            "host",
            "\"host\" is only valid with \"url\" and \"prefix\", not with \"all\".",
        );
        refuse(
            "{\"all\": true, \"soft\": true, \"hard\": true}",
            "hard",
            "Only one of \"soft\", \"validate\" and \"hard\" can be true.",
        );
        refuse("{\"url\": \"h/a\"}", "url", "No site has a route for h/a.");
        for (text, sent) in [("x", "x"), (" h:80 ", "h:80"), ("h?a=/b", "h?a=/b"), ("h#/", "h#/")] {
            let detail = format!(
                "{sent:?} is ambiguous: host or path; write http://HOST/PATH, or /PATH with \"host\"."
            );
            refuse(&format!("{{\"url\": {text:?}}}"), "url", &detail);
            refuse(&format!("{{\"url\": {text:?}, \"host\": \"h\"}}"), "url", &detail);
        }
        for text in ["blog", " blog* ", "h"] {
            let found = read(&format!("{{\"prefix\": {text:?}}}"));
            let word = text.trim().trim_end_matches('*');
            let expect = format!(
                "{:?} is ambiguous: host or path; write http://{word}/ for a whole host, or /{word} with \"host\".",
                text.trim()
            );
            assert_eq!(Err(InputError::at("prefix", expect)), found);
        }
        for (name, text) in
            [("prefix", "h.x/*/a"), ("prefix", "*.h.x/"), ("url", "h/a*"), ("url", "http://*.h/")]
        {
            let wrong = read(&format!("{{{name:?}: {text:?}}}")).unwrap_err();
            assert!(wrong.at == name && wrong.detail.contains("is a pattern"), "{wrong:?}");
        }
        for text in ["http://h", "//h", "h/", "h/?a#b", "h/?a=*"] {
            let found = url(text, None, &Router::default());
            assert!(found.is_err_and(|it| it.starts_with("No site has a route for h/")), "{text}");
        }
        let found = super::read(&serde_json::json!({ "where": "status == 200 && a" }), &Router::default());
        let wrong = found.unwrap_err();
        assert_eq!("where, column 18", wrong.at);
        assert!(wrong.detail.starts_with("column 18: "), "{wrong:?}");
        refuse("{\"prefix\": \"h.x/a\"}", "prefix", "No site uses the cache for h.x.");
    }
}

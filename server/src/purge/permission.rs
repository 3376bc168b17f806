//! Whether a client may purge with `PURGE` (`cache.purge.from`), and which responses by tag: those of the routes that permit
//! it, as a condition over stored responses. The admin has permissions of its own.

use super::dialect::quoted;
use crate::router::{LiveSite, Matched, Router};
use larder_config::kind::{HostPattern, PathPattern};
use larder_config::purge_access::PurgeMethod;
use larder_semantics::expression::Expression;
use larder_store::purges::PurgeScope;
use std::cmp::Reverse;
use std::net::IpAddr;

/// The condition for one route, a site or all.
#[derive(Clone, Debug, PartialEq, Eq)]
enum PermittedScope {
    All,
    None,
    /// Where this condition is true.
    Where(String),
}

/// The scopes of a client at `peer` (`None`: a Unix socket), limited to the responses that it may purge. A URL is of the
/// route that permitted it.
///
/// # Errors
/// The condition would be too long: one sentence.
pub fn permitted(
    router: &Router,
    peer: Option<IpAddr>,
    wanted: Vec<PurgeScope>,
) -> Result<Vec<PurgeScope>, String> {
    if wanted.iter().all(|it| matches!(it, PurgeScope::Url(_))) {
        return Ok(wanted);
    }
    let condition = match of_everything(router.sites(), peer) {
        PermittedScope::All => return Ok(wanted),
        PermittedScope::None => "status < 0".to_owned(),
        PermittedScope::Where(condition) => condition,
    };
    let scope = |wanted: PurgeScope| {
        let text = match &wanted {
            PurgeScope::Tag(tag) => format!("tag == {} && ({condition})", quoted(tag)),
            PurgeScope::Where(wanted) => format!("({}) && ({condition})", wanted.text()),
            PurgeScope::All => condition.clone(),
            PurgeScope::Url(_) => return Ok(wanted),
            PurgeScope::Prefix(_) => {
                return Err("A prefix cannot be purged by `PURGE`; use a condition.".to_owned());
            }
        };
        Expression::parse(&text).map(PurgeScope::Where).map_err(|it| {
            format!(
                "The routes that this client may purge cannot be expressed in one condition ({}); purge through the \
                 admin.",
                it.sentence
            )
        })
    };
    wanted.into_iter().map(scope).collect()
}

/// Whether a route permits a client to purge.
pub fn may_purge(matched: &Matched, peer: Option<IpAddr>) -> bool {
    matched.purge.method == PurgeMethod::Allowed
        && peer.is_none_or(|peer| matched.purge.from.iter().any(|it| it.contains(peer)))
}

/// The routes that store responses, in any order.
fn stores(sites: &[LiveSite]) -> impl Iterator<Item = &Matched> {
    sites.iter().flat_map(|it| &it.routes).filter(|it| it.methods.allow("GET") && it.proxies())
}

fn of_everything(sites: &[LiveSite], peer: Option<IpAddr>) -> PermittedScope {
    if stores(sites).all(|it| may_purge(it, peer)) {
        return PermittedScope::All;
    }
    let mut hosts: Vec<(&HostPattern, &LiveSite)> =
        sites.iter().flat_map(|site| site.hosts.iter().map(move |it| (it, site))).collect();
    // As in the router; a stable sort, so that the first of equals stays the first.
    hosts.sort_by_key(|it| {
        Reverse(match it.0 {
            HostPattern::Exact(_) => usize::MAX,
            HostPattern::Below(rest) => rest.len() + 1,
            HostPattern::Any => 1,
        })
    });
    let named = hosts.into_iter().rev().fold(PermittedScope::None, |others, (host, site)| {
        either(&of_host(host), of_site(site, peer), others)
    });
    // If a site's hosts share a cache, keys contain its name after a `*`.
    sites.iter().fold(named, |others, site| match site.routes.iter().find_map(Matched::any_host_of) {
        Some(name) => {
            either(&format!("host == {}", quoted(&format!("*{name}"))), of_site(site, peer), others)
        }
        None => others,
    })
}

fn of_site(site: &LiveSite, peer: Option<IpAddr>) -> PermittedScope {
    let routes = site.routes.iter().filter(|it| it.methods.allow("GET"));
    let mut stores = routes.clone().filter(|it| it.proxies()).peekable();
    if stores.peek().is_some() && stores.all(|it| may_purge(it, peer)) {
        return PermittedScope::All;
    }
    routes.rev().fold(PermittedScope::None, |others, it| {
        let own = match it.proxies() && may_purge(it, peer) {
            // A key does not have the fields of its request: the response may be one of a later route.
            true if it.condition.is_some() => others.clone(),
            true => PermittedScope::All,
            false => PermittedScope::None,
        };
        either(&of_path(&it.path), own, others)
    })
}

/// `yes` where a test is true, otherwise `no`.
fn either(test: &str, yes: PermittedScope, no: PermittedScope) -> PermittedScope {
    use PermittedScope::{All, None, Where};
    if yes == no || test.is_empty() {
        return yes;
    }
    Where(match (yes, no) {
        (All, None) => test.to_owned(),
        (None, All) => format!("!({test})"),
        (All, Where(no)) => format!("({test} || {no})"),
        (None, Where(no)) => format!("(!({test}) && {no})"),
        (Where(yes), None) => format!("({test} && {yes})"),
        (Where(yes), All) => format!("(!({test}) || {yes})"),
        (Where(yes), Where(no)) => format!("(({test} && {yes}) || (!({test}) && {no}))"),
        (All, All) | (None, None) => unreachable!("they are equal"),
    })
}

/// The condition for hosts of keys; empty for all of them.
fn of_host(pattern: &HostPattern) -> String {
    match pattern {
        // A name may end with a dot.
        HostPattern::Exact(name) => {
            format!("(host == {} || host == {})", quoted(name), quoted(&format!("{name}.")))
        }
        HostPattern::Below(rest) => {
            let dot = format!("{rest}.");
            let ends = |it: &str| format!("host ~ {}", quoted(&format!("{}$", literal(it))));
            // With a prefix, which is not the mark of a name.
            format!(
                "(({} || {}) && host != {} && host != {} && host !~ \"^\\*\")",
                ends(rest),
                ends(&dot),
                quoted(rest),
                quoted(&dot)
            )
        }
        HostPattern::Any => String::new(),
    }
}

/// The condition for paths of keys. Every interpretation of a stored path belongs to one route, so its literal form
/// suffices.
fn of_path(pattern: &PathPattern) -> String {
    if pattern.is_all() {
        return String::new();
    }
    format!("path ~ {}", quoted(&pattern.to_regex()))
}

/// A pattern that matches only this text.
fn literal(text: &str) -> String {
    let mut pattern = String::new();
    for it in text.chars() {
        if r"\.+*?()|[]{}^$#&-~".contains(it) {
            pattern.push('\\');
        }
        pattern.push(it);
    }
    pattern
}

//! A configuration in a few lines, for `check` and for the start of a server.

use larder_config::access::LimitConfig;
use larder_config::finish::SiteRedirects;
use larder_config::{AdminConfig, AdminListen, Config, Methods, RouteConfig, Service, Source};
use larder_stdx::size::ByteSize;
use std::fmt::Write as _;

/// Characters of a condition that are shown.
const CONDITION: usize = 60;

/// Listeners, tiers, and the sites with their routes.
#[must_use]
pub fn summary(config: &Config) -> String {
    let listen: Vec<String> = config.listen.iter().map(|it| it.spelled()).collect();
    let workers = config.workers.map_or("one per core".to_owned(), |it| it.to_string());
    let mut out = String::new();
    for file in &config.included {
        let link = if file.is_linked() { format!(" -> {}", file.path.display()) } else { String::new() };
        let _ = writeln!(out, "  include  {}{link}", file.name);
    }
    let _ = writeln!(out, "  listen   {}", listen.join(", "));
    let _ = writeln!(out, "  workers  {workers}");
    let _ = writeln!(out, "  ram      {}", ByteSize(config.ram.budget));
    if let Some(disk) = &config.disk {
        let _ = writeln!(out, "  disk     {} in {}", ByteSize(disk.size), disk.path.display());
    }
    if let Some(fleet) = &config.fleet {
        let servers: Vec<String> = fleet.client.servers.iter().map(|it| it.at.to_string()).collect();
        let _ = writeln!(out, "  fleet    {}", servers.join(", "));
    }
    let _ = writeln!(out, "  admin    {}", spell_admin(&config.admin));
    for site in &config.sites {
        let hosts: Vec<String> = site.hosts.iter().map(ToString::to_string).collect();
        let _ = writeln!(out, "  site     {}", hosts.join(", "));
        site.routes.iter().for_each(|it| add_route(&mut out, it));
        if site.routes.is_empty() {
            let _ = writeln!(out, "    {}", redirects(&site.redirects));
        }
    }
    out
}

/// The redirects of a site without a route.
fn redirects(of: &SiteRedirects) -> String {
    match (&of.canonical_host, of.to_https) {
        (Some(host), _) => format!("redirect {} to {host}", of.status),
        (None, true) => format!("redirect {} to https", of.status),
        (None, false) => "redirect by redirect_map".to_owned(),
    }
}

/// The line of a route; below it, its access rules and the keys of its preset.
fn add_route(out: &mut String, route: &RouteConfig) {
    let cached = if route.cache.enabled { "" } else { " (not cached)" };
    let path = route.path.to_string();
    let _ = writeln!(out, "    {path:<18} {}{cached}{}", service(route), requests(route));
    let access = access(route);
    if !access.is_empty() {
        let _ = writeln!(out, "      access: {access}");
    }
    let of_preset = |(key, source): (&'static str, &Source)| match source {
        Source::Preset(name) => Some((*name, key)),
        _ => None,
    };
    let given: Vec<_> = route.decided.iter().filter_map(of_preset).collect();
    if let Some((name, _)) = given.first() {
        let keys: Vec<&str> = given.iter().map(|it| it.1).collect();
        let _ = writeln!(out, "      preset {name}: {}", keys.join(", "));
    }
}

fn service(route: &RouteConfig) -> String {
    match &route.service {
        Service::Proxy(proxy) => {
            let members: Vec<String> = proxy.to.members.iter().map(ToString::to_string).collect();
            let first = members.len().saturating_sub(proxy.to.rules.backups);
            let (members, backups) = members.split_at(first);
            let mark = if backups.is_empty() { "" } else { "; backup " };
            let kind = if proxy.php.is_some() { "php" } else { "proxy" };
            format!("{kind} {}{mark}{}", members.join(", "), backups.join(", "))
        }
        Service::Files(files) => format!("files {}", files.root.display()),
        Service::Redirect(it) => format!("redirect {} {}", it.status, it.shown),
        Service::Respond(it) => format!("respond {}", it.status),
        Service::Sql(it) => {
            format!("sql {} ({}), {}", it.database.name, it.database.place, it.freshness())
        }
    }
}

/// The requests of a route, of those for its path: its methods, listeners and condition.
fn requests(route: &RouteConfig) -> String {
    let mut out = String::new();
    if let Methods::Only(these) = &route.methods {
        let _ = write!(out, " for {}", these.join(", "));
    }
    if !route.listeners.is_empty() {
        let _ = write!(out, " at {}", route.listeners.join(", "));
    }
    if let Some(when) = &route.when {
        let short: String = when.shown().chars().take(CONDITION).collect();
        let more = if short.len() < when.shown().len() { "…" } else { "" };
        let _ = write!(out, " when {short}{more}");
    }
    out
}

/// The access rules of a route, by their names, and its limits.
fn access(route: &RouteConfig) -> String {
    let it = &route.access;
    let rules = [
        ("allow", it.allow.is_some()),
        ("deny", it.deny.is_some()),
        ("allow_when", it.allow_when.is_some()),
        ("deny_when", it.deny_when.is_some()),
        ("basic", it.basic.is_some()),
        ("jwt", it.jwt.is_some()),
        ("signed", it.signed.is_some()),
        ("forward", it.forward.is_some()),
    ];
    let named = rules.into_iter().filter(|it| it.1).map(|it| it.0.to_owned());
    let budget = route.budget.iter().map(|it| match it.misses {
        Some(misses) => format!("budget {}", misses.rate),
        None => "budget".to_owned(),
    });
    named.chain(it.limits.iter().map(limit)).chain(budget).collect::<Vec<_>>().join(", ")
}

fn limit(it: &LimitConfig) -> String {
    let rate = it.rate.map(|rate| match it.burst {
        0 => rate.rate.to_string(),
        burst => format!("{} with burst {burst}", rate.rate),
    });
    let concurrency = it.concurrency.map(|it| format!("{it} at once"));
    format!("limit {}", rate.into_iter().chain(concurrency).collect::<Vec<_>>().join(" and "))
}

fn spell_admin(it: &AdminConfig) -> String {
    match it.listen {
        AdminListen::Off => "off".to_owned(),
        AdminListen::At(address) => address.to_string(),
        AdminListen::From(address) => format!("{address} or the next free port"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[track_caller]
    fn check(route: &str, expect: &str) {
        let text = format!("listen = \":80\"\n[[site]]\nhosts = \"a\"\n[[site.route]]\n{route}\n");
        let config = Config::from_text(&text, "t.toml", Path::new("."), &[]).unwrap();
        let all = summary(&config);
        let at = all.find("  site     a\n").unwrap();
        assert_eq!(expect, &all[at + "  site     a\n".len()..], "{route}");
    }

    #[test]
    fn a_site_without_a_route_has_the_target_of_its_redirects() {
        let shown = |keys: &str| {
            let text = format!("listen = \":80\"\n[[site]]\nhosts = \"b\"\n{keys}\n");
            summary(&Config::from_text(&text, "t.toml", Path::new("."), &[]).unwrap())
        };
        assert!(shown("canonical_host = \"a\"").ends_with("  site     b\n    redirect 308 to a\n"));
        let https = shown("redirect_https = true\nredirect_status = 301");
        assert!(https.ends_with("  site     b\n    redirect 301 to https\n"), "{https}");
    }

    #[test]
    fn a_route_has_its_condition_and_rules() {
        check("respond = { status = 403 }", "    /*                 respond 403\n");
        check(
            "when = 'path ~ \"/\\\\.\"'\nrespond = { status = 403 }",
            "    /*                 respond 403 when path ~ \"/\\\\.\"\n",
        );
        check(
            "when = 'header[\"Authorization\"] == \"Bearer s3cret-of-the-origin\"'\nrespond = { status = 404 }",
            "    /*                 respond 404 when header[\"Authorization\"] == \"***\"\n",
        );
        let hosts = ["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"];
        check(
            &format!(
                "methods = [\"GET\", \"PUT\"]\nwhen = 'host == \"{}\" || host == \"{}\"'\nproxy.to = \":1\"",
                hosts[0], hosts[1]
            ),
            &format!(
                "    /*                 proxy http://127.0.0.1:1 for GET, PUT when host == \"{}\" || host == \"{}…\n",
                hosts[0],
                &hosts[1][..7]
            ),
        );
        check(
            "proxy.to = \":1\"\naccess = { allow = [\"10.0.0.0/8\"], deny_when = 'path == \"/x\"', limit = { rate = \"5/s\", burst = 20, concurrency = 3 } }",
            "    /*                 proxy http://127.0.0.1:1\n      access: allow, deny_when, limit 5/s with burst 20 and 3 at once\n",
        );
        check(
            "proxy.to = \":1\"\naccess.limit.concurrency = 3",
            "    /*                 proxy http://127.0.0.1:1\n      access: limit 3 at once\n",
        );
    }
}

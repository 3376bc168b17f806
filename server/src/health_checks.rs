//! Health checks of origins: one task for each, on the first worker. The check itself is in `larder_origin::health`.

use super::live::Live;
use larder_config::{
    Config, HostPattern, OriginHost, OriginMember, Origins, RouteConfig, Service, SiteConfig,
};
use larder_counters::Counters;
use larder_observe::log::{ErrorLog, Level, Subsystem};
use larder_origin::{Changes, CheckResult, HealthCheck, Membership, OriginLimits, OriginPool, watch};
use larder_stdx::circuit_breaker::BreakerSettings;
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The tasks of one configuration; they end with it.
#[derive(Default)]
pub struct Watches(Vec<JoinHandle<()>>);

impl Drop for Watches {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl Watches {
    /// Starts the checks of the origins of `live`, each once, by the first route with a check for it.
    pub fn begin(live: &Live, counters: &Arc<Counters>, errors: &ErrorLog) -> Self {
        let (mut tasks, mut asked) = (Vec::new(), HashSet::new());
        let routes =
            || live.config.sites.iter().flat_map(|site| site.routes.iter().map(move |it| (site, it)));
        for (_, route) in routes() {
            let Service::Proxy(proxy) = &route.service else { continue };
            let Some(check) = &proxy.to.health else { continue };
            for member in &proxy.to.members {
                if asked.insert(member.name()) {
                    let check = check_of(&live.config, check, member);
                    tasks.push(begin(live, &proxy.to, member, check, proxy.limits, counters, errors));
                }
            }
        }
        for origin in live.scopes.origins.iter().filter(|it| !asked.contains(&it.name)) {
            origin.standing.clear_health();
        }
        Self(tasks)
    }
}

/// The check `check` of a route for one of its origins: below its base path, with the `Host` of requests.
pub(crate) fn check_of(config: &Config, check: &HealthCheck, member: &OriginMember) -> HealthCheck {
    let routes = config.sites.iter().flat_map(|site| site.routes.iter().map(move |it| (site, it)));
    let host = match &*check.host {
        "" => host(routes, member),
        host => host.to_owned(),
    };
    HealthCheck { host, path: format!("{}{}", member.base, check.path), ..check.clone() }
}

/// The `Host` of a check: that of requests, by the first host of a site with a route to this origin that is not a
/// pattern. Applications reject unknown names (`ALLOWED_HOSTS` of Django).
fn host<'a>(
    mut routes: impl Iterator<Item = (&'a SiteConfig, &'a RouteConfig)>,
    member: &OriginMember,
) -> String {
    let name = member.name();
    let named = routes.find_map(|(site, route)| {
        let Service::Proxy(proxy) = &route.service else { return None };
        let is_asked = proxy.to.health.is_some() && proxy.to.members.iter().any(|it| it.name() == name);
        if !is_asked || proxy.host == OriginHost::Own {
            return None;
        }
        if let OriginHost::Named(host) = &proxy.host {
            return Some(host.clone());
        }
        site.hosts.iter().find_map(|it| match it {
            HostPattern::Exact(name) => Some(name.clone()),
            HostPattern::Below(_) | HostPattern::Any => None,
        })
    });
    named.unwrap_or_else(|| member.authority())
}

/// Connections to one origin for requests of larder's own, one at a time.
pub(crate) fn single(origins: &Origins, member: &OriginMember, limits: OriginLimits) -> Rc<OriginPool> {
    let limits = OriginLimits {
        connections: 1,
        queue: 1,
        queue_wait: None,
        idle_connections: limits.idle_connections.min(1),
        ..limits
    };
    // Its own standing and counters: a check is not a client request.
    let own = Membership {
        name: member.name(),
        tls: origins.speaks(member),
        protocol: origins.protocol(member),
        outlier_state: Arc::default(),
        weight: 1,
        ejection: BreakerSettings::OFF,
        drained: false,
        preamble: origins.preamble,
    };
    OriginPool::in_group(member.at.clone(), limits, Arc::default(), own)
}

fn begin(
    live: &Live,
    origins: &Origins,
    member: &OriginMember,
    check: HealthCheck,
    limits: OriginLimits,
    counters: &Arc<Counters>,
    errors: &ErrorLog,
) -> JoinHandle<()> {
    let origin = single(origins, member, limits);
    let standing = live.scopes.standing(&member.name());
    let (teller, counters, name) = (errors.of(Subsystem::Origin), counters.clone(), member.name());
    let report = move |found: &CheckResult, changes: Changes| {
        counters.origin_health_checks.add(1);
        if let CheckResult::Unhealthy(_) = found {
            counters.origin_health_failures.add(1);
        }
        match (found, changes) {
            (_, Changes::Nothing) => {}
            (CheckResult::Unhealthy(why), Changes::Use) if teller.logs(Level::Warn) => {
                let values = [("origin", name.as_str()), ("why", why)];
                teller.seldom_of(Level::Warn, "origin-unhealthy", &name, &values);
            }
            (CheckResult::Healthy, Changes::Use) if teller.logs(Level::Info) => {
                teller.seldom_of(Level::Info, "origin-healthy", &name, &[("origin", name.as_str())]);
            }
            _ => {}
        }
    };
    tokio::task::spawn_local(async move { match watch(origin, check, standing, report).await {} })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_of_a_check_is_the_first_that_a_site_names_whole() {
        let check = |first: &str, second: &str, options: &str, expect: &str| {
            let folder = tempfile::tempdir().unwrap();
            let file = folder.path().join("larder.toml");
            let site = |host: &str| {
                format!(
                    "[[site]]\nhosts = [\"{host}\"]\n[[site.route]]\npath = \"/*\"\nproxy = {{ to = [\"http://10.0.0.2:8000\"], \
                     health = {{ path = \"/health\" }}{options} }}\n"
                )
            };
            std::fs::write(&file, site(first) + &site(second)).unwrap();
            let config = Config::load(&file, &[]).unwrap();
            let routes = || config.sites.iter().flat_map(|site| site.routes.iter().map(move |it| (site, it)));
            let Service::Proxy(proxy) = &config.sites[0].routes[0].service else { unreachable!() };
            assert_eq!(expect, host(routes(), &proxy.to.members[0]), "{first} {second}");
        };
        check("a.test", "b.test", "", "a.test");
        check("*.wild.test", "b.test", "", "b.test");
        check("*", "b.test", "", "b.test");
        check("*", "*.wild.test", "", "10.0.0.2:8000");
        check("*", "b.test", ", preserve_host = false", "10.0.0.2:8000");
    }
}

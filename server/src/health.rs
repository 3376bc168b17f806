//! Who asks the origins whether they are well: one task for each, on the first worker. How it asks is in `larder_origin::health`.

use super::worker::Live;
use larder_config::{Member, Origins, Service};
use larder_counters::Counters;
use larder_observe::log::{ErrorLog, Level, Subsystem};
use larder_origin::{Changes, Check, Ejection, Found, Limits, Membership, Origin, watch};
use std::collections::HashSet;
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
    /// Begins to ask the origins of `live`, each once, by the first route that wants that.
    pub fn begin(live: &Live, counters: &Arc<Counters>, errors: &ErrorLog) -> Self {
        let (mut tasks, mut asked) = (Vec::new(), HashSet::new());
        for route in live.config.sites.iter().flat_map(|it| &it.routes) {
            let Service::Proxy(proxy) = &route.service else { continue };
            let Some(check) = &proxy.to.health else { continue };
            for member in &proxy.to.members {
                if asked.insert(member.name()) {
                    tasks.push(begin(live, &proxy.to, member, check, proxy.limits, counters, errors));
                }
            }
        }
        for origin in live.scopes.origins.iter().filter(|it| !asked.contains(&it.name)) {
            origin.standing.forget_health();
        }
        Self(tasks)
    }
}

fn begin(
    live: &Live,
    origins: &Origins,
    member: &Member,
    check: &Check,
    limits: Limits,
    counters: &Arc<Counters>,
    errors: &ErrorLog,
) -> JoinHandle<()> {
    let check = Check { host: member.authority(), ..check.clone() };
    let limits = Limits { connections: 1, queue: 1, queue_wait: None, idle_connections: 1, ..limits };
    // Its own standing and counters: what it asks is no request of anybody.
    let own = Membership {
        name: member.name(),
        tls: origins.speaks(member),
        http2: origins.http2(member),
        standing: Arc::default(),
        weight: 1,
        ejection: Ejection::OFF,
        drained: false,
    };
    let origin = Origin::in_group(member.at.clone(), limits, Arc::default(), own);
    let standing = live.scopes.standing(&member.name());
    let (teller, counters, name) = (errors.of(Subsystem::Origin), counters.clone(), member.name());
    let told = move |found: &Found, changes: Changes| {
        counters.origin_health_checks.add(1);
        if let Found::Unwell(_) = found {
            counters.origin_health_failures.add(1);
        }
        match (found, changes) {
            (_, Changes::Nothing) => {}
            (Found::Unwell(why), Changes::Use) if teller.tells(Level::Warn) => {
                let values = [("origin", name.as_str()), ("why", why)];
                teller.seldom_of(Level::Warn, "origin-sick", &name, &values);
            }
            (Found::Well, Changes::Use) if teller.tells(Level::Info) => {
                teller.seldom_of(Level::Info, "origin-well", &name, &[("origin", name.as_str())]);
            }
            _ => {}
        }
    };
    tokio::task::spawn_local(async move { match watch(origin, check, standing, told).await {} })
}

//! The facts of recorded requests: hosts without a site, and proxies that are not trusted.

use crate::Admin;
use larder_config::{Config, HostPattern};
use larder_observe::recent::RecentRequest;
use larder_semantics::field::FieldList;
use larder_semantics::request_view::host_of;
use larder_semantics::server_state::{RecordedFacts, RecordedSample};
use larder_stdx::clock;
use serde_json::Value;
use std::net::IpAddr;
use std::sync::Arc;

/// Recorded requests that are considered.
const MOST: usize = 512;
/// Their greatest age, microseconds.
const AGE: u64 = 60_000_000;
/// The milliseconds for which the facts are used: a look at the state each second would parse the same records again.
const USED: u64 = 5_000;
/// The most characters of an address in a field.
const ADDRESS: usize = 64;

/// The facts of the last reading, and its time on the monotonic clock in milliseconds.
pub(super) type LastFacts = Option<(u64, Arc<RecordedFacts>)>;

impl Admin {
    /// The facts of the requests that were recorded within the last minute.
    pub(super) fn recorded_facts(&self, config: &Config) -> Arc<RecordedFacts> {
        let at = clock::monotonic_now().0;
        let mut last = self.server_state.recorded.borrow_mut();
        if let Some((time, facts)) = &*last
            && at.saturating_sub(*time) < USED
        {
            return facts.clone();
        }
        let mut facts = RecordedFacts::default();
        let oldest = clock::unix_micros(clock::precise_micros()).saturating_sub(AGE);
        for it in self.recent.newest(MOST).iter().filter(|it| it.refused.is_none()) {
            let record: Value = serde_json::from_slice(&it.then).unwrap_or_default();
            if record["time_us"].as_u64().is_some_and(|it| it >= oldest) {
                facts.add(sample(it, &record, config));
            }
        }
        let facts = Arc::new(facts);
        *last = Some((at, facts.clone()));
        facts
    }
}

fn sample<'r>(it: &'r RecentRequest, record: &Value, config: &Config) -> RecordedSample<'r> {
    let client = record["client"].as_str().and_then(|it| it.parse::<IpAddr>().ok());
    let host = host_of(&it.authority);
    let site = || HostPattern::site_of(host, config.sites.iter().map(|it| &*it.hosts));
    let is_unknown = !host.is_empty() && site().is_none();
    RecordedSample {
        client,
        unknown_host: Some(host).filter(|_| is_unknown),
        is_related: is_unknown && is_related(host, config),
        ignored: client.and_then(|client| ignored(&it.fields, client, config)),
    }
}

/// Whether a host has the host of a site as its end, or is the end of one.
fn is_related(host: &str, config: &Config) -> bool {
    let is_end = |end: &str, of: &str| {
        end.contains('.') && of.strip_suffix(end).is_some_and(|it| it.is_empty() || it.ends_with('.'))
    };
    let mut patterns = config.sites.iter().flat_map(|it| &it.hosts);
    patterns.any(|it| match it {
        HostPattern::Exact(name) => is_end(name, host) || is_end(host, name),
        HostPattern::Below(end) => is_end(&end[1..], host),
        HostPattern::Any => false,
    })
}

/// The last address in `X-Forwarded-For` of a client that is no trusted proxy, if none in the field is that of the client.
fn ignored<'r>(fields: &'r FieldList, client: IpAddr, config: &Config) -> Option<&'r str> {
    let text = std::str::from_utf8(fields.get("x-forwarded-for")?).ok()?;
    let is_used = text.split(',').any(|it| it.trim().parse() == Ok(client));
    if is_used || config.clients.trusted.has(Some(client)) {
        return None;
    }
    let last = text.rsplit(',').next().unwrap_or(text).trim();
    (last.len() <= ADDRESS && last.parse::<IpAddr>().is_ok()).then_some(last)
}

//! Limits of the requests of a route: each is that of the server unless the route or its site has another.

use super::{ConfigCheck, RoutePath};
use crate::kind::ConfigValue;
use larder_transport::worker::{RequestLimits, TransferLimits};
use std::time::Duration;

/// The most bytes of the body of a request for a query.
const SQL_BODY: u64 = 64 << 10;

impl ConfigCheck {
    pub(super) fn route_limits(&self, at: &RoutePath, is_sql: bool) -> RequestLimits {
        let number = |name: &str| match self.given_for(at, name) {
            Some(ConfigValue::Number(it)) => Some(it),
            _ => None,
        };
        let time = |name: &str| match self.given_for(at, name) {
            Some(ConfigValue::Time(it)) => Some(it),
            _ => None,
        };
        let (body, write, rate) = (time("body_timeout"), time("write_timeout"), number("min_rate"));
        let or_all = |own: Option<Duration>, key: &str| own.unwrap_or_else(|| self.time(key));
        let transfer = (body.is_some() || write.is_some() || rate.is_some()).then(|| TransferLimits {
            body_timeout: or_all(body, "limits.body_timeout"),
            write_timeout: or_all(write, "limits.write_timeout"),
            min_rate: rate.unwrap_or_else(|| self.number("limits.min_rate")),
        });
        // The body of a query is kept in memory.
        let most = if is_sql { SQL_BODY } else { u64::MAX };
        let body_size = number("body_size").unwrap_or_else(|| self.number("limits.body_size")).min(most);
        RequestLimits { body_size, transfer }
    }

    /// The value of a key of the route or its site, if it is set.
    fn given_for(&self, at: &RoutePath, name: &str) -> Option<ConfigValue> {
        self.values.given.get(&self.site_key(at, name)).map(|it| it.0.clone())
    }
}

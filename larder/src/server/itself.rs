//! A route must not lead to larder's own admin: whoever may ask the route would be before it, from this machine.

use crate::config::Config;
use crate::config::itself::{SENTENCE, is_admin};
use std::net::SocketAddr;

/// Refuses a configuration that has larder's own admin, which listens at `admin`, as an origin.
///
/// # Errors
/// One sentence: which route, and what to do.
pub fn check(config: &Config, admin: Option<SocketAddr>) -> Result<(), String> {
    let routes = config.sites.iter().flat_map(|it| &it.routes);
    for route in routes {
        if let Some(it) = route.origins().find(|it| is_admin(&it.at, admin, config.admin.socket.as_deref())) {
            let origin = crate::cli::spell_origin(&it.at);
            return Err(format!("{}: proxy.to: {origin} {SENTENCE}.", route.source));
        }
    }
    Ok(())
}

//! The part of admission that belongs to one route.

use crate::access::AccessRules;
use crate::internal_client::InternalClient;
use crate::own_answer::{LiveRedirects, RouteAnswers};
use crate::site_tls::SiteTls;
use larder_transport::ReadySynthetic;
use std::net::IpAddr;
use std::rc::Rc;
use std::sync::Arc;

/// A route's part of admission.
#[derive(Default)]
pub struct RouteAdmission {
    /// The rules of `site.route.access`.
    pub access: Option<Arc<AccessRules>>,
    /// The service of `access.forward`; with equal rules of several routes one.
    pub service: Option<Rc<InternalClient>>,
    /// The redirects of its site.
    pub redirects: Option<Rc<LiveRedirects>>,
    /// The TLS rules of its site.
    pub tls: Option<Rc<SiteTls>>,
    /// Maintenance, CORS preflights, and a service of larder's own.
    pub answers: Option<Rc<RouteAnswers>>,
    /// Whether the country of the client is part of its keys.
    pub keys_country: bool,
}

impl RouteAdmission {
    /// Whether there is anything to do.
    #[must_use]
    pub fn is_something(&self) -> bool {
        let has_rules = self.access.is_some() || self.redirects.is_some() || self.tls.is_some();
        has_rules || self.answers.is_some() || self.keys_country
    }

    /// Whether it has access rules only, and the address of the client admits a request.
    #[must_use]
    pub fn admits_address(&self, address: Option<IpAddr>) -> bool {
        let has_more = self.redirects.is_some() || self.tls.is_some() || self.answers.is_some();
        !has_more && !self.keys_country && self.access.as_ref().is_some_and(|it| it.admits_address(address))
    }

    /// The response to every request for `target`, if it has a fixed answer and no other rule.
    #[must_use]
    pub fn ready_answer(&self, target: &str) -> Option<&ReadySynthetic> {
        let has_more = self.access.is_some() || self.redirects.is_some() || self.tls.is_some();
        if has_more || self.keys_country { None } else { self.answers.as_ref()?.ready(target) }
    }

    /// Whether it answers CORS preflights.
    #[must_use]
    pub fn has_cors(&self) -> bool {
        self.answers.as_ref().is_some_and(|it| it.has_cors())
    }
}

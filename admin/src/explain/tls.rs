//! `explain`: the TLS rules of a request's site (`site.tls`), and the refusals by them: 421 on a connection of other rules, 403 without
//! TLS.

use super::{Admin, refused};
use larder_config::{SiteConfig, Source, table};
use larder_semantics::request_view::RequestView;
use larder_semantics::scheme::Scheme;
use larder_server::router::Router;
use larder_server::site_tls::SiteTls;
use larder_transport::tls::{ClientAuth, HandshakeRules, MinTlsVersion};
use serde_json::{Value, json};

impl Admin {
    /// The refusal of a request over TLS whose handshake named `server_name`, a host of other rules.
    pub(super) fn misdirected_handshake(
        &self,
        router: &Router,
        view: &RequestView<'_>,
        server_name: &Value,
    ) -> Option<Value> {
        let named = server_name.as_str().filter(|_| view.scheme == Scheme::Https)?;
        let ours = router.tls(view.authority)?;
        let live = self.live.borrow();
        let of_all = live.config.tls.as_ref().map(|it| &it.rules);
        let theirs = router.tls(named).map(|it| &it.rules).or(of_all)?;
        (*theirs != ours.rules).then(|| {
            let mut explained = refused(421, larder_server::site_tls::MISDIRECTED);
            explained["tls"] = self.tls_of(router, view);
            explained
        })
    }

    /// The refusal of a request without TLS to a site that requires a client certificate.
    pub(super) fn clear_text(&self, router: &Router, view: &RequestView<'_>) -> Option<Value> {
        let is_refused =
            view.scheme == Scheme::Http && router.tls(view.authority).is_some_and(SiteTls::requires);
        is_refused.then(|| {
            let mut explained = refused(403, larder_server::site_tls::CLEAR);
            explained["tls"] = self.tls_of(router, view);
            explained
        })
    }

    /// The TLS rules of the site of a request, with the place of each; null if they are the defaults everywhere.
    pub(super) fn tls_of(&self, router: &Router, view: &RequestView<'_>) -> Value {
        let Some(SiteTls { rules, .. }) = router.tls(view.authority) else { return Value::Null };
        let live = self.live.borrow();
        let site = router.site_at(view.authority).and_then(|it| live.config.sites.get(it));
        let by = |name: &str| {
            let of_site = site
                .and_then(|it: &SiteConfig| it.routes.first())
                .map(|it| it.decided.by(&format!("{}tls.{name}", table::SITE)));
            let own = of_site.filter(|it| *it != Source::Default);
            own.unwrap_or_else(|| live.config.decided.by(&format!("tls.{name}"))).to_string()
        };
        let HandshakeRules { min_version: least, client } = rules;
        let auth = match client {
            ClientAuth::Off => "off",
            ClientAuth::Optional(_) => "optional",
            ClientAuth::Required(_) => "required",
        };
        json!({
            "min_version": if *least == MinTlsVersion::Tls13 { "1.3" } else { "1.2" },
            "client_auth": auth,
            "where": { "min_version": by("min_version"), "client_auth": by("client_auth") },
        })
    }
}

//! The facts of a client that decide over its response and are in no field of its request: a cache in front of larder cannot tell its
//! clients apart by them, and `Vary` cannot name them. Responses that depend on one are sent with `Cache-Control: private`.

use crate::access::AccessConfig;
use crate::finish::FinishConfig;
use crate::{Config, RouteConfig, SiteConfig, address};
use larder_semantics::expression::Expression;
use larder_semantics::template::{Template, TemplateInput};
use larder_transport::listener::{Listen, ListenerAddress};
use larder_transport::tls::ClientAuth;

/// A fact on which the responses of a route depend. Of two, the later one yields to fewer settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ClientFact {
    /// The client is in a list of addresses.
    Addresses,
    /// It has a certificate, which the site requires.
    RequiredCertificate,
    /// Its listener.
    Listener,
    /// Its address, country or autonomous system, in a condition of access.
    Admission,
    /// The same in the condition of a route.
    Condition,
    /// The same, or its name, in the text of an answer or of a field.
    Text,
    /// Its country, in the key of the cache.
    Country,
    /// Its certificate, which the origin gets.
    Certificate,
    /// Its credentials.
    Credentials,
}

impl ClientFact {
    /// Whether `client_ttl` permits caches in front of larder to share the responses: the page is the same for each admitted client.
    #[must_use]
    pub fn yields_to_client_ttl(self) -> bool {
        matches!(self, ClientFact::Addresses | ClientFact::RequiredCertificate)
    }

    /// The reason in a sentence, after "because".
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            ClientFact::Addresses => "access admits clients by their addresses (access.allow, access.deny)",
            ClientFact::RequiredCertificate => {
                "the site requires a client certificate (tls.client_auth = \"required\")"
            }
            ClientFact::Listener => "the route of the URL depends on the listener (listeners)",
            ClientFact::Admission => {
                "a condition of access reads the client's address, country or network (access.allow_when, access.deny_when)"
            }
            ClientFact::Condition => {
                "the route of the URL depends on the client's address, country or network (when)"
            }
            ClientFact::Text => {
                "a text of the route has the client's address, country or name (respond, redirect, response_headers)"
            }
            ClientFact::Country => "the cache key has the client's country (cache.key.country)",
            ClientFact::Certificate => "the origin gets the client's certificate (client_cert)",
            ClientFact::Credentials => "access admits each client by its credentials (access)",
        }
    }
}

impl FinishConfig {
    /// The fact that makes responses private, unless the operator says what caches in front of larder may do.
    #[must_use]
    pub fn made_private_by(&self, fact: Option<ClientFact>) -> Option<ClientFact> {
        let is_set = self
            .fields
            .iter()
            .any(|it| it.removes && !it.adds.is_empty() && it.name.eq_ignore_ascii_case("cache-control"));
        let yields = |it: ClientFact| self.client_ttl.is_some() && it.yields_to_client_ttl();
        fact.filter(|it| !is_set && !yields(*it))
    }
}

impl Config {
    /// The fact by which a route is chosen, other than request fields.
    pub(crate) fn fact_of_choice(&self, route: &RouteConfig) -> Option<ClientFact> {
        let reads = route.when.as_ref().is_some_and(Expression::reads_client);
        let by_listener = self.shares_scheme_of(&route.listeners);
        reads.then_some(ClientFact::Condition).max(by_listener.then_some(ClientFact::Listener))
    }

    /// Whether a listener that is not among `these` has the scheme of one that is. The scheme is part of the URL; the port is not, for
    /// a cache that forwards to another one.
    fn shares_scheme_of(&self, these: &[String]) -> bool {
        let named: Vec<Listen> =
            these.iter().filter_map(|it| address::entrance(it)).map(|it| it.at).collect();
        let is_secure = |it: &Listen| matches!(it, Listen::Tls(_));
        let others = self.listen.iter().filter(|it: &&ListenerAddress| !named.contains(&it.at));
        let schemes: Vec<bool> = others.map(|it| is_secure(&it.at)).collect();
        named.iter().any(|it| schemes.contains(&is_secure(it)))
    }

    /// The fact on which the responses of a route depend once it is chosen, other than request fields.
    pub(crate) fn fact_of_client(&self, site: &SiteConfig, route: &RouteConfig) -> Option<ClientFact> {
        let access = &route.access;
        let rules = site.tls.as_ref().or(self.tls.as_ref().map(|it| &it.rules));
        let requires = rules.is_some_and(|it| matches!(it.client, ClientAuth::Required(_)));
        let admits = [
            (access.allow.is_some() || access.deny.is_some(), ClientFact::Addresses),
            (requires, ClientFact::RequiredCertificate),
            (access.conditions().any(Expression::reads_client), ClientFact::Admission),
            (access.distinguishes_clients(), ClientFact::Credentials),
        ];
        let is_of_client = |it: TemplateInput<'_>| {
            let [client, country, asn] = [TemplateInput::Client, TemplateInput::Country, TemplateInput::Asn];
            [client, country, asn, TemplateInput::User].contains(&it)
        };
        let mut texts = route.service.text().into_iter().chain(route.finish.texts());
        let gives = [
            (texts.any(|it: &Template| it.inputs().any(is_of_client)), ClientFact::Text),
            (route.cache.key.has_country(), ClientFact::Country),
            (route.sends_certificate, ClientFact::Certificate),
        ];
        let admits = admits.into_iter().filter(|_| !access.is_shared);
        admits.chain(gives).filter(|it| it.0).map(|it| it.1).max()
    }
}

impl RouteConfig {
    /// The request fields by which its access rules admit; `Vary` names them.
    pub fn fields_of_access(&self) -> impl Iterator<Item = &str> {
        let conditions = self.access.conditions().filter(|_| !self.access.is_shared);
        conditions.flat_map(Expression::fields)
    }
}

impl AccessConfig {
    fn conditions(&self) -> impl Iterator<Item = &Expression> {
        self.allow_when.iter().chain(&self.deny_when)
    }

    /// Whether it demands credentials that are in no cache key: a URL that is signed for every client has its signature in itself.
    fn distinguishes_clients(&self) -> bool {
        self.identifies() || self.signed.as_ref().is_some_and(|it| it.reads_client())
    }
}

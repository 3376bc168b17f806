//! One order of a certificate (RFC 8555 section 7.4), from the account to the stored certificate. Every step is stored before the next one, so
//! that an order goes on where a kill interrupted it. The time of an order is decided in `super`.

use super::authority::AcmeAccount;
use super::challenge::{ChallengeAnswer, PublishedChallenges};
use super::fleet::AcmeFleet;
use super::folder::{AcmeFolder, NameState, StoredOrder};
use super::http::again;
use super::{AcmeFailure, FailureKind, wall};
use crate::overlay::Overlays;
use instant_acme::{
    AuthorizationStatus, CertificateIdentifier, ChallengeType, Error, Identifier, NewOrder, Order,
    OrderStatus, RetryPolicy,
};
use larder_config::tls::AcmeChallenge;
use larder_semantics::certificate_renewal::Validity;
use larder_transport::tls::ServerTls;
use larder_transport::tls::certificates::Certificate;
use rcgen::{CertificateParams, DistinguishedName, KeyPair};
use rustls_pki_types::CertificateDer;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The waits for a CA that validates or signs: a minute in total.
const POLLING: RetryPolicy =
    RetryPolicy::new().initial_delay(Duration::from_millis(200)).timeout(Duration::from_secs(60));
/// The state and services that an order uses.
pub(super) struct OrderContext<'a> {
    pub folder: &'a AcmeFolder,
    pub overlays: &'a Arc<Overlays>,
    pub tls: Option<Arc<ServerTls>>,
    /// The ways of validation, the preferred one first.
    pub challenges: &'a [AcmeChallenge],
    pub account: &'a AcmeAccount,
    /// The other nodes, which answer the challenges too.
    pub nodes: Option<Rc<AcmeFleet>>,
    pub profile: Option<&'a str>,
}

/// Gets a certificate for `name`: its key and chain, PEM. `state` has the order in progress before and after.
///
/// # Errors
/// Why there is none.
pub(super) async fn certificate(
    context: &OrderContext<'_>,
    name: &str,
    state: &mut NameState,
) -> Result<String, AcmeFailure> {
    let mut order = begin(context, name, state).await?;
    let mut published = PublishedChallenges::new(context.overlays.clone(), context.tls.clone());
    if order.state().status == OrderStatus::Pending {
        let proved = prove(&mut order, name, context, &mut published).await?;
        // The next attempt begins with the other way unless the CA validates this one: a firewall may be in it.
        let other = proved.and_then(|way| context.challenges.iter().find(|it| **it != way));
        state.way = other.map_or_else(|| state.way.clone(), |it| it.name().to_owned());
        let ready = again(async || order.poll_ready(&POLLING).await).await;
        if order.state().status == OrderStatus::Invalid {
            let why = reason(&mut order).await;
            forget(context, name, state)?;
            return Err(AcmeFailure::new(FailureKind::Unproven, why));
        }
        ready?;
        state.way = proved.map_or_else(|| state.way.clone(), |it| it.name().to_owned());
    }
    drop(published);
    if order.state().status == OrderStatus::Ready {
        let key = key_of(context, name, state)?;
        let request = request(name, &key)?;
        again(async || order.finalize_csr(&request).await).await?;
    }
    let chain = match order.state().status {
        OrderStatus::Processing | OrderStatus::Valid => {
            again(async || order.poll_certificate(&POLLING).await).await
        }
        _ => Err(Error::Str("the order has failed")),
    };
    let key = state.order.as_ref().and_then(|it| it.key.clone());
    let (chain, key) = match (chain, key) {
        (Ok(chain), Some(key)) => (chain, key),
        (Ok(_), None) => {
            forget(context, name, state)?;
            return Err(AcmeFailure::new(
                FailureKind::Unusable,
                "the key of its certificate is lost".to_owned(),
            ));
        }
        (Err(error), _) => {
            if order.state().status == OrderStatus::Invalid {
                forget(context, name, state)?;
            }
            return Err(error.into());
        }
    };
    let pem = format!("{key}{chain}");
    let validity = context.folder.certificate(name).ok().flatten().map(|it| it.validity());
    if let Err(why) = usable(name, &pem, validity, wall()) {
        forget(context, name, state)?;
        return Err(AcmeFailure::new(FailureKind::Unusable, why));
    }
    Ok(pem)
}

/// The order in progress, or a new one.
async fn begin(context: &OrderContext<'_>, name: &str, state: &mut NameState) -> Result<Order, AcmeFailure> {
    let directory = &context.account.directory;
    if let Some(stored) = state.order.clone().filter(|it| it.directory == *directory) {
        match again(async || context.account.account.order(stored.url.clone()).await).await {
            Ok(mut order) => {
                if order.state().status != OrderStatus::Invalid {
                    return Ok(order);
                }
                forget(context, name, state)?;
            }
            Err(error) => match AcmeFailure::from(error) {
                // The CA has forgotten it.
                it if it.kind == FailureKind::Refused => forget(context, name, state)?,
                it => return Err(it),
            },
        }
    }
    // A renewal that its CA knows as one is exempt from its limits.
    let present = context.folder.certificate(name).ok().flatten().filter(|_| state.authority == *directory);
    let replaces = present.and_then(|it| identifier(it.der()));
    let order = match new_order(context, name, replaces.clone()).await {
        // The CA has no renewals, or not of this certificate.
        Err(Error::Unsupported(_)) if replaces.is_some() => new_order(context, name, None).await,
        Err(Error::Api(it)) if replaces.is_some() && !super::is_of(&it, "rateLimited") => {
            new_order(context, name, None).await
        }
        answer => answer,
    }?;
    state.order = Some(StoredOrder { directory: directory.clone(), url: order.url().to_owned(), key: None });
    keep(context, name, state)?;
    Ok(order)
}

/// A new order, which replaces a certificate.
async fn new_order(
    context: &OrderContext<'_>,
    name: &str,
    replaces: Option<CertificateIdentifier<'static>>,
) -> Result<Order, Error> {
    let identifiers = [Identifier::Dns(name.to_owned())];
    again(async || {
        let mut new = NewOrder::new(&identifiers);
        if let Some(profile) = context.profile {
            new = new.profile(profile);
        }
        if let Some(replaced) = &replaces {
            new = new.replaces(replaced.clone());
        }
        context.account.account.new_order(&new).await
    })
    .await
}

/// Reads the state of each authorization, which the order keeps.
async fn read_authorizations(order: &mut Order) -> Result<(), Error> {
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        authorization?;
    }
    Ok(())
}

/// Answers the challenge of each authorization that needs one; returns the way of the last one.
async fn prove(
    order: &mut Order,
    name: &str,
    context: &OrderContext<'_>,
    published: &mut PublishedChallenges,
) -> Result<Option<AcmeChallenge>, AcmeFailure> {
    again(async || read_authorizations(order).await).await?;
    let mut proved = None;
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization = authorization?;
        if authorization.status != AuthorizationStatus::Pending {
            continue;
        }
        let kind = |it: AcmeChallenge| match it {
            AcmeChallenge::Http01 => ChallengeType::Http01,
            AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
        };
        let is_offered = |way: AcmeChallenge| {
            let kind = kind(way);
            authorization.challenges.iter().any(|it| it.r#type == kind)
        };
        let offered = context.challenges.iter().copied().find(|it| is_offered(*it));
        let none = || {
            let why = format!(
                "the CA offers no challenge for {name} by which it reaches larder: HTTP-01 or TLS-ALPN-01"
            );
            AcmeFailure::new(FailureKind::Refused, why)
        };
        let way = offered.ok_or_else(none)?;
        let mut challenge = authorization.challenge(kind(way)).ok_or_else(none)?;
        let answer = challenge.key_authorization();
        let answer = match challenge.r#type {
            ChallengeType::TlsAlpn01 => {
                ChallengeAnswer::Handshake { digest: answer.digest().as_ref().to_vec() }
            }
            _ => ChallengeAnswer::Http { token: challenge.token.clone(), text: answer.as_str().to_owned() },
        };
        published.answer(name, &answer)?;
        if let Some(fleet) = &context.nodes {
            fleet.publish(name, answer).await?;
        }
        again(async || challenge.set_ready().await).await?;
        proved = Some(way);
    }
    Ok(proved)
}

/// The reason for which an order failed: that of its authorization, otherwise its own.
async fn reason(order: &mut Order) -> String {
    let own = order.state().error.as_ref().map(super::sentence);
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        if let Err(error) = again(async || authorization.refresh().await.map(drop)).await {
            return error.to_string();
        }
        let failed = authorization.challenges.iter().find_map(|it| it.error.as_ref());
        if let Some(problem) = failed {
            return super::sentence(problem);
        }
    }
    own.unwrap_or_else(|| "the CA has refused the order and names no reason".to_owned())
}

/// The key of the certificate, which is stored before the CA sees a request for it.
fn key_of(context: &OrderContext<'_>, name: &str, state: &mut NameState) -> Result<KeyPair, AcmeFailure> {
    let unusable = |it: rcgen::Error| AcmeFailure::new(FailureKind::Own, format!("no key can be made: {it}"));
    let Some(order) = &mut state.order else {
        return Err(AcmeFailure::new(FailureKind::Own, "the order is lost".to_owned()));
    };
    if let Some(key) = order.key.as_deref().and_then(|it| KeyPair::from_pem(it).ok()) {
        return Ok(key);
    }
    let key = KeyPair::generate().map_err(unusable)?;
    order.key = Some(key.serialize_pem());
    keep(context, name, state)?;
    Ok(key)
}

fn request(name: &str, key: &KeyPair) -> Result<Vec<u8>, AcmeFailure> {
    let unusable =
        |it: rcgen::Error| AcmeFailure::new(FailureKind::Own, format!("no request can be made: {it}"));
    let mut params = CertificateParams::new([name.to_owned()]).map_err(unusable)?;
    params.distinguished_name = DistinguishedName::new();
    Ok(params.serialize_request(key).map_err(unusable)?.der().to_vec())
}

/// Whether an answer of a CA is a certificate for the name, and does not replace a valid one, `present`, by an expired one.
pub(super) fn usable(name: &str, pem: &str, present: Option<Validity>, now: i64) -> Result<(), String> {
    let what = "the answer of the CA";
    let it = Certificate::of_pem(pem.as_bytes(), pem.as_bytes(), None, what, what).map_err(|it| it.1)?;
    if !it.names.iter().any(|it| it == name) {
        return Err(format!("the certificate of the CA is for {}, not for {name}", it.names.join(", ")));
    }
    if it.until <= now && present.is_some_and(|it| it.until > now) {
        return Err(
            "the certificate of the CA has expired by the clock of this machine, and the present one has not"
                .to_owned(),
        );
    }
    Ok(())
}

fn keep(context: &OrderContext<'_>, name: &str, state: &NameState) -> Result<(), AcmeFailure> {
    context.folder.keep_state(name, state).map_err(|why| AcmeFailure::new(FailureKind::Own, why))
}

fn forget(context: &OrderContext<'_>, name: &str, state: &mut NameState) -> Result<(), AcmeFailure> {
    state.order = None;
    keep(context, name, state)
}

/// The identifier of a certificate, DER, at its CA; `None` if it does not name the key of its CA.
pub(super) fn identifier(der: &[u8]) -> Option<CertificateIdentifier<'static>> {
    let der = CertificateDer::from(der);
    CertificateIdentifier::try_from(&der).ok().map(CertificateIdentifier::into_owned)
}

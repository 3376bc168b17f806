//! The command line of `larder sign`: a URL, and the secret that signs it.

use super::{Given, PlanBase, Usage, url};
use larder_config::plan::Plan;
use larder_stdx::duration;
use std::path::PathBuf;
use std::time::Duration;

/// The validity without `--expires`.
const HOUR: Duration = Duration::from_secs(3600);
/// The longest validity: ten years.
const LONGEST: Duration = Duration::from_secs(3650 * 86_400);

/// The settings of `larder sign`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignCommand {
    /// `http` or `https`.
    pub scheme: String,
    /// Host and port as in the URL.
    pub authority: String,
    /// Path and query.
    pub target: String,
    /// The time for which the URL is valid.
    pub expires: Duration,
    /// The path beneath which the signature is valid; `None` for this page alone.
    pub prefix: Option<String>,
    /// The network of the client.
    pub ip: Option<String>,
    /// The source of the secret.
    pub secret: SecretSource,
}

/// The source of a secret that signs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// `access.signed.secret` of the route with this name, otherwise of the route for the URL.
    Route(Plan, Option<String>),
    /// A file, for a route with this `access.signed.parameters`.
    File(PathBuf, String),
}

impl SignCommand {
    /// Parses the flags.
    pub(super) fn read(mut given: Given, text: &str, base: PlanBase) -> Result<Self, Usage> {
        let (scheme, authority, target) = url(text, "URL")?;
        let mut take = |name: &str| {
            let at = given.own.iter().rposition(|it| it.0 == name)?;
            Some(given.own.remove(at).1)
        };
        let (prefix, ip, route) = (take("prefix"), take("ip"), take("route"));
        let (file, parameters) = (take("secret-file"), take("parameters"));
        let expires = take("expires").map_or(Ok(HOUR), |it| {
            let found = duration::parse(&it).ok().filter(|it| it.subsec_nanos() == 0);
            found.filter(|it| (Duration::from_secs(1)..=LONGEST).contains(it)).ok_or_else(|| {
                Usage(format!(
                    "--expires: found {it:?}; allowed: a duration from 1s to 3650d, in whole seconds"
                ))
            })
        })?;
        let secret = match (file, route, base) {
            (Some(_), Some(_), _) => {
                return Err(Usage("--secret-file and --route are both set; remove one of them".to_owned()));
            }
            (Some(_), None, PlanBase::File(_)) => {
                return Err(Usage("--secret-file and -c are both set; remove one of them".to_owned()));
            }
            (Some(file), None, _) => SecretSource::File(file.into(), parameters.unwrap_or_default()),
            (None, ..) if parameters.is_some() => {
                return Err(Usage(
                    "--parameters is set by access.signed.parameters of the route; use it with --secret-file"
                        .to_owned(),
                ));
            }
            (None, route, base) => SecretSource::Route(Plan::new(base, Vec::new()), route),
        };
        Ok(Self { scheme, authority, target, expires, prefix, ip, secret })
    }
}

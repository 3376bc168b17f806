//! `larder sign`: makes a signed URL. The signature is `larder_wire::signed_url`, by the secret of the route that verifies it.

use crate::cli::{SecretSource, SignCommand};
use larder_config::access::{SignedConfig, SignedStyle};
use larder_config::plan::Plan;
use larder_config::{Config, RouteConfig, secret_of};
use larder_semantics::path;
use larder_semantics::request_view::{self, RequestView, host_of};
use larder_semantics::scheme::Scheme;
use larder_stdx::clock;
use larder_stdx::secret::Secret;
use larder_wire::signed_url::{LEAST_SECRET, SignOptions, SignedNames, sign};
use std::path::Path;

/// The signed URL.
///
/// # Errors
/// One sentence: the configuration or the secret cannot be used, or the URL cannot be signed.
pub fn run(order: &SignCommand) -> Result<String, String> {
    let (secret, names) = match &order.secret {
        SecretSource::File(file, parameters) => (of_file(file)?, SignedNames::after(parameters)),
        SecretSource::Route(plan, name) => of_route(order, plan, name.as_deref())?,
    };
    let options = SignOptions {
        expires: clock::wall().0 + order.expires.as_secs(),
        prefix: order.prefix.as_deref(),
        ip: order.ip.as_deref(),
    };
    let host = host_of(&order.authority);
    let signed = sign(host, &order.target, &names, secret.expose().as_bytes(), &options)
        .map_err(|why| format!("The URL cannot be signed: {why}."))?;
    Ok(format!("{}://{}{signed}", order.scheme, order.authority))
}

fn of_file(file: &Path) -> Result<Secret, String> {
    let secret = secret_of(file).map_err(|why| format!("The URL cannot be signed: {why}."))?;
    match secret.len() {
        LEAST_SECRET.. => Ok(Secret::new(&secret)),
        length => Err(format!(
            "{}: the secret has {length} bytes, and a signature needs {LEAST_SECRET} at least.",
            file.display()
        )),
    }
}

fn of_route(order: &SignCommand, plan: &Plan, name: Option<&str>) -> Result<(Secret, SignedNames), String> {
    let config = plan.load().map_err(|it| it.to_string())?;
    let route = match name {
        Some(name) => {
            let mut routes = config.sites.iter().flat_map(|it| &it.routes);
            routes.find(|it| it.name == name).ok_or_else(|| format!("No route has the name \"{name}\"."))?
        }
        None => route_of(&config, order)?,
    };
    let Some(signed) = &route.access.signed else {
        return Err(format!(
            "The route {} has no access.signed; add it, or name another route with --route, or a file with --secret-file.",
            route.name
        ));
    };
    match signed {
        SignedConfig { style: SignedStyle::NginxMd5(_), .. } => Err(format!(
            "The route {} verifies links of nginx, which larder does not make; use style = \"larder\" for new ones.",
            route.name
        )),
        // A checked list has one at least.
        SignedConfig { secrets, names, .. } => Ok((secrets[0].clone(), names.clone())),
    }
}

/// The route that a GET of the URL has.
fn route_of<'c>(config: &'c Config, order: &SignCommand) -> Result<&'c RouteConfig, String> {
    let mut room = Vec::new();
    let view = RequestView {
        scheme: if order.scheme == "https" { Scheme::Https } else { Scheme::Http },
        authority: &order.authority,
        target: &order.target,
        path: request_view::normal_path(&order.target, &mut room),
        ..RequestView::default()
    };
    let site = config.site_of(view.host()).ok_or_else(|| format!("No site has the host {}.", view.host()))?;
    let takes = |it: &&RouteConfig| {
        it.path.matches_as(view.path, path::Decode::All)
            && it.methods.allow("GET")
            && it.when.as_ref().is_none_or(|it| it.holds(&view))
    };
    let found = config.sites[site].routes.iter().find(takes);
    found.ok_or_else(|| format!("No route of {} has the path {}.", view.host(), view.spelled_path()))
}

//! `proxy.env` and `php.env` of a route: variables for applications behind FastCGI, SCGI and uWSGI that read the request.

use super::proxy::is_application;
use super::rewrite::{OF_SCRIPTS, OF_VARIABLES};
use super::{ConfigCheck, RoutePath};
use crate::{PathPattern, Service};
use larder_semantics::policy::Policy;
use larder_semantics::request_variables::{RequestVariables, is_file_path, is_of_file, refused};
use larder_semantics::template::{Template, TemplateInput};

const SPELLED: &str = "site.route.proxy.env";
const SPELLED_OF_SCRIPTS: &str = "site.route.php.env";

impl ConfigCheck {
    /// The variables of a route; `None` where there are none. The constants of `php.env` belong to the script.
    pub(super) fn application_variables(
        &mut self,
        at: &RoutePath,
        service: Option<&Service>,
        path: &PathPattern,
        cache: &Policy,
    ) -> Option<RequestVariables> {
        let Some(Service::Proxy(proxy)) = service else { return None };
        let is_php = proxy.php.is_some();
        let is_effective = is_php || proxy.to.members.iter().any(is_application);
        if self.refuse_without_effect(&at.key(OF_VARIABLES), is_php, is_effective) {
            return None;
        }
        let (key, spelled) = match is_php {
            true => (at.key(OF_SCRIPTS), SPELLED_OF_SCRIPTS),
            false => (at.key(OF_VARIABLES), SPELLED),
        };
        let mut all = RequestVariables::default();
        for (name, value) in self.pairs(&key) {
            let Ok(template) = Template::parse(&value) else { continue };
            if is_php && template.inputs().next().is_none() {
                continue;
            }
            let why = match is_php && is_of_file(&name) {
                true => Some(format!(
                    "{name} reads the request, but larder finds the script; php.root and php.application_root name its directory"
                )),
                false => not_settable(&name, &template),
            };
            if let Some(why) = why {
                self.problem(self.source(&key), spelled, &why);
            }
            self.refuse_variables(at, &key, spelled, &template, path);
            self.warn_left_out(&key, spelled, &name, &template, cache);
            all.0.push((name, template));
        }
        (!all.0.is_empty()).then_some(all)
    }

    /// Rejects `proxy.env` where it sets nothing; returns whether it does.
    fn refuse_without_effect(&mut self, key: &str, is_php: bool, is_effective: bool) -> bool {
        let why = match (is_php, is_effective) {
            _ if !self.values.given.contains_key(key) => return false,
            (true, _) => "php.env sets the variables of scripts; move them there",
            (false, true) => return false,
            (false, false) => {
                "no effect: an origin with HTTP has no variables; use request_headers.set, or remove it"
            }
        };
        let source = self.source(key);
        if !self.is_of_block(&source) {
            self.problem(source, SPELLED, why);
        }
        !is_php
    }
}

/// Why a route cannot set a variable: the request decides it, or a request would choose any file by it.
fn not_settable(name: &str, template: &Template) -> Option<String> {
    let reads = template.inputs().find(|it| *it != TemplateInput::Url);
    if let Some(why) = refused(name) {
        Some(format!("{name} cannot be set: {why}"))
    } else if let Some(input) = reads.filter(|_| is_of_file(name)) {
        Some(format!(
            "{name} reads {input}, but applications choose a file by it; only parts of the URL may, such as {{host}} and captures"
        ))
    } else if is_file_path(name) && template.constant().is_none() && template.directory().is_empty() {
        Some(format!(
            "{name} begins with a variable, so that a request could name any file; begin it with a directory, such as \"/srv/app/{{1}}\""
        ))
    } else {
        None
    }
}

//! `proxy.env` of a route: variables for applications behind FastCGI, SCGI and uWSGI.

use super::proxy::is_application;
use super::rewrite::OF_VARIABLES;
use super::{ConfigCheck, RoutePath};
use crate::{PathPattern, Service};
use larder_semantics::policy::Policy;
use larder_semantics::request_variables::{RequestVariables, is_file_path, is_of_file, refused};
use larder_semantics::template::{Template, TemplateInput};

const SPELLED: &str = "site.route.proxy.env";

impl ConfigCheck {
    /// The variables of a route; `None` where there are none.
    pub(super) fn application_variables(
        &mut self,
        at: &RoutePath,
        service: Option<&Service>,
        path: &PathPattern,
        cache: &Policy,
    ) -> Option<RequestVariables> {
        let key = at.key(OF_VARIABLES);
        if !self.values.given.contains_key(&key) {
            return None;
        }
        let Some(Service::Proxy(proxy)) = service else { return None };
        let why = match &proxy.php {
            Some(_) => Some("php.env sets the variables of scripts; move them there"),
            None if !proxy.to.members.iter().any(is_application) => {
                Some("no effect: an origin with HTTP has no variables; use request_headers.set, or remove it")
            }
            None => None,
        };
        if let Some(why) = why {
            let source = self.source(&key);
            if !self.is_of_block(&source) {
                self.problem(source, SPELLED, why);
            }
            return None;
        }
        let mut all = RequestVariables::default();
        for (name, value) in self.pairs(&key) {
            let Ok(template) = Template::parse(&value) else { continue };
            self.check_variable(&key, &name, &template);
            self.refuse_variables(at, &key, SPELLED, &template, path);
            self.warn_left_out(&key, SPELLED, &name, &template, cache);
            all.0.push((name, template));
        }
        (!all.0.is_empty()).then_some(all)
    }

    /// Rejects a variable that the request decides, and one by which a request would choose any file.
    fn check_variable(&mut self, key: &str, name: &str, template: &Template) {
        let reads = template.inputs().find(|it| *it != TemplateInput::Url);
        let text = if let Some(why) = refused(name) {
            format!("{name} cannot be set: {why}")
        } else if let Some(input) = reads.filter(|_| is_of_file(name)) {
            format!(
                "{name} reads {input}, but applications choose a file by it; only parts of the URL may, such as {{host}} and captures"
            )
        } else if is_file_path(name) && template.constant().is_none() && template.directory().is_empty() {
            format!(
                "{name} begins with a variable, so that a request could name any file; begin it with a directory, such as \"/srv/app/{{1}}\""
            )
        } else {
            return;
        };
        self.problem_unless_told(self.source(key), SPELLED, &text);
    }
}

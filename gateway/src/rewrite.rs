//! The target that an origin sees in place of the client's (`site.route.strip` and the like). The rules are in
//! `semantics::rewrite`; the key stays that of the client's target.

use larder_semantics::field::{Field, FieldList};
use larder_semantics::geo::GeoLookup;
use larder_semantics::key::KeyRecipe;
use larder_semantics::pattern::PathPattern;
use larder_semantics::policy::{Policy, USER};
use larder_semantics::request_fields::RequestFields;
use larder_semantics::request_variables::RequestVariables;
use larder_semantics::request_view::{self, RequestView};
use larder_semantics::rewrite::{Rewrite, Rewritten};
use larder_transport::Client;
use larder_wire::message::Request;
use std::borrow::Cow;
use std::sync::Arc;

/// The rewrites of a route.
#[derive(Clone, Debug, Default)]
pub struct RewriteSettings {
    /// The changes of the target; `None` where it stays.
    pub target: Option<Arc<Rewrite>>,
    /// The changes of the fields, with the pattern whose captures they may use; `None` where there are none.
    pub fields: Option<Arc<(PathPattern, RequestFields)>>,
    /// The variables for an application, with the same; `None` where there are none.
    pub variables: Option<Arc<(PathPattern, RequestVariables)>>,
    /// The hosts of its site, as they are configured.
    pub hosts: Arc<[String]>,
}

impl RewriteSettings {
    /// The target for the origin; `None` where it stays.
    pub(crate) fn rewritten(&self, view: &RequestView<'_>) -> Option<Rewritten> {
        self.target.as_ref().map(|it| it.target(view.target, &RequestView { hosts: &self.hosts, ..*view }))
    }

    /// The same without paths and values of the query that may be secrets.
    fn shown(&self) -> Self {
        Self { target: self.target.as_ref().map(|it| Arc::new(it.shown())), ..self.clone() }
    }

    /// Changes the fields for the origin; `shared` is the key of the request if its response may be shared.
    pub(crate) fn change(&self, view: &RequestView<'_>, shared: Option<&KeyRecipe>, fields: &mut FieldList) {
        let Some(rules) = &self.fields else { return };
        let (pattern, rules) = &**rules;
        self.captured(pattern, view, |it| rules.apply(it, shared, fields));
    }

    /// The variables for an application; `shared` as for [`RewriteSettings::change`].
    pub(crate) fn variables(&self, view: &RequestView<'_>, shared: Option<&KeyRecipe>) -> FieldList {
        let Some(rules) = &self.variables else { return FieldList::default() };
        self.captured(&rules.0, view, |it| rules.1.of(it, shared))
    }

    /// Whether the request leads a path of a file in the variables out of its directory.
    pub(crate) fn climbs(&self, view: &RequestView<'_>) -> bool {
        self.variables.as_ref().is_some_and(|rules| self.captured(&rules.0, view, |it| rules.1.climb(it)))
    }

    /// The result of `read` for the request with the captures of its path.
    fn captured<R>(
        &self,
        pattern: &PathPattern,
        view: &RequestView<'_>,
        read: impl FnOnce(&RequestView<'_>) -> R,
    ) -> R {
        let mut room = Vec::new();
        let path = request_view::normal_path(view.target, &mut room);
        let captures = pattern.captures(path).unwrap_or_default();
        read(&RequestView { path, captures, hosts: &self.hosts, ..*view })
    }
}

/// The request as rewrites read it; the captures are those of the pattern of each rewrite.
pub(crate) fn view<'a>(
    request: &'a Request,
    fields: &'a [Field<'a>],
    client: Option<&'a Client>,
    geo: Option<&'a GeoLookup>,
) -> RequestView<'a> {
    RequestView {
        method: &request.method,
        scheme: request.scheme,
        authority: &request.authority,
        target: &request.target,
        fields,
        client: client.and_then(|it| it.peer).map(|it| it.ip()),
        listener: client.map_or("", |it| &it.listener),
        user: fields.iter().find(|it| it.name == USER).map_or(b"", |it| it.value),
        geo,
        ..RequestView::default()
    }
}

/// The same for `explain`, of a request of this client.
pub(crate) fn view_of<'a>(
    request: &'a Request,
    fields: &'a [Field<'a>],
    asked: &RequestView<'a>,
) -> RequestView<'a> {
    let RequestView { client, listener, geo, .. } = *asked;
    RequestView { client, listener, geo, ..view(request, fields, None, None) }
}

/// Why a target is refused that an application may read as one outside of the base path, or of a directory of files.
pub(crate) const LEAVES: &str = "Its path leads out of the base path of the origin (proxy.to, site.route.add_prefix) or of a directory in proxy.env, in one of its \
                                 readings.";

/// The target that an origin gets in place of the client's, without paths and values of `query.set` that may be secrets; for `explain`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentTarget {
    /// The target.
    pub target: String,
    /// The changes: the beginning of a sentence.
    pub changes: String,
}

impl SentTarget {
    /// Of a request to a route, by the client of `asked`; one that bypasses the cache has parameters that the key lacks.
    #[must_use]
    pub fn of<'a>(
        settings: &RewriteSettings,
        policy: &Policy,
        request: &'a Request,
        passes: bool,
        asked: &RequestView<'a>,
    ) -> Option<Self> {
        let target = request.target.as_str();
        let sent = if passes { Cow::Borrowed(target) } else { policy.key.target(target) };
        let fields = request.fields.view();
        let view = RequestView { target: &sent, ..view_of(request, &fields, asked) };
        let shown = settings.shown();
        let target = shown.rewritten(&view).map(|it| it.target);
        let of_fields = settings.fields.as_ref().map(|it| it.1.describe());
        let of_target = shown.target.as_ref().map(|it| it.describe());
        let of_variables = settings.variables.as_ref().map(|it| it.1.describe());
        let changes: Vec<String> = of_target.into_iter().chain(of_fields).chain(of_variables).collect();
        if changes.is_empty() {
            return None;
        }
        Some(Self { target: target.unwrap_or_else(|| sent.into_owned()), changes: changes.join("; ") })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_semantics::query_rewrite::Parameters;
    use larder_semantics::rewrite::PathTemplate;
    use larder_semantics::scheme::Scheme;
    use larder_semantics::template::Template;
    use larder_wire::message::{Framing, Version};

    #[test]
    fn explain_shows_the_target_of_the_client_of_its_question() {
        let path = PathTemplate {
            pattern: PathPattern::parse("/{name}").unwrap(),
            template: Template::parse("/for/{client}").unwrap(),
        };
        let target = Some(Arc::new(Rewrite::of_template(path, "", Parameters::default())));
        let settings = RewriteSettings { target, ..RewriteSettings::default() };
        let request = Request {
            method: "GET".to_owned(),
            target: "/a".to_owned(),
            authority: "h".to_owned(),
            scheme: Scheme::Http,
            version: Version::Http11,
            protocol: None,
            fields: FieldList::new(),
            framing: Framing::Empty,
            expects_continue: false,
        };
        let asked = RequestView { client: "192.0.2.7".parse().ok(), ..RequestView::default() };
        let sent = SentTarget::of(&settings, &Policy::default(), &request, false, &asked);
        assert_eq!("/for/192.0.2.7", sent.unwrap().target);
    }
}

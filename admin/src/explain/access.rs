//! `explain`: the access rule that decides about a request, with its file and line.

use super::{Admin, refused};
use larder_config::{Source, dotted};
use larder_semantics::request_view::{RequestView, normal_path};
use larder_server::access::{AccessFinding, AccessVerdict, Admitted};
use larder_server::purge::method;
use larder_server::router::{Router, RoutesWithoutFile};
use serde_json::{Value, json};

/// The access rules of a route, as far as they decide about a request.
pub(super) struct ExplainedAccess {
    /// The rule that decides, as `access`; with a `verdict` if it refuses the request.
    pub json: Value,
    /// The changes of the request, if it is admitted.
    pub changes: Admitted,
    /// The verification on which it depends: one sentence without its full stop.
    depends_on: Option<String>,
}

impl ExplainedAccess {
    /// Replaces the explanation of a request whose identity only a verification would prove, on a route with the identity in its key.
    pub fn explain_unknown_identity(&self, explained: &mut Value) {
        let Some(why) = &self.depends_on else { return };
        let sentence = format!(
            "Depends on access: {why}. Each client has pages of its own (access.key = \"identity\")."
        );
        explained["verdict"] = json!({ "name": "depends", "sentence": sentence, "status": null });
        explained["rules"] = json!([]);
        for key in ["bypass", "reason", "change", "changes", "stored", "last_refusal"] {
            explained[key] = Value::Null;
        }
    }

    fn refused(explained: Value) -> Self {
        Self { json: explained, changes: Admitted::default(), depends_on: None }
    }

    fn new(explained: Value, changes: Admitted, finding: AccessFinding) -> Self {
        let depends_on = Some(finding.sentence).filter(|_| finding.verdict == AccessVerdict::Depends);
        Self { json: explained, changes, depends_on }
    }
}

impl Admin {
    /// The rule of access that decides. `None` without rules.
    pub(super) fn access_of(
        &self,
        router: &Router,
        without: RoutesWithoutFile,
        view: &RequestView<'_>,
    ) -> Option<ExplainedAccess> {
        let mut room = Vec::new();
        let path = normal_path(view.target, &mut room);
        let view = &RequestView { path, ..*view };
        let found = router.find_without(without, view.method, view.authority, view.target, || *view);
        if let Some(found) = found.filter(|it| !it.sure)
            && !router.has_one_access(&found, view)
        {
            let text = "The path is ambiguous: its interpretations have different access rules.";
            return Some(ExplainedAccess::refused(refused(400, text)));
        }
        let purged = method::route(router, view.method, || *view).and_then(|it| it.admission.as_deref());
        let rules = purged.or(found.and_then(|it| it.admission))?.access.as_ref()?;
        let finding = rules.explain(view);
        let live = self.live.borrow();
        let row = found.and_then(|it| live.config.sites.get(it.at.0)?.routes.get(it.at.1));
        // A table such as `basic` has the place of the first of its keys that was given.
        let below = format!("{}.", finding.key);
        let of_table = || row?.decided.iter().find(|it| it.0.starts_with(&below)).map(|it| it.1.clone());
        let exact = row.map(|it| it.decided.by(finding.key)).filter(|it| *it != Source::Default);
        let place =
            finding.place.clone().or(exact).or_else(of_table).map_or(Value::Null, |it| it.to_string().into());
        let (name, status) = match finding.verdict {
            AccessVerdict::Refused(status) => ("refused", Some(status)),
            AccessVerdict::Depends => ("depends", None),
            AccessVerdict::Admitted => ("admitted", None),
        };
        let access =
            json!({ "name": name, "key": dotted(finding.key), "sentence": finding.sentence, "where": place });
        let mut explained = json!({ "access": access });
        if let Some(status) = status {
            explained["access"]["admits"] = finding.admits.as_str().into();
            let sentence = format!("Refused by larder before the cache: {}.", finding.sentence);
            explained["verdict"] = json!({ "name": "refused", "sentence": sentence, "status": status });
            explained["site"] = json!(found.map(|it| it.at.0));
            explained["route"] = json!(found.map(|it| it.target.name()));
            explained["settings"] = found.map_or(Value::Null, |it| self.settings(it.at.0, it.at.1));
        }
        Some(ExplainedAccess::new(explained, rules.known_changes(view), finding))
    }
}

//! The endpoints of maintenance: `site.maintenance.enabled` in the configuration file, for operators who may change nothing else of it.

use super::Admin;
use super::texts::AskedTexts;
use crate::parameters::{Parameter, text};
use crate::{AdminRequest, AdminResponse, problem_at};
use larder_config::edit::{Edit, EditChange, PathStep};
use serde_json::{Value, json};

/// `GET /api/v1/maintenance`.
pub const SITES: &str = r#"{"type":"object","required":["sites"],"properties":{
"sites":{"type":"array","items":{"type":"object","required":["hosts","maintenance"],"properties":{
"hosts":{"type":"array","items":{"type":"string"}},"maintenance":{"type":"boolean"}}}}}}"#;

/// The parameters of a change.
pub const OF_HOST: &[Parameter] = &[text("host", "only the site with this host; default: all sites")];

/// Whether sites are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MaintenanceState {
    /// Their requests get the page of `site.maintenance`.
    On,
    /// They are in service.
    Off,
}

impl Admin {
    /// `GET /api/v1/maintenance`.
    pub(crate) fn maintenance(&self) -> AdminResponse {
        match self.saved_document() {
            Ok(document) => AdminResponse::Json(200, json!({ "sites": sites(&document) })),
            Err(refusal) => refusal,
        }
    }

    /// `PUT` and `DELETE /api/v1/maintenance?host=…`.
    pub(crate) async fn set_maintenance(
        &self,
        asked: &AdminRequest<'_>,
        state: MaintenanceState,
    ) -> AdminResponse {
        let host = asked.query_value("host");
        let document = match self.saved_document() {
            Ok(it) => it,
            Err(refusal) => return refusal,
        };
        let change = || match state {
            MaintenanceState::On => EditChange::Set(true.into()),
            MaintenanceState::Off => EditChange::Remove,
        };
        let is_meant = |it: &Value| host.as_ref().is_none_or(|host| has_host(it, host));
        let is_other = |it: &Value| it["maintenance"] != json!(state == MaintenanceState::On);
        let found = sites(&document);
        let meant = || found.iter().enumerate().filter(|it| is_meant(it.1));
        if meant().next().is_none() {
            let detail = match host {
                Some(host) => format!(
                    "No site of the configuration has the host {host:?}; GET /api/v1/maintenance lists them."
                ),
                None => "The configuration has no site.".to_owned(),
            };
            return problem_at(404, detail, "host");
        }
        let name = |it: &str| PathStep::Name(it.to_owned());
        let path = |at: usize| vec![name("site"), PathStep::At(at), name("maintenance"), name("enabled")];
        let edits: Vec<Edit> = meant()
            .filter(|it| is_other(it.1))
            .map(|(at, _)| Edit { path: path(at), change: change(), file: None })
            .collect();
        if !edits.is_empty() {
            let done = self.apply_edits(&edits, &asked.by()).await;
            if !matches!(done, AdminResponse::Json(200, _)) {
                return done;
            }
        }
        self.maintenance()
    }

    /// Makes edits in the saved files, and has them taken over.
    async fn apply_edits(&self, edits: &[Edit], by: &str) -> AdminResponse {
        let (plan, cover) = (&self.configuring.plan, &self.configuring.cover);
        let text = match self.configuring.editable().and_then(|it| it.read()) {
            Ok(it) => it,
            Err(why) => return problem_at(409, why, "path"),
        };
        let base = vec![(std::path::PathBuf::new(), super::config_file::hash(&cover.hide(&text).text))];
        let saved = AskedTexts { text, others: Default::default() }.hidden(cover);
        let mut files = saved.files(plan, cover);
        if let Err(detail) = files.texts.apply(edits) {
            return problem_at(409, detail, "path");
        }
        let others = files.changed(cover).map(|it| (it.0.path.clone(), it.1.into())).collect();
        let asked = AskedTexts { text: files.texts.texts[0].clone(), others };
        let real = self.configuring.revealed(&asked);
        self.put_in_force(real, &base, by).await
    }

    /// The keys of the saved files.
    fn saved_document(&self) -> Result<Value, AdminResponse> {
        let (plan, cover) = (&self.configuring.plan, &self.configuring.cover);
        let text = self.configuring.store().and_then(|it| it.read());
        let text = text.map_err(|why| problem_at(409, why, "path"))?;
        Ok(AskedTexts { text, others: Default::default() }.hidden(cover).files(plan, cover).keys().document)
    }
}

/// The sites of a configuration as JSON.
fn sites(document: &Value) -> Vec<Value> {
    let site = |it: &Value| {
        let hosts = match &it["hosts"] {
            Value::String(host) => json!([host]),
            Value::Array(all) => json!(all),
            _ => json!([]),
        };
        json!({ "hosts": hosts, "maintenance": it["maintenance"]["enabled"] == json!(true) })
    };
    document["site"].as_array().into_iter().flatten().map(site).collect()
}

fn has_host(site: &Value, host: &str) -> bool {
    let mut hosts = site["hosts"].as_array().into_iter().flatten().filter_map(Value::as_str);
    hosts.any(|it| it.eq_ignore_ascii_case(host))
}

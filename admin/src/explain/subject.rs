//! The subject of an explanation as an operator writes it: a path, a URL with or without its scheme, a tag, or the id of a request.

use super::{Admin, Scheme, Value, json};
use crate::{AdminRequest, AdminResponse, problem_at};
use larder_observe::ids::RequestId;

/// The most pages of a tag that are listed.
const PAGES: usize = 20;

impl Admin {
    /// The question with `url` or `id` in place of `subject`; or the answer, for a tag.
    pub(super) async fn asked_for(&self, asked: &AdminRequest<'_>) -> Result<Value, AdminResponse> {
        let subject = asked.json["ask"].as_str().unwrap_or_default().trim();
        if ["url", "id"].iter().any(|it| !asked.json[*it].is_null()) {
            return Err(problem_at(400, "\"ask\" is the subject; remove url and id.", "ask"));
        }
        if subject.is_empty() || subject.contains(char::is_whitespace) {
            let detail = "The subject is a path, a URL, a tag or the id of a request, without spaces; write a space of a URL as %20.";
            return Err(problem_at(400, detail, "ask"));
        }
        if let Some(tag) = subject.strip_prefix("tag:") {
            if tag.is_empty() {
                return Err(problem_at(
                    400,
                    "The tag has no name; write it behind the colon, such as tag:post-17.",
                    "ask",
                ));
            }
            return Err(self.explain_tag(asked, tag).await);
        }
        let is_known = |id| self.recent.find(id).is_some() || self.worst_question(id).is_some();
        if RequestId::parse(subject).is_some_and(is_known) {
            return Ok(json!({ "id": subject }));
        }
        let url = match subject {
            // Of another scheme it is refused as a URL.
            it if it.contains("://") => it.to_owned(),
            it if it.starts_with('/') => format!("{}{it}", self.site_of(it)),
            it if it.contains(['.', ':', '/']) || self.is_host(it) => {
                format!("{}://{it}", self.first_scheme().name())
            }
            it => return Err(self.explain_tag(asked, it).await),
        };
        let mut question = asked.json.clone();
        if let Some(it) = question.as_object_mut() {
            it.shift_remove("ask");
        }
        question["url"] = url.into();
        Ok(question)
    }

    /// The scheme of the first listener.
    fn first_scheme(&self) -> Scheme {
        let listeners = self.public.borrow();
        let secure = |it: &String| it.starts_with("https");
        if listeners.iter().all(secure) && !listeners.is_empty() { Scheme::Https } else { Scheme::Http }
    }

    fn is_host(&self, name: &str) -> bool {
        name == "localhost"
            || self
                .live
                .borrow()
                .config
                .sites
                .iter()
                .flat_map(|it| &it.hosts)
                .any(|it| it.to_string() == name)
    }

    /// Scheme and authority for a path: those of recent clients, which may name another port than that of the listener; before the
    /// first request those of the first site.
    fn site_of(&self, target: &str) -> String {
        let host = self.first_host();
        let is_ours = |authority: &str| {
            let name = authority.rsplit_once(':').map_or(authority, |it| it.0);
            !authority.is_empty() && host.as_deref().is_none_or(|it| it.eq_ignore_ascii_case(name))
        };
        let recent = self.recent.site_of(target, is_ours);
        recent.map_or_else(|| self.first_site(), |it| format!("{}://{}", it.0.name(), it.1))
    }

    /// The first host that is no pattern.
    fn first_host(&self) -> Option<String> {
        let live = self.live.borrow();
        let mut hosts = live.config.sites.iter().flat_map(|it| &it.hosts).map(ToString::to_string);
        hosts.find(|it| !it.contains('*'))
    }

    /// Scheme, host and port of the first site, as clients of the first listener name them.
    fn first_site(&self) -> String {
        let scheme = self.first_scheme();
        let listeners = self.public.borrow();
        let of_scheme = listeners.iter().filter_map(|it| Scheme::split(it)).find(|it| it.0 == scheme);
        let at = of_scheme.map_or("localhost", |it| it.1.trim_end_matches('/'));
        let port = at.rsplit_once(':').map_or("", |it| it.1);
        let authority = match self.first_host() {
            Some(host) if !port.is_empty() => format!("{host}:{port}"),
            Some(host) => host,
            None => at.replacen("0.0.0.0:", "127.0.0.1:", 1).replacen("[::]:", "[::1]:", 1),
        };
        format!("{}://{}", scheme.name(), scheme.without_port(&authority))
    }

    /// The stored pages of a tag.
    async fn explain_tag(&self, asked: &AdminRequest<'_>, tag: &str) -> AdminResponse {
        let escaped = tag.bytes().fold(String::new(), |all, it| format!("{all}%{it:02X}"));
        let query = format!("tag={escaped}&limit={PAGES}");
        let listing = AdminRequest { query: &query, named: None, ..*asked };
        let listed = match self.objects(listing).await {
            AdminResponse::Json(200, it) => it,
            other => return other,
        };
        let all = listed["objects"].as_array().cloned().unwrap_or_default();
        let pages: Vec<Value> = all.iter().map(|it| it["url"].clone()).collect();
        let more = if listed["next"].is_null() { "" } else { " or more" };
        let sentence = match pages.len() {
            0 if RequestId::parse(tag).is_some() => {
                format!("No request with the id {tag} is kept any more, and no stored response has that tag.")
            }
            0 => format!(
                "No stored response has the tag {tag}. A host or a path is written as example.com/ or /path."
            ),
            1 => format!("One stored response has the tag {tag}."),
            count => format!("{count}{more} stored responses have the tag {tag}."),
        };
        AdminResponse::Json(
            200,
            json!({ "verdict": { "name": "tag", "sentence": sentence }, "pages": pages }),
        )
    }
}

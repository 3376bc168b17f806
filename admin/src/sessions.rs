//! The endpoints of login, sessions and tokens. Their state is in `access`.

use super::access::{AccessRefusal, is_named};
use super::parameters::{Parameter, text};
use super::requester::Requester;
use super::{Admin, AdminRequest, AdminResponse, problem, problem_at};
use serde_json::json;

/// `GET /api/v1/whoami`.
pub const WHOAMI: &str = r#"{"type":"object","required":["name","role","session"],"properties":{
"name":{"type":"string","description":"the name of the token"},"role":{"enum":["viewer","operator","admin"]},"session":{"type":["integer","null"]}}}"#;

/// `GET /api/v1/sessions`.
pub const SESSIONS: &str = r#"{"type":"object","required":["sessions"],"properties":{
"sessions":{"type":"array","description":"the latest used first","items":{"type":"object","required":["id","name","role","from","login","used","expires","own"],"properties":{
"id":{"type":"integer"},"name":{"type":"string","description":"the name of the token with which it began"},"role":{"enum":["viewer","operator","admin"]},
"from":{"type":"string","description":"the address of its login"},"login":{"type":"integer"},"used":{"type":"integer"},"expires":{"type":"integer"},
"own":{"type":"boolean","description":"whether it is that of this request"}}}}}}"#;

/// `GET /api/v1/tokens`.
pub const TOKENS: &str = r#"{"type":"object","required":["tokens"],"properties":{
"tokens":{"type":"array","items":{"type":"object","required":["name","role","used","from","sessions"],"properties":{
"name":{"type":"string"},"role":{"enum":["viewer","operator","admin"]},"used":{"type":["integer","null"],"description":"time of its last use, by its sessions as well; null since the start of larder"},
"from":{"type":["string","null"],"description":"the address of that client"},"sessions":{"type":"integer"}}}}}}"#;

/// Ended sessions.
pub const ALL_ENDED: &str = r#"{"type":"object","required":["ended"],"properties":{"ended":{"type":"integer","description":"number of sessions"}}}"#;

/// The parameters of the end of several sessions.
pub const OF_TOKEN: &[Parameter] = &[text("token", "only those of the token with this name; default: all")];

impl Admin {
    /// `POST /api/v1/login`.
    pub(super) fn login(&self, asked: AdminRequest<'_>) -> AdminResponse {
        match self.access.login(asked.json["code"].as_str().unwrap_or_default(), asked.client) {
            Ok(Ok((token, expires, requester))) => {
                let details = json!({
                    "token": token, "expires": expires, "session": requester.session(), "name": requester.name(),
                    "role": requester.role().map(|it| it.name()),
                });
                let _ = asked.began.set(requester);
                AdminResponse::Json(200, details)
            }
            Ok(Err(error)) => no_randomness(&error),
            Err(AccessRefusal::TooMany) => AccessRefusal::TooMany.into(),
            Err(_) => problem_at(
                403,
                "This login link was already used, or is older than 10 minutes; `larder login` prints a new one.",
                "code",
            ),
        }
    }

    /// `POST /api/v1/login-links`.
    pub(super) fn login_link(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let (code, expires) = match self.access.link(Some(asked.requester)) {
            Ok(it) => it,
            Err(error) => return no_randomness(&error),
        };
        let authority = &asked.request.authority;
        let page = match asked.client.local {
            None => self.access.page().to_owned(),
            Some(_) if is_named(authority, &self.live.borrow().config.admin.hosts) => {
                format!("https://{authority}")
            }
            Some(_) => format!("http://{authority}"),
        };
        AdminResponse::Json(
            200,
            json!({ "link": format!("{page}/#login={code}"), "code": code, "expires": expires }),
        )
    }

    /// `POST /api/v1/logout`.
    pub(super) fn logout(&self, asked: AdminRequest<'_>) -> AdminResponse {
        match asked.requester {
            Requester::Session(number, _) => {
                self.access.end(*number);
                self.ended(json!({ "ended": number }))
            }
            _ => problem_at(
                409,
                "Only a session can be ended; a token stays valid until it is removed from the configuration, or from the file of \
                 admin.token_file and larder is restarted.",
                "Authorization",
            ),
        }
    }

    /// `POST /api/v1/logout/everywhere`.
    pub(super) fn logout_everywhere(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let own = match asked.requester.token() {
            Some(it) => Some(it.clone()),
            None => self.access.named(larder_config::admin_role::ADMIN_NAME),
        };
        self.ended(json!({ "ended": self.access.end_all(own.as_deref()) }))
    }

    /// `GET /api/v1/whoami`.
    pub(super) fn whoami(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let requester = asked.requester;
        AdminResponse::Json(
            200,
            json!({ "name": requester.name(), "role": requester.role().map(|it| it.name()), "session": requester.session() }),
        )
    }

    /// `GET /api/v1/sessions`.
    pub(super) fn sessions(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        AdminResponse::Json(200, json!({ "sessions": self.access.sessions(asked.requester) }))
    }

    /// `GET /api/v1/tokens`.
    pub(super) fn tokens(&self) -> AdminResponse {
        AdminResponse::Json(200, json!({ "tokens": self.access.tokens() }))
    }

    /// `DELETE /api/v1/sessions/{id}`.
    pub(super) fn end_session(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let named = asked.named.unwrap_or_default();
        match named.parse().ok().filter(|it| self.access.end(*it)) {
            Some(number) => self.ended(json!({ "ended": number })),
            None => problem_at(404, "No session has this id; GET /api/v1/sessions lists them.", "id"),
        }
    }

    /// `DELETE /api/v1/sessions?token=…`.
    pub(super) fn end_sessions(&self, asked: &AdminRequest<'_>) -> AdminResponse {
        let of = match asked.query_value("token") {
            None => None,
            Some(name) => match self.access.named(&name) {
                Some(it) => Some(it),
                None => {
                    let detail = format!("No token has the name {name:?}; GET /api/v1/tokens lists them.");
                    return problem_at(404, detail, "token");
                }
            },
        };
        self.ended(json!({ "ended": self.access.end_all(of.as_deref()) }))
    }

    /// The answer after sessions have ended: an error if a restart would bring them back.
    fn ended(&self, answer: serde_json::Value) -> AdminResponse {
        match self.access.unwritten() {
            None => AdminResponse::Json(200, answer),
            Some(why) => problem(
                500,
                format!(
                    "The sessions have ended, but would be valid again after a restart: {why}; remove the file."
                ),
            ),
        }
    }
}

fn no_randomness(error: &std::io::Error) -> AdminResponse {
    problem(503, format!("The system provides no random bytes: {}.", larder_stdx::error::plain(error)))
}

//! Routes that take SQL from the request (`sql.raw`): the forms of DBSlayer and of the bridge of Cherokee, and their answers. The statement
//! runs as those of other routes; access to it is decided before.

use super::{QueryExecutor, head, view, whole};
use bytes::Bytes;
use larder_config::PathPattern;
use larder_config::sql::{RawForm, SqlConfig};
use larder_database::{RowsFound, SqlAccess, SqlCall, SqlError, SqlQuery, SqlStatement};
use larder_gateway::source::{MadeBody, MadeResponse, MadeResponseFuture, ResponseMaker};
use larder_semantics::field::FieldList;
use larder_semantics::parameter;
use larder_wire::message::{Framing, Request};
use serde_json::{Value, json};
use std::rc::Rc;
use std::sync::Arc;

/// The number of errors without a number of MySQL (`ER_UNKNOWN_ERROR`), and of those of syntax (`ER_PARSE_ERROR`).
const UNKNOWN: u16 = 1105;
const SYNTAX: u16 = 1064;

/// Makes the responses of a route from statements in requests.
pub(crate) struct RawSqlMaker {
    form: RawForm,
    path: PathPattern,
    config: SqlConfig,
    route: Rc<QueryExecutor>,
}

impl RawSqlMaker {
    /// The maker of a route with this path, whose queries `route` runs.
    pub(super) fn new(form: RawForm, path: PathPattern, config: SqlConfig, route: Rc<QueryExecutor>) -> Self {
        Self { form, path, config, route }
    }
}

impl ResponseMaker for RawSqlMaker {
    fn make(&self, request: &Rc<Request>, body: Bytes) -> MadeResponseFuture {
        let (form, route) = (self.form, self.route.clone());
        let (statement, is_public) = (self.statement(request, &body), self.config.is_public);
        Box::pin(async move {
            Ok(match statement {
                Ok(statement) => answer(form, route, statement, is_public).await,
                Err(wrong) => wrong.answer(form, &route),
            })
        })
    }
}

/// Why a request has no statement.
#[derive(Debug, PartialEq, Eq)]
enum BadStatement {
    /// It is not in a form of the route.
    Form,
    /// The statement is refused: one sentence.
    Refused(String),
}

impl BadStatement {
    fn answer(self, form: RawForm, route: &QueryExecutor) -> MadeResponse {
        match (self, form) {
            (BadStatement::Refused(why), _) => failure(form, route, SYNTAX, &why),
            (BadStatement::Form, RawForm::DbSlayer) => {
                finished(&json!({ "ERROR": "we got problems -  couldn't parse your incoming json" }))
            }
            (BadStatement::Form, RawForm::Cherokee) => {
                failure(form, route, SYNTAX, "the request has no statement")
            }
        }
    }
}

impl RawSqlMaker {
    fn statement(&self, request: &Request, body: &Bytes) -> Result<Arc<SqlStatement>, BadStatement> {
        let text = text(self.form, &self.path, request, body).ok_or(BadStatement::Form)?;
        let (pattern, dialect) = (&self.config.statement, self.config.database.place.dialect);
        let query = SqlQuery::parse(&text, &[], dialect).map_err(BadStatement::Refused)?;
        // A link or an image on a page of another site is requested with the credentials and the address of its reader.
        let access = match &*request.method {
            "GET" | "HEAD" | "QUERY" if !self.config.gets_write => SqlAccess::Reads,
            _ => pattern.access,
        };
        if !(query.reads() || query.writes() && access == SqlAccess::Writes) {
            let remedy = if pattern.access == access {
                "are not allowed here"
            } else {
                "require POST here, or GET in the methods of the route"
            };
            let why = format!("statements that begin with \"{}\" {remedy}", query.verb);
            return Err(BadStatement::Refused(why));
        }
        if query.reaches_files(dialect) {
            let why =
                "files of the database server (LOAD_FILE, INTO OUTFILE, INTO DUMPFILE) are not allowed here";
            return Err(BadStatement::Refused(why.to_owned()));
        }
        Ok(Arc::new(SqlStatement { query, access, ..(**pattern).clone() }))
    }
}

/// The statement in a request.
fn text(form: RawForm, path: &PathPattern, request: &Request, body: &Bytes) -> Option<String> {
    if !body.is_empty() {
        return of_body(path, request, body);
    }
    let (target, query) = request.target.split_once('?').unwrap_or((&request.target, ""));
    match form {
        RawForm::DbSlayer => {
            let decoded = decoded(query)?;
            match decoded.trim_start().starts_with('{') {
                true => member(decoded.as_bytes()),
                false => of_form(query),
            }
        }
        RawForm::Cherokee => {
            let prefix = std::str::from_utf8(path.prefix()).ok()?;
            decoded_path(target.strip_prefix(prefix)?).filter(|it| !it.is_empty())
        }
    }
}

/// The statement in a body: the member `SQL` of a JSON object or of a form, or the whole text.
fn of_body(path: &PathPattern, request: &Request, body: &Bytes) -> Option<String> {
    let (mut room, lines) = (Vec::new(), request.fields.view());
    let view = view(request, path, &mut room, &lines);
    let kind = view.fields.iter().find(|it| it.is("content-type")).map_or(&b""[..], |it| it.value);
    let kind = kind.split(|it| *it == b';').next().unwrap_or_default().trim_ascii();
    let text = std::str::from_utf8(body).ok()?;
    if kind.eq_ignore_ascii_case(b"application/json") {
        return member(body);
    }
    // Clients that set no type of their own, such as curl, send a statement with this type as well.
    let is_form = kind.eq_ignore_ascii_case(b"application/x-www-form-urlencoded");
    match is_form && text.starts_with("SQL=") {
        true => of_form(text),
        false => Some(text.to_owned()),
    }
}

fn member(object: &[u8]) -> Option<String> {
    let value: Value = serde_json::from_slice(object).ok()?;
    value.get("SQL")?.as_str().map(str::to_owned)
}

/// The statement of a form; two are none, as a proxy that checks statements may have read the other.
fn of_form(text: &str) -> Option<String> {
    let mut values = text.split('&').filter_map(|it| it.strip_prefix("SQL="));
    let value = values.next().filter(|_| values.next().is_none())?;
    decoded(value)
}

/// A text without its escapes, `+` as a space. `None` if it is no UTF-8.
fn decoded(text: &str) -> Option<String> {
    String::from_utf8(parameter::decoded(text.as_bytes()).collect()).ok()
}

/// A part of a path without its escapes, where `+` is no space.
fn decoded_path(text: &str) -> Option<String> {
    decoded(&text.replace('+', "%2B"))
}

async fn answer(
    form: RawForm,
    route: Rc<QueryExecutor>,
    statement: Arc<SqlStatement>,
    is_public: bool,
) -> MadeResponse {
    let is_public = is_public && statement.access == SqlAccess::Reads;
    let call = SqlCall { statement, values: Vec::new() };
    let answer = match route.database.run(&call).await {
        Ok(answer) => answer,
        Err(error) => {
            route.failed(&error);
            return failure(form, &route, number(&error), &error.sentence());
        }
    };
    if answer.found == RowsFound::NoColumns {
        return finished(&done(form, &route, answer.affected));
    }
    let (before, after) = around(form, route.database.name());
    let first = [before.as_bytes(), &answer.first].concat();
    let mut fields = FieldList::new();
    fields.push("Content-Type", "application/json");
    fields.push("Cache-Control", if is_public { "public" } else { "no-store" });
    let Some(rows) = answer.rest else {
        return whole(200, fields, [&first[..], after.as_bytes()].concat().into());
    };
    let (sender, body) = MadeBody::new(super::DEPTH);
    tokio::task::spawn_local(route.pour(first.into(), rows, sender, after.into()));
    MadeResponse { head: head(200, fields, Framing::Chunked), body }
}

/// The texts before and after the table of a result.
fn around(form: RawForm, database: &str) -> (&'static str, String) {
    match form {
        RawForm::DbSlayer => ("{\"RESULT\":", format!(",\"SERVER\":{}}}", json!(database))),
        RawForm::Cherokee => ("[{\"RESULT\":", "}]".to_owned()),
    }
}

/// The answer to a statement without columns.
fn done(form: RawForm, route: &QueryExecutor, affected: u64) -> Value {
    match form {
        RawForm::DbSlayer => json!({
            "RESULT": { "SUCCESS": true, "AFFECTED_ROWS": affected, "INSERT_ID": 0 },
            "SERVER": route.database.name(),
        }),
        RawForm::Cherokee => json!([{ "SUCCESS": 1, "AFFECTED_ROWS": affected, "INSERT_ID": 0 }]),
    }
}

/// The answer to a statement that failed. Its clients read the error, not the status, which is 200.
fn failure(form: RawForm, route: &QueryExecutor, number: u16, why: &str) -> MadeResponse {
    finished(&match form {
        RawForm::DbSlayer => {
            json!({ "MYSQL_ERROR": why, "MYSQL_ERRNO": number, "SERVER": route.database.name() })
        }
        RawForm::Cherokee => json!([{ "SUCCESS": 0, "MYSQL_ERRNO": number, "MYSQL_ERROR": why }]),
    })
}

/// The number of an error in MySQL, if its text ends with it.
fn number(error: &SqlError) -> u16 {
    let sentence = error.sentence();
    let digits = sentence.rsplit_once('(').and_then(|it| it.1.strip_suffix(')'));
    digits.filter(|it| it.len() == 4).and_then(|it| it.parse().ok()).unwrap_or(UNKNOWN)
}

/// A complete answer that is not stored.
fn finished(value: &Value) -> MadeResponse {
    let mut fields = FieldList::new();
    fields.push("Content-Type", "application/json");
    fields.push("Cache-Control", "no-store");
    whole(200, fields, value.to_string().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes() {
        assert_eq!(Some("select 1+1%".to_owned()), decoded("select+1%2b1%"));
        assert_eq!(Some("select 1+1%2".to_owned()), decoded_path("select%201+1%2"));
        assert_eq!(None, decoded("%ff"));
    }

    #[test]
    fn a_form_has_one_statement() {
        assert_eq!(Some("select 1".to_owned()), of_form("a=b&SQL=select+1"));
        assert_eq!(None, of_form("SQL=select+1&SQL=select+2"));
        assert_eq!(None, of_form("sql=select+1"));
    }
}

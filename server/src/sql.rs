//! Routes with a query (`sql`): the values of its parameters from a request, and the response from its rows. Databases and formats are
//! in `larder_database`, the cache in front of them in `larder_gateway`.

mod raw;

use bytes::Bytes;
use larder_config::sql::{SQL_TAGS, SqlConfig};
use larder_config::{Config, PathPattern};
use larder_counters::Counters;
use larder_database::{
    AbsentValue, DatabasePlace, DatabaseServers, DatabaseSettings, ParameterSource, ParameterType, ROWS,
    ReplicaChange, ResultFormat, RowsFound, ShownRows, SqlAccess, SqlAnswer, SqlCall, SqlError, SqlParameter,
    SqlRows, SqlStatement, named_tag,
};
use larder_gateway::source::{MadeBody, MadePiece, MadeResponse, MadeResponseFuture, ResponseMaker};
use larder_observe::log::{Level, SubsystemLog};
use larder_origin::OriginError;
use larder_semantics::accept::MediaTypeOffers;
use larder_semantics::field::FieldList;
use larder_semantics::parameter::decoded;
use larder_semantics::request_view::{self, RequestView};
use larder_wire::message::{Framing, HeadKind, Request, ResponseHead, Version};
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::json;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio::time::timeout_at;

/// Pieces of a result that wait for its readers.
const DEPTH: usize = 2;

/// The databases of one worker, by name.
pub(crate) type WorkerDatabases = HashMap<String, Rc<DatabaseServers>>;

/// The part of each database that a worker has.
pub(crate) fn databases(
    config: &Config,
    workers: NonZeroUsize,
    counters: &Arc<Counters>,
    log: &SubsystemLog,
) -> WorkerDatabases {
    let one = |it: &Arc<DatabaseSettings>| {
        let (name, log, of_changes) = (it.name.clone(), log.clone(), counters.clone());
        let notice = move |place: &DatabasePlace, change: &ReplicaChange| {
            let place = place.to_string();
            let values = [("database", name.as_str()), ("replica", &place)];
            match change {
                ReplicaChange::Ejected(why) => {
                    of_changes.database_replicas_ejected.add(1);
                    let values = [&values[..], &[("why", why)]].concat();
                    log.seldom_of(Level::Error, "replica-ejected", &place, &values);
                }
                ReplicaChange::Readmitted => {
                    log.seldom_of(Level::Info, "replica-readmitted", &place, &values);
                }
            }
        };
        DatabaseServers::new(it, workers, counters, Rc::new(notice))
    };
    config.databases.iter().map(|it| (it.name.clone(), one(it))).collect()
}

/// Makes the responses of a route from the rows of its query.
struct SqlMaker(Rc<SqlRoute>);

struct SqlRoute {
    path: PathPattern,
    config: SqlConfig,
    offers: MediaTypeOffers,
    /// The query for each of the offers, the default first.
    statements: Vec<Arc<SqlStatement>>,
    executor: Rc<QueryExecutor>,
}

/// The queries of a route, and their results on the way to clients.
struct QueryExecutor {
    /// The name of the route.
    route: String,
    database: Rc<DatabaseServers>,
    counters: Arc<Counters>,
    log: SubsystemLog,
}

/// The maker of the responses of a route of this name and path.
pub(crate) fn maker(
    name: &str,
    path: &PathPattern,
    config: &SqlConfig,
    database: Rc<DatabaseServers>,
    counters: Arc<Counters>,
    log: SubsystemLog,
) -> Rc<dyn ResponseMaker> {
    let (path, config) = (path.clone(), config.clone());
    let executor = Rc::new(QueryExecutor { route: name.to_owned(), database, counters, log });
    match config.raw {
        Some(form) => Rc::new(raw::RawSqlMaker::new(form, path, config, executor)),
        None => {
            let (offers, pattern) = (config.offers(), &config.statement);
            let one = |it: &ResultFormat| Arc::new(SqlStatement { format: *it, ..(**pattern).clone() });
            let statements = config.formats.iter().map(one).collect();
            Rc::new(SqlMaker(Rc::new(SqlRoute { path, config, offers, statements, executor })))
        }
    }
}

impl ResponseMaker for SqlMaker {
    fn make(&self, request: &Rc<Request>, body: Bytes) -> MadeResponseFuture {
        let (route, request) = (self.0.clone(), request.clone());
        Box::pin(async move { route.answer(&request, &body).await })
    }
}

/// Why a request has no values for a query.
#[derive(Debug, PartialEq, Eq)]
enum BadParameter<'p> {
    Missing(&'p SqlParameter),
    Twice(&'p SqlParameter),
    Unfit(&'p SqlParameter),
    /// The body is neither a JSON object nor a form.
    Body,
}

impl SqlRoute {
    async fn answer(self: Rc<Self>, request: &Request, body: &Bytes) -> Result<MadeResponse, OriginError> {
        let values = match values(&self.config.parameters, &self.path, request, body) {
            Ok(values) => values,
            Err(why) => return Ok(refusal(&why)),
        };
        let statement = self.preferred(request).clone();
        let rows = self.row_tags(&values);
        // A placeholder for each use of a parameter.
        let values = statement.query.order.iter().map(|it| values[*it].clone()).collect();
        let call = SqlCall { statement: statement.clone(), values };
        match self.executor.database.run(&call).await {
            Ok(answer) => Ok(self.response(request, &statement, rows, answer)),
            Err(error) => {
                self.executor.failed(&error);
                Err(OriginError::LocalFailure(error.status(), error.sentence().into_owned()))
            }
        }
    }

    /// The query in the format that the request prefers, and in the default for a request that accepts none. In the cache the key has
    /// the preferred one.
    fn preferred(&self, request: &Request) -> &Arc<SqlStatement> {
        let preferred = self.offers.preferred(&request.fields.view());
        let at = preferred.and_then(|it| self.offers.list().iter().position(|offer| offer == it));
        &self.statements[at.unwrap_or(0)]
    }

    /// The response to a query that succeeded so far.
    fn response(
        self: Rc<Self>,
        request: &Request,
        statement: &SqlStatement,
        rows: Vec<String>,
        answer: SqlAnswer,
    ) -> MadeResponse {
        let is_object = statement.format == ResultFormat::JsonObject;
        let mut fields = FieldList::new();
        if !self.offers.is_empty() {
            fields.push("Vary", "Accept");
        }
        if self.config.is_public && statement.access == SqlAccess::Reads {
            // The result depends on the parameters alone: cookies and credentials do not change it.
            fields.push("Cache-Control", "public");
        }
        self.push_tags(request, &rows, &mut fields);
        match answer.found {
            RowsFound::NoColumns => return whole(204, fields, Bytes::new()),
            RowsFound::None if is_object => {
                fields.push("Content-Type", "application/problem+json");
                let body = json!({ "title": "No row was found.", "status": 404 });
                return whole(404, fields, body.to_string().into());
            }
            RowsFound::None | RowsFound::Some => {}
        }
        fields.push("Content-Type", statement.format.media_type());
        let Some(rows) = answer.rest else { return whole(200, fields, answer.first) };
        let (sender, body) = MadeBody::new(DEPTH);
        tokio::task::spawn_local(self.executor.clone().pour(answer.first, rows, sender, Bytes::new()));
        MadeResponse { head: head(200, fields, Framing::Chunked), body }
    }

    /// The tags of the rows that the result for these values of the parameters depends on.
    fn row_tags(&self, values: &[Option<Box<str>>]) -> Vec<String> {
        let value = |at: usize| Some((values[at].as_deref()?, self.config.parameters[at].kind));
        let tag = |rows: &ShownRows, given| named(rows.tag(given), &self.config);
        let rows = self.config.rows.iter().map(|(rows, at)| tag(rows, at.and_then(value)));
        rows.chain(self.config.follows_file().then(|| named(ROWS.to_owned(), &self.config))).collect()
    }

    fn push_tags(&self, request: &Request, rows: &[String], fields: &mut FieldList) {
        let mut all = rows.join(" ").into_bytes();
        if !self.config.tags.is_empty() {
            self.expand_tags(request, &mut all);
        }
        if !all.is_empty() {
            fields.push(SQL_TAGS, all);
        }
    }

    fn expand_tags(&self, request: &Request, all: &mut Vec<u8>) {
        let (mut room, lines) = (Vec::new(), request.fields.view());
        let view = view(request, &self.path, &mut room, &lines);
        for tag in &self.config.tags {
            let mut text = Vec::new();
            tag.expand(&view, &mut text);
            // Spaces and commas separate tags.
            text.iter_mut().filter(|it| matches!(**it, b' ' | b',' | b'\t')).for_each(|it| *it = b'_');
            if !all.is_empty() {
                all.push(b' ');
            }
            all.extend_from_slice(&text);
        }
    }
}

impl QueryExecutor {
    /// Sends the rest of a result, and `after` behind it. It is cut where the query fails, and cancelled when no client reads it.
    async fn pour(
        self: Rc<Self>,
        first: Bytes,
        mut rows: Box<SqlRows>,
        sender: mpsc::Sender<MadePiece>,
        after: Bytes,
    ) {
        let mut next = first;
        loop {
            match timeout_at(rows.until(), sender.send(MadePiece::Bytes(next))).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                // The client reads too slowly.
                Err(_) => return self.failed(&SqlError::Timeout),
            }
            let more = tokio::select! {
                biased;
                more = rows.next() => more,
                () = sender.closed() => return,
            };
            next = match more {
                Ok(Some(bytes)) => bytes,
                Ok(None) => {
                    if !after.is_empty() {
                        let _ = sender.send(MadePiece::Bytes(after)).await;
                    }
                    let _ = sender.send(MadePiece::End).await;
                    return;
                }
                Err(error) => return self.failed(&error),
            };
        }
    }

    /// Counts and logs a query that has no complete result.
    fn failed(&self, error: &SqlError) {
        self.counters.database_failures.add(1);
        let level = if *error == SqlError::Busy { Level::Warn } else { Level::Error };
        if self.log.logs(level) {
            let why = error.sentence();
            let values = [("route", self.route.as_str()), ("database", self.database.name()), ("why", &why)];
            self.log.seldom_of(level, "database-failed", self.database.name(), &values);
        }
    }
}

fn head(status: u16, fields: FieldList, framing: Framing) -> ResponseHead {
    ResponseHead {
        status,
        version: Version::Http11,
        fields,
        framing,
        keep_alive: true,
        kind: HeadKind::Response,
    }
}

/// A response whose body is complete.
fn whole(status: u16, mut fields: FieldList, bytes: Bytes) -> MadeResponse {
    let framing = if status == 204 { Framing::Empty } else { Framing::Length(bytes.len() as u64) };
    if status != 204 {
        fields.push("Content-Length", bytes.len().to_string());
    }
    let (sender, body) = MadeBody::new(DEPTH);
    // There is room for both.
    if !bytes.is_empty() {
        let _ = sender.try_send(MadePiece::Bytes(bytes));
    }
    let _ = sender.try_send(MadePiece::End);
    MadeResponse { head: head(status, fields, framing), body }
}

/// The response to a request whose parameters do not fit (RFC 9457). It has no value of the request.
fn refusal(why: &BadParameter<'_>) -> MadeResponse {
    let sentence = |it: &SqlParameter, what: &str| {
        let (name, place) = (&it.key, it.source.name());
        let title = format!("The parameter \"{name}\" ({place}) {what}.");
        json!({ "title": title, "status": 400, "parameter": name, "in": place })
    };
    let body = match why {
        BadParameter::Missing(it) => sentence(it, "is missing"),
        BadParameter::Twice(it) => sentence(it, "is there twice"),
        BadParameter::Unfit(it) => sentence(it, &format!("must be {}", it.kind.expected())),
        BadParameter::Body => {
            json!({ "title": "The body must be a JSON object (application/json) or a form (application/x-www-form-urlencoded).", "status": 400 })
        }
    };
    let mut fields = FieldList::new();
    fields.push("Cache-Control", "no-store");
    fields.push("Content-Type", "application/problem+json");
    whole(400, fields, body.to_string().into())
}

/// The request with its captures.
fn view<'a>(
    request: &'a Request,
    pattern: &'a PathPattern,
    room: &'a mut Vec<u8>,
    fields: &'a [larder_semantics::field::Field<'a>],
) -> RequestView<'a> {
    let path = request_view::normal_path(&request.target, room);
    RequestView {
        method: &request.method,
        scheme: request.scheme,
        authority: &request.authority,
        target: &request.target,
        path,
        captures: pattern.captures(path).unwrap_or_default(),
        fields,
        ..RequestView::default()
    }
}

/// The rows that the result for a request depends on, each with its tag, and the type of its parameter if the request gives that a value.
/// Parameters of a body count as given.
pub(crate) fn shown_rows<'c>(
    config: &'c SqlConfig,
    path: &PathPattern,
    request: &Request,
) -> Vec<(&'c ShownRows, String, Option<ParameterType>)> {
    let values = values(&config.parameters, path, request, &Bytes::new()).ok();
    let one = |(rows, at): &'c (ShownRows, Option<usize>)| {
        let parameter = at.map(|at| (at, config.parameters[at].kind));
        let Some(values) = &values else {
            return (rows, named(rows.tag(None), config), parameter.map(|it| it.1));
        };
        let given = parameter.and_then(|(at, kind)| Some((values[at].as_deref()?, kind)));
        (rows, named(rows.tag(given), config), given.map(|it| it.1))
    };
    config.rows.iter().map(one).collect()
}

/// A tag of rows as pages of this query have it.
fn named(tag: String, config: &SqlConfig) -> String {
    match config.names_database {
        true => named_tag(&tag, &config.database.name),
        false => tag,
    }
}

/// The values of all parameters, in their order; `None` is `NULL`.
fn values<'p>(
    parameters: &'p [SqlParameter],
    pattern: &PathPattern,
    request: &Request,
    body: &Bytes,
) -> Result<Vec<Option<Box<str>>>, BadParameter<'p>> {
    let (mut room, fields) = (Vec::new(), request.fields.view());
    let view = view(request, pattern, &mut room, &fields);
    let mut members = None;
    let mut all = Vec::with_capacity(parameters.len());
    for parameter in parameters {
        let given = match parameter.source {
            ParameterSource::Path => Some(captured(&view, &parameter.key)).filter(|it| !it.is_empty()),
            ParameterSource::Query => {
                let mut found = view.parameters(&parameter.key);
                let first = found.next();
                if found.next().is_some() {
                    return Err(BadParameter::Twice(parameter));
                }
                first
            }
            ParameterSource::Body => {
                let members = match &members {
                    Some(members) => members,
                    None => members.insert(BodyMembers::read(&view, body).ok_or(BadParameter::Body)?),
                };
                match members.value(parameter)? {
                    Member::Text(text) => Some(Cow::Owned(text.into_bytes())),
                    Member::Null if parameter.absent != AbsentValue::Refused => {
                        all.push(None);
                        continue;
                    }
                    Member::Null | Member::None => None,
                }
            }
        };
        all.push(match (given, &parameter.absent) {
            (Some(bytes), _) => {
                let text = std::str::from_utf8(&bytes).ok().and_then(|it| parameter.kind.read(it));
                Some(text.ok_or(BadParameter::Unfit(parameter))?.into())
            }
            (None, AbsentValue::Refused) => return Err(BadParameter::Missing(parameter)),
            (None, AbsentValue::Null) => None,
            (None, AbsentValue::Default(text)) => Some(text.clone()),
        });
    }
    Ok(all)
}

/// A capture by its name or number.
fn captured<'a>(view: &RequestView<'a>, key: &str) -> Cow<'a, [u8]> {
    Cow::Borrowed(match key.parse() {
        Ok(number) => view.captures.number(number),
        Err(_) => view.captures.named(key),
    })
}

/// The members of a request body.
enum BodyMembers<'b> {
    /// Each as it was sent: a number keeps all its digits, and a name may occur twice.
    Json(JsonMembers<'b>),
    Form(&'b [u8]),
}

/// The members of a JSON object, in their order.
struct JsonMembers<'b>(Vec<(String, &'b RawValue)>);

impl<'de> Deserialize<'de> for JsonMembers<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = JsonMembers<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut all = Vec::new();
                while let Some(member) = map.next_entry()? {
                    all.push(member);
                }
                Ok(JsonMembers(all))
            }
        }
        from.deserialize_map(Members)
    }
}

/// A member of a body.
enum Member {
    None,
    Null,
    Text(String),
}

impl<'b> BodyMembers<'b> {
    /// `None` for a body in another format. An empty body without a type has no members.
    fn read(view: &RequestView<'_>, body: &'b Bytes) -> Option<Self> {
        let kind = view.fields.iter().find(|it| it.is("content-type")).map_or(&b""[..], |it| it.value);
        let kind = kind.split(|it| *it == b';').next().unwrap_or_default().trim_ascii();
        if kind.eq_ignore_ascii_case(b"application/x-www-form-urlencoded") {
            return Some(BodyMembers::Form(body));
        }
        if body.is_empty() && kind.is_empty() {
            return Some(BodyMembers::Json(JsonMembers(Vec::new())));
        }
        let is_json = kind.eq_ignore_ascii_case(b"application/json");
        serde_json::from_slice(body).ok().filter(|_| is_json).map(BodyMembers::Json)
    }

    fn value<'p>(&self, parameter: &'p SqlParameter) -> Result<Member, BadParameter<'p>> {
        match self {
            BodyMembers::Json(members) => {
                let mut found = members.0.iter().filter(|it| it.0 == *parameter.key);
                let Some(raw) = found.next().map(|it| it.1.get()) else { return Ok(Member::None) };
                if found.next().is_some() {
                    return Err(BadParameter::Twice(parameter));
                }
                Ok(match raw.as_bytes().first() {
                    _ if parameter.kind == ParameterType::Json => Member::Text(raw.to_owned()),
                    Some(b'n') => Member::Null,
                    Some(b'"') => {
                        Member::Text(serde_json::from_str(raw).map_err(|_| BadParameter::Unfit(parameter))?)
                    }
                    Some(b'[' | b'{') => return Err(BadParameter::Unfit(parameter)),
                    _ => Member::Text(raw.to_owned()),
                })
            }
            BodyMembers::Form(text) => {
                // A form has the encoding of a query, but no fragment.
                let mut found = text.split(|it| *it == b'&').filter_map(|it| {
                    let mut parts = it.splitn(2, |it| *it == b'=');
                    let (name, value) = (parts.next()?, parts.next().unwrap_or_default());
                    decoded(name).eq(parameter.key.bytes()).then(|| decoded(value).collect::<Vec<u8>>())
                });
                let Some(bytes) = found.next() else { return Ok(Member::None) };
                if found.next().is_some() {
                    return Err(BadParameter::Twice(parameter));
                }
                let text = String::from_utf8(bytes).map_err(|_| BadParameter::Unfit(parameter))?;
                Ok(Member::Text(text))
            }
        }
    }
}

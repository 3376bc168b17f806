//! `[[database]]`, and the queries of routes: parameters, methods, and the part of the cache policy that follows from them.

use super::matching::RouteMatching;
use super::{ConfigCheck, RoutePath, Source};
use crate::access::{AccessConfig, Addresses};
use crate::problem::nearest;
use crate::sql::{RawForm, SQL_TAGS, SqlConfig};
use crate::{Methods, Service};
use larder_database::{
    AskedServer, DatabasePlace, DatabaseServer, DatabaseSettings, DatabaseTls, NumberForm, ParameterSource,
    PreparedStatements, ReplicaSettings, ResultFormat, ShownRows, SqlAccess, SqlDialect, SqlParameter,
    SqlQuery, SqlStatement, SqlText, TableColumn,
};
use larder_semantics::key::QueryPolicy;
use larder_semantics::policy::{CredentialUse, OnAbort, Policy};
use larder_semantics::template::Template;
use std::sync::Arc;

/// The databases of the configuration.
pub(super) type Databases = Vec<Arc<DatabaseSettings>>;

/// The methods of queries that read: POST and QUERY bring parameters in their body.
const READING: [&str; 4] = ["GET", "HEAD", "POST", "QUERY"];
/// The methods of queries that write.
const WRITING: [&str; 4] = ["POST", "PUT", "PATCH", "DELETE"];

/// The methods of a route with a query: by default those that its parameters and its access need.
pub(super) fn methods_of(methods: Methods, sql: &SqlConfig) -> Methods {
    if sql.raw.is_some() {
        return match methods {
            Methods::Any => Methods::Only(["GET", "POST"].map(str::to_owned).to_vec()),
            given => given,
        };
    }
    let needed = match (has_body(&sql.parameters), sql.statement.access) {
        (_, SqlAccess::Writes) => &["POST"][..],
        (true, SqlAccess::Reads) => &["POST", "QUERY"],
        (false, SqlAccess::Reads) => &["GET"],
    };
    match methods {
        Methods::Any => Methods::Only(needed.iter().map(|it| (*it).to_owned()).collect()),
        given => given,
    }
}

fn names_get(methods: &Methods) -> bool {
    matches!(methods, Methods::Only(given) if given.iter().any(|it| it == "GET"))
}

fn has_body(parameters: &[SqlParameter]) -> bool {
    parameters.iter().any(|it| it.source == ParameterSource::Body)
}

impl ConfigCheck {
    pub(super) fn databases(&mut self) -> Databases {
        let mut all = Databases::new();
        for index in 0..self.values.count("database") {
            let prefix = format!("database[{index}]");
            let key = |name: &str| format!("{prefix}.{name}");
            let section = self.values.sections.get(&prefix).cloned().unwrap_or_default();
            let name = self.text(&key("name"));
            for wanted in ["name", "url"] {
                if self.text(&key(wanted)).is_empty() && !self.is_wrong(&key(wanted)) {
                    let example =
                        if wanted == "name" { "shop" } else { "postgres://larder@127.0.0.1:5432/shop" };
                    let text = format!("missing; add it, such as {wanted} = \"{example}\"");
                    self.problem(section.clone(), &format!("database.{wanted}"), &text);
                }
            }
            if all.iter().any(|it| it.name == name) {
                let text = format!("duplicate database name \"{name}\"; rename one");
                self.problem(self.source(&key("name")), "database.name", &text);
            }
            let Ok(place) = DatabasePlace::parse(&self.text(&key("url"))) else { continue };
            self.refuse_of_dialect(&prefix, place.dialect);
            let tls = self.database_tls(&prefix, &place);
            let replicas = self.replicas(&key("replicas"), place.dialect);
            all.push(Arc::new(DatabaseSettings {
                name,
                place,
                replicas,
                password: self.secret(&key("password")),
                tls,
                max_connections: self.usize(&key("max_connections")),
                connect_timeout: self.time(&key("connect_timeout")),
                query_timeout: self.time(&key("query_timeout")),
                queue_timeout: self.time(&key("queue_timeout")),
                idle_timeout: self.time(&key("idle_timeout")),
                prepare: match self.text(&key("prepare")).as_str() {
                    "never" => PreparedStatements::Never,
                    _ => PreparedStatements::Auto,
                },
                publication: Some(self.text(&key("follow.publication"))).filter(|it| !it.is_empty()),
                follow_binlog: self.flag(&key("follow.binlog")),
                follow_interval: Some(self.time(&key("follow.interval"))).filter(|it| !it.is_zero()),
                columns: self.followed_columns(&prefix),
            }));
        }
        all
    }

    /// TLS to a database whose `url` asks for it.
    fn database_tls(&mut self, prefix: &str, place: &DatabasePlace) -> Option<DatabaseTls> {
        let key = |name: &str| format!("{prefix}.tls.{name}");
        let names = ["ca", "name", "verify", "client_cert", "client_key"];
        let given = names.into_iter().find(|it| self.values.given.contains_key(&key(it)));
        let DatabaseServer::Tcp(host, _) = &place.server else {
            if let Some(given) = given {
                let text = "no effect: the database is on this machine, without TLS; remove it";
                self.problem(self.source(&key(given)), &format!("database.tls.{given}"), text);
            }
            return None;
        };
        if !place.is_secure {
            if let Some(given) = given {
                let text =
                    "no effect without TLS; write +tls behind the scheme of url, such as postgres+tls://";
                self.problem(self.source(&key(given)), &format!("database.tls.{given}"), text);
            }
            return None;
        }
        let settings = self.tls_settings(&key, "database.tls");
        let name = self.text(&key("name"));
        let name = if name.is_empty() { host } else { &name };
        let config = larder_origin::client_config(&settings);
        let tls = config.and_then(|it| DatabaseTls::new(it, format!("{settings:?}"), name)).map_err(|why| {
            let named = given.unwrap_or("ca");
            let source = match self.source(&key(named)) {
                Source::Default => self.source(&format!("{prefix}.url")),
                source => source,
            };
            self.problem(source, &format!("database.tls.{named}"), &why);
        });
        tls.ok()
    }

    /// Keys that only another kind of database has.
    fn refuse_of_dialect(&mut self, prefix: &str, dialect: SqlDialect) {
        let mut refuse = |name: &str, is_wrong: bool, text: &str| {
            let key = format!("{prefix}.{name}");
            let source = self.source(&key);
            if is_wrong && source != Source::Default {
                self.problem(source, &format!("database.{name}"), text);
            }
        };
        let is_postgres = dialect == SqlDialect::Postgres;
        let text = match dialect {
            SqlDialect::Sqlite => {
                "only PostgreSQL has publications; write follow.interval, such as \"100ms\""
            }
            _ => "only PostgreSQL has publications; write follow.binlog = true",
        };
        refuse("follow.publication", !is_postgres, text);
        let text = match dialect {
            SqlDialect::Postgres => "only for files of SQLite; name a publication in follow.publication",
            _ => "only for files of SQLite; write follow.binlog = true",
        };
        refuse("follow.interval", dialect != SqlDialect::Sqlite, text);
        let text = match dialect {
            SqlDialect::Postgres => "only for MariaDB and MySQL; name a publication in follow.publication",
            _ => "only for MariaDB and MySQL; write follow.interval, such as \"100ms\"",
        };
        refuse("follow.binlog", dialect != SqlDialect::MySql, text);
        refuse("prepare", !is_postgres, "only for poolers of PostgreSQL; remove it");
        let text = "SQLite has no users: the permissions of the file count; remove it";
        refuse("password", dialect == SqlDialect::Sqlite, text);
    }

    /// The replicas of a database.
    fn replicas(&mut self, key: &str, dialect: SqlDialect) -> Vec<ReplicaSettings> {
        let texts = self.texts(key);
        let replicas: Vec<_> = texts.iter().filter_map(|it| ReplicaSettings::parse(it).ok()).collect();
        if replicas.iter().any(|it| it.place.dialect != dialect) {
            let text = "a replica is of another kind than the database; write the scheme of database.url";
            self.problem(self.source(key), "database.replicas", text);
        }
        replicas
    }

    /// The columns by whose values applications tag their pages.
    fn followed_columns(&mut self, prefix: &str) -> Vec<TableColumn> {
        let key = format!("{prefix}.follow.columns");
        let columns: Vec<_> = self.texts(&key).iter().filter_map(|it| TableColumn::parse(it)).collect();
        let is_followed = !self.text(&format!("{prefix}.follow.publication")).is_empty()
            || self.flag(&format!("{prefix}.follow.binlog"));
        if !columns.is_empty() && !is_followed {
            let text = "no effect without database.follow.publication or database.follow.binlog; add it, or remove columns";
            self.problem(self.source(&key), "database.follow.columns", text);
        }
        columns
    }

    pub(super) fn sql(
        &mut self,
        at: &RoutePath,
        route: &Source,
        matching: &RouteMatching,
        databases: &Databases,
    ) -> Option<SqlConfig> {
        let key = |name: &str| at.key(&format!("sql.{name}"));
        let database = self.database_of(at, route, databases);
        let raw = match self.text(&key("raw")).as_str() {
            "dbslayer" => Some(RawForm::DbSlayer),
            "cherokee" => Some(RawForm::Cherokee),
            _ => None,
        };
        let mut text = self.text(&key("query"));
        if let Some(form) = raw {
            self.refuse_beside_raw(at, form, matching);
            // The pattern of the statements of requests.
            text = "SELECT 1".to_owned();
        }
        if text.is_empty() {
            if !self.is_wrong(&key("query")) && !self.is_wrong(&key("raw")) {
                let text =
                    "missing; add the query, such as query = \"SELECT id, name FROM users WHERE id = :id\"";
                self.problem(route.clone(), "site.route.sql.query", text);
            }
            return None;
        }
        // Those together with `raw` have their error already.
        let parameters = if raw.is_none() { self.sql_parameters(at, matching) } else { Vec::new() };
        let database = database.filter(|_| !self.is_wrong(&key("parameters")))?;
        let names: Vec<&str> = parameters.iter().map(|it| &*it.name).collect();
        let query = match SqlQuery::parse(&text, &names, database.place.dialect) {
            Ok(query) => query,
            Err(why) => {
                self.problem(self.source(&key("query")), "site.route.sql.query", &why);
                return None;
            }
        };
        let access = if self.flag(&key("write")) { SqlAccess::Writes } else { SqlAccess::Reads };
        if query.writes() && access == SqlAccess::Reads {
            let text = format!("the query begins with {}, but runs read-only; set write = true", query.verb);
            self.problem(self.source(&key("query")), "site.route.sql.query", &text);
        }
        if raw.is_none() {
            self.refuse_sql_methods(at, &matching.methods, &parameters, access);
        }
        let timeout = Some(self.time(&key("timeout"))).filter(|it| !it.is_zero());
        let (tags, rows) = (self.sql_tags(at, matching), self.sql_rows(at, &parameters));
        self.refuse_own_name(&key("rows"), &database, &rows);
        let formats = if raw.is_some() { vec![ResultFormat::Table] } else { self.sql_formats(at) };
        let statement = SqlStatement {
            types: query.order.iter().map(|it| parameters[*it].kind).collect(),
            query,
            format: formats[0],
            numbers: match self.text(&key("numbers")).as_str() {
                it if raw.is_some() || it == "json" => NumberForm::Json,
                _ => NumberForm::Strings,
            },
            text: if raw.is_some() { SqlText::OfRequest } else { SqlText::Configured },
            max_rows: self.number(&key("max_rows")),
            max_bytes: self.number(&key("max_bytes")),
            timeout: timeout.unwrap_or(database.query_timeout),
            access,
            server: match access {
                SqlAccess::Reads if tags.is_empty() && rows.is_empty() => AskedServer::Replica,
                _ => AskedServer::Primary,
            },
        };
        let names_database = databases.iter().filter(|it| it.is_followed()).count() > 1;
        let gets_write = access == SqlAccess::Writes && names_get(&matching.methods);
        let (statement, is_public) = (Arc::new(statement), false);
        Some(SqlConfig {
            database,
            raw,
            gets_write,
            statement,
            formats,
            parameters,
            tags,
            rows,
            names_database,
            is_public,
        })
    }

    /// Rejects keys without effect for statements of requests, and paths that have none.
    fn refuse_beside_raw(&mut self, at: &RoutePath, form: RawForm, matching: &RouteMatching) {
        for name in ["query", "parameters", "rows", "tags", "format", "one_row", "numbers"] {
            let source = self.source(&at.key(&format!("sql.{name}")));
            if source != Source::Default {
                let text = "no effect: the request brings the statement (sql.raw); remove it";
                self.problem(source, &format!("site.route.sql.{name}"), text);
            }
        }
        let raw = self.source(&at.key("sql.raw"));
        if form == RawForm::Cherokee && matching.path.exact().is_some() {
            let text = format!(
                "the path \"{0}\" has no room for a statement; write path = \"{0}/*\"",
                matching.path.text().trim_end_matches('/')
            );
            self.problem(raw, "site.route.sql.raw", &text);
        }
    }

    /// Rejects a route that takes statements of any client.
    pub(super) fn refuse_raw_without_access(
        &mut self,
        at: &RoutePath,
        service: Option<&Service>,
        access: &AccessConfig,
    ) {
        let is_raw = matches!(service, Some(Service::Sql(it)) if it.raw.is_some());
        let is_open = access.allow.as_ref().is_none_or(Addresses::has_everyone)
            && access.allow_when.is_none()
            && !access.identifies();
        if is_raw && is_open && access.signed.is_none() {
            let text =
                "every client may run any statement; add access, such as access.basic.users or access.allow";
            self.problem(self.source(&at.key("sql.raw")), "site.route.sql.raw", text);
        }
    }

    /// The database of a route: the named one, or the only one.
    fn database_of(
        &mut self,
        at: &RoutePath,
        route: &Source,
        databases: &Databases,
    ) -> Option<Arc<DatabaseSettings>> {
        let key = at.key("sql.database");
        let name = self.text(&key);
        let (source, text) = match (databases.iter().find(|it| it.name == name), &databases[..]) {
            (Some(found), _) => return Some(found.clone()),
            (None, [only]) if name.is_empty() => return Some(only.clone()),
            // Its own error is enough.
            _ if self.is_wrong(&key) || self.values.count("database") != databases.len() => return None,
            (None, []) => {
                (route.clone(), "no database is configured; add a [[database]] with name and url".to_owned())
            }
            (None, _) if name.is_empty() => {
                let names: Vec<&str> = databases.iter().map(|it| it.name.as_str()).collect();
                (route.clone(), format!("missing; name one of the databases: {}", names.join(", ")))
            }
            (None, _) => {
                let near = nearest(&name, databases.iter().map(|it| it.name.as_str()));
                let hint = near.map_or("add a [[database]] of that name".to_owned(), |it| {
                    format!("did you mean \"{it}\"?")
                });
                (self.source(&key), format!("no database is named \"{name}\"; {hint}"))
            }
        };
        self.problem(source, "site.route.sql.database", &text);
        None
    }

    fn sql_parameters(&mut self, at: &RoutePath, matching: &RouteMatching) -> Vec<SqlParameter> {
        let key = at.key("sql.parameters");
        let rows = self.pairs(&key);
        let parameters: Vec<SqlParameter> =
            rows.iter().filter_map(|(name, text)| SqlParameter::parse(name, text).ok()).collect();
        for parameter in &parameters {
            let missing = parameter.source == ParameterSource::Path
                && !matching.path.names().contains(&parameter.key)
                && !is_capture_number(&parameter.key, matching.path.names().len());
            if missing {
                let (name, path) = (&parameter.key, &matching.path);
                let text =
                    format!("the path \"{path}\" has no capture {{{name}}}; add it, or use query.{name}");
                self.problem(self.source(&key), "site.route.sql.parameters", &text);
            }
        }
        parameters
    }

    fn refuse_sql_methods(
        &mut self,
        at: &RoutePath,
        methods: &Methods,
        parameters: &[SqlParameter],
        access: SqlAccess,
    ) {
        let Methods::Only(given) = methods else { return };
        let (allowed, what) = match access {
            SqlAccess::Reads => (&READING, "a query without write = true"),
            SqlAccess::Writes => (&WRITING, "a query with write = true"),
        };
        let wrong = given.iter().find(|it| !allowed.contains(&it.as_str()));
        let bodyless = |it: &&String| matches!(it.as_str(), "GET" | "HEAD") && has_body(parameters);
        let text = match (wrong, given.iter().find(bodyless)) {
            (Some(method), _) => format!("found {method}; allowed for {what}: {}", allowed.join(", ")),
            (None, Some(method)) => {
                format!("{method} has no body, which a parameter needs; use POST or QUERY")
            }
            (None, None) => return,
        };
        self.problem(self.source(&at.key("methods")), "site.route.methods", &text);
    }

    /// The formats of a result, the default first. The object of one row has JSON alone.
    fn sql_formats(&mut self, at: &RoutePath) -> Vec<ResultFormat> {
        let is_one = self.flag(&at.key("sql.one_row"));
        let default = match self.text(&at.key("sql.format")).as_str() {
            "ndjson" => ResultFormat::Ndjson,
            "csv" => ResultFormat::Csv,
            _ if is_one => return vec![ResultFormat::JsonObject],
            _ => ResultFormat::Json,
        };
        if is_one {
            let text = "one_row requires format = \"json\"; remove one of both";
            self.problem(self.source(&at.key("sql.one_row")), "site.route.sql.one_row", text);
        }
        let all = [ResultFormat::Json, ResultFormat::Ndjson, ResultFormat::Csv];
        std::iter::once(default).chain(all.into_iter().filter(|it| *it != default)).collect()
    }

    fn sql_tags(&mut self, at: &RoutePath, matching: &RouteMatching) -> Vec<Template> {
        let key = at.key("sql.tags");
        let tags: Vec<Template> = self.texts(&key).iter().filter_map(|it| Template::parse(it).ok()).collect();
        for tag in &tags {
            self.refuse_variables(at, &key, "site.route.sql.tags", tag, &matching.path);
        }
        tags
    }

    /// The rows that a result depends on, each with the position of its parameter.
    fn sql_rows(&mut self, at: &RoutePath, parameters: &[SqlParameter]) -> Vec<(ShownRows, Option<usize>)> {
        let key = at.key("sql.rows");
        let all: Vec<ShownRows> = self.texts(&key).iter().filter_map(|it| ShownRows::parse(it)).collect();
        let mut found = Vec::with_capacity(all.len());
        for rows in all {
            let ShownRows::Equal { parameter, column, table } = &rows else {
                found.push((rows, None));
                continue;
            };
            let place = parameters.iter().position(|it| it.name == *parameter);
            match place {
                None => {
                    let text = format!("the query has no parameter :{parameter}; add it to sql.parameters");
                    self.problem(self.source(&key), "site.route.sql.rows", &text);
                }
                Some(at) if !ShownRows::compares(parameters[at].kind) => {
                    let text = format!(
                        "values of the type of :{parameter} cannot be compared by their text; use \"{table}\" without {column}, or a \
                         parameter of the type int, bigint, text, uuid or bool"
                    );
                    self.problem(self.source(&key), "site.route.sql.rows", &text);
                }
                Some(at) => found.push((rows, Some(at))),
            }
        }
        found
    }

    /// Tables of the database of `url` have tags without its name, in MariaDB and MySQL.
    fn refuse_own_name(
        &mut self,
        key: &str,
        database: &DatabaseSettings,
        rows: &[(ShownRows, Option<usize>)],
    ) {
        let own = &database.place.database;
        let named = |it: &ShownRows| Some(it.table().split_once('.').filter(|it| it.0 == own)?.1.to_owned());
        let named = rows.iter().find_map(|it| named(&it.0));
        if let Some(table) = named.filter(|_| database.place.dialect == SqlDialect::MySql) {
            let text = format!(
                "{own} is the database of its url, whose tables have no name before them; write {table}"
            );
            self.problem(self.source(key), "site.route.sql.rows", &text);
        }
    }

    /// The part of the policy that follows from a query: the key has the parameters that it reads, and no others; and a query that
    /// no client waits for is cancelled unless `cache.on_abort` is set.
    pub(super) fn sql_policy(&mut self, at: &RoutePath, service: Option<&mut Service>, cache: &mut Policy) {
        let Some(Service::Sql(sql)) = service else { return };
        sql.is_public = cache.credentials == CredentialUse::None;
        if let Some(form) = sql.raw {
            let is_asked = self.source(&at.key("cache.enabled")) != Source::Default;
            // A path has several spellings, and a statement has not.
            cache.enabled &=
                is_asked && form == RawForm::DbSlayer && sql.statement.access == SqlAccess::Reads;
            (cache.key.query, cache.key.sort_query) = (QueryPolicy::All, false);
            return;
        }
        let of_url = sql.parameters.iter().filter(|it| it.source == ParameterSource::Query);
        let names: Vec<String> = of_url.map(|it| it.key.to_string()).collect();
        cache.key.query = if names.is_empty() { QueryPolicy::None } else { QueryPolicy::Keep(names) };
        cache.key.sort_query = true;
        for name in ["query", "keep", "drop", "sort"] {
            let key = at.key(&format!("cache.key.{name}"));
            let source = self.source(&key);
            if source != Source::Default && !self.is_of_block(&source) {
                let text = "no effect: the key of a query has the parameters of sql.parameters, and no others; remove it";
                self.warn_of(source, &format!("site.route.cache.key.{name}"), text);
            }
        }
        self.warn_of_accept(at, cache);
        cache.key.accept = sql.offers();
        cache.key.headers.retain(|it| it != "accept");
        if self.source(&self.cache_key(at, "on_abort")) == Source::Default {
            cache.on_abort = OnAbort::Cancel;
        }
        if !sql.rows.is_empty() || !sql.tags.is_empty() || sql.follows_file() {
            // The tags of results are there whatever fields applications use.
            let is_read = cache.tags.headers.iter().any(|it| it.eq_ignore_ascii_case(SQL_TAGS));
            cache.tags.headers.extend((!is_read).then(|| SQL_TAGS.to_owned()));
            if cache.enabled {
                self.warn_of_order(at, sql);
            }
        }
        if sql.statement.access == SqlAccess::Writes {
            cache.enabled = false;
        }
    }

    /// Warns of a page that follows rows whose order may change. A lookup by a column is one of several rows, unless the route says otherwise.
    fn warn_of_order(&mut self, at: &RoutePath, sql: &SqlConfig) {
        let is_list = !self.flag(&at.key("sql.one_row")) && sql.statement.access == SqlAccess::Reads;
        if !is_list || !has_no_order(&self.text(&at.key("sql.query"))) {
            return;
        }
        let looked_up = sql.rows.iter().find_map(|it| match &it.0 {
            ShownRows::Equal { table, column, .. } => Some(format!("{table}.{column}")),
            ShownRows::Table(_) => None,
        });
        let remedy = match looked_up {
            Some(column) => {
                format!(
                    "set one_row = true if {column} is unique, otherwise add ORDER BY with a column that is"
                )
            }
            None => "add ORDER BY with a column that is unique, or one_row = true".to_owned(),
        };
        let text = format!(
            "without ORDER BY the rows may come in another order each time, and the ETag of the page changes; {remedy}"
        );
        self.warn_of(self.source(&at.key("sql.query")), "site.route.sql.query", &text);
    }

    /// Warns of offers, and of `Accept` as it was sent, in the key of a query: that has the preferred format.
    fn warn_of_accept(&mut self, at: &RoutePath, cache: &Policy) {
        // A setting of the site applies to its other routes as well.
        let has_field = cache.key.headers.iter().any(|it| it == "accept");
        for name in ["accept"].into_iter().chain(has_field.then_some("headers")) {
            let source = self.source(&at.key(&format!("cache.key.{name}")));
            if source != Source::Default && !self.is_of_block(&source) {
                let text = "no effect: the key of a query has the format that Accept prefers, sql.format by default; remove Accept and its types";
                self.warn_of(source, &format!("site.route.cache.key.{name}"), text);
            }
        }
    }
}

/// Whether a query may have several rows in any order, as far as its words say: it reads a table, neither sorts nor aggregates, and its
/// number of rows is not limited to one.
fn has_no_order(query: &str) -> bool {
    let text = query.to_lowercase().replace("count (", "count(");
    let split = text.split(|it: char| !it.is_alphanumeric() && it != '_');
    let words: Vec<&str> = split.filter(|it| !it.is_empty()).collect();
    let has = |first: &str, second: &str| words.windows(2).any(|it| it[0] == first && it[1] == second);
    let is_sum = ["count(", "sum(", "min(", "max(", "avg(", "_agg("].iter().any(|it| text.contains(it));
    words.contains(&"from") && !has("order", "by") && !has("limit", "1") && (!is_sum || has("group", "by"))
}

/// The name of the followed database, if there is one and no other.
pub(super) fn only_followed(databases: &Databases) -> Option<Box<str>> {
    let mut followed = databases.iter().filter(|it| it.is_followed());
    followed.next().filter(|_| followed.next().is_none()).map(|it| it.name.as_str().into())
}

/// Whether this is the number of a capture of a pattern with this number of them.
fn is_capture_number(text: &str, count: usize) -> bool {
    text.parse().is_ok_and(|it: usize| (1..=count).contains(&it))
}

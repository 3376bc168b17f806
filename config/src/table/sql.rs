//! Keys of databases and of the queries of routes. The types of rows are in `super`.

use super::*;

/// An example of the parameters of a query.
const PARAMETERS: &str = r#"{ id = "path int" }"#;

#[rustfmt::skip]
pub(super) const ROWS: &[Key] = &[
    once("database[].name", ValueKind::One(TextForm::RouteName), None,
        "Name of the database in `sql.database` and in the log.", r#""shop""#),
    once("database[].url", ValueKind::One(TextForm::DatabaseUrl), None,
        "Place of the database and its user: `postgres://USER@HOST:PORT/DATABASE`, or `postgres+unix://USER@/DIRECTORY/DATABASE` with the directory of its socket; `sqlite:/PATH` is a file of SQLite, which is opened for reading only until a query with `write = true` runs. Connections are opened when a query needs them.", r#""postgres://larder@127.0.0.1:5432/shop""#),
    once("database[].password", ValueKind::One(TextForm::Secret), None,
        "Password of the user.", r#""file:/run/secrets/shop""#),
    once("database[].max_connections", integer(1, 10_000), Some("10"),
        "Maximum number of connections of this larder, divided among its workers: each has the whole part, and at least one.", "20"),
    once("database[].connect_timeout", time(1, HOUR), Some("5s"),
        "Timeout of a new connection, login included.", r#""1s""#),
    once("database[].query_timeout", time(1, DAY), Some("10s"),
        "Timeout of a query, from its start to its last row. The database enforces it. A client that reads a large result more slowly gets a truncated response.", r#""2s""#),
    once("database[].queue_timeout", time(0, HOUR), Some("5s"),
        "How long a query waits for a connection while all are in use. The request then gets 503.", r#""1s""#),
    once("database[].idle_timeout", time(SECOND, DAY), Some("1m"),
        "How long an unused connection stays open.", r#""10m""#),
    once("database[].prepare", ValueKind::OneOf(&["auto", "never"]), Some("auto"),
        "`auto`: each connection prepares a query once. `never`: for poolers that give each transaction another connection, such as pgbouncer with `pool_mode = transaction`; a query then takes two more round trips, and a column of an enumeration needs a cast to `text`.", r#""never""#),
    once("database[].follow.publication", ValueKind::One(TextForm::SqlParameterName), None,
        "Follow the changes of the database by logical replication (PostgreSQL 14 or newer, `wal_level = logical`), through this publication: a committed change of a row purges the pages that show it, by the tags `db:TABLE`, `db:TABLE:KEY` (primary key) and `db:TABLE:COLUMN=VALUE`. Pages get these tags by `sql.rows`, or an application sends them in `Cache-Tag`. While the database cannot be followed, pages with such tags are validated every second. The user of `url` needs `REPLICATION`.", r#""larder""#),
    once("site[].route[].sql.database", ValueKind::One(TextForm::RouteName), None,
        "Name of the `[[database]]` of the query. May be left out if there is only one.", r#""shop""#),
    once("site[].route[].sql.query", ValueKind::One(TextForm::Sql), None,
        "The query: one statement. `:name` stands for a parameter, whose value is bound, never inserted into the text.", r#""SELECT id, name FROM users WHERE id = :id""#),
    once("site[].route[].sql.parameters", ValueKind::Pairs { name: TextForm::SqlParameterName, value: TextForm::SqlParameter, example: PARAMETERS }, None,
        "The parameters of the query: `NAME = \"SOURCE TYPE\"`. SOURCE is `path` (a capture of the route's path), `query` (a parameter of the URL) or `body` (a member of a JSON object or of a form), with `.NAME` if the name there is another one. TYPE is `int`, `bigint`, `float`, `decimal`, `bool`, `text`, `uuid`, `date`, `timestamp` or `json`. `?` behind the type permits requests without the parameter (`NULL`), `= VALUE` gives those a value. A request with a missing or unfit value gets 400. The cache key has these parameters of the URL and no others.", r#"{ id = "path int", limit = "query int = 20", q = "query text?" }"#),
    once("site[].route[].sql.format", ValueKind::OneOf(&["json", "ndjson", "csv"]), Some("json"),
        "Format of the result: an array of objects, an object a line, or CSV with a line of names.", r#""csv""#),
    once("site[].route[].sql.one_row", ValueKind::Bool, Some("false"),
        "The result is the object of the only row, 404 without a row, and an error with several. Requires `format = \"json\"`.", "true"),
    once("site[].route[].sql.numbers", ValueKind::OneOf(&["strings", "json"]), Some("strings"),
        "Form of 64-bit integers and decimals in JSON. As strings they are exact in every client; JavaScript rounds JSON numbers above 2^53.", r#""json""#),
    once("site[].route[].sql.max_rows", integer(1, 1_000_000_000), Some("100000"),
        "Maximum number of rows of a result. A longer one is an error, 502 or, once the response has begun, a truncated response: never a part that looks complete.", "1000"),
    once("site[].route[].sql.max_bytes", size(KIB, TIB), Some("64MiB"),
        "Maximum size of a result, likewise.", r#""1MiB""#),
    once("site[].route[].sql.timeout", time(1, DAY), None,
        "Timeout of the query. Default: `database.query_timeout`.", r#""1s""#),
    once("site[].route[].sql.write", ValueKind::Bool, Some("false"),
        "The query may change data. It runs in a transaction that is committed before the response begins; the methods are POST, PUT, PATCH and DELETE. Other queries run read-only.", "true"),
    once("site[].route[].sql.rows", ValueKind::List(TextForm::ShownRows), None,
        "The rows that the result depends on: `TABLE` for any row of it, `TABLE.COLUMN = :PARAMETER` for those with the value of a parameter. A table outside of the schema `public` is `SCHEMA.TABLE`. Each table of the query must be named, the tables of views and functions as well: a change of others purges nothing. With `database.follow` a committed change of such a row purges the page.", r#"["users.id = :id", "countries"]"#),
    once("site[].route[].sql.tags", ValueKind::List(TextForm::Template), None,
        "Purge tags of the response, with variables and captures of the path.", r#"["users", "user:{id}"]"#),
];

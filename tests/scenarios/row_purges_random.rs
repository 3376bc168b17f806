//! Pages that follow a database, by random schemas, statements and queries: after each commit every page is that of a new query. Before a real
//! PostgreSQL, partitioned tables included, and before SQLite.

use super::sql_sqlite::Sqlite;
use crate::harness::postgres::Postgres;
use crate::harness::{Larder, until};
use std::fmt::Write as _;

/// The seeds of one run; a failure names its seed.
const SEEDS: std::ops::Range<u64> = 1..4;
const TABLES: usize = 4;
const STEPS: usize = 10;

pub(super) struct Random(pub u64);

impl Random {
    pub fn below(&mut self, most: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % most
    }

    pub fn of<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

/// The type of a column, and that of the parameter it is compared with.
type ColumnType = (&'static str, &'static str);

const KEY_TYPES: [ColumnType; 4] = [("int", "int"), ("bigint", "bigint"), ("text", "text"), ("uuid", "uuid")];
const A_TYPES: [ColumnType; 4] =
    [("smallint", "int"), ("bigint", "bigint"), ("boolean", "bool"), ("uuid", "uuid")];

/// The value with this number of a type of parameters, as a path has it.
fn value(kind: &str, number: usize) -> String {
    match kind {
        "bool" => (number % 2 == 1).to_string(),
        "uuid" => format!("00000000-0000-4000-8000-{number:012x}"),
        "text" => text(number),
        _ => number.to_string(),
    }
}

/// Texts in both cases; one of them is so long that PostgreSQL stores it outside of its row.
fn text(number: usize) -> String {
    match number {
        3 => "w".repeat(3000),
        it if it % 2 == 1 => format!("V{}", it / 2),
        it => format!("v{}", it / 2),
    }
}

fn literal(kind: &str, number: usize) -> String {
    match kind {
        "uuid" | "text" => format!("'{}'", value(kind, number)),
        _ => value(kind, number),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum System {
    Postgres,
    Sqlite,
}

/// A table with the columns `id`, `a`, `b` and `n`.
pub(super) struct Table {
    pub name: String,
    key: ColumnType,
    a: ColumnType,
    /// The statements that make it.
    pub made: String,
    /// Statements that change its form.
    forms: Vec<String>,
}

impl Table {
    fn new(system: System, name: String, random: &mut Random) -> Self {
        let (key, a) = (random.of(&KEY_TYPES), random.of(&A_TYPES));
        let insensitive = if system == System::Postgres { "text collate ci" } else { "text collate nocase" };
        let b = random.of(&["text", "varchar(3000)", "char(3000)", insensitive]);
        let columns = format!("id {} not null, a {} not null, b {b}, n int not null default 0", key.0, a.0);
        let (made, mut forms) = match system {
            System::Postgres => Self::of_postgres(&name, &columns, random),
            System::Sqlite => Self::of_sqlite(&name, &columns, random),
        };
        if system == System::Postgres {
            forms.push(format!("alter table {name} add column if not exists c int"));
            forms.push(format!("alter table {name} drop column if exists c"));
        } else {
            forms.push(format!(
                "alter table {name} rename column n to m; alter table {name} rename column m to n"
            ));
            forms.push(format!("drop index if exists i_{name}; create index i_{name} on {name} (a, b)"));
        }
        Self { name, key, a, made, forms }
    }

    fn of_postgres(name: &str, columns: &str, random: &mut Random) -> (String, Vec<String>) {
        let identity = |it: &str| format!("alter table {name} replica identity {it}");
        let keyed = format!("create table {name} ({columns}, primary key (id))");
        let external = format!("; alter table {name} alter b set storage external");
        let parts = |by: &str| {
            let mut made = format!("create table {name} ({columns}, primary key (id, a)) partition by {by}");
            for it in 0..3 {
                let part = format!("; create table {name}_{it} partition of {name}");
                let values = format!("for values with (modulus 3, remainder {it})");
                write!(made, "{part} {values}").unwrap();
            }
            made
        };
        let both = vec![identity("full"), identity("default")];
        let part_full =
            vec![format!("alter table {name}_1 replica identity full"), format!("truncate {name}_2")];
        let (made, forms) = match random.below(6) {
            0 => (keyed, both),
            1 => (format!("{keyed}; {}", identity("full")), both),
            2 => (format!("create table {name} ({columns}, primary key (a, id))"), both),
            3 => (format!("create table {name} ({columns}); {}", identity("full")), Vec::new()),
            4 => {
                let unique = format!(
                    "create table {name} ({columns}); create unique index u_{name} on {name} (id); {}",
                    identity(&format!("using index u_{name}"))
                );
                (unique, vec![identity("full")])
            }
            _ => (parts(random.of(&["hash (id)", "hash (a)", "hash (id, a)"])), part_full),
        };
        (made + &external, forms)
    }

    fn of_sqlite(name: &str, columns: &str, random: &mut Random) -> (String, Vec<String>) {
        let made = match random.below(4) {
            0 => format!("create table {name} ({columns}, primary key (id))"),
            1 => format!("create table {name} ({columns}, primary key (id, a)) without rowid"),
            2 => format!("create table {name} ({columns})"),
            _ => format!("create table {name} ({columns}); create unique index u_{name} on {name} (id)"),
        };
        (made, Vec::new())
    }

    /// A statement that changes rows or, seldom, the form of the table. None fails.
    fn statement(&self, system: System, other: &Self, random: &mut Random) -> String {
        let (name, key) = (&self.name, |it| literal(self.key.1, it));
        let (id, to) = (random.below(8), random.below(8));
        let (i, a) = (key(id), literal(self.a.1, random.below(4)));
        let b = random.of(&[0, 1, 2, 3, 4]);
        let b = if b == 4 { "null".to_owned() } else { literal("text", b) };
        let insert = format!("insert into {name} (id, a, b) values ({i}, {a}, {b})");
        match random.below(13) {
            0..3 => format!("{insert} on conflict do nothing"),
            3 => format!("{insert}, ({}, {a}, null) on conflict do nothing", key(to)),
            4 => format!("update {name} set n = n + 1 where id in ({i}, {})", key(to)),
            5 => format!(
                "update {name} set a = {a} where id = {i} and (select count(*) from {name} where id = {i}) = 1"
            ),
            6 => format!("update {name} set b = {b} where a = {a}"),
            7 => format!(
                "update {name} set id = {} where id = {i} and not exists (select 1 from {name} where id = {})",
                key(to),
                key(to)
            ),
            8 => format!("delete from {name} where id = {i}"),
            9 => format!("delete from {name} where a = {a} and b = {b}"),
            10 if system == System::Postgres => format!(
                "with gone as (delete from {name} where id = {i} returning 1) update {} set n = n + 1 where exists (select from gone)",
                other.name
            ),
            11 if id == 0 && system == System::Postgres => format!("truncate {name}"),
            11 if id == 0 => format!("delete from {name}"),
            12 if id < 3 => self.forms[random.below(self.forms.len())].clone(),
            _ => format!("update {name} set n = n + 1, b = {b} where id = {i}"),
        }
    }

    /// Its routes, each also without the cache, and their pages.
    fn routes(&self, other: &Self) -> (String, Vec<String>) {
        let (name, other) = (&self.name, &other.name);
        let columns = format!("select id, a, b, n from {name} where");
        let order = "order by id, a, b, n";
        let join = format!(
            "select x.n as n, y.n as m from {name} x join {other} y on y.n = x.n where x.id = :v order by 1, 2"
        );
        let sum = format!("select count(*) as rows, sum(n) as sum from {name} where n <> :v");
        let values = |kind: &str, most: usize| (0..most).map(|it| value(kind, it)).collect::<Vec<_>>();
        let all = [
            ("id", format!("{columns} id = :v {order}"), self.key.1, format!("\"{name}.id = :v\""), 8),
            ("a", format!("{columns} a = :v {order}"), self.a.1, format!("\"{name}.a = :v\""), 4),
            ("b", format!("{columns} b = :v {order}"), "text", format!("\"{name}.b = :v\""), 4),
            ("sum", sum, "int", format!("\"{name}\""), 1),
            ("join", join, self.key.1, format!("\"{name}.id = :v\", \"{other}\""), 3),
        ];
        let (mut routes, mut pages) = (String::new(), Vec::new());
        for (path, query, kind, rows, most) in all {
            routes += &route(&format!("{name}/{path}"), &query, kind, &rows);
            pages.extend(values(kind, most).iter().map(|it| format!("{name}/{path}/{it}")));
        }
        pages.sort();
        pages.dedup();
        (routes, pages)
    }
}

fn route(path: &str, query: &str, kind: &str, rows: &str) -> String {
    let sql =
        format!("sql = {{ query = \"{query}\", parameters = {{ v = \"path {kind}\" }}, rows = [{rows}] }}\n");
    format!(
        "[[site.route]]\npath = \"/{path}/{{v}}\"\n{sql}[[site.route]]\npath = \"/new/{path}/{{v}}\"\ncache.enabled = false\n{sql}"
    )
}

/// Some statements in one transaction, in one of which a part is rolled back, or each for itself.
pub(super) fn transaction(system: System, tables: &[Table], random: &mut Random) -> String {
    let mut one = || {
        let (table, other) = (&tables[random.below(TABLES)], &tables[random.below(TABLES)]);
        table.statement(system, other, random)
    };
    let (first, second, third) = (one(), one(), one());
    match random.below(5) {
        0 => format!("begin; {first}; {second}; commit; {third}"),
        1 => format!("begin; {first}; {second}; rollback; {third}"),
        2 => format!("begin; {first}; savepoint s; {second}; rollback to s; {third}; commit"),
        3 => format!("begin; {first}; commit; begin; {second}; rollback"),
        _ => format!("{first}; {second}; {third}"),
    }
}

/// A larder for these tables, and their pages.
fn larder(database: &str, tables: &[Table]) -> (Larder, Vec<String>) {
    let mut routes = route("zz", "select n from zz where n <> :v", "int", "\"zz\"");
    let mut pages = Vec::new();
    for (at, table) in tables.iter().enumerate() {
        let of_table = table.routes(&tables[(at + 1) % TABLES]);
        routes += &of_table.0;
        pages.extend(of_table.1);
    }
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n{database}\n[cache]\ndefault_ttl = \"1d\"\n[log]\nerror = \"error.log\"\n[[site]]\n\
         hosts = [\"*\"]\n{routes}"
    ));
    until("the database is followed", || larder.error_log().contains("database-followed database="));
    (larder, pages)
}

/// Runs random transactions, and compares each page with a new query after each of them.
fn check(system: System, seed: u64, tables: &[Table], database: &str, run: impl Fn(&str)) {
    let (larder, pages) = larder(database, tables);
    let mut random = Random(seed);
    let mut hits = 0;
    for step in 1..=STEPS {
        hits += pages.iter().filter(|it| larder.get(&format!("/{it}")).is_hit()).count();
        let changes = transaction(system, tables, &mut random);
        run(&changes);
        // The change after all others has been read.
        run(&format!("update zz set n = {step}"));
        until("the last change", || larder.get("/zz/-1").text().contains(&format!(":{step}}}")));
        for page in &pages {
            let shape = || tables.iter().map(|it| &*it.made).collect::<Vec<_>>().join("; ");
            // A change of the form of a table takes a second to be seen.
            until(&format!("seed {seed}, step {step}: /{page} after {changes}; tables: {}", shape()), || {
                let (stored, new) = (larder.get(&format!("/{page}")), larder.get(&format!("/new/{page}")));
                assert_eq!(200, new.status, "seed {seed}, step {step}: {page}: {}", larder.error_log());
                stored.text() == new.text()
            });
        }
    }
    assert!(hits > pages.len() * STEPS / 4, "seed {seed}: pages are stored before a change: {hits}");
}

pub(super) fn tables(system: System, seed: u64) -> Vec<Table> {
    let mut random = Random(seed.wrapping_mul(7919));
    println!("seed {seed}");
    (0..TABLES).map(|it| Table::new(system, format!("t{it}"), &mut random)).collect()
}

#[test]
fn after_random_changes_of_random_tables_every_page_is_that_of_a_new_query_of_postgresql() {
    for seed in SEEDS {
        let tables = tables(System::Postgres, seed);
        let made: Vec<&str> = tables.iter().map(|it| &*it.made).collect();
        let names: Vec<&str> = tables.iter().map(|it| &*it.name).collect();
        let postgres = Postgres::with(
            &["wal_level=logical"],
            &format!(
                "create collation ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false); \
                 create table zz (n int primary key); insert into zz values (0); {}; \
                 create publication larder for table zz, {} with (publish_via_partition_root = true); alter role larder replication",
                made.join("; "),
                names.join(", ")
            ),
        );
        check(System::Postgres, seed, &tables, &postgres.table("follow.publication = \"larder\""), |it| {
            postgres.sql(it);
        });
    }
}

#[test]
fn after_random_changes_of_random_tables_every_page_is_that_of_a_new_query_of_sqlite() {
    for seed in SEEDS {
        let tables = tables(System::Sqlite, seed);
        let made: Vec<&str> = tables.iter().map(|it| &*it.made).collect();
        let sqlite =
            Sqlite::new(&format!("create table zz (n int); insert into zz values (0); {}", made.join("; ")));
        check(System::Sqlite, seed, &tables, &sqlite.table("follow.interval = \"10ms\""), |it| {
            sqlite.run(it)
        });
    }
}

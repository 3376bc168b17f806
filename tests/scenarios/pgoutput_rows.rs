//! The changes of PostgreSQL's log as larder reads them from the plugin `pgoutput`, and as `pg_recvlogical` prints them from the plugin `test_decoding` of
//! the same server: random tables, partitioned ones included, and random transactions.

use super::row_purges_random::{Random, System, Table, tables, transaction};
use crate::harness::postgres::Postgres;
use larder_wire::pgoutput::{OldTuple, Relation, ReplicatedChange, Tuple, TupleValue, read};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The seeds of one run; a failure names its seed.
const SEEDS: std::ops::Range<u64> = 1..6;
const STEPS: usize = 60;

/// The values of a row, by the names of its columns. Those of a former row that are null or were not logged are missing.
type Row = BTreeMap<String, String>;

/// A change of one row, or of all rows of some tables.
#[derive(Debug, PartialEq, Eq)]
enum Change {
    Insert(String, Row),
    Update(String, Option<Row>, Row),
    Delete(String, Row),
    Truncate(BTreeSet<String>),
}

/// The changes of a transaction, in their order, with its number.
type Transaction = (u32, Vec<Change>);

const NULL: &str = "null";
const UNCHANGED: &str = "unchanged-toast-datum";

/// The transactions that larder reads.
struct Reader {
    tables: HashMap<u32, (String, Vec<String>)>,
    all: Vec<Transaction>,
}

impl Reader {
    /// Reads messages, each in hexadecimal digits.
    fn read(messages: &str) -> Vec<Transaction> {
        let mut it = Self { tables: HashMap::new(), all: Vec::new() };
        for line in messages.lines() {
            let digit = |at: usize| u8::from_str_radix(&line[at..at + 2], 16).unwrap();
            let message: Vec<u8> = (0..line.len()).step_by(2).map(digit).collect();
            it.message(&message);
        }
        it.all
    }

    fn message(&mut self, message: &[u8]) {
        let change = match read(message).unwrap() {
            ReplicatedChange::Begin(number) => return self.all.push((number, Vec::new())),
            ReplicatedChange::Commit | ReplicatedChange::Other => return,
            ReplicatedChange::Relation(it) => return self.relation(&it),
            ReplicatedChange::Insert(of, new) => Change::Insert(self.name(of), self.new_row(of, &new)),
            ReplicatedChange::Update { relation, old, new } => {
                let old = old.map(|it| self.old_row(relation, it));
                Change::Update(self.name(relation), old, self.new_row(relation, &new))
            }
            ReplicatedChange::Delete(of, old) => Change::Delete(self.name(of), self.old_row(of, old)),
            ReplicatedChange::Truncate(all) => Change::Truncate(all.iter().map(|it| self.name(it)).collect()),
        };
        self.all.last_mut().unwrap().1.push(change);
    }

    fn relation(&mut self, it: &Relation<'_>) {
        let columns = it.columns().map(|it| it.name.to_owned()).collect();
        self.tables.insert(it.number, (format!("{}.{}", it.schema, it.name), columns));
    }

    fn name(&self, table: u32) -> String {
        self.tables[&table].0.clone()
    }

    fn new_row(&self, table: u32, row: &Tuple<'_>) -> Row {
        let text = |it| match it {
            TupleValue::Null => NULL.to_owned(),
            TupleValue::Unchanged => UNCHANGED.to_owned(),
            TupleValue::Text(it) => String::from_utf8(it.to_vec()).unwrap(),
        };
        let columns = &self.tables[&table].1;
        assert_eq!(columns.len(), row.values().count());
        columns.iter().cloned().zip(row.values().map(text)).collect()
    }

    fn old_row(&self, table: u32, row: OldTuple<'_>) -> Row {
        let (OldTuple::Key(row) | OldTuple::Whole(row)) = row;
        let mut row = self.new_row(table, &row);
        row.retain(|_, it| it != NULL);
        row
    }
}

/// The transactions that `test_decoding` prints.
fn printed(text: &str) -> Vec<Transaction> {
    let mut all: Vec<Transaction> = Vec::new();
    for line in text.lines() {
        if let Some(number) = line.strip_prefix("BEGIN ") {
            all.push((number.parse().unwrap(), Vec::new()));
        } else if let Some(change) = line.strip_prefix("table ") {
            all.last_mut().unwrap().1.push(printed_change(change));
        } else {
            assert!(line.is_empty() || line.starts_with("COMMIT "), "{line}");
        }
    }
    all
}

fn printed_change(line: &str) -> Change {
    let (names, rest) = line.split_once(": ").unwrap();
    let (kind, rest) = rest.split_once(':').unwrap();
    let (mut rest, name) = (rest.trim_start(), names.to_owned());
    let row = match kind {
        "TRUNCATE" => return Change::Truncate(names.split(", ").map(str::to_owned).collect()),
        "INSERT" => return Change::Insert(name, printed_row(&mut rest)),
        "DELETE" => return Change::Delete(name, printed_row(&mut rest)),
        _ => match rest.strip_prefix("old-key: ") {
            None => None,
            Some(old) => {
                rest = old;
                Some(printed_row(&mut rest))
            }
        },
    };
    assert_eq!("UPDATE", kind);
    Change::Update(name, row, printed_row(&mut rest))
}

/// Reads columns, each as `NAME[TYPE]:VALUE`, to the end of the line or of the row.
fn printed_row(rest: &mut &str) -> Row {
    let mut row = Row::new();
    *rest = rest.trim_start_matches("new-tuple: ");
    while !rest.is_empty() && !rest.starts_with("new-tuple: ") {
        let (name, behind) = rest.split_once('[').unwrap();
        let (kind, behind) = behind.split_once("]:").unwrap();
        let (text, behind) = printed_value(behind);
        let text = match (kind, text.as_str()) {
            ("boolean", "true") => "t".to_owned(),
            ("boolean", "false") => "f".to_owned(),
            _ => text,
        };
        row.insert(name.to_owned(), text);
        *rest = behind.trim_start();
    }
    row
}

/// A value: in quotes, of which those within are doubled, or a word.
fn printed_value(rest: &str) -> (String, &str) {
    let Some(quoted) = rest.strip_prefix('\'') else {
        let end = rest.find(' ').unwrap_or(rest.len());
        return (rest[..end].to_owned(), &rest[end..]);
    };
    let quotes = quoted.match_indices('\'').map(|it| it.0);
    let mut end = 0;
    for at in quotes {
        if at < end {
            continue;
        }
        if !quoted[at + 1..].starts_with('\'') {
            return (quoted[..at].replace("''", "'"), &quoted[at + 1..]);
        }
        end = at + 2;
    }
    panic!("a text without an end: {rest}");
}

/// The changes as a publication has them: of partitions, or of the tables that they are parts of. An emptied partition alone is not published then.
fn published(all: Vec<Transaction>, parents: &HashMap<String, String>, via_root: bool) -> Vec<Transaction> {
    let of = |name: String| parents.get(&name).filter(|_| via_root).cloned().unwrap_or(name);
    let is_published = |name: &String| match via_root {
        true => !parents.contains_key(name),
        false => !parents.values().any(|it| it == name),
    };
    let of_change = |it| match it {
        Change::Insert(name, row) => Change::Insert(of(name), row),
        Change::Update(name, old, row) => Change::Update(of(name), old, row),
        Change::Delete(name, row) => Change::Delete(of(name), row),
        Change::Truncate(names) => Change::Truncate(names.into_iter().filter(is_published).collect()),
    };
    let is_some = |it: &Change| !matches!(it, Change::Truncate(names) if names.is_empty());
    let of_transaction = |(number, changes): Transaction| {
        (number, changes.into_iter().map(of_change).filter(is_some).collect())
    };
    all.into_iter().map(of_transaction).filter(|it: &Transaction| !it.1.is_empty()).collect()
}

/// The table of each partition.
fn parents(postgres: &Postgres) -> HashMap<String, String> {
    let text = postgres.sql("select inhrelid::regclass || ' ' || inhparent::regclass from pg_inherits join pg_class on oid = inhrelid where relkind = 'r'");
    let pair = |it: &str| {
        let (part, parent) = it.split_once(' ').unwrap();
        (format!("public.{part}"), format!("public.{parent}"))
    };
    text.lines().map(pair).collect()
}

fn server(tables: &[Table]) -> Postgres {
    let made: Vec<&str> = tables.iter().map(|it| &*it.made).collect();
    let names: Vec<&str> = tables.iter().map(|it| &*it.name).collect();
    let (made, names) = (made.join("; "), names.join(", "));
    let postgres = Postgres::with(
        &["wal_level=logical"],
        &format!(
            "create collation ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false); {made}; \
             create publication parts for table {names}; create publication roots for table {names} with (publish_via_partition_root)"
        ),
    );
    for (slot, plugin) in [("ours", "pgoutput"), ("theirs", "test_decoding")] {
        postgres.sql(&format!("select pg_create_logical_replication_slot('{slot}', '{plugin}')"));
    }
    postgres
}

#[test]
fn changes_of_a_log_are_those_of_pg_recvlogical() {
    for seed in SEEDS {
        let tables = tables(System::Postgres, seed);
        let postgres = server(&tables);
        let mut random = Random(seed);
        for _ in 0..STEPS {
            postgres.sql(&transaction(System::Postgres, &tables, &mut random));
        }
        let parents = parents(&postgres);
        let text = String::from_utf8(postgres.received("theirs")).unwrap();
        for (publication, via_root) in [("parts", false), ("roots", true)] {
            let theirs = published(printed(&text), &parents, via_root);
            let messages = postgres.sql(&format!(
                "select encode(data, 'hex') from pg_logical_slot_peek_binary_changes('ours', null, null, 'proto_version', '1', \
                 'publication_names', '{publication}')"
            ));
            let mut ours = Reader::read(&messages);
            ours.retain(|it| !it.1.is_empty());
            assert!(ours.len() > STEPS / 2, "seed {seed}: {} transactions", ours.len());
            for (theirs, ours) in theirs.iter().zip(&ours) {
                assert_eq!(theirs, ours, "seed {seed}, {publication}");
            }
            assert_eq!(theirs.len(), ours.len(), "seed {seed}, {publication}");
        }
    }
}

//! Tests of the tags of logged changes, with events as MariaDB writes them.

use super::*;
use crate::mysql::tables::KnownColumn;
use crate::parameter::ParameterType;
use crate::row_tags::{ShownRows, WatchedColumns};
use flate2::Compression;
use flate2::write::ZlibEncoder;
use std::io::Write as _;

/// Bytes of the head of an event.
const HEAD: usize = 19;

/// Events, each at the next position.
struct Script {
    tags: LogTags,
    offset: u32,
}

/// The table `users (id int primary key, shop int unsigned, name varchar(20))`, watched by `shop`; rows of `parts` depend on it.
fn script() -> Script {
    let int = |name: &str, kind: &str| KnownColumn::new(name, "int", kind, "", "");
    let columns = vec![
        int("id", "int(11)"),
        int("shop", "int(10) unsigned"),
        KnownColumn::new("name", "varchar", "varchar(20)", "utf8mb4", "utf8mb4_general_ci"),
    ];
    let mut watched = WatchedColumns::default();
    watched.add(&ShownRows::parse("users.shop = :a").unwrap(), ParameterType::Int);
    let known = KnownTable::new("users", columns, vec!["id".into()], &watched);
    let place: TablePlace = ("shop".into(), "users".into());
    let by_delete = BTreeSet::from([Box::from("parts")]);
    let dependent = DependentTables { by_delete, by_update: BTreeSet::new() };
    let at = |offset| LogPosition::new("bin.000001", offset).unwrap();
    let tables = KnownTables {
        forms: HashMap::from([(place.clone(), Rc::new(known))]),
        dependent: HashMap::from([(place, dependent)]),
        from: at(100),
        since: at(100),
    };
    let schemas = BTreeSet::from([Box::from("shop")]);
    Script { tags: LogTags::new("shop", schemas, tables, at(100)), offset: 100 }
}

impl Script {
    fn event(&mut self, kind: u8, content: &[u8]) -> Result<(), String> {
        let length = u32::try_from(HEAD + content.len()).unwrap();
        self.offset += length;
        let mut out = vec![1, 0, 0, 0, kind, 1, 0, 0, 0];
        out.extend(length.to_le_bytes());
        out.extend(self.offset.to_le_bytes());
        out.extend([0, 0]);
        out.extend(content);
        self.tags.read(&out)
    }

    fn begin(&mut self) {
        self.event(162, &[0; 19]).unwrap();
    }

    fn map(&mut self, table: &str) {
        let mut map = b"\x12\0\0\0\0\0\x01\0\x04shop\0".to_vec();
        map.push(u8::try_from(table.len()).unwrap());
        map.extend(table.bytes());
        map.extend(b"\0\x03\x03\x03\x0f\x02\x50\0\x04");
        self.event(19, &map).unwrap();
    }

    fn rows(&mut self, kind: u8, images: &[u8], rows: &[&[u8]]) {
        let content = [b"\x12\0\0\0\0\0\x01\0\x03", images, &rows.concat()].concat();
        self.event(kind, &content).unwrap();
    }

    fn statement(&mut self, text: &str) {
        let content = [b"\0\0\0\0\0\0\0\0\x04\0\0\0\0shop\0", text.as_bytes()].concat();
        self.event(2, &content).unwrap();
    }

    fn commit(&mut self) {
        self.event(16, &[0; 8]).unwrap();
    }

    /// The tables, as they are looked at now.
    fn look(&mut self) {
        let forms = std::mem::take(&mut self.tags.tables.forms);
        let dependent = std::mem::take(&mut self.tags.tables.dependent);
        let at = self.tags.position().clone();
        self.tags.set_tables(KnownTables { forms, dependent, from: at.clone(), since: at });
    }

    /// The tags of committed transactions, in their order.
    fn tags(&mut self) -> String {
        let found = self.tags.take();
        assert!(found.tags.is_empty() || found.end == *self.tags.position());
        found.tags.into_iter().collect::<Vec<_>>().join(" ")
    }
}

/// A row with all values.
fn row(id: i32, shop: u32, name: &str) -> Vec<u8> {
    let length = [u8::try_from(name.len()).unwrap()];
    [&[0xf8][..], &id.to_le_bytes(), &shop.to_le_bytes(), &length, name.as_bytes()].concat()
}

#[test]
fn changes_of_rows_when_they_are_committed() {
    let mut script = script();
    script.begin();
    script.map("users");
    script.rows(23, b"\x07", &[&row(-7, 4_000_000_000, "a")]);
    assert_eq!("", script.tags(), "not yet");
    script.event(16, &[0; 8]).unwrap();
    assert_eq!("db:users db:users:-7 db:users:shop=4000000000", script.tags());
    script.begin();
    script.map("users");
    script.rows(24, b"\x07\x07", &[&row(1, 2, "a"), &row(1, 3, "b")]);
    script.event(16, &[0; 8]).unwrap();
    assert_eq!("db:users db:users:1 db:users:shop=2 db:users:shop=3", script.tags());
    script.begin();
    script.map("users");
    script.rows(25, b"\x07", &[&row(1, 2, "a"), &row(2, 2, "b")]);
    script.event(16, &[0; 8]).unwrap();
    assert_eq!(
        "db:parts db:parts: db:users db:users:1 db:users:2 db:users:shop=2",
        script.tags(),
        "rows of parts go with them"
    );
}

#[test]
fn short_images_and_unknown_forms() {
    let mut script = script();
    // The key before, the shop after.
    script.begin();
    script.map("users");
    script.rows(24, b"\x01\x02", &[b"\xfe\x07\0\0\0", b"\xfe\x09\0\0\0"]);
    script.event(16, &[0; 8]).unwrap();
    assert_eq!("db:users db:users:7 db:users:shop= db:users:shop=9", script.tags());
    // The key before, another column after: the shop is what it was, and that is not known.
    script.begin();
    script.map("users");
    script.rows(24, b"\x01\x04", &[b"\xfe\x07\0\0\0", b"\xfe\x01a"]);
    script.event(16, &[0; 8]).unwrap();
    assert_eq!("db:users db:users:7 db:users:shop=", script.tags());
    // A table that was never seen.
    script.begin();
    script.map("other");
    script.rows(23, b"\x07", &[&row(1, 2, "a")]);
    script.event(16, &[0; 8]).unwrap();
    assert_eq!("db:other db:other:", script.tags());
    assert!(script.tags.is_outdated());
    // A table that has changed, until it is looked at.
    script.statement("alter table users drop column name");
    assert_eq!("db:", script.tags());
    script.begin();
    script.map("users");
    script.rows(23, b"\x07", &[&row(1, 2, "a")]);
    script.event(16, &[0; 8]).unwrap();
    assert_eq!("db:", script.tags(), "foreign keys may be new");
    // Rows of a map that nothing has.
    script.tags.maps.clear();
    assert!(script.event(23, b"\x12\0\0\0\0\0\x01\0\x03\x07").is_err());
    assert!(script.event(26, &[]).unwrap_err().contains("incident"));
    assert!(script.event(99, &[]).unwrap_err().contains("unknown type 99"));
}

#[test]
fn compressed_rows_and_texts() {
    let packed = |raw: &[u8]| {
        let mut to = ZlibEncoder::new(Vec::new(), Compression::default());
        to.write_all(raw).unwrap();
        let length = u16::try_from(raw.len()).unwrap().to_be_bytes();
        [&[0x82][..], &length, &to.finish().unwrap()].concat()
    };
    let mut script = script();
    script.begin();
    script.map("users");
    script.rows(166, b"\x07", &[&packed(&[row(1, 2, "a"), row(3, 4, "b")].concat())]);
    script.event(16, &[0; 8]).unwrap();
    assert_eq!("db:users db:users:1 db:users:3 db:users:shop=2 db:users:shop=4", script.tags());
    let text = [b"\0\0\0\0\0\0\0\0\x04\0\0\0\0shop\0", &packed(b"flush privileges")[..]].concat();
    script.event(165, &text).unwrap();
    assert_eq!("", script.tags());
    assert!(script.event(165, b"\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x81\x05abc").is_err());
    // One byte more than it says.
    let mut long = packed(b"flush");
    long[2] -= 1;
    assert_eq!(Err(BadEvent), inflated(&long, true));
}

#[test]
fn prepared_transactions_and_large_ones() {
    let mut script = script();
    script.begin();
    script.map("users");
    script.rows(23, b"\x07", &[&row(1, 2, "a")]);
    script.event(38, &[0]).unwrap();
    assert_eq!("", script.tags(), "it is prepared");
    script.statement("XA COMMIT X'78',X'',1");
    assert_eq!("db:", script.tags());
    script.begin();
    script.map("users");
    let all: Vec<Vec<u8>> = (0..6000).map(|it| row(it, it.unsigned_abs(), "a")).collect();
    script.rows(23, b"\x07", &all.iter().map(Vec::as_slice).collect::<Vec<_>>());
    script.event(16, &[0; 8]).unwrap();
    assert_eq!("db:users db:users:", script.tags(), "all pages of its tables");
}

#[test]
fn tables_are_looked_at_within_a_transaction() {
    let mut script = script();
    script.begin();
    script.map("hidden");
    assert!(script.tags.is_outdated(), "it is not known");
    script.look();
    script.rows(23, b"\x07", &[&row(1, 2, "a")]);
    script.commit();
    assert_eq!("db:hidden db:hidden:", script.tags());
    // It is not looked for again.
    script.begin();
    script.map("hidden");
    assert!(!script.tags.is_outdated());
    script.rows(23, b"\x07", &[&row(1, 2, "a")]);
    script.commit();
    assert_eq!("db:hidden db:hidden:", script.tags());
    // A known table has the form that it had at its map.
    script.begin();
    script.map("users");
    script.look();
    script.rows(23, b"\x07", &[&row(1, 2, "a")]);
    script.commit();
    assert_eq!("db:users db:users:1 db:users:shop=2", script.tags());
    // The next map has the form that was looked at.
    script.tags.tables.forms.clear();
    script.begin();
    script.map("users");
    script.rows(23, b"\x07", &[&row(1, 2, "a")]);
    script.commit();
    assert_eq!("db:users db:users:", script.tags());
}

#[test]
fn foreign_keys_are_unknown_until_they_are_looked_at() {
    let mut script = script();
    script.tags.schemas.clear();
    let delete = |script: &mut Script| {
        script.begin();
        script.map("users");
        script.rows(25, b"\x07", &[&row(1, 2, "a")]);
        script.commit();
        script.tags()
    };
    assert_eq!("db:parts db:parts:", delete(&mut script), "tables of this database have no tags");
    script.statement("alter table more add foreign key (of) references users (id) on delete cascade");
    assert_eq!("db:", script.tags());
    assert_eq!("db:", delete(&mut script));
    script.look();
    assert_eq!("db:parts db:parts:", delete(&mut script));
    // A foreign key may be gone since this change.
    let since = script.offset + 1000;
    script.tags.tables.since = LogPosition::new("bin.000001", since.into()).unwrap();
    script.tags.maps.clear();
    assert_eq!("db:", delete(&mut script));
}

#[test]
fn maps_and_tags_are_bounded() {
    let mut script = script();
    script.map("users");
    let one = script.tags.maps[&0x12].1.clone();
    script.tags.maps.extend((100..100 + MOST_MAPS as u64).map(|it| (it, (Box::default(), one.clone()))));
    script.begin();
    assert!(script.tags.maps.is_empty());
    script.map("users");
    script.begin();
    assert_eq!(1, script.tags.maps.len());
    let all: Vec<u8> = (0..20_000).flat_map(|it| row(it, it.unsigned_abs(), "a")).collect();
    let event = RowsEvent {
        table: 0x12,
        kind: RowsKind::Insert,
        columns: 3,
        first: b"\x07",
        second: &[],
        rows: &all,
        is_compressed: false,
    };
    let mut tags = BTreeSet::new();
    add_rows(&event, &all, &one.columns, one.known.as_ref().unwrap(), &mut tags).unwrap();
    assert!((MOST_TAGS..MOST_TAGS + 10).contains(&tags.len()), "{}", tags.len());
}

#[test]
fn effects_of_statements() {
    use StatementEffect::{Begins, Commits, CommitsPrepared, Nothing, Rows, Tables};
    for (text, expect) in [
        ("BEGIN", Begins),
        ("COMMIT", Commits),
        ("ROLLBACK", Commits),
        ("ROLLBACK TO `a`", Nothing),
        ("SAVEPOINT `a`", Nothing),
        ("XA END X'78',X'',1", Nothing),
        ("XA ROLLBACK X'78',X'',1", Nothing),
        ("xa  commit X'78',X'',1", CommitsPrepared),
        ("DROP /*!40005 TEMPORARY */ TABLE IF EXISTS `t`", Nothing),
        ("DROP TEMPORARY TABLE `t`", Nothing),
        ("create\ttemporary table t (a int)", Nothing),
        ("grant select on *.* to a", Nothing),
        ("CREATE USER a", Nothing),
        ("update users set name = 'd'", Rows),
        ("TRUNCATE t", Rows),
        ("ANALYZE UPDATE t set a = 1", Rows),
        ("analyze format=json delete from t", Rows),
        ("ANALYZE TABLE t", Nothing),
        ("analyze no_write_to_binlog table t", Nothing),
        ("insert into t values (1)", Rows),
        ("create table t (a int)", Tables),
        ("/* by a program */ drop table t", Tables),
        ("SELECT `shop`.`f`()", Tables),
        ("", Tables),
    ] {
        assert_eq!(expect, StatementEffect::of(text.as_bytes()), "{text}");
    }
}

//! The rows of MariaDB's binary log as larder's reader and the library mysql-replication decode them: random tables of all types, random statements,
//! and each `binlog_row_image`.

use super::row_purges_random::Random;
use crate::harness::mariadb::MariaDb;
use larder_wire::binlog::{LoggedEvent, LoggedType, LoggedValue, RowsKind, TableMap, read_event, read_row};
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// The seeds of one run; a failure names its seed.
const SEEDS: std::ops::Range<u64> = 1..4;
const TABLES: usize = 8;
const STEPS: usize = 60;

/// Types of columns, each with values.
const TYPES: [(&str, [&str; 3]); 33] = [
    ("tinyint", ["-128", "0", "127"]),
    ("tinyint unsigned", ["255", "0", "128"]),
    ("boolean", ["true", "false", "-1"]),
    ("smallint", ["-32768", "1", "32767"]),
    ("smallint unsigned", ["65535", "1", "256"]),
    ("mediumint", ["-8388608", "-1", "8388607"]),
    ("mediumint unsigned", ["16777215", "1", "65536"]),
    ("int", ["-2147483648", "-1", "2147483647"]),
    ("int unsigned", ["4294967295", "0", "2147483648"]),
    ("bigint", ["-9223372036854775808", "-1", "9223372036854775807"]),
    ("bigint unsigned", ["18446744073709551615", "0", "9007199254740993"]),
    ("decimal(1,0)", ["-1", "0", "9"]),
    ("decimal(12,3)", ["-12.5", "0", "123456789.125"]),
    ("decimal(65,30)", ["-0.000000000000000000000000000001", "1", "99999999999999999999999999999999999"]),
    ("float", ["-1.5", "0", "1e30"]),
    ("double", ["-2.25", "0", "1e300"]),
    ("bit(1)", ["b'1'", "b'0'", "b'1'"]),
    ("bit(19)", ["b'1'", "b'101010101'", "b'1111111111111111111'"]),
    ("year", ["2026", "0", "1901"]),
    ("date", ["'2026-01-31'", "'0000-00-00'", "'9999-12-31'"]),
    ("time(0)", ["'-838:59:59'", "'00:00:00'", "'12:00:00'"]),
    ("time(5)", ["'-838:59:59.5'", "'00:00:00'", "'12:00:00.00001'"]),
    ("datetime(0)", ["'2026-01-31 12:00:00'", "'0000-00-00 00:00:00'", "'9999-12-31 23:59:59'"]),
    ("datetime(6)", ["'2026-01-31 12:00:00.5'", "'0000-00-00'", "'9999-12-31 23:59:59.999999'"]),
    ("timestamp(3)", ["'2026-01-31 12:00:00.5'", "'2001-09-09 01:46:40'", "'2038-01-19 03:14:07'"]),
    ("char(5)", ["'a'", "''", "'äöüßé'"]),
    ("char(255)", ["'a  b'", "''", "repeat('ä', 255)"]),
    ("varchar(20)", ["'a '", "''", "repeat('😀', 20)"]),
    ("varchar(300)", ["'b'", "''", "repeat('ä', 300)"]),
    ("enum('x', 'y')", ["'x'", "'y'", "'y'"]),
    ("set('p', 'q', 'r', 's', 't', 'u', 'v', 'w', 'z')", ["'p,q'", "''", "'p,z'"]),
    ("binary(4)", ["x'01000000'", "x'00000000'", "x'fffefdfc'"]),
    ("varbinary(300)", ["x'00'", "''", "repeat(x'ff', 300)"]),
];

/// Types outside of the row, which NOBLOB leaves out.
const LARGE: [(&str, [&str; 3]); 8] = [
    ("tinytext", ["'a'", "''", "repeat('b', 255)"]),
    ("text", ["'a'", "''", "repeat('ä', 20000)"]),
    ("mediumtext", ["'a'", "''", "repeat('c', 70000)"]),
    ("longblob", ["x'00'", "''", "repeat(x'fe', 70000)"]),
    ("json", ["'{\"a\":1}'", "'[]'", "'null'"]),
    ("uuid", ["'123e4567-e89b-12d3-a456-426614174000'", "'00000000-0000-0000-0000-000000000000'", "uuid()"]),
    ("inet6", ["'::1'", "'::'", "'2001:db8::ff00'"]),
    ("point", ["point(1, 2)", "point(0, 0)", "point(-1e9, 3)"]),
];

/// A table with the columns `id`, `c0` to `cN` and `z`, which is wrong if the one before it has another length.
struct LoggedTable {
    name: String,
    columns: Vec<(&'static str, [&'static str; 3])>,
}

impl LoggedTable {
    fn new(name: String, random: &mut Random) -> Self {
        let columns = (0..=random.below(12)).map(|_| match random.below(4) {
            0 => random.of(&LARGE),
            _ => random.of(&TYPES),
        });
        Self { name, columns: columns.collect() }
    }

    fn made(&self) -> String {
        let columns = self.columns.iter().enumerate().map(|(at, it)| format!("c{at} {} null, ", it.0));
        format!(
            "create table {} (id int primary key, {}z int unsigned not null default 4242424242);",
            self.name,
            columns.collect::<String>()
        )
    }

    fn statement(&self, random: &mut Random) -> String {
        let name = &self.name;
        let value = |of: &[&'static str; 3], random: &mut Random| match random.below(4) {
            0 => "null",
            at => of[at - 1],
        };
        match random.below(8) {
            0..=3 => {
                let row = |id: usize, random: &mut Random| {
                    let values = self.columns.iter().map(|it| format!(", {}", value(&it.1, random)));
                    format!("({id}{}, default)", values.collect::<String>())
                };
                let first = random.below(20);
                let rows = [row(first, random), row(first + 20, random)];
                format!("replace into {name} values {};", rows.join(", "))
            }
            4 | 5 => {
                let at = random.below(self.columns.len());
                let to = value(&self.columns[at].1, random);
                format!("update {name} set c{at} = {to} where id % 5 = {};", random.below(5))
            }
            6 => format!("delete from {name} where id = {};", random.below(40)),
            _ => format!("set session binlog_row_image = {};", random.of(&["full", "minimal", "noblob"])),
        }
    }

    /// A value as the other reader prints it.
    fn text(&self, at: usize, of: LoggedType, value: LoggedValue<'_>) -> String {
        let bytes = match value {
            LoggedValue::Absent => return "\"absent\"".to_owned(),
            LoggedValue::Null => return "null".to_owned(),
            LoggedValue::Bytes(it) => it,
        };
        let is_unsigned = at > self.columns.len() || at > 0 && self.columns[at - 1].0.ends_with("unsigned");
        let hex = |bytes: &[u8]| {
            let digits: String = bytes.iter().map(|it| format!("{it:02x}")).collect();
            format!("\"{digits}\"")
        };
        match of.kind {
            1 | 2 | 3 | 8 | 9 => {
                let number = bytes.iter().rev().fold(0_i128, |all, it| all << 8 | i128::from(*it));
                let bits = 8 * bytes.len();
                let is_negative = !is_unsigned && number >> (bits - 1) == 1;
                (number - if is_negative { 1 << bits } else { 0 }).to_string()
            }
            4 => hex(&f64::from(f32::from_le_bytes(bytes.try_into().unwrap())).to_le_bytes()),
            5 | 15 | 249..=252 | 255 => hex(bytes),
            10 | 18 => format!("\"{}\"", date(of.kind, bytes)),
            13 => (1900 + u64::from(bytes[0])).to_string(),
            16 => {
                let count = usize::from(of.detail >> 8) * 8 + usize::from(of.detail & 0xff);
                format!("\"{:0count$b}\"", big_endian(bytes))
            }
            17 => (big_endian(&bytes[..4]) * 1_000_000 + micros(&bytes[4..])).to_string(),
            19 => time(bytes),
            246 => {
                let [digits, behind] = of.detail.to_le_bytes();
                format!("\"{}\"", decimal(bytes, digits.into(), behind.into()))
            }
            254 => match (of.detail & 0xff, self.names(at)) {
                (247, names) => hex(names[usize::from(bytes[0]) - 1].as_bytes()),
                (248, names) => {
                    let has = |it: &usize| bytes[it / 8] >> (it % 8) & 1 == 1;
                    let chosen: Vec<_> = (0..names.len()).filter(has).map(|it| names[it]).collect();
                    hex(chosen.join(",").as_bytes())
                }
                _ => hex(bytes),
            },
            kind => panic!("a value of the type {kind}"),
        }
    }

    /// The names of an enumeration or a set.
    fn names(&self, at: usize) -> Vec<&'static str> {
        self.columns
            .get(at.wrapping_sub(1))
            .map_or_else(Vec::new, |it| it.0.split('\'').skip(1).step_by(2).collect())
    }
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |all, it| all << 8 | u64::from(*it))
}

/// A fraction of a second.
fn micros(bytes: &[u8]) -> u64 {
    big_endian(bytes) * 100_u64.pow(3 - u32::try_from(bytes.len()).unwrap())
}

/// `DATE` or `DATETIME`.
fn date(kind: u8, bytes: &[u8]) -> String {
    let (of_day, month, year) = match kind {
        10 => {
            let number = u64::from(bytes[0]) | u64::from(bytes[1]) << 8 | u64::from(bytes[2]) << 16;
            (number & 31, number >> 5 & 15, number >> 9)
        }
        _ => {
            let number = big_endian(&bytes[..5]);
            let months = number >> 22 & 0x1_ffff;
            (number >> 17 & 31, months % 13, months / 13)
        }
    };
    if of_day * month * year == 0 {
        return "no date".to_owned();
    }
    let text = format!("{year:04}-{month:02}-{of_day:02}");
    if kind == 10 {
        return text;
    }
    let number = big_endian(&bytes[..5]);
    let (hour, minute, second) = (number >> 12 & 31, number >> 6 & 63, number & 63);
    format!("{text} {hour:02}:{minute:02}:{second:02}.{:06}", micros(&bytes[5..]))
}

/// `TIME` in microseconds.
fn time(bytes: &[u8]) -> String {
    let (number, fraction) = (big_endian(&bytes[..3]), micros(&bytes[3..]));
    let is_negative = number < 0x80_0000;
    if is_negative && fraction > 0 {
        return "\"not compared\"".to_owned();
    }
    let number = number.abs_diff(0x80_0000);
    let seconds = (number >> 12) * 3600 + (number >> 6 & 63) * 60 + (number & 63);
    format!("{}{}", if is_negative { "-" } else { "" }, seconds * 1_000_000 + fraction)
}

/// A decimal number: groups of up to nine digits, the sign in the first bit, and the bytes of negative ones inverted.
fn decimal(bytes: &[u8], digits: usize, behind: usize) -> String {
    const BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let is_negative = bytes[0] & 0x80 == 0;
    let mut bytes = bytes.to_vec();
    bytes[0] ^= 0x80;
    if is_negative {
        bytes.iter_mut().for_each(|it| *it = !*it);
    }
    let before = digits - behind;
    let groups = [vec![before % 9], vec![9; before / 9], vec![9; behind / 9], vec![behind % 9]].concat();
    let (mut text, mut rest) = (String::new(), &bytes[..]);
    for digits in groups.into_iter().filter(|it| *it > 0) {
        let (group, later) = rest.split_at(BYTES[digits]);
        text += &format!("{:0digits$}", big_endian(group));
        rest = later;
    }
    let (whole, fraction) = text.split_at(before);
    let whole = whole.trim_start_matches('0');
    let sign = if is_negative { "-" } else { "" };
    let whole = if whole.is_empty() { "0" } else { whole };
    let point = if behind > 0 { "." } else { "" };
    format!("{sign}{whole}{point}{fraction}")
}

/// The rows of a log without checksums as larder reads them, a line for each.
fn read_by_larder(log: &[u8], tables: &[LoggedTable]) -> Vec<String> {
    let (mut maps, mut lines, mut at) = (HashMap::new(), Vec::new(), 4);
    while at < log.len() {
        let length = u32::from_le_bytes(log[at + 9..at + 13].try_into().unwrap()) as usize;
        match read_event(&log[at..at + length]).unwrap().1 {
            LoggedEvent::TableMap(map) => drop(maps.insert(map.number, map)),
            LoggedEvent::Rows(event) if event.table != 0xff_ffff => {
                let map: &TableMap<'_> = &maps[&event.table];
                let table = tables.iter().find(|it| it.name == map.name).unwrap();
                let (mut rest, mut row) = (event.rows, Vec::new());
                while !rest.is_empty() {
                    let mut line = format!("[\"{}\"", map.name);
                    let sides = [event.first, event.second];
                    for present in &sides[..if event.kind == RowsKind::Update { 2 } else { 1 }] {
                        read_row(&mut rest, present, &map.columns, &mut row).unwrap();
                        let texts = row.iter().zip(&map.columns).enumerate();
                        let texts: Vec<_> =
                            texts.map(|(at, (value, of))| table.text(at, *of, *value)).collect();
                        line = format!("{line}, [{}]", texts.join(", "));
                    }
                    lines.push(line + "]");
                }
            }
            _ => {}
        }
        at += length;
    }
    lines
}

/// The same as mysql-replication reads them.
fn read_by_mysql_replication(maria: &MariaDb) -> Vec<String> {
    let place = Path::new(env!("CARGO_MANIFEST_DIR"));
    let reader = Command::new("python3")
        .arg(place.join("../tests/mysql_replication/read_log.py"))
        .arg(maria.socket())
        .arg("bin.000001")
        .env("PYTHONPATH", place.join("../target/tools/mysql_replication"))
        .output()
        .expect("Python is installed");
    let why = String::from_utf8_lossy(&reader.stderr);
    assert!(!why.contains("ModuleNotFoundError"), "mysql-replication is missing: run tests/install");
    assert!(reader.status.success(), "{why}");
    String::from_utf8(reader.stdout).unwrap().lines().map(str::to_owned).collect()
}

#[test]
fn rows_of_a_binary_log_are_those_of_mysql_replication() {
    for seed in SEEDS {
        let mut random = Random(seed);
        let tables: Vec<_> = (0..TABLES).map(|it| LoggedTable::new(format!("t{it}"), &mut random)).collect();
        let mut statements = "set session sql_mode = ''; ".to_owned();
        statements.extend(tables.iter().map(LoggedTable::made));
        for _ in 0..STEPS {
            let table = &tables[random.below(TABLES)];
            statements += &table.statement(&mut random);
        }
        let settings = ["--log-bin=bin", "--binlog-format=ROW", "--server-id=7", "--binlog-checksum=NONE"];
        let maria = MariaDb::with(&[&settings[..], &["--binlog-row-metadata=FULL"]].concat(), &statements);
        let (ours, theirs) = (read_by_larder(&maria.log(), &tables), read_by_mysql_replication(&maria));
        assert!(ours.len() > STEPS, "seed {seed}: {} rows", ours.len());
        for (ours, theirs) in ours.iter().zip(&theirs) {
            assert_eq!(theirs, ours, "seed {seed}");
        }
        assert_eq!(theirs.len(), ours.len(), "seed {seed}");
    }
}

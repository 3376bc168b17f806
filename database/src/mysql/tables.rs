//! The tables of MariaDB and MySQL, as the rows of their log need them: columns, primary keys, and tables whose rows the database itself
//! changes with those of others.

use super::MySqlConnection;
use super::position::LogPosition;
use crate::freshness::{FollowedTable, FollowedTables};
use crate::row_tags::{KeyClass, TableForm, WatchedColumns};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// The columns of all tables of these databases.
const COLUMNS: &str = "SELECT c.table_schema, c.table_name, c.column_name, c.data_type, c.column_type, c.character_set_name, c.collation_name \
     FROM information_schema.columns c JOIN information_schema.tables t ON t.table_schema = c.table_schema AND t.table_name = c.table_name \
     WHERE t.table_type IN ('BASE TABLE', 'SYSTEM VERSIONED') AND c.table_schema IN (SCHEMAS) \
     ORDER BY c.table_schema, c.table_name, c.ordinal_position";
/// The columns of their primary keys.
const KEYS: &str = "SELECT table_schema, table_name, column_name FROM information_schema.statistics \
     WHERE index_name = 'PRIMARY' AND table_schema IN (SCHEMAS) ORDER BY table_schema, table_name, seq_in_index";

/// A table: its database and its name.
pub(super) type TablePlace = (Box<str>, Box<str>);

/// The tables of a database as they were when they were looked at.
#[derive(Debug, Default)]
pub(super) struct KnownTables {
    /// The form of the rows of each table.
    pub forms: HashMap<TablePlace, Rc<KnownTable>>,
    /// The tables whose rows the database itself deletes or changes with those of a table: no log has that.
    pub dependent: HashMap<TablePlace, DependentTables>,
    /// The position at which they were begun to be looked at: changes of tables before it are known.
    pub from: LogPosition,
    /// The position before which tables may have had another form.
    pub since: LogPosition,
}

/// The form of the rows of a table.
#[derive(Debug)]
pub(super) struct KnownTable {
    /// Its tags.
    pub form: TableForm,
    /// Its columns.
    pub columns: Vec<KnownColumn>,
    /// The columns of its primary key.
    key: Vec<Box<str>>,
}

/// A column of a table.
#[derive(Clone, Debug)]
pub(super) struct KnownColumn {
    name: Box<str>,
    /// The comparison of its values, if each has one text.
    pub class: Option<KeyClass>,
    /// Its integers have no sign.
    pub is_unsigned: bool,
}

/// Tables, by their names in tags, whose rows change with those of another one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct DependentTables {
    /// When one of its rows is deleted.
    pub by_delete: BTreeSet<Box<str>>,
    /// When one of its rows is changed.
    pub by_update: BTreeSet<Box<str>>,
}

impl KnownTable {
    pub fn new(name: &str, columns: Vec<KnownColumn>, key: Vec<Box<str>>, watched: &WatchedColumns) -> Self {
        let classes: Vec<_> = columns.iter().map(|it| (it.name.clone(), it.class)).collect();
        Self { form: TableForm::new(name, &classes, &key, watched), columns, key }
    }

    /// The table, as explanations name it.
    fn followed(&self, has_former: bool) -> FollowedTable {
        let names = self.columns.iter().map(|it| it.name.clone());
        let compared = self.columns.iter().filter_map(|it| Some((it.name.clone(), it.class?)));
        FollowedTable {
            key: self.key.clone(),
            former: if has_former { names.collect() } else { self.key.iter().cloned().collect() },
            compared: compared.collect(),
            remedy: "SET GLOBAL binlog_row_image = 'FULL'".into(),
        }
    }
}

impl KnownColumn {
    /// Of these properties in `information_schema.columns`.
    pub fn new(name: &str, kind: &str, whole_kind: &str, charset: &str, collation: &str) -> Self {
        let class = match kind {
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" => Some(KeyClass::Integer),
            "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => {
                // In others a text equals the same with spaces behind it, or in capital letters.
                let by_bytes = collation.ends_with("_nopad_bin") || collation == "utf8mb4_0900_bin";
                let is_utf8 = matches!(charset, "utf8mb4" | "utf8mb3" | "utf8" | "ascii");
                (by_bytes && is_utf8).then_some(KeyClass::Text)
            }
            _ => None,
        };
        Self { name: name.into(), class, is_unsigned: whole_kind.contains("unsigned") }
    }
}

impl KnownTables {
    /// Looks at the tables of these databases, between two positions of the log.
    ///
    /// # Errors
    /// One sentence.
    pub async fn read(
        connection: &MySqlConnection,
        own: &str,
        schemas: &BTreeSet<Box<str>>,
        watched: &WatchedColumns,
    ) -> Result<Self, String> {
        let from = connection.log_position().await?;
        let list: Vec<String> = schemas.iter().map(|it| literal(it)).collect();
        let list = if list.is_empty() { "''".to_owned() } else { list.join(", ") };
        let mut keys: HashMap<TablePlace, Vec<Box<str>>> = HashMap::new();
        for row in connection.select(&KEYS.replace("SCHEMAS", &list)).await? {
            let [schema, table, column] = &row[..] else { continue };
            keys.entry((schema.as_str().into(), table.as_str().into()))
                .or_default()
                .push(column.as_str().into());
        }
        let mut columns: BTreeMap<TablePlace, Vec<KnownColumn>> = BTreeMap::new();
        for row in connection.select(&COLUMNS.replace("SCHEMAS", &list)).await? {
            let [schema, table, name, kind, whole, charset, collation] = &row[..] else { continue };
            let column = KnownColumn::new(name, kind, whole, charset, collation);
            columns.entry((schema.as_str().into(), table.as_str().into())).or_default().push(column);
        }
        let references = references(connection, columns.keys()).await?;
        let forms = columns.into_iter().map(|(place, columns)| {
            let key = keys.remove(&place).unwrap_or_default();
            let known = KnownTable::new(&name_in_tags(own, &place), columns, key, watched);
            (place, Rc::new(known))
        });
        let forms = forms.collect();
        let since = connection.log_position().await?;
        Ok(Self { forms, dependent: dependent(&references, own), from, since })
    }

    /// The tables with these names in tags, as explanations name them. `has_former`: the log has all former values.
    pub fn followed(&self, own: &str, tables: &BTreeSet<Box<str>>, has_former: bool) -> FollowedTables {
        let named = self.forms.iter().map(|(place, known)| (name_in_tags(own, place), known));
        let wanted = named.filter(|it| tables.contains(&it.0));
        wanted.map(|(name, known)| (name, known.followed(has_former))).collect()
    }

    /// The first of these names in tags without a table, with one that differs in letters alone.
    pub fn missing<'t>(
        &self,
        own: &str,
        tables: &'t BTreeSet<Box<str>>,
    ) -> Option<(&'t str, Option<Box<str>>)> {
        let names: BTreeSet<Box<str>> = self.forms.keys().map(|it| name_in_tags(own, it)).collect();
        let missing = tables.iter().find(|it| !names.contains(*it))?;
        let similar = names.into_iter().find(|it| it.to_lowercase() == missing.to_lowercase());
        Some((missing, similar))
    }
}

/// A text as a statement needs it.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

/// A name as a statement needs it.
fn identifier(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// The name of a table in tags: those of the database `own` have none before it, nor those of `public`, as in declarations.
pub(super) fn name_in_tags(own: &str, (schema, table): &TablePlace) -> Box<str> {
    match **schema == *own || &**schema == "public" {
        true => table.clone(),
        false => format!("{schema}.{table}").into(),
    }
}

/// A table that refers to another one, whose changes the database repeats in it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Reference {
    parent: TablePlace,
    child: TablePlace,
    by_delete: bool,
    by_update: bool,
}

/// The references of these tables, and of the tables to which they lead, in whatever database: a change of these reaches the former.
/// `information_schema.referential_constraints` has none for a user who only reads.
async fn references(
    connection: &MySqlConnection,
    tables: impl Iterator<Item = &TablePlace>,
) -> Result<Vec<Reference>, String> {
    let mut left: Vec<TablePlace> = tables.cloned().collect();
    let mut seen: BTreeSet<TablePlace> = left.iter().cloned().collect();
    let mut found = Vec::new();
    while let Some(place) = left.pop() {
        let text = format!("SHOW CREATE TABLE {}.{}", identifier(&place.0), identifier(&place.1));
        let rows = match connection.select_once(&text).await {
            Ok(rows) => rows,
            Err(why) if why.contains("denied") => {
                let shown = format!("{}.{}", identifier(&place.0), identifier(&place.1));
                return Err(format!(
                    "tables of its pages depend on the table {shown} by foreign keys, and the user may not see its own; grant it SELECT on {shown}"
                ));
            }
            // A table that is gone by now is named in the log.
            Err(_) => continue,
        };
        let text = rows.first().and_then(|it| it.get(1)).map_or("", String::as_str);
        for reference in text.lines().filter_map(|it| reference(it, &place)) {
            if seen.insert(reference.parent.clone()) {
                left.push(reference.parent.clone());
            }
            found.push(reference);
        }
    }
    Ok(found)
}

/// The reference in a line of `SHOW CREATE TABLE`.
fn reference(line: &str, child: &TablePlace) -> Option<Reference> {
    let rest = line.trim_start().strip_prefix("CONSTRAINT `")?;
    let (_, rest) = rest.split_once(" FOREIGN KEY (")?;
    let (_, rest) = rest.split_once(") REFERENCES ")?;
    let (first, rest) = quoted(rest)?;
    let (parent, rest) = match rest.strip_prefix('.') {
        Some(rest) => {
            let (second, rest) = quoted(rest)?;
            ((first, second), rest)
        }
        None => ((child.0.clone(), first), rest),
    };
    let acts = |on: &str| {
        ["CASCADE", "SET NULL", "SET DEFAULT"].iter().any(|it| rest.contains(&format!(" ON {on} {it}")))
    };
    let (by_delete, by_update) = (acts("DELETE"), acts("UPDATE"));
    (by_delete || by_update).then(|| Reference { parent, child: child.clone(), by_delete, by_update })
}

/// A name in backquotes at the beginning of a text, and the rest.
fn quoted(text: &str) -> Option<(Box<str>, &str)> {
    let mut rest = text.strip_prefix('`')?;
    let mut name = String::new();
    loop {
        let (part, behind) = rest.split_once('`')?;
        name.push_str(part);
        match behind.strip_prefix('`') {
            Some(more) => {
                name.push('`');
                rest = more;
            }
            None => return Some((name.into(), behind)),
        }
    }
}

/// The dependent tables of each table: those that refer to it, and in turn those that refer to these.
fn dependent(all: &[Reference], own: &str) -> HashMap<TablePlace, DependentTables> {
    let closure = |direct: Vec<&TablePlace>| {
        let (mut found, mut left) = (BTreeSet::new(), direct);
        while let Some(child) = left.pop() {
            if found.insert(child) {
                left.extend(all.iter().filter(|it| it.parent == *child).map(|it| &it.child));
            }
        }
        found.into_iter().map(|it| name_in_tags(own, it)).collect()
    };
    let parents: BTreeSet<&TablePlace> = all.iter().map(|it| &it.parent).collect();
    let of = |parent: &TablePlace, acts: fn(&Reference) -> bool| {
        closure(all.iter().filter(|it| it.parent == *parent && acts(it)).map(|it| &it.child).collect())
    };
    let one = |parent: &TablePlace| DependentTables {
        by_delete: of(parent, |it| it.by_delete),
        by_update: of(parent, |it| it.by_update),
    };
    parents.into_iter().map(|it| (it.clone(), one(it))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(table: &str) -> TablePlace {
        ("shop".into(), table.into())
    }

    #[test]
    fn references_that_act() {
        let check = |line: &str, expect: Option<(&str, &str, bool, bool)>| {
            let found = reference(line, &place("c"));
            let found = found.as_ref().map(|it| (&*it.parent.0, &*it.parent.1, it.by_delete, it.by_update));
            assert_eq!(expect, found, "{line}");
        };
        let head = "  CONSTRAINT `c_1` FOREIGN KEY (`p`) REFERENCES";
        check(&format!("{head} `p` (`id`) ON DELETE CASCADE,"), Some(("shop", "p", true, false)));
        check(&format!("{head} `o`.`a``b` (`id`) ON UPDATE SET NULL"), Some(("o", "a`b", false, true)));
        check(
            &format!("{head} `p` (`id`) ON DELETE SET NULL ON UPDATE CASCADE"),
            Some(("shop", "p", true, true)),
        );
        check(&format!("{head} `p` (`id`) ON DELETE NO ACTION"), None);
        check(&format!("{head} `p` (`id`)"), None);
        check("  `a` int COMMENT ' FOREIGN KEY (`p`) REFERENCES `p` (`id`) ON DELETE CASCADE'", None);
        check("  KEY `p` (`p`),", None);
    }

    #[test]
    fn dependent_tables_are_found_across_several_references() {
        let one = |parent: &str, child: &str, by_delete, by_update| Reference {
            parent: place(parent),
            child: place(child),
            by_delete,
            by_update,
        };
        let all = [one("a", "b", true, false), one("b", "c", false, true), one("c", "c", true, false)];
        let found = dependent(&all, "shop");
        let names = |names: &[&str]| names.iter().map(|it| Box::from(*it)).collect::<BTreeSet<_>>();
        let expect = DependentTables { by_delete: names(&["b", "c"]), by_update: names(&[]) };
        assert_eq!(Some(&expect), found.get(&place("a")));
        let expect = DependentTables { by_delete: names(&[]), by_update: names(&["c"]) };
        assert_eq!(Some(&expect), found.get(&place("b")));
        assert_eq!(names(&["c"]), found[&place("c")].by_delete);
    }

    #[test]
    fn comparisons_of_columns() {
        let check = |kind: &str, charset: &str, collation: &str, expect: Option<KeyClass>| {
            assert_eq!(
                expect,
                KnownColumn::new("a", kind, kind, charset, collation).class,
                "{kind} {collation}"
            );
        };
        check("bigint", "", "", Some(KeyClass::Integer));
        check("varchar", "utf8mb4", "utf8mb4_nopad_bin", Some(KeyClass::Text));
        check("varchar", "utf8mb4", "utf8mb4_0900_bin", Some(KeyClass::Text));
        check("varchar", "utf8mb4", "utf8mb4_bin", None);
        check("varchar", "utf8mb4", "utf8mb4_general_ci", None);
        check("varchar", "latin1", "latin1_nopad_bin", None);
        for kind in ["enum", "set", "decimal", "date", "bit", "year", "uuid", "binary", "json"] {
            check(kind, "utf8mb4", "utf8mb4_nopad_bin", None);
        }
    }
}

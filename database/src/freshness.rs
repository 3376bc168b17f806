//! The grade by which the changes of a database purge the page of a query, with its reason. The tags themselves are in `row_tags`.

use crate::parameter::ParameterType;
use crate::row_tags::{KeyClass, ShownRows};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// How exactly changes of rows purge a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FreshnessGrade {
    /// No change purges it.
    None,
    /// Every change of the database purges it.
    Database,
    /// Every change of a table purges it.
    Table,
    /// A change of a row with the value of a column purges it.
    Column,
    /// A change of the row with the value of the primary key purges it, and no other change.
    Row,
}

impl fmt::Display for FreshnessGrade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FreshnessGrade::None => "none",
            FreshnessGrade::Database => "database",
            FreshnessGrade::Table => "table",
            FreshnessGrade::Column => "column",
            FreshnessGrade::Row => "row",
        })
    }
}

/// The tables of a database whose changes are followed, by their names as in tags.
pub type FollowedTables = BTreeMap<Box<str>, FollowedTable>;

/// The changes of one table, as the log of its database has them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FollowedTable {
    /// The columns of its primary key, in their order.
    pub key: Vec<Box<str>>,
    /// The columns of which the log has the former values.
    pub former: BTreeSet<Box<str>>,
    /// The comparison of each column whose values have one text each.
    pub compared: BTreeMap<Box<str>, KeyClass>,
    /// The statement after which the log has all former values.
    pub remedy: Box<str>,
}

impl ShownRows {
    /// The grade of these rows, and a sentence with its reason. `table` is the table as it is followed, if that is known; `given` is the
    /// type of the parameter, if the request gives it a value.
    #[must_use]
    pub fn freshness(
        &self,
        table: Option<&FollowedTable>,
        given: Option<ParameterType>,
    ) -> (FreshnessGrade, String) {
        let (name, column, parameter) = match self {
            ShownRows::Table(name) => {
                return (FreshnessGrade::Table, format!("every change of {name} purges the page"));
            }
            ShownRows::Equal { table, column, parameter } => (table, column, parameter),
        };
        let Some(kind) = given else {
            let why = format!("the request has no :{parameter}, so every change of {name} purges the page");
            return (FreshnessGrade::Table, why);
        };
        let Some(table) = table else {
            let why = format!("a change of a row of {name} with this {column} purges the page");
            return (FreshnessGrade::Column, why);
        };
        if KeyClass::of_parameter(kind) != table.compared.get(column).copied() {
            let why = format!(
                "texts do not tell whether {column} equals :{parameter}, so every change of {name} purges the page"
            );
            return (FreshnessGrade::Table, why);
        }
        if table.key.len() == 1 && table.key[0] == *column {
            let why = format!("only a change of the row of {name} with this primary key purges the page");
            return (FreshnessGrade::Row, why);
        }
        let mut why = format!("a change of a row of {name} with this {column} purges the page");
        if !table.former.contains(column) {
            why = format!(
                "{why}, and so does every UPDATE of {name}: the log has no former value of {column} until `{}`",
                table.remedy
            );
        }
        (FreshnessGrade::Column, why)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grades_and_their_reasons() {
        let set = |names: &[&str]| names.iter().map(|it| Box::from(*it)).collect();
        let compared = [("id", KeyClass::Integer), ("shop", KeyClass::Integer), ("name", KeyClass::Text)];
        let table = FollowedTable {
            key: vec!["id".into()],
            former: set(&["id", "shop"]),
            compared: compared.into_iter().map(|(name, it)| (name.into(), it)).collect(),
            remedy: "ALTER TABLE users REPLICA IDENTITY FULL".into(),
        };
        let check = |rows: &str, table: Option<&FollowedTable>, kind: Option<ParameterType>, expect: &str| {
            let (grade, why) = ShownRows::parse(rows).unwrap().freshness(table, kind);
            assert_eq!(expect, format!("{grade}: {why}"), "{rows}");
        };
        let (table, int, text) = (Some(&table), Some(ParameterType::Int), Some(ParameterType::Text));
        check("users", table, None, "table: every change of users purges the page");
        check(
            "users.id = :id",
            table,
            int,
            "row: only a change of the row of users with this primary key purges the page",
        );
        check("users.id = :id", None, int, "column: a change of a row of users with this id purges the page");
        check(
            "users.shop = :s",
            table,
            int,
            "column: a change of a row of users with this shop purges the page",
        );
        check(
            "users.shop = :s",
            table,
            None,
            "table: the request has no :s, so every change of users purges the page",
        );
        check(
            "users.mail = :m",
            table,
            text,
            "table: texts do not tell whether mail equals :m, so every change of users purges the page",
        );
        check(
            "users.name = :n",
            table,
            text,
            "column: a change of a row of users with this name purges the page, and so does every UPDATE of users: the log has no former \
             value of name until `ALTER TABLE users REPLICA IDENTITY FULL`",
        );
    }
}

//! The text of a query: its named parameters (`:id`) become those of the dialect of its database. Strings, quoted names and comments
//! stay as they are. This is no parser of SQL: only the database decides what a query means.

use crate::parameter::is_parameter_name;

/// The SQL of a kind of database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlDialect {
    /// PostgreSQL: `$1`, `$tag$`-quoted strings, nested comments.
    Postgres,
    /// SQLite: `?1`.
    Sqlite,
    /// MariaDB and MySQL: `?` in order, backslashes in strings, names in backticks, `#` comments.
    MySql,
}

/// A query in the form of its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlQuery {
    /// Its text.
    pub text: Box<str>,
    /// The position of the parameter that each placeholder stands for, in the order of the database.
    pub order: Box<[usize]>,
    /// The first word, in lower case.
    pub verb: Box<str>,
}

/// The first words of statements that return rows.
const READING: [&str; 8] = ["select", "with", "values", "table", "show", "explain", "describe", "desc"];
/// The words with which a query begins that changes data.
const WRITING: [&str; 9] =
    ["insert", "update", "delete", "merge", "replace", "create", "alter", "drop", "truncate"];

impl SqlQuery {
    /// Parses a query with parameters of these names.
    ///
    /// # Errors
    /// The mistake and its remedy: one sentence.
    pub fn parse(query: &str, names: &[&str], dialect: SqlDialect) -> Result<Self, String> {
        let mut reading =
            QueryReading { rest: query, dialect, text: String::new(), order: Vec::new(), ended: false };
        while !reading.rest.is_empty() {
            reading.step(names)?;
        }
        if query.contains('\0') {
            return Err("a NUL byte is no part of a query; remove it".to_owned());
        }
        let text = reading.text.trim_end().trim_end_matches(';').trim().to_owned();
        if text.is_empty() {
            return Err("the query is empty".to_owned());
        }
        if let Some((_, name)) = names.iter().enumerate().find(|it| !reading.order.contains(&it.0)) {
            return Err(format!("the query has no parameter :{name}; use it, or remove it from parameters"));
        }
        let verb: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
        Ok(Self { text: text.into(), order: reading.order.into(), verb: verb.to_ascii_lowercase().into() })
    }

    /// Whether it is a statement that returns rows, and changes neither data nor its session, as far as its first word tells; one in
    /// parentheses is.
    #[must_use]
    pub fn reads(&self) -> bool {
        READING.contains(&&*self.verb) || self.text.starts_with('(')
    }

    /// Whether it begins like one that changes data.
    #[must_use]
    pub fn writes(&self) -> bool {
        WRITING.contains(&&*self.verb)
    }
}

/// The functions and clauses by which a query of MariaDB or MySQL that only reads reaches files of the server, if its user has the right `FILE`.
const OF_FILES: [&str; 3] = ["load_file", "outfile", "dumpfile"];

impl SqlQuery {
    /// Whether it may reach files of the server of this dialect by its words.
    #[must_use]
    pub fn reaches_files(&self, dialect: SqlDialect) -> bool {
        dialect == SqlDialect::MySql
            && names(&self.text).any(|it| OF_FILES.contains(&&*it.to_ascii_lowercase()))
    }
}

/// The words and the quoted names of a query of MariaDB or MySQL without comments: a function can be called by either.
fn names(query: &str) -> impl Iterator<Item = &str> {
    let is_of_word = |it: char| it.is_alphanumeric() || matches!(it, '_' | '$');
    let mut rest = query;
    std::iter::from_fn(move || {
        loop {
            let first = rest.chars().next()?;
            let (length, name) = match first {
                '\'' | '"' => (end_of_string(rest, first), None),
                '`' => {
                    let end = rest[1..].find('`').map_or(rest.len(), |it| it + 1);
                    ((end + 1).min(rest.len()), Some(&rest[1..end]))
                }
                it if is_of_word(it) => {
                    let end = rest.find(|it| !is_of_word(it)).unwrap_or(rest.len());
                    (end, Some(&rest[..end]))
                }
                it => (it.len_utf8(), None),
            };
            rest = &rest[length..];
            if name.is_some() {
                return name;
            }
        }
    })
}

/// The length of a string with backslashes at the start of a text.
fn end_of_string(text: &str, mark: char) -> usize {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, it)) = chars.next() {
        if it == '\\' {
            chars.next();
        } else if it == mark {
            return at + 1;
        }
    }
    text.len()
}

struct QueryReading<'q> {
    rest: &'q str,
    dialect: SqlDialect,
    text: String,
    order: Vec<usize>,
    /// A semicolon has ended the statement.
    ended: bool,
}

impl QueryReading<'_> {
    /// Reads the next character, string, quoted name, comment or parameter.
    fn step(&mut self, names: &[&str]) -> Result<(), String> {
        let is_mysql = self.dialect == SqlDialect::MySql;
        let first = self.rest.chars().next().unwrap_or_default();
        // MariaDB reads `5--3` as a number less a negative one, and a comment if a space or a control character follows.
        let is_end = |it: char| it.is_whitespace() || it.is_control();
        let is_dashes = |it: &str| !is_mysql || it.starts_with(is_end) || it.is_empty();
        let comment = self.rest.strip_prefix("--").is_some_and(is_dashes) || is_mysql && first == '#';
        match first {
            _ if comment => {
                let end = self.rest.find('\n').unwrap_or(self.rest.len());
                self.rest = &self.rest[end..];
                return Ok(());
            }
            '/' if self.rest.starts_with("/*") => return self.comment(),
            it if it.is_whitespace() => self.copy(it.len_utf8()),
            _ if self.ended => {
                return Err("only one statement is allowed; remove what follows the semicolon".to_owned());
            }
            ';' => {
                self.ended = true;
                self.copy(1);
            }
            '\'' => return self.quoted('\'', is_mysql || self.is_escape_string()),
            '"' => return self.quoted('"', is_mysql),
            '`' if self.dialect != SqlDialect::Postgres => return self.quoted('`', false),
            '[' if self.dialect == SqlDialect::Sqlite => return self.bracketed(),
            '$' if self.dialect == SqlDialect::Postgres => return self.dollar(),
            '?' if self.dialect != SqlDialect::Postgres => {
                return Err("\"?\" is no parameter here; write its name, such as :id".to_owned());
            }
            ':' => return self.colon(names),
            it if it.is_alphanumeric() || it == '_' => {
                let is_of_word = |it: char| it.is_alphanumeric() || matches!(it, '_' | '$');
                let end = self.rest.find(|it| !is_of_word(it)).unwrap_or(self.rest.len());
                self.copy(end);
            }
            it => self.copy(it.len_utf8()),
        }
        Ok(())
    }

    fn copy(&mut self, count: usize) {
        self.text.push_str(&self.rest[..count]);
        self.rest = &self.rest[count..];
    }

    /// Whether the text so far ends with the `E` of a string with backslashes.
    fn is_escape_string(&self) -> bool {
        let mut last = self.text.chars().rev();
        self.dialect == SqlDialect::Postgres
            && matches!(last.next(), Some('e' | 'E'))
            && !last.next().is_some_and(|it| it.is_alphanumeric() || it == '_')
    }

    fn quoted(&mut self, mark: char, has_backslashes: bool) -> Result<(), String> {
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((at, it)) = chars.next() {
            if it == '\\' && has_backslashes {
                chars.next();
            } else if it == mark {
                // A doubled mark is one of the text: it opens the next string.
                self.copy(at + 1);
                return Ok(());
            }
        }
        Err(format!("a {mark} has no counterpart"))
    }

    fn bracketed(&mut self) -> Result<(), String> {
        let end = self.rest.find(']').ok_or("a [ has no counterpart")?;
        self.copy(end + 1);
        Ok(())
    }

    /// A comment, which is left out. Those of PostgreSQL nest.
    fn comment(&mut self) -> Result<(), String> {
        let (mut depth, mut at) = (0_usize, 0);
        loop {
            let rest = self.rest.get(at..).filter(|it| !it.is_empty()).ok_or("a /* has no counterpart")?;
            if rest.starts_with("*/") {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    break;
                }
            } else if rest.starts_with("/*") && (depth == 0 || self.dialect == SqlDialect::Postgres) {
                (depth, at) = (depth + 1, at + 2);
            } else {
                at += rest.chars().next().map_or(1, char::len_utf8);
            }
        }
        if self.dialect == SqlDialect::MySql && self.rest.starts_with("/*!") {
            return Err("a comment /*! is executed by the database; write its content without it".to_owned());
        }
        self.text.push(' ');
        self.rest = &self.rest[at..];
        Ok(())
    }

    /// `$tag$text$tag$`, or a parameter by number.
    fn dollar(&mut self) -> Result<(), String> {
        let name = self.rest[1..].split('$').next().unwrap_or_default();
        let is_tag = self.rest[1 + name.len()..].starts_with('$')
            && (name.is_empty() || is_parameter_name(name) || name.chars().all(char::is_alphanumeric))
            && !name.starts_with(|it: char| it.is_ascii_digit());
        if is_tag {
            let tag = &self.rest[..name.len() + 2];
            let end =
                self.rest[tag.len()..].find(tag).ok_or_else(|| format!("a {tag} has no counterpart"))?;
            let length = end + 2 * tag.len();
            self.copy(length);
            return Ok(());
        }
        if name.starts_with(|it: char| it.is_ascii_digit()) {
            return Err("\"$\" and a number is no parameter here; write its name, such as :id".to_owned());
        }
        self.copy(1);
        Ok(())
    }

    /// A cast `::`, an assignment `:=`, or a parameter.
    fn colon(&mut self, names: &[&str]) -> Result<(), String> {
        if self.rest.starts_with("::") || self.rest.starts_with(":=") {
            self.copy(2);
            return Ok(());
        }
        let behind = &self.rest[1..];
        let end = behind.find(|it: char| !(it.is_ascii_alphanumeric() || it == '_')).unwrap_or(behind.len());
        let name = &behind[..end];
        if !is_parameter_name(name) {
            self.copy(1); // A slice of an array.
            return Ok(());
        }
        let Some(number) = names.iter().position(|it| *it == name) else {
            return Err(format!("the query has the parameter :{name}, which is not in parameters; add it"));
        };
        self.rest = &behind[end..];
        let known = self.order.iter().position(|it| *it == number);
        let position = match (self.dialect, known) {
            (SqlDialect::Postgres | SqlDialect::Sqlite, Some(at)) => at,
            _ => {
                self.order.push(number);
                self.order.len() - 1
            }
        };
        match self.dialect {
            SqlDialect::Postgres => self.text.push_str(&format!("${}", position + 1)),
            SqlDialect::Sqlite => self.text.push_str(&format!("?{}", position + 1)),
            SqlDialect::MySql => self.text.push('?'),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(dialect: SqlDialect, query: &str, expect: &str) {
        let shown = match SqlQuery::parse(query, &["id", "q"], dialect) {
            Ok(it) => format!("{} {:?}", it.text, it.order),
            Err(why) => why,
        };
        assert_eq!(expect, shown, "{query}");
    }

    #[test]
    fn parameters_by_name() {
        use SqlDialect::{MySql, Postgres, Sqlite};
        check(Postgres, "select :q, :id, :q;", "select $1, $2, $1 [1, 0]");
        check(Sqlite, "select :q, :id, :q", "select ?1, ?2, ?1 [1, 0]");
        check(MySql, "select :q, :id, :q ; ", "select ?, ?, ? [1, 0, 1]");
        check(Postgres, "select :id::text, a[1:2] where b=:q", "select $1::text, a[1:2] where b=$2 [0, 1]");
        check(
            Postgres,
            "select ':id', \":id\", 'a'':id', :id, :q",
            "select ':id', \":id\", 'a'':id', $1, $2 [0, 1]",
        );
        check(Postgres, r"select '\', :id, E'\':q', :q", r"select '\', $1, E'\':q', $2 [0, 1]");
        check(MySql, r"select '\':id', :id, :q", r"select '\':id', ?, ? [0, 1]");
        check(MySql, "select `:id`, :id # :q\n, :q", "select `:id`, ? \n, ? [0, 1]");
        check(MySql, "select :id --\u{1} ':x\n, :q --", "select ? \n, ? [0, 1]");
        check(Sqlite, "select [:id], `:q`, :id, :q", "select [:id], `:q`, ?1, ?2 [0, 1]");
        check(
            Postgres,
            "select $$:id$$, $a$ $$ :q $a$, :id, :q",
            "select $$:id$$, $a$ $$ :q $a$, $1, $2 [0, 1]",
        );
        check(Postgres, "select :id -- :x\n, :q /* :y /* ; */ */", "select $1 \n, $2 [0, 1]");
        check(Postgres, "select a ? 'b', :id, :q", "select a ? 'b', $1, $2 [0, 1]");
        check(Postgres, "select a$1, :id, :q", "select a$1, $1, $2 [0, 1]");
    }

    #[test]
    fn mistakes() {
        use SqlDialect::{MySql, Postgres};
        check(
            Postgres,
            "select :id, :q, :x",
            "the query has the parameter :x, which is not in parameters; add it",
        );
        check(Postgres, "select :id", "the query has no parameter :q; use it, or remove it from parameters");
        check(
            Postgres,
            "select :id; drop table :q",
            "only one statement is allowed; remove what follows the semicolon",
        );
        check(Postgres, "select ':id, :q", "a ' has no counterpart");
        check(Postgres, "select /* :id, :q", "a /* has no counterpart");
        check(Postgres, "select $1", "\"$\" and a number is no parameter here; write its name, such as :id");
        check(MySql, "select ?", "\"?\" is no parameter here; write its name, such as :id");
        check(
            MySql,
            "/*!50000 drop */ select :id",
            "a comment /*! is executed by the database; write its content without it",
        );
        check(Postgres, " ; ", "the query is empty");
    }

    #[test]
    fn queries_that_write() {
        let writes = |it: &str| SqlQuery::parse(it, &[], SqlDialect::Postgres).unwrap().writes();
        assert!(writes("-- a\n INSERT into a values (1)") && writes("delete from a"));
        assert!(!writes("select 1") && !writes("with a as (select 1) select * from a"));
    }

    #[test]
    fn words_of_files_are_found_outside_of_strings_alone() {
        let reaches = |text: &str| {
            SqlQuery::parse(text, &[], SqlDialect::MySql).unwrap().reaches_files(SqlDialect::MySql)
        };
        for text in [
            "select load_file('/etc/passwd')",
            "select LOAD_FILE /* c */ ('/etc/passwd')",
            "select `load_file`('/etc/passwd')",
            "select 'a\\'', load_file('b')",
            "select \"'\", load_file('b')",
            "select 1 into/**/Outfile '/tmp/a'",
            "select 1\ninto dumpfile '/tmp/a'",
            "select 1 --\u{1} '\n into outfile '/tmp/a' -- '",
        ] {
            assert!(reaches(text), "{text}");
        }
        for text in [
            "select 'load_file(1)', \"outfile\"",
            "select load_files(1), my_outfile from t",
            "select `na\u{ef}ve` as \u{e9} from t where a in (1)",
            "select count(*) from t",
        ] {
            assert!(!reaches(text), "{text}");
        }
        let other = SqlQuery::parse("select load_file(1)", &[], SqlDialect::Sqlite).unwrap();
        assert!(!other.reaches_files(SqlDialect::Sqlite));
    }
}

//! The changes of rows that purge the page of a request to a route with a query: the grade of each table, and why. For `explain`; the purges are
//! in `row_purges`.

use super::row_purges::{BEHIND, FollowState, FollowStates};
use super::sql;
use larder_config::PathPattern;
use larder_config::sql::SqlConfig;
use larder_database::{FollowLag, FreshnessGrade};
use larder_wire::message::Request;

/// How a page follows the rows of its database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageFreshness {
    /// The grade of its least exact rows: `none`, `table`, `column` or `row`.
    pub grade: FreshnessGrade,
    /// Whether the changes of the database are followed at present, or why not.
    pub sentence: String,
    /// The rows that it shows.
    pub rows: Vec<RowsFreshness>,
}

/// How a page follows the rows of one declaration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowsFreshness {
    /// The declaration, as in `sql.rows`.
    pub rows: String,
    /// Its grade.
    pub grade: FreshnessGrade,
    /// The changes that purge the page.
    pub sentence: String,
    /// The tag of the page.
    pub tag: String,
}

impl PageFreshness {
    /// That of the page for a request.
    #[must_use]
    pub fn of(config: &SqlConfig, path: &PathPattern, request: &Request, standings: &FollowStates) -> Self {
        let (unfollowed, standing) = (config.unfollowed(), standings.of(&config.database.name));
        let tables = match &standing {
            Some(FollowState::Followed(tables, _)) => Some(tables),
            _ => None,
        };
        let mut rows = Vec::new();
        for (shown, tag, given) in sql::shown_rows(config, path, request) {
            let table = tables.and_then(|it| it.get(shown.table()));
            let (grade, sentence) = match config.follows_file() {
                true => (FreshnessGrade::Database, "every change of the file purges the page".to_owned()),
                false => shown.freshness(table, given),
            };
            rows.push(RowsFreshness { rows: shown.to_string(), grade, sentence, tag });
        }
        let grade = match unfollowed {
            Some(_) => FreshnessGrade::None,
            None if config.follows_file() => FreshnessGrade::Database,
            None => rows.iter().map(|it| it.grade).min().unwrap_or(FreshnessGrade::None),
        };
        let sentence = match (unfollowed, standing) {
            (Some(why), _) => why.to_owned(),
            (None, Some(FollowState::Followed(_, lag))) => followed(&lag),
            (None, Some(FollowState::ByAnotherNode)) => {
                "another node of the fleet follows the changes of the database".to_owned()
            }
            (None, Some(FollowState::Begins) | None) => {
                "larder begins to follow the changes of the database".to_owned()
            }
            (None, Some(FollowState::NotFollowed(why))) => {
                format!("the page is validated every second, since the database cannot be followed: {why}")
            }
        };
        Self { grade, sentence, rows }
    }
}

/// That the changes are followed, with their delay if there is one.
fn followed(lag: &FollowLag) -> String {
    let millis = lag.time().as_millis();
    match lag.time() > BEHIND {
        false if millis == 0 => "the changes of the database are followed".to_owned(),
        false => format!("the changes of the database are followed, {millis} ms behind"),
        true => format!(
            "the page is validated every second, since the changes are {millis} ms and {} bytes of the log behind the database",
            lag.bytes()
        ),
    }
}

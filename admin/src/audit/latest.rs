//! The latest entries of the audit log in RAM, for the API and the page. Changes, rejections of clients with a token, and rejections of
//! clients without one have bounds of their own: no number of rejected requests displaces a change.

use super::{REFUSED, WRITE};
use larder_config::admin_role::NO_NAME;
use serde_json::{Value, json};
use std::collections::VecDeque;

/// The most changes.
const CHANGES: usize = 500;
/// The most rejections of clients with a token, and as many of all others.
const REFUSALS: usize = 100;
/// The most bytes of the texts of an entry that are kept.
const TEXT: usize = 256;

/// One entry.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AuditRecord {
    /// Unix time, seconds.
    pub time: u64,
    /// Whether the request was rejected.
    pub is_refused: bool,
    /// The name of the token; empty if it is not known.
    pub token: Box<str>,
    /// Its role.
    pub role: Box<str>,
    /// The number of the session.
    pub session: Option<u64>,
    /// The address of the client.
    pub from: Box<str>,
    /// The method of the request.
    pub method: Box<str>,
    /// Its path and query, as far as they are logged.
    pub path: Box<str>,
    /// The query.
    pub query: Box<str>,
    /// The body, as logged.
    pub body: Box<str>,
    /// The status of the response.
    pub status: u16,
    /// The reason of a rejection.
    pub why: Box<str>,
}

impl AuditRecord {
    /// The record of an event with its values; `None` for an event that is no request.
    pub fn of<'a>(
        time: u64,
        event: &str,
        values: impl Iterator<Item = (&'a str, &'a str)>,
    ) -> Option<AuditRecord> {
        let is_refused = match event {
            WRITE => false,
            REFUSED => true,
            _ => return None,
        };
        let mut it = AuditRecord { time, is_refused, ..AuditRecord::default() };
        for (name, value) in values {
            let place = match name {
                "session" => {
                    it.session = value.parse().ok();
                    continue;
                }
                "status" => {
                    it.status = value.parse().ok()?;
                    continue;
                }
                "who" => &mut it.token,
                "role" => &mut it.role,
                "from" => &mut it.from,
                "method" => &mut it.method,
                "path" => &mut it.path,
                "query" => &mut it.query,
                "body" => &mut it.body,
                "why" => &mut it.why,
                _ => continue,
            };
            let end = (0..=TEXT.min(value.len())).rev().find(|at| value.is_char_boundary(*at));
            *place = value[..end.unwrap_or(0)].into();
        }
        (it.status != 0).then_some(it)
    }

    /// The record of [`AuditRecord::json`].
    pub fn of_json(it: &Value) -> Option<AuditRecord> {
        let text = |name: &str| it[name].as_str().unwrap_or_default().into();
        Some(AuditRecord {
            time: it["time"].as_u64()?,
            is_refused: it["refused"].as_bool()?,
            token: text("who"),
            role: text("role"),
            session: it["session"].as_u64(),
            from: text("from"),
            method: text("method"),
            path: text("path"),
            query: text("query"),
            body: text("body"),
            status: u16::try_from(it["status"].as_u64()?).ok()?,
            why: text("why"),
        })
    }

    /// As the API gives it.
    pub fn json(&self) -> Value {
        let text = |it: &str| if it.is_empty() { Value::Null } else { it.into() };
        json!({
            "time": self.time, "refused": self.is_refused, "who": &*self.token, "role": text(&self.role),
            "session": self.session, "from": &*self.from, "method": text(&self.method), "path": text(&self.path),
            "query": text(&self.query), "body": text(&self.body), "status": self.status, "why": text(&self.why),
        })
    }
}

/// Entries with their numbers in the order of arrival, the latest at the end.
type NumberedEntries = VecDeque<(u64, AuditRecord)>;

/// The latest entries.
#[derive(Default)]
pub struct LatestEntries {
    changes: NumberedEntries,
    /// Rejections of clients with a token.
    refused: NumberedEntries,
    /// Rejections of clients without one.
    unauthenticated: NumberedEntries,
    /// Entries so far.
    count: u64,
}

impl LatestEntries {
    /// Adds the latest.
    pub fn push(&mut self, it: AuditRecord) {
        let (list, most) = match (it.is_refused, &*it.token) {
            (false, _) => (&mut self.changes, CHANGES),
            (true, NO_NAME) => (&mut self.unauthenticated, REFUSALS),
            (true, _) => (&mut self.refused, REFUSALS),
        };
        if list.len() >= most {
            list.pop_front();
        }
        self.count += 1;
        list.push_back((self.count, it));
    }

    /// All, the latest first.
    pub fn all(&self) -> Vec<&AuditRecord> {
        let lists = [&self.changes, &self.refused, &self.unauthenticated];
        let mut all: Vec<&(u64, AuditRecord)> = lists.into_iter().flatten().collect();
        all.sort_unstable_by_key(|it| std::cmp::Reverse(it.0));
        all.into_iter().map(|it| &it.1).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(event: &str, token: &str, path: &str) -> AuditRecord {
        AuditRecord::of(1, event, [("who", token), ("path", path), ("status", "200")].into_iter()).unwrap()
    }

    #[test]
    fn rejections_displace_no_change() {
        let mut latest = LatestEntries::default();
        latest.push(record(WRITE, "a", "/first"));
        for at in 0..1000 {
            latest.push(record(REFUSED, NO_NAME, &format!("/{at}")));
            latest.push(record(REFUSED, "viewer", &format!("/{at}")));
        }
        let all = latest.all();
        assert_eq!(2 * REFUSALS + 1, all.len());
        assert_eq!(["/999", "/999", "/998"], [0, 1, 2].map(|at| &*all[at].path));
        assert_eq!("/first", &*all[2 * REFUSALS].path);
        for at in 0..=CHANGES {
            latest.push(record(WRITE, "a", &format!("/{at}")));
        }
        let changes: Vec<_> = latest.all().into_iter().filter(|it| !it.is_refused).collect();
        assert_eq!((CHANGES, "/1"), (changes.len(), &*changes[CHANGES - 1].path));
    }

    #[test]
    fn texts_are_bounded() {
        let long = "ä".repeat(1000);
        assert_eq!(TEXT, record(WRITE, "a", &long).path.len());
        assert!(AuditRecord::of(1, "admin-refused-summary", [("status", "401")].into_iter()).is_none());
        assert!(AuditRecord::of(1, WRITE, [("who", "a")].into_iter()).is_none());
    }
}

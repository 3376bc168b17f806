//! `larder tls list`: the certificates of a running larder, with their expiry, renewals and failures.

use crate::admin_client;
use crate::cli::TlsCommand;
use crate::terminal::harmless;
use larder_stdx::clock;
use serde_json::Value;
use std::fmt::Write as _;
use std::time::Duration;

/// The time limit of the request.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The certificates, as in the admin API.
///
/// # Errors
/// One sentence: no larder responds, or it rejects the token.
pub fn request(order: &TlsCommand) -> Result<Value, String> {
    let admin = admin_client::admin(order.admin.as_ref(), None)?;
    admin_client::get(&admin, "/api/v1/certificates", TIMEOUT)
}

/// The certificates as text.
#[must_use]
pub fn render(answer: &Value) -> String {
    clock::tick();
    let now = i64::try_from(clock::wall().0).unwrap_or(i64::MAX);
    let mut out = String::new();
    if let Some(why) = answer["folder_error"].as_str() {
        let _ = writeln!(out, "warning: {}", harmless(why));
    }
    let all = answer["certificates"].as_array().map_or(&[][..], Vec::as_slice);
    if all.is_empty() {
        out.push_str("no certificates\n");
    }
    all.iter().for_each(|it| out.push_str(&line(it, now)));
    out
}

/// One certificate, on one or two lines.
#[must_use]
pub fn line(it: &Value, now: i64) -> String {
    let names: Vec<String> =
        it["names"].as_array().into_iter().flatten().filter_map(Value::as_str).map(harmless).collect();
    let warning = matches!(it["state"].as_str(), Some("expiring" | "expired" | "not-yet-valid"));
    let mut text = if warning { "warning: " } else { "" }.to_owned() + &names.join(", ");
    match it["until"].as_i64() {
        Some(_) if it["from"].as_i64().is_some_and(|from| from > now) => {
            let _ =
                write!(text, ": not valid for another {}", span(it["from"].as_i64().unwrap_or(now) - now));
        }
        Some(until) if until < now => {
            let _ = write!(text, ": expired {} ago", span(now - until));
        }
        Some(until) => {
            let _ = write!(text, ": expires in {}", span(until - now));
        }
        None => text.push_str(": no certificate yet"),
    }
    let source = it["source"].as_str().unwrap_or_default();
    match (it["in_progress"] == true, it["next_attempt"].as_i64()) {
        (true, _) => text.push_str(", being requested"),
        (false, Some(next)) if next > now => {
            let what =
                if it["until"].is_null() || it["error"].is_string() { "next attempt" } else { "renewed" };
            let _ = write!(text, ", {what} in {}", span(next - now));
        }
        _ => {}
    }
    let from = it["file"].as_str().or(it["authority"].as_str()).map(|it| format!(" {}", harmless(it)));
    let _ = writeln!(text, " ({source}{})", from.unwrap_or_default());
    if let Some(why) = it["error"].as_str() {
        let _ = writeln!(text, "  last attempt failed: {}", harmless(why));
    }
    text
}

/// A length of time in its largest unit.
fn span(seconds: i64) -> String {
    match seconds {
        172_800.. => format!("{} days", seconds / 86_400),
        7_200.. => format!("{} hours", seconds / 3_600),
        120.. => format!("{} minutes", seconds / 60),
        _ => format!("{seconds} seconds"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_state_has_its_line() {
        let now = 1_000_000_000;
        for (it, expect) in [
            (
                json!({ "names": ["a.test", "b.test"], "source": "file", "file": "a.pem", "until": now + 86_400 * 30 }),
                "a.test, b.test: expires in 30 days (file a.pem)\n",
            ),
            (
                json!({ "names": ["a.test"], "source": "file", "file": "a.pem", "until": now - 60, "state": "expired" }),
                "warning: a.test: expired 60 seconds ago (file a.pem)\n",
            ),
            (
                json!({
                    "names": ["a.test"], "source": "file", "file": "a.pem", "from": now + 3600 * 3, "until": now + 86_400 * 9,
                    "state": "not-yet-valid",
                }),
                "warning: a.test: not valid for another 3 hours (file a.pem)\n",
            ),
            (
                json!({ "names": ["a.test"], "source": "file", "file": "a.pem", "until": now + 86_400 * 9, "state": "expiring" }),
                "warning: a.test: expires in 9 days (file a.pem)\n",
            ),
            (
                json!({
                    "names": ["a.test"], "source": "acme", "until": now + 86_400 * 30, "next_attempt": now + 7_200,
                    "in_progress": false, "authority": "https://ca.test/d", "error": null,
                }),
                "a.test: expires in 30 days, renewed in 2 hours (acme https://ca.test/d)\n",
            ),
            (
                json!({
                    "names": ["a.test"], "source": "acme", "until": null, "next_attempt": now + 240,
                    "in_progress": false, "authority": null, "error": "no",
                }),
                "a.test: no certificate yet, next attempt in 4 minutes (acme)\n  last attempt failed: no\n",
            ),
            (
                json!({ "names": ["a.test"], "source": "acme", "until": null, "next_attempt": now, "in_progress": true }),
                "a.test: no certificate yet, being requested (acme)\n",
            ),
        ] {
            assert_eq!(expect, line(&it, now));
        }
    }
}

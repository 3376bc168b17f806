//! `explain` over files: the file, redirect or refusal that answers, and the key that decides, with its file and line.

use larder_config::{Decided, FilesConfig, Source, dotted};
use larder_files::{FileFinding, FileOutcome, FileRule, TryMember};
use serde_json::{Value, json};

const TRY: &str = "site[].route[].files.try";
const ROOT: &str = "site[].route[].files.root";
const PHP: &str = "site[].route[].php.root";
const CLEAN: &str = "site[].route[].files.clean_urls";

/// The verdict about a request over files, and its details.
pub(super) fn to_json(finding: &FileFinding, files: &FilesConfig, decided: &Decided) -> (Value, Value) {
    let key = key_of(finding, files, decided);
    let given = decided.by(key);
    // Without the key its default decides, in the directory of the route.
    let of_php = decided.by(PHP);
    let root = if of_php == Source::Default { decided.by(ROOT) } else { of_php.clone() };
    let key = if key == ROOT && of_php != Source::Default { PHP } else { key };
    let place = if given == Source::Default { root } else { given };
    let member = finding.member.as_ref().map(ToString::to_string);
    let by = match member.as_ref().filter(|_| key == TRY) {
        Some(member) => format!("member {member} of {}", dotted(key)),
        None => dotted(key),
    };
    let (name, status, path, sentence) = match &finding.outcome {
        FileOutcome::File { path, by_accept } => {
            let accept = if *by_accept { " The request accepts HTML by name." } else { "" };
            let sentence = format!(
                "The file {path} answers, by {by}: a static file, served from the open-file cache, never stored in a tier.{accept}"
            );
            ("file", 200, Some(path), sentence)
        }
        FileOutcome::Listing(path) => {
            ("file", 200, Some(path), format!("The names in the directory /{path} are listed, by {by}."))
        }
        FileOutcome::Redirect(to) => {
            ("redirect", 301, None, format!("Redirected to {to}, {}.", reason(finding.by, &by)))
        }
        FileOutcome::Refused { why, page } => {
            let page = page.as_ref().map_or(String::new(), |it| format!(" The page is {it}, by {by}."));
            (
                "refused",
                why.status(),
                None,
                format!("No file answers: {} {}{page}", why.status(), why.sentence()),
            )
        }
        FileOutcome::OtherMethod(204) => {
            ("answered", 204, None, "A file accepts GET, HEAD and OPTIONS.".to_owned())
        }
        FileOutcome::OtherMethod(status) => {
            ("refused", *status, None, "A file accepts GET, HEAD and OPTIONS, not this method.".to_owned())
        }
    };
    let page = match &finding.outcome {
        FileOutcome::Refused { page, .. } => page.clone(),
        _ => None,
    };
    let file = json!({
        "root": files.root.display().to_string(), "path": path, "key": dotted(key), "member": member, "page": page,
        "where": if place == Source::Default { Value::Null } else { place.to_string().into() },
    });
    (json!({ "name": name, "sentence": sentence, "status": status }), file)
}

/// The key that decides.
fn key_of(finding: &FileFinding, files: &FilesConfig, decided: &Decided) -> &'static str {
    match (finding.by, &finding.member, &finding.outcome) {
        (_, _, FileOutcome::Refused { page: Some(_), .. }) => "site[].route[].files.not_found",
        (Some(FileRule::Member(_)), _, _) if decided.by(TRY) != Source::Default => TRY,
        (Some(FileRule::Member(_)), Some(TryMember::Page(_)), _) => "site[].route[].files.spa",
        (Some(FileRule::Member(_)), Some(it), _) if files.clean_urls && *it != TryMember::own() => CLEAN,
        (Some(FileRule::CleanUrl), ..) => CLEAN,
        (Some(FileRule::Index(_)), ..) => "site[].route[].files.index",
        (Some(FileRule::Listing), ..) => "site[].route[].files.listing",
        (Some(FileRule::Strip), ..) => "site[].route[].files.strip",
        (None, ..) if decided.by(TRY) != Source::Default => TRY,
        (Some(FileRule::Member(_) | FileRule::Slash | FileRule::Merged) | None, ..) => ROOT,
    }
}

/// The reason for a redirect, with the key `by`.
fn reason(rule: Option<FileRule>, by: &str) -> String {
    match rule {
        Some(FileRule::Slash) => "since the URL of a directory ends with a slash".to_owned(),
        Some(FileRule::Merged) => "since each file has one URL, without \"//\"".to_owned(),
        Some(FileRule::CleanUrl) => format!("the one URL of this page, by {by}"),
        _ => format!("by {by}"),
    }
}

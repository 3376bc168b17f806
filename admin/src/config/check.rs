//! The check of a configuration's texts, for clients and before they are put in force. It takes as long as the reading of a large
//! configuration, so it runs on a thread of its own: the admin, whose thread feeds the watchdog, stays responsive.

use super::super::{Admin, AdminRequest, AdminResponse, problem};
use super::texts::{self, AskedTexts, TextFiles};
use super::{line_json, step_json};
use larder_config::diff;
use larder_config::edit::{ParsedTexts, Sections};
use larder_config::files_in_force::FilesInForce;
use larder_config::hide::{HiddenText, SecretCover};
use larder_config::plan::Plan;
use larder_config::restart_keys::StartValue;
use larder_config::{Problem, Source, summary};
use larder_server::config_watch;
use larder_server::live::Live;
use serde_json::{Value, json};
use std::sync::Arc;

/// The facts that a check needs besides the texts.
pub(super) struct TextCheck {
    pub plan: Arc<Plan>,
    pub cover: Arc<SecretCover>,
    /// The configuration in force.
    pub live: Arc<Live>,
}

/// The result of checking a text.
#[derive(Default)]
pub(super) struct CheckedConfig {
    pub problems: Vec<Value>,
    pub warnings: Vec<Value>,
    /// Changed keys that require a restart.
    pub restart: Vec<&'static str>,
    /// Their values, the running and the new one.
    pub restart_values: Vec<Value>,
}

impl Admin {
    /// `POST /api/v1/config/check`.
    pub(crate) async fn check_config(&self, asked: AdminRequest<'_>) -> AdminResponse {
        let (asked, real) = match self.asked_texts(&asked) {
            Ok(it) => it,
            Err(refusal) => return refusal,
        };
        let now = self.configuring.store().and_then(|it| it.read()).unwrap_or_default();
        match self.apart(move |it| it.answer(asked, &real, &now)).await {
            Ok(result) => AdminResponse::Json(200, result),
            Err(refusal) => refusal,
        }
    }

    /// Runs work that reads whole configurations on a thread of its own, one at a time.
    ///
    /// # Errors
    /// It failed.
    pub(super) async fn apart<T: Send + 'static>(
        &self,
        work: impl FnOnce(&TextCheck) -> T + Send + 'static,
    ) -> Result<T, AdminResponse> {
        let turn = self.configuring.readings.clone().lock_owned().await;
        let (plan, cover) = (self.configuring.plan.clone(), self.configuring.cover.clone());
        let check = TextCheck { plan, cover, live: self.live.borrow().clone() };
        let done = tokio::task::spawn_blocking(move || {
            // Work whose client has gone is finished before the next one begins.
            let _turn = turn;
            work(&check)
        });
        done.await.map_err(|_| problem(500, "The configuration could not be read; nothing was changed."))
    }
}

impl TextCheck {
    /// The response to a check; `now` is the text of the main file.
    fn answer(&self, asked: AskedTexts, real: &AskedTexts, now: &str) -> Value {
        let (plan, cover) = (&self.plan, &self.cover);
        let main = plan.file().map(|it| it.display().to_string());
        let files = asked.files(plan, cover);
        let checked = self.checked(&files, real);
        // Here also secrets that the request has are hidden: a difference does not come back.
        let lines = |old: &str, new: &str| -> Vec<Value> {
            diff::lines(old, &cover.hide(new).text).into_iter().map(line_json).collect()
        };
        let included = files.changed(cover).map(|(file, new, old)| {
            let new = real.others.get(&file.path).map_or(new, |it| &**it);
            json!({ "file": texts::short(&file.name, main.as_deref()), "path": file.path, "diff": lines(&old, new) })
        });
        let keys = files.keys();
        json!({
            "ok": checked.problems.is_empty(), "problems": checked.problems, "warnings": checked.warnings,
            "restart": checked.restart, "diff": lines(&cover.hide(now).text, &real.text), "included": included.collect::<Vec<_>>(),
            "document": keys.document, "site_files": keys.site_files,
        })
    }

    /// Checks texts for a client that has them with placeholders.
    pub(super) fn checked_hidden(&self, real: &AskedTexts) -> CheckedConfig {
        self.checked(&real.hidden(&self.cover).files(&self.plan, &self.cover), real)
    }

    /// The change from `old` to `new` in one line.
    pub(super) fn summary(&self, old: &AskedTexts, new: &AskedTexts) -> String {
        let values = |it: &AskedTexts| self.plan.values(&it.text, &it.others);
        summary::summary(&values(old), &values(new))
    }

    /// Reads texts with their secrets like the reload; `files` are the same texts for a client.
    pub(super) fn checked(&self, files: &TextFiles, real: &AskedTexts) -> CheckedConfig {
        let places = ProblemPlaces {
            sections: files.sections(),
            parsed: files.texts.parsed(),
            main: self.plan.file().map(|it| it.display().to_string()),
            files,
            hidden: self.cover.hide(&real.text),
        };
        let result = |it: &Problem| places.to_json(it);
        let in_force = FilesInForce::of(&self.live.config);
        match self.plan.read(&real.text, &real.others, &in_force) {
            Ok(new) => {
                let changed = config_watch::at_start(&self.live.config, &new);
                let value = |(old, new): (&StartValue, &StartValue)| {
                    let shown = json!({ "key": new.key, "running": old.shown, "file": new.shown });
                    (new.key, shown)
                };
                let (restart, restart_values) = changed.map(value).unzip();
                CheckedConfig {
                    problems: Vec::new(),
                    warnings: new.warnings.iter().map(result).collect(),
                    restart,
                    restart_values,
                }
            }
            Err(rejected) => CheckedConfig {
                problems: rejected.0.iter().map(result).collect(),
                warnings: Vec::new(),
                restart: Vec::new(),
                restart_values: Vec::new(),
            },
        }
    }
}

impl CheckedConfig {
    /// The response if it cannot be put in force.
    pub(super) fn refusal(self) -> AdminResponse {
        let problems = self.problems;
        let first = problems.first().map(|it| {
            let place = it["line"].as_u64().map_or(String::new(), |line| format!("line {line}: "));
            let key = it["key"].as_str().map_or(String::new(), |key| format!("{key}: "));
            format!("{place}{key}{}", it["message"].as_str().unwrap_or_default())
        });
        let place = problems.first().and_then(|it| Some((it["line"].as_u64()?, it["column"].as_u64()?)));
        let place =
            place.map_or_else(|| "text".to_owned(), |(line, column)| format!("line {line}, column {column}"));
        let detail = match (first, problems.len()) {
            (Some(first), 1) => first,
            (Some(first), count) => format!("{first} (and {} more)", count - 1),
            (None, _) => "The text is not a valid configuration.".to_owned(),
        };
        AdminResponse::Json(
            422,
            json!({ "status": 422, "detail": detail, "where": place, "problems": problems }),
        )
    }
}

/// The places of problems in the files of a text.
struct ProblemPlaces<'f> {
    sections: Vec<Sections>,
    /// The name of the main file.
    main: Option<String>,
    files: &'f TextFiles,
    parsed: ParsedTexts,
    /// The main text, whose columns are counted.
    hidden: HiddenText,
}

impl ProblemPlaces<'_> {
    /// Place, key, and text: as on the command line. `file` is null for the main file.
    fn to_json(&self, it: &Problem) -> Value {
        let place = match &it.source {
            Source::Line { file, line, column } => {
                self.files.number(file, self.main.as_deref()).map(|number| (number, file, *line, *column))
            }
            _ => None,
        };
        let message = match (&it.source, place) {
            (Source::Flag(flag), _) => format!("{flag}: {}", it.text),
            (source @ Source::Line { .. }, None) => format!("{source}: {}", it.text),
            _ => it.text.clone(),
        };
        let key = Some(&it.key).filter(|it| !it.is_empty());
        let (file, line, column, steps) = match place {
            Some((number, file, line, column)) => {
                let within = self.sections[number].with(line);
                let steps = self.parsed.path_of_whole(number, within);
                let column = if number == 0 { self.hidden.column(line, column) } else { column };
                (Some(file).filter(|_| number > 0), Some(line), Some(column), steps)
            }
            None => (None, None, None, Vec::new()),
        };
        let within: Vec<Value> = steps.iter().map(step_json).collect();
        json!({
            "file": file.map(|it| texts::short(it, self.main.as_deref())), "line": line, "column": column, "key": key, "within": within,
            "message": message,
        })
    }
}

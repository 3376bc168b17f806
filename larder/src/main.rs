//! The larder binary: runs the command of the command line, and prints errors in one sentence.

#![warn(clippy::print_stdout, clippy::print_stderr)] // They panic if the reader of the output has gone.

use larder::inheritance::Inheritance;
use larder::{landlock_rules, supervisor};
use larder_commands::cli::{self, Command, Output, PurgeCommand};
use larder_commands::terminal::{Screen, warn};
use larder_commands::{
    advice, arguments, audit, bench, certificates, demo, explain, login, maintenance, nodes, objects, origin,
    overlay, purge, sign, stats, tail, top, trace, trial, upgrade, warm, worst,
};
use larder_config::Config;
use larder_config::plan::Plan;
use larder_server::connect_check;
use larder_stdx::error::plain;
use serde_json::{Value, json};
use std::process::ExitCode;

/// Measured: see docs/decisions/0060-allocator.md.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Not started: the command line, the configuration, an address or a port is invalid.
const NOT_STARTED: u8 = 2;
/// Started, and failed.
const FAILED: u8 = 1;

/// `mi_option_purge_delay` of mimalloc 2: freed pages are returned to the system at once.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// The block size from which the C library's allocator maps a block and unmaps it when it is freed. By default it raises
/// this to the size of the last freed one, and keeps zstd's tables forever.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const MMAP_THRESHOLD: libc::c_int = 256 << 10;

fn main() -> ExitCode {
    prepare_process();
    let command = match cli::parse(std::env::args_os().skip(1)) {
        Ok(command) => command,
        Err(usage) => return fail(NOT_STARTED, &usage.to_string()),
    };
    if let Err(sentence) = arguments::check(&command) {
        return fail(NOT_STARTED, &sentence);
    }
    match command {
        Command::Print(text) => print(&text),
        Command::Check(plan) => match cli::check(&plan) {
            Ok((text, config)) => print(&(text + &connect_check::not_contacted(&config))),
            Err(rejected) => fail(NOT_STARTED, &rejected.to_string()),
        },
        Command::CheckConnect(plan) => check_connect(&plan),
        Command::CheckRecent(order) => check_recent(&order),
        Command::Explain(question) => answered(explain::request(&question), question.output, |answer| {
            explain::render(answer, Screen::now())
        }),
        Command::Purge(order) => purged(&order),
        Command::Sign(order) => match sign::run(&order) {
            Ok(url) => print(&format!("{url}\n")),
            Err(sentence) => fail(FAILED, &sentence),
        },
        Command::Tail(order) => follow(&order),
        Command::Top(order) => match top::run(&order) {
            Ok(text) => print(&text),
            Err(sentence) => fail(FAILED, &sentence),
        },
        Command::Objects(asked) => {
            answered(objects::request(&asked), asked.output, |page| objects::render(page, Screen::now()))
        }
        Command::Overlay(order) => answered(overlay::request(&order), order.output, overlay::render),
        Command::Maintenance(order) => {
            answered(maintenance::request(&order), order.output, maintenance::render)
        }
        Command::Tls(order) => answered(certificates::request(&order), order.output, certificates::render),
        Command::Origin(order) => answered(origin::request(&order), order.output, origin::render),
        Command::Bench(asked) => measure(&asked),
        Command::Warm(order) => match warm::run(&order) {
            Ok(summary) => {
                match order.output {
                    Output::Json => print(&format!("{:#}\n", summary.json())),
                    Output::Text => print(&summary.render()),
                };
                ExitCode::from(if summary.is_well() { 0 } else { FAILED })
            }
            Err(sentence) => fail(FAILED, &sentence),
        },
        Command::Stats(order) => {
            answered(stats::request(&order), order.output, |answer| stats::render(answer, Screen::now()))
        }
        Command::Advice(order) => {
            answered(advice::request(&order), order.output, |answer| advice::render(answer, Screen::now()))
        }
        Command::Worst(order) => {
            answered(worst::request(&order), order.output, |answer| worst::render(answer, Screen::now()))
        }
        Command::Nodes(order) => {
            answered(nodes::request(&order), order.output, |answer| nodes::render(answer, Screen::now()))
        }
        Command::Audit(order) => answered(audit::request(&order), order.output, audit::render),
        Command::Login(order) => answered(login::request(&order), order.output, login::render),
        Command::Upgrade(order) => answered(upgrade::request(&order), order.output, upgrade::render),
        Command::Trace(what) => traced(&what),
        Command::Serve(plan) => serve(plan, |_, _| String::new()),
        Command::Demo(plan) => run_demo(plan),
    }
}

/// Settings of the whole process, before any other thread runs.
fn prepare_process() {
    // SAFETY: sets a number that the allocator reads when it frees pages; no other thread runs yet.
    unsafe { libmimalloc_sys::mi_option_set(PURGE_DELAY, 0) }; // docs/decisions/0020-resident-memory.md
    // If the system provides them by default, a touched byte takes two megabytes, and returned memory comes back with the
    // next one. If the setting is not possible, the system decides.
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::disable_transparent_huge_pages(true);
    // SAFETY: sets a number of the C library's allocator, which only zstd uses; no other thread runs yet.
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, MMAP_THRESHOLD)
    };
    // Descriptors that the parent process left open are not for CGI programs. Linux before 5.11 refuses; the programs get them then.
    // SAFETY: the call takes no pointers, and marks descriptors without closing one.
    #[cfg(target_os = "linux")]
    unsafe {
        libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, libc::CLOSE_RANGE_CLOEXEC)
    };
}

/// Sends a purge, and prints its receipt; the exit code tells whether every node has applied it.
fn purged(order: &PurgeCommand) -> ExitCode {
    match purge::request(order) {
        Ok(answer) => {
            let certain = answer["complete"] == true;
            match order.output {
                Output::Json => print(&format!("{answer:#}\n")),
                Output::Text => print(&purge::render(&answer)),
            };
            ExitCode::from(if certain { 0 } else { FAILED })
        }
        Err(sentence) => fail(FAILED, &sentence),
    }
}

/// Checks the configuration, and contacts its servers.
fn check_connect(plan: &Plan) -> ExitCode {
    let (text, config) = match cli::check(plan) {
        Ok(it) => it,
        Err(rejected) => return fail(NOT_STARTED, &rejected.to_string()),
    };
    print(&text);
    match connect_check::contact_all(&config) {
        Ok(contacts) => {
            print(&connect_check::text(&contacts));
            ExitCode::from(if contacts.iter().all(|it| it.result.is_ok()) { 0 } else { FAILED })
        }
        Err(sentence) => fail(FAILED, &sentence),
    }
}

/// Checks the configuration, and tries it on the recent requests of a running larder.
fn check_recent(order: &cli::CheckRecent) -> ExitCode {
    if let Err(rejected) = cli::check(&order.plan) {
        return fail(NOT_STARTED, &rejected.to_string());
    }
    match trial::request(order) {
        Ok(answer) => {
            let is_safe = answer["danger"] != true;
            match order.output {
                Output::Json => print(&format!("{answer:#}\n")),
                Output::Text => print(&trial::render(&answer, Screen::now())),
            };
            ExitCode::from(if is_safe { 0 } else { FAILED })
        }
        Err(sentence) => fail(FAILED, &sentence),
    }
}

/// The demo: its site, and larder in front of it with a configuration file that can be changed.
fn run_demo(plan: Plan) -> ExitCode {
    let site = match demo::start() {
        Ok(address) => address,
        Err(error) => return fail(NOT_STARTED, &format!("The demo site failed to start: {error}.")),
    };
    let file = demo::DemoFile::beneath(&std::env::temp_dir(), site);
    let plan = match &file {
        Ok(file) => plan.upon(file.path()),
        Err(error) => {
            let (place, why) = (std::env::temp_dir(), plain(error));
            warn(&format!("warning: no configuration file: {} cannot be written: {why}", place.display()));
            plan.in_front_of(&format!("http://{site}")).or_else("cache.compress.enabled", "true")
        }
    };
    // As this binary was called: it need not be in the PATH.
    let called = std::env::args().next().unwrap_or_else(|| "larder".to_owned());
    serve(plan, |larder, admin| {
        let explain = admin.map(|it| explain::command(&called, it));
        let file = file.as_ref().ok().map(demo::DemoFile::path);
        demo::hints(larder, site, explain.as_deref(), file)
    })
}

/// Records or plots traces; the result is printed on standard error.
fn traced(what: &cli::TraceCommand) -> ExitCode {
    match what {
        cli::TraceCommand::Record(order) => match trace::record::run(order) {
            Ok(summary) => {
                warn(&summary.render(&order.out));
                ExitCode::SUCCESS
            }
            Err(sentence) => fail(FAILED, &sentence),
        },
        cli::TraceCommand::Plot(order) => match trace::plot::run(order) {
            Ok(sentence) => {
                warn(&sentence);
                ExitCode::SUCCESS
            }
            Err(sentence) => fail(NOT_STARTED, &sentence),
        },
    }
}

/// Prints the response of a running larder, as text or JSON.
fn answered(answer: Result<Value, String>, output: Output, render: impl Fn(&Value) -> String) -> ExitCode {
    match answer {
        Ok(answer) if output == Output::Json => print(&format!("{answer:#}\n")),
        Ok(answer) => print(&render(&answer)),
        Err(sentence) => fail(FAILED, &sentence),
    }
}

/// Prints requests as they are finished.
fn follow(order: &cli::TailCommand) -> ExitCode {
    match tail::run(order, &mut std::io::stdout().lock()) {
        Ok(tail::TailEnded::Unread) => ExitCode::SUCCESS,
        Ok(tail::TailEnded::Stopped) => {
            warn("the server is stopping; the stream ends");
            ExitCode::SUCCESS
        }
        Err(tail::TailFailure::Filter(sentence)) => fail(NOT_STARTED, &sentence),
        Err(tail::TailFailure::Lost(sentence)) => fail(FAILED, &sentence),
    }
}

/// Runs a benchmark; the progress is printed on standard error, so that standard output has only the table.
fn measure(asked: &cli::Bench) -> ExitCode {
    let report = match bench::tiers(&asked.options, &mut warn) {
        Ok(report) => report,
        Err(sentence) => return fail(FAILED, &sentence),
    };
    match asked.output {
        Output::Json => print(&format!("{:#}\n", report.json())),
        Output::Text => print(&report.table()),
    };
    ExitCode::from(if report.failed() == 0 { 0 } else { FAILED })
}

fn serve(plan: Plan, after: impl FnOnce(&str, Option<&str>) -> String) -> ExitCode {
    let inheritance = match Inheritance::of_environment() {
        Ok(inheritance) => inheritance,
        Err(sentence) => return fail(NOT_STARTED, &sentence),
    };
    let reporter = inheritance.reporter();
    let fail = |sentence: &str| {
        reporter.log(sentence.trim_end());
        fail(NOT_STARTED, sentence)
    };
    if let Err(sentence) = landlock_rules::check(&plan, landlock_rules::RuleCheck::Upgrade) {
        return fail(&sentence);
    }
    let watch = plan.file().map(supervisor::ConfigWatch::new);
    let config = match plan.load().and_then(Config::fit) {
        Ok(config) => config,
        Err(rejected) => return fail(&rejected.to_string()),
    };
    for warning in &config.warnings {
        warn(&format!("warning: {warning}"));
    }
    match supervisor::run(config, plan, inheritance, watch, after) {
        Ok(()) => ExitCode::SUCCESS,
        Err(supervisor::Stopped::AtStart(sentence)) => fail(&sentence),
        Err(supervisor::Stopped::CutOff | supervisor::Stopped::WorkerFailed) => ExitCode::from(FAILED),
    }
}

/// Prints to a terminal or pipe: a closed reader is not a failure.
fn print(text: &str) -> ExitCode {
    use std::io::Write;
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    ExitCode::SUCCESS
}

/// Prints an error: as text on standard error, or as JSON on standard output.
fn fail(code: u8, sentence: &str) -> ExitCode {
    let sentence = sentence.trim_end();
    if std::env::args_os().skip(1).any(|it| it == "--json") {
        print(&format!("{:#}\n", json!({ "error": sentence, "exit": code })));
    } else {
        warn(sentence);
    }
    ExitCode::from(code)
}

//! Runs larder and its peers and writes the figures; this crate has no part of the server.
//!
//! Servers run on core 0, the load generator and the origins on core 1. The lanes of a case take turns, so that a drift
//! of the machine affects all of them. See `docs/benchmarks.md`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use larder_stdx::clock;
use rustix::process::{Resource, Rlimit, setrlimit};

mod cases;
mod fetch;
mod idle;
mod load;
mod machine;
mod million;
mod overload;
mod passwords;
mod process;
mod report;
mod run;
mod servers;
mod statistics;
mod steady;
mod stopped;

use load::Manner;
use machine::Usage;
use process::Running;
use report::Report;
use run::Settings;
use servers::Ours;

const HELP: &str = "\
larder-bench: larder beside its peers on one machine

  --quick            short turns and few rounds (2 to 3 minutes); the page in docs is left alone
  --only A,B         these cases only; --list shows them
  --train            larder alone, a second for each case, without figures: the load that the optimised build is made for
  --rounds N         how often the lanes of a case take turns (default 5)
  --seconds N        how long a turn lasts (default 2)
  --nice N           niceness of servers and load; below zero on a machine that others use (default 0)
  --larder FILE      the larder to measure (default target/release/larder)
  --results DIR      where the JSON goes (default bench/results)
  --docs FILE        the page whose table is replaced (default docs/benchmarks.md, or none with --quick or --only)

Example: cargo run --release -p larder-bench -- --only hit-20,close --rounds 3
";

/// The parsed command line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    quick: bool,
    train: bool,
    only: Option<Vec<String>>,
    rounds: Option<u32>,
    seconds: Option<u32>,
    nice: i32,
    larder: PathBuf,
    results: PathBuf,
    docs: Option<PathBuf>,
}

impl Asked {
    /// The part of it that decides the figures, for running them again.
    fn command(&self) -> String {
        let mut words = vec!["larder-bench".to_owned()];
        words.extend(self.quick.then(|| "--quick".to_owned()));
        words.extend(self.only.iter().map(|it| format!("--only {}", it.join(","))));
        words.extend(self.rounds.map(|it| format!("--rounds {it}")));
        words.extend(self.seconds.map(|it| format!("--seconds {it}")));
        words.extend((self.nice != 0).then(|| format!("--nice {}", self.nice)));
        words.join(" ")
    }
}

/// The action for a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wish {
    Run(Asked),
    Help,
    List,
}

fn main() -> ExitCode {
    match parse(lexopt::Parser::from_env()) {
        Err(why) => {
            eprintln!("larder-bench: {why}. Try --help.");
            ExitCode::from(2)
        }
        Ok(Wish::Help) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Ok(Wish::List) => {
            cases::all().iter().for_each(|it| println!("{:<10} {}", it.name, it.title));
            println!("{:<10} 15,000 idle keep-alive connections", "idle");
            println!("{:<10} one of three memcacheds stopped", "stopped");
            println!("{:<10} a million responses under one tag are purged", "million");
            println!("{:<10} passwords beside the hits of others", "passwords");
            println!("{:<10} an application that is asked for four times what it can do", "overload");
            ExitCode::SUCCESS
        }
        Ok(Wish::Run(asked)) => match if asked.train { train(&asked) } else { bench(&asked) } {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("larder-bench: {why}");
                ExitCode::FAILURE
            }
        },
    }
}

fn parse(mut parser: lexopt::Parser) -> Result<Wish, lexopt::Error> {
    use lexopt::prelude::{Long, ValueExt};
    let mut asked = Asked {
        quick: false,
        train: false,
        only: None,
        rounds: None,
        seconds: None,
        nice: 0,
        larder: "target/release/larder".into(),
        results: "bench/results".into(),
        docs: None,
    };
    while let Some(argument) = parser.next()? {
        match argument {
            Long("help") => return Ok(Wish::Help),
            Long("list") => return Ok(Wish::List),
            Long("quick") => asked.quick = true,
            Long("train") => asked.train = true,
            Long("only") => {
                asked.only = Some(parser.value()?.string()?.split(',').map(str::to_owned).collect())
            }
            Long("rounds") => asked.rounds = Some(parser.value()?.parse()?),
            Long("seconds") => asked.seconds = Some(parser.value()?.parse()?),
            Long("nice") => asked.nice = parser.value()?.parse()?,
            Long("larder") => asked.larder = parser.value()?.into(),
            Long("results") => asked.results = parser.value()?.into(),
            Long("docs") => asked.docs = Some(parser.value()?.into()),
            other => return Err(other.unexpected()),
        }
    }
    if !asked.quick && asked.only.is_none() && asked.docs.is_none() {
        asked.docs = Some("docs/benchmarks.md".into());
    }
    Ok(Wish::Run(asked))
}

/// A folder of this run in that for temporary files.
fn folder() -> Result<PathBuf, String> {
    let dir = std::env::temp_dir().join(format!("larder-bench-{}", std::process::id()));
    fs::create_dir_all(&dir).map_err(|it| format!("{}: {it}", dir.display()))?;
    Ok(dir)
}

/// Runs the lanes of larder, so that a build that counts executed code writes its profile when it is stopped.
fn train(asked: &Asked) -> Result<(), String> {
    let dir = folder()?;
    let mut settings = Settings { rounds: 1, seconds: 1, ..settings(asked, &dir)? };
    let fleet = settings.memcached();
    settings.fleet = fleet.iter().map(|it| it.port).collect();
    build_http3_load(&dir);
    for mut case in cases::all() {
        case.lanes.retain(|it| it.server.program() == "larder");
        case.claims.clear();
        match settings.run(&case) {
            Ok(done) => {
                done.absent().for_each(|(lane, why)| eprintln!("{}, {lane}: left out: {why}", case.name))
            }
            Err(why) => eprintln!("{}: left out: {why}", case.name),
        }
    }
    let _ = fs::remove_dir_all(&dir);
    Ok(())
}

fn bench(asked: &Asked) -> Result<(), String> {
    let dir = folder()?;
    let mut settings = settings(asked, &dir)?;
    // Where sessions share the machine as groups, niceness counts only within a group; this is the group's.
    let _ = fs::write("/proc/self/autogroup", asked.nice.to_string());
    let began = (Usage::now(), clock::precise_micros());
    let wanted = |name: &str| asked.only.as_ref().is_none_or(|it| it.iter().any(|it| it == name));
    // One for the cases; three, of which one is stopped.
    let fleet: Vec<Running> = (0..3).map_while(|_| settings.memcached()).collect();
    settings.fleet = fleet.iter().take(1).map(|it| it.port).collect();
    let mut finished = Vec::new();
    let cases: Vec<_> = cases::all().into_iter().filter(|it| wanted(it.name)).collect();
    if cases.iter().flat_map(|it| &it.lanes).any(|it| it.manner == Manner::Datagrams) {
        build_http3_load(&dir);
    }
    for case in &cases {
        finished.push(settings.run(case)?);
    }
    let idle = if wanted("idle") { idle::run(&settings)? } else { Vec::new() };
    settings.fleet = fleet.iter().map(|it| it.port).collect();
    let stopped = wanted("stopped").then(|| stopped::run(&settings, &fleet));
    let overload = if wanted("overload") { overload::run(&settings)? } else { Vec::new() };
    let passwords = wanted("passwords").then(|| passwords::run(&settings));
    let million = wanted("million").then(|| million::run(&settings));
    let _ = fs::remove_dir_all(&dir);
    let report = Report {
        date: today(),
        machine: machine::describe(),
        command: asked.command(),
        turns: (settings.rounds, settings.seconds),
        others: Usage::now().others_since(began.0),
        cases: finished,
        idle,
        stopped,
        overload,
        passwords,
        million,
    };
    println!("{}", report.markdown());
    eprintln!("took {} s", (clock::precise_micros() - began.1) / 1_000_000);
    write(asked, &report)
}

fn settings(asked: &Asked, dir: &Path) -> Result<Settings, String> {
    for program in ["setpriv", "taskset", "nice", "wrk", "gcc"] {
        if !run::exists(program) {
            return Err(format!(
                "{program} is needed; on Debian: apt-get install wrk gcc util-linux coreutils"
            ));
        }
    }
    let idle = if asked.quick { 3000 } else { 15_000 };
    let files = raise_limit(2 * idle + 10_000);
    Ok(Settings {
        dir: dir.to_owned(),
        ours: Ours {
            larder: absolute(&asked.larder),
            canned: build_limit(dir)?,
            canned_tls: build_tls_limit(dir),
        },
        rounds: asked.rounds.unwrap_or(if asked.quick { 2 } else { 5 }).max(1),
        seconds: asked.seconds.unwrap_or(if asked.quick { 1 } else { 2 }).max(1),
        nice: asked.nice,
        idle: idle.min(files.saturating_sub(2000)),
        connections: files.saturating_sub(1000),
        fleet: Vec::new(),
        purged: if asked.quick { 200_000 } else { 1_000_000 },
        root_user: rustix::process::geteuid().is_root(),
    })
}

/// Raises the limit of open files to `wanted` or to the allowed one, for this process and its children.
fn raise_limit(wanted: u64) -> u64 {
    let want = Rlimit { current: Some(wanted), maximum: Some(wanted) };
    let had = rustix::process::getrlimit(Resource::Nofile);
    if had.current.is_none_or(|it| it >= wanted) || setrlimit(Resource::Nofile, want).is_ok() {
        return wanted;
    }
    let allowed = had.maximum.unwrap_or(wanted).min(wanted);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(allowed), maximum: had.maximum });
    allowed
}

fn build_limit(dir: &Path) -> Result<PathBuf, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("limit/canned.c");
    let program = dir.join("canned");
    let built = Command::new("gcc").args(["-O2", "-Wall", "-o"]).args([&program, &source]).output();
    let built = built.map_err(|it| format!("gcc: {it}"))?;
    if built.status.success() {
        Ok(program)
    } else {
        Err(String::from_utf8_lossy(&built.stderr).into_owned())
    }
}

/// The limit program for TLS; without its libraries the program is missing, and its lane reports that.
fn build_tls_limit(dir: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("limit/tls.c");
    let program = dir.join("canned-tls");
    let built = Command::new("gcc")
        .args(["-O2", "-Wall", "-o"])
        .args([&program, &source])
        .args(["-lssl", "-lcrypto"])
        .output();
    if !built.is_ok_and(|it| it.status.success()) {
        eprintln!("the limit by TLS is left out; on Debian: apt-get install libssl-dev");
    }
    program
}

/// The load generator for HTTP/3; without it the lanes of HTTP/3 report that.
fn build_http3_load(dir: &Path) {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("clients/Cargo.toml");
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target");
    let built = Command::new(env!("CARGO"))
        .args(["build", "--quiet", "--release", "--locked", "--bin", "larder-bench-http3", "--manifest-path"])
        .arg(manifest)
        .arg("--target-dir")
        .arg(&target)
        .status();
    let program = target.join("release/larder-bench-http3");
    if !built.is_ok_and(|it| it.success()) || fs::copy(program, dir.join(load::HTTP3)).is_err() {
        eprintln!("HTTP/3 is left out: bench/clients cannot be built");
    }
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

fn today() -> String {
    let output = Command::new("date").args(["-u", "+%Y-%m-%d"]).output();
    output.map_or("undated".into(), |it| String::from_utf8_lossy(&it.stdout).trim().to_owned())
}

fn write(asked: &Asked, report: &Report) -> Result<(), String> {
    let kind = match (&asked.only, asked.quick) {
        (Some(only), _) => only.join("-"),
        (None, true) => "quick".into(),
        (None, false) => "full".into(),
    };
    fs::create_dir_all(&asked.results).map_err(|it| format!("{}: {it}", asked.results.display()))?;
    let file = asked.results.join(format!("{}-{kind}.json", report.date));
    let failed = |path: &Path, it: std::io::Error| format!("{}: {it}", path.display());
    fs::write(&file, format!("{:#}\n", report.json())).map_err(|it| failed(&file, it))?;
    eprintln!("wrote {}", file.display());
    let Some(docs) = &asked.docs else { return Ok(()) };
    let page = fs::read_to_string(docs).unwrap_or_default();
    fs::write(docs, report::insert(&page, &report.markdown())).map_err(|it| failed(docs, it))?;
    eprintln!("wrote {}", docs.display());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::{Cores, Running, free_port};

    fn asked(line: &str) -> Result<Wish, lexopt::Error> {
        parse(lexopt::Parser::from_args(line.split_ascii_whitespace()))
    }

    #[test]
    fn only_a_whole_run_replaces_the_table_of_the_page() {
        let docs = |line| match asked(line) {
            Ok(Wish::Run(it)) => it.docs,
            other => panic!("{other:?}"),
        };
        assert_eq!(Some("docs/benchmarks.md".into()), docs(""));
        assert_eq!(None, docs("--quick"));
        assert_eq!(None, docs("--only close"));
        assert_eq!(Some("x.md".into()), docs("--quick --docs x.md"));
        assert!(matches!(asked("--train --larder x"), Ok(Wish::Run(it)) if it.train));
        let Ok(Wish::Run(all)) = asked("--only a,b --rounds 3 --nice=-5 --larder x") else { panic!() };
        assert_eq!("larder-bench --only a,b --rounds 3 --nice -5", all.command());
        assert!(asked("--frobnicate").is_err());
        assert!(asked("--rounds many").is_err());
    }

    /// The harness itself, small: the limit program is built and started, asked, watched and ended.
    #[test]
    fn the_limit_program_serves_the_page() {
        if !["gcc", "setpriv", "taskset"].iter().all(|it| run::exists(it)) {
            eprintln!("skipped: gcc, setpriv and taskset are needed");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let page = b"0123456789".repeat(5000);
        fs::write(dir.path().join("page.html"), &page).unwrap();
        let program = build_limit(dir.path()).unwrap();
        for how in ["copy", "sendfile"] {
            let port = free_port().unwrap();
            let plan = servers::canned(&program, how, port, dir.path(), &["X-Test: 1"]);
            let running =
                Running::start(&plan.argv, Cores::Server, 0, port, &dir.path().join("log")).unwrap();
            fetch::expect(port, &page, 2).unwrap();
            assert!(running.resident() > 0);
            assert!(running.cpu() > 0);
        }
    }
}

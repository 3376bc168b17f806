//! The database servers that tests start end with their test run, even if it is killed.

use crate::harness::mariadb::MariaDb;
use crate::harness::postgres::Postgres;
use crate::harness::until;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

/// Set in the test run that is killed.
const IS_KILLED: &str = "LARDER_KILLED_RUN";

/// Whether a process runs: a dead one may wait for its new parent.
fn runs(id: &str) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{id}/stat"));
    state.is_ok_and(|it| !it.rsplit(") ").next().is_some_and(|it| it.starts_with('Z')))
}

#[test]
fn a_killed_test_run_leaves_no_database_server_behind() {
    if std::env::var_os(IS_KILLED).is_some() {
        let (postgres, maria) = (Postgres::start("select 1"), MariaDb::start("select 1"));
        println!("\nservers {} {}", postgres.id(), maria.id());
        loop {
            std::thread::park();
        }
    }
    // The servers leave it, and read it as users of their own.
    let folder = tempfile::tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    let name = "scenarios::killed_runs::a_killed_test_run_leaves_no_database_server_behind";
    let mut run = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(IS_KILLED, "1")
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let servers = lines.map_while(Result::ok).find_map(|it| Some(it.strip_prefix("servers ")?.to_owned()));
    run.kill().unwrap();
    run.wait().unwrap();
    let servers = servers.expect("the run starts its servers");
    let ids: Vec<&str> = servers.split(' ').collect();
    assert_eq!(2, ids.len());
    for id in ids {
        until("the server has ended", || !runs(id));
    }
}

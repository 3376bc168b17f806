//! Large uploads to PHP: whole, in the spool and not in memory, and refused where its device is full.

use crate::harness::server::{Setup, binary};
use crate::harness::{Client, Larder, Response, php::PhpFpm, until};
use ring::digest::{Context, SHA256};

const MIB: usize = 1 << 20;

/// Answers with the length and the checksum of the body.
const SCRIPT: &str = "<?php $hash = hash_init('sha256'); $count = hash_update_stream($hash, fopen('php://input', 'rb')); \
                      echo $count, ' ', hash_final($hash);";

/// A larder whose bodies are in this directory, before php-fpm with the script.
fn larder(fpm: &PhpFpm, folder: &std::path::Path) -> Larder {
    sized(fpm, folder, "2GiB")
}

/// The same with a spool of this size.
fn sized(fpm: &PhpFpm, folder: &std::path::Path, size: &str) -> Larder {
    std::fs::write(folder.join("index.php"), SCRIPT).unwrap();
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\ncache.spool = {{ directory = {folder:?}, size = {size:?} }}\nlimits.body_size = \"2GiB\"\n\
         [[site]]\nhosts = [\"*\"]\n[[site.route]]\nphp = {{ root = {folder:?}, to = {:?} }}\n",
        fpm.name()
    );
    // A write beyond a limit of the file size is an error instead of the end of the process.
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]).arg(binary());
    Larder::start_by(command, Setup { config, env: Vec::new() })
}

/// Sends a chunked body of this many MiB, no two of them alike; `sent` after each.
fn upload(client: &mut Client, count: usize, mut sent: impl FnMut()) -> Response {
    client.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n");
    let mut piece = vec![b'x'; MIB];
    for number in 0..count {
        piece[..8].copy_from_slice(&(number as u64).to_be_bytes());
        client.send("100000\r\n").send(&piece).send("\r\n");
        sent();
    }
    client.send("0\r\n\r\n");
    client.read_for("POST")
}

/// The checksum of that body, as PHP writes it.
fn checksum(count: usize) -> String {
    let mut sum = Context::new(&SHA256);
    let mut piece = vec![b'x'; MIB];
    for number in 0..count {
        piece[..8].copy_from_slice(&(number as u64).to_be_bytes());
        sum.update(&piece);
    }
    sum.finish().as_ref().iter().map(|it| format!("{it:02x}")).collect()
}

/// The most memory of the process since the last call, in bytes (proc_pid_status(5), `VmHWM`).
fn peak(larder: &Larder) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", larder.pid())).unwrap();
    let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:")).unwrap();
    // 5: the peak starts from the present size (proc_pid_clear_refs(5)).
    std::fs::write(format!("/proc/{}/clear_refs", larder.pid()), "5").unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// A body of unknown length reaches PHP whole, with 1 MiB more memory at most. `LARDER_UPLOAD_MIB=1024` sends a larger one.
#[test]
fn a_chunked_upload_is_whole_and_not_in_memory() {
    let count = std::env::var("LARDER_UPLOAD_MIB").map_or(64, |it| it.parse().unwrap());
    let (fpm, folder) = (PhpFpm::start(1), tempfile::tempdir().unwrap());
    let larder = larder(&fpm, folder.path());
    // The first one touches the code and the buffers that every body needs.
    for _ in 0..2 {
        assert_eq!(format!("{} {}", 4 * MIB, checksum(4)), upload(&mut larder.client(), 4, || ()).text());
    }
    peak(&larder);
    let (before, mut most_data) = (larder.resident(), 0);
    let data_before = larder.resident_data();
    let answer = upload(&mut larder.client(), count, || most_data = most_data.max(larder.resident_data()));
    assert_eq!(format!("{} {}", count * MIB, checksum(count)), answer.text());
    let more = peak(&larder).saturating_sub(before);
    let data = most_data.saturating_sub(data_before);
    println!(
        "{count} MiB: {} KiB more at the peak, {} KiB of data while it arrived",
        more / 1024,
        data / 1024
    );
    assert!(more <= MIB as u64, "{more} bytes more");
}

/// Slow uploads have filled the spool: one of known length is streamed to PHP, one of unknown length is refused.
#[test]
fn a_full_spool_streams_uploads_of_known_length() {
    let (fpm, folder) = (PhpFpm::start(2), tempfile::tempdir().unwrap());
    let larder = sized(&fpm, folder.path(), "1MiB");
    let mut slow = larder.client();
    slow.send("POST / HTTP/1.1\r\nHost: a\r\nContent-Type: a/b\r\nContent-Length: 1000000\r\n\r\n");
    slow.send(vec![b'x'; 960_000]);
    until("the spool is nearly full", || larder.counter("fill_spool_bytes") > 900_000);
    let answer = larder.client().request("POST", "/", "Content-Type: a/b\r\n", &"x".repeat(300_000));
    assert_eq!((200, true), (answer.status, answer.text().starts_with("300000 ")), "{answer:?}");
    assert_eq!(503, upload(&mut larder.client(), 1, || ()).status);
    slow.send(vec![b'x'; 40_000]);
    assert!(slow.read_for("POST").text().starts_with("1000000 "));
}

/// The device of the spool is full: the upload is refused and reaches no script, smaller ones go on, and the spool is used again later.
#[test]
fn a_full_device_refuses_large_uploads_alone() {
    let (fpm, folder) = (PhpFpm::start(1), tempfile::tempdir().unwrap());
    let larder = larder(&fpm, folder.path());
    let limit = |bytes: u64| {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
        let pid = libc::pid_t::try_from(larder.pid()).unwrap();
        // SAFETY: the limit is read during the call, no earlier one is written, and the process is our child.
        let done = unsafe { libc::prlimit(pid, libc::RLIMIT_FSIZE, &raw const limit, std::ptr::null_mut()) };
        assert_eq!(0, done);
    };
    assert_eq!(200, upload(&mut larder.client(), 4, || ()).status);
    limit(3 * MIB as u64);
    // It is refused while it is sent.
    let lines = "Content-Type: a/b\r\n";
    let answer = larder.client().request("POST", "/", lines, &"x".repeat(4 * MIB));
    assert_eq!(503, answer.status, "{answer:?}");
    let small = larder.client().request("POST", "/", "Content-Type: a/b\r\n", "xxxxx").text();
    assert!(small.starts_with("5 "), "{small}");
    limit(libc::RLIM_INFINITY);
    until("the spool is used again", || {
        larder.pass(60_000);
        upload(&mut larder.client(), 4, || ()).status == 200
    });
}

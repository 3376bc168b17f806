//! The disk tier, from outside: its responses survive the process unchanged.

use super::super::harness::command;
use super::super::harness::origin::Script;
use super::super::harness::tiers::{binary, killed, of_size, on_disk, same, stored, written};
use super::super::harness::{Larder, Origin, Response, until};

#[test]
fn a_restart_keeps_stored_responses() {
    let folder = tempfile::tempdir().unwrap();
    let origin = of_size();
    let sizes = ["/0", "/100", "/16384", "/26510", "/300000", "/900000"];
    let a = on_disk(&origin, folder.path(), "");
    let expect: Vec<Response> = sizes.iter().map(|it| stored(&a, it)).collect();
    written(&a, 6);
    killed(a);
    let b = on_disk(&origin, folder.path(), "");
    for (target, expect) in sizes.into_iter().zip(expect) {
        let found = b.get(target);
        assert!(found.cache().ends_with("; detail=disk"), "{target}: {}", found.cache());
        same(&expect, &found);
        for _ in 0..3 {
            same(&expect, &b.get(target));
        }
        let found = b.get(target);
        assert!(found.is_hit() && !found.cache().contains("detail"), "{target}: {}", found.cache());
    }
    assert_eq!(6, origin.requests());
    assert_eq!(3, b.counter("disk_promotions"), "what is large is taken into RAM at its second use");
}

#[test]
fn damage_of_the_disk_tier_is_logged() {
    let folder = tempfile::tempdir().unwrap();
    let origin = of_size();
    let logged = "[log]\nerror = \"error.log\"\n";
    let log = |it: &Larder| it.error_log();
    let a = on_disk(&origin, folder.path(), logged);
    for target in ["/100", "/300000"] {
        a.get(target);
    }
    written(&a, 2);
    killed(a);
    let b = on_disk(&origin, folder.path(), logged);
    assert!(b.get("/100").is_hit());
    let files = || std::fs::read_dir(folder.path().join("disk")).unwrap().map(|it| it.unwrap().path());
    let turn = |path: &std::path::Path, from: usize| {
        let mut bytes = std::fs::read(path).unwrap();
        bytes[from..].iter_mut().for_each(|it| *it ^= 1);
        // In place: it is open.
        let mut file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
        std::io::Write::write_all(&mut file, &bytes).unwrap();
    };
    assert!(!log(&b).contains("disk-"), "{}", log(&b));
    let segments: Vec<_> = files().filter(|it| std::fs::metadata(it).unwrap().len() > 100_000).collect();
    assert!(!segments.is_empty());
    segments.iter().for_each(|it| turn(it, 4096));
    assert_eq!(200, b.get("/300000").status);
    until("damage is told", || log(&b).contains(" warn disk-corrupt path="));
    killed(b);
    turn(&folder.path().join("disk").join("purges"), 0);
    let c = on_disk(&origin, folder.path(), logged);
    until("doubt is told", || log(&c).contains(" warn disk-revalidating path="));
}

#[test]
fn a_restart_keeps_the_hit_ratio() {
    let folder = tempfile::tempdir().unwrap();
    let origin = of_size();
    let a = on_disk(&origin, folder.path(), "");
    let targets: Vec<String> = (0..300).map(|it| format!("/{}", 100 + it * 97)).collect();
    let mut client = a.client();
    targets.iter().for_each(|it| drop(client.get(it)));
    written(&a, 300);
    killed(a);
    let b = on_disk(&origin, folder.path(), "");
    let mut client = b.client();
    for target in &targets {
        let found = client.get(target);
        assert!(found.is_hit() && found.body == binary(target[1..].parse().unwrap()), "{}", found.cache());
    }
    assert_eq!(300, origin.requests());
}

#[test]
fn a_head_a_range_and_only_if_cached_are_hits_of_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let origin = of_size();
    let a = on_disk(&origin, folder.path(), "");
    a.get("/50000");
    written(&a, 1);
    killed(a);
    let b = on_disk(&origin, folder.path(), "promote_after = 1000\n");
    for (method, lines, status) in [
        ("HEAD", "", 200),
        ("GET", "Range: bytes=10-19\r\n", 206),
        ("GET", "Range: bytes=0-9,20-29\r\n", 206),
        ("GET", "Cache-Control: only-if-cached\r\n", 200),
        ("GET", "Authorization: Basic eDp5\r\n", 200),
        ("GET", "If-None-Match: \"e\"\r\n", 304),
        ("GET", "If-Match: \"f\"\r\n", 412),
    ] {
        let found = b.client().request(method, "/50000", lines, "");
        assert_eq!(status, found.status, "{method} {lines}");
        assert!(found.cache().ends_with("; detail=disk"), "{method} {lines}: {}", found.cache());
        if status == 200 && method == "GET" {
            assert_eq!(binary(50000), found.body);
        }
    }
    assert_eq!((1, 0), (origin.requests(), b.counter("disk_promotions")));
}

#[test]
fn a_stale_response_on_disk_is_validated_and_not_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::scripted(|it| {
        let head = "Cache-Control: max-age=60\r\nETag: \"1\"\r\n";
        let length: usize = it.target().trim_start_matches('/').parse().unwrap();
        match it.field("if-none-match") {
            Some(_) => vec![Script::Send(format!("HTTP/1.1 304 Not Modified\r\n{head}\r\n").into_bytes())],
            None => {
                let head = format!("HTTP/1.1 200 OK\r\n{head}Content-Length: {length}\r\n\r\n");
                vec![Script::Send([head.into_bytes(), binary(length)].concat())]
            }
        }
    });
    for (size, target) in [(100, "/100"), (200_000, "/200000")] {
        let folder = folder.path().join(size.to_string());
        std::fs::create_dir(&folder).unwrap();
        let a = on_disk(&origin, &folder, "");
        a.get(target);
        written(&a, 1);
        killed(a);
        let b = on_disk(&origin, &folder, "promote_after = 1000\n");
        b.advance(61);
        let found = b.get(target);
        assert!(found.cache().contains("fwd=stale; fwd-status=304"), "{target}: {}", found.cache());
        assert!(binary(size) == found.body, "{target}");
        written(&b, 1);
        let again = b.get(target);
        assert!(again.is_hit() && binary(size) == again.body, "{target}: {}", again.cache());
        killed(b);
        // What the origin said is on disk, too.
        let c = on_disk(&origin, &folder, "");
        c.advance(61);
        let found = c.get(target);
        assert!(found.is_hit() && binary(size) == found.body, "{target}: {}", found.cache());
    }
    assert_eq!(4, origin.requests());
}

#[test]
fn an_invalidated_response_is_not_restored_by_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let origin = Origin::new(|it| match it.line().starts_with("POST") {
        true => "HTTP/1.1 200 OK\n\ndone".to_owned(),
        false => format!("HTTP/1.1 200 OK\nCache-Control: max-age=600\n\nanswer {}", it.number),
    });
    let a = on_disk(&origin, folder.path(), "");
    a.get("/");
    written(&a, 1);
    assert_eq!(200, a.client().request("POST", "/", "", "x").status);
    // It is answered: nothing more is waited for.
    killed(a);
    let b = on_disk(&origin, folder.path(), "");
    assert_eq!("answer 2", b.get("/").text());
}

#[test]
fn a_response_invalidated_behind_queued_writes_is_not_restored_after_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let origin = of_size();
    let a = on_disk(&origin, folder.path(), "");
    let mut client = a.client();
    client.get("/5000");
    written(&a, 1);
    // Written at their own speed, behind the answers.
    for it in 0..40 {
        client.get(&format!("/{}", 900_000 + it));
    }
    assert_eq!(200, client.request("POST", "/5000", "", "").status);
    killed(a);
    let asked = origin.requests();
    let b = on_disk(&origin, folder.path(), "");
    assert_eq!(binary(5000), b.get("/5000").body);
    assert_eq!(asked + 1, origin.requests(), "the page came back from the disk");
}

#[test]
fn a_directory_that_vanishes_fails_no_request() {
    let folder = tempfile::tempdir().unwrap();
    let origin = of_size();
    let a = on_disk(&origin, folder.path(), "");
    for at in 0..20 {
        assert_eq!(200, a.get(&format!("/{}", 20_000 + at)).status);
    }
    std::fs::remove_dir_all(folder.path().join("disk")).unwrap();
    for at in 0..40 {
        let length = 20_000 + at;
        let found = a.get(&format!("/{length}"));
        assert!(found.status == 200 && found.body == binary(length));
    }
}

/// An origin whose page `/N/how` has N bytes: with their length, in chunks, or cut off before their end.
fn of_large() -> Origin {
    Origin::scripted(|request| {
        let mut parts = request.target().trim_start_matches('/').split('/');
        let length: usize = parts.next().and_then(|it| it.parse().ok()).unwrap_or(0);
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nCache-Control: max-age=600\r\n\
                    ETag: \"e\"\r\n";
        let bytes = binary(length);
        match parts.next() {
            Some("chunks") => {
                let mut out = format!("{head}Transfer-Encoding: chunked\r\n\r\n").into_bytes();
                for piece in bytes.chunks(100_000) {
                    out.extend_from_slice(format!("{:x}\r\n", piece.len()).as_bytes());
                    out.extend_from_slice(piece);
                    out.extend_from_slice(b"\r\n");
                }
                out.extend_from_slice(b"0\r\n\r\n");
                vec![Script::Send(out)]
            }
            Some("cut") => {
                let head = format!("{head}Content-Length: {length}\r\n\r\n").into_bytes();
                vec![Script::Send([head, bytes[..length - 1].to_vec()].concat()), Script::Close]
            }
            _ => {
                let head = format!("{head}Content-Length: {length}\r\n\r\n").into_bytes();
                vec![Script::Send([head, bytes].concat())]
            }
        }
    })
}

/// A larder whose RAM holds bodies of a mebibyte, and its disk of eight.
fn small_ram(origin: &Origin, folder: &std::path::Path) -> Larder {
    let path = folder.join("disk");
    let top = format!(
        "cache.ram.size = \"4MiB\"\n[cache.disk]\npath = {path:?}\nsize = \"64MiB\"\nsegment_size = \"8MiB\"\n"
    );
    Larder::before_with(origin, "", &top)
}

#[test]
fn a_response_too_large_for_ram_is_a_disk_hit_also_after_a_kill() {
    let (folder, origin) = (tempfile::tempdir().unwrap(), of_large());
    let a = small_ram(&origin, folder.path());
    let targets = ["/3000000/whole", "/3000000/chunks"];
    for (at, target) in targets.into_iter().enumerate() {
        let first = a.get(target);
        assert!(
            binary(3_000_000) == first.body && first.cache().contains("fwd=uri-miss"),
            "{}",
            first.cache()
        );
        written(&a, at as u64 + 1);
        // However often it is used it stays where it is.
        for _ in 0..4 {
            assert!(binary(3_000_000) == from_disk(&a, target).body, "{target}");
        }
        let part = a.client().request("GET", target, "Range: bytes=2999990-2999999\r\n", "");
        assert_eq!((206, &binary(3_000_000)[2_999_990..]), (part.status, &part.body[..]));
    }
    let late = a.counter("disk_slow");
    let written = a.counter("disk_large_writes");
    assert!((written == 2 || late > 0) && a.counter("disk_promotions") == 0, "{written} {late}");
    killed(a);
    let b = small_ram(&origin, folder.path());
    for target in targets {
        assert!(binary(3_000_000) == from_disk(&b, target).body, "{target}");
    }
    let late = late + b.counter("disk_slow");
    assert!(origin.requests() == 2 || late > 0, "{}", origin.requests());
}

/// A hit of the disk tier. A read of megabytes that takes more than a second, as on a busy machine, is abandoned and counted; the
/// origin answers, and until its response is written the next request misses as well.
fn from_disk(node: &Larder, target: &str) -> Response {
    let mut found = None;
    until("a read is in time", || {
        let response = node.get(target);
        let is_hit = response.cache().ends_with("; detail=disk");
        assert!(is_hit || node.counter("disk_slow") > 0, "{target}: {}", response.cache());
        found = is_hit.then_some(response);
        is_hit
    });
    found.unwrap()
}

#[test]
fn a_truncated_or_removed_response_too_large_for_ram_is_not_kept() {
    let (folder, origin) = (tempfile::tempdir().unwrap(), of_large());
    let a = small_ram(&origin, folder.path());
    for asked in 1..=2 {
        assert!(!a.get("/3000000/cut").complete);
        assert_eq!(asked, origin.requests());
    }
    assert_eq!((0, 0), (a.counter("disk_large_writes"), a.counter("disk_writes")));
    a.get("/3000000/whole");
    written(&a, 1);
    assert_eq!(200, a.client().request("POST", "/3000000/whole", "", "").status);
    killed(a);
    let b = small_ram(&origin, folder.path());
    assert!(b.get("/3000000/whole").cache().contains("fwd=uri-miss"), "it was removed");
    // Twice cut, once whole, the POST, and now.
    assert_eq!(5, origin.requests());
}

#[test]
fn a_purge_of_all_responses_resets_the_count_of_the_disk() {
    let origin = of_size();
    let folder = tempfile::tempdir().unwrap();
    let node = on_disk(&origin, folder.path(), "");
    for target in ["/1", "/1000", "/100000"] {
        node.get(target);
    }
    written(&node, 3);
    let kept = || {
        let stats: serde_json::Value = serde_json::from_str(&node.admin_get("/cache/stats").text()).unwrap();
        let disk = stats["tiers"].as_array().unwrap().iter().find(|it| it["name"] == "disk").unwrap().clone();
        disk["objects"].as_u64().unwrap()
    };
    assert_eq!(3, kept());
    assert_eq!(200, node.admin_post("/cache/purge", "{\"all\": true, \"soft\": true}").status);
    assert_eq!(3, kept(), "it is validated before it is used");
    assert_eq!(200, node.admin_post("/cache/purge", "{\"all\": true}").status);
    assert_eq!(0, kept());
    assert!(!node.get("/1000").is_hit());
    written(&node, 4);
    assert_eq!(1, kept());
}

/// What ends a start is found by `check`, in the same words; which makes nothing.
#[test]
fn an_unusable_disk_directory_is_reported_by_check_and_by_run() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    std::fs::write(at("file"), "").unwrap();
    std::fs::create_dir(at("full")).unwrap();
    std::fs::write(at("full/letter"), "").unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
    let check = |path: &str, expect: &str| {
        let text = format!(
            "listen = \"127.0.0.1:0\"\n[cache.disk]\npath = {:?}\n[admin]\nenabled = false\n[[site]]\nhosts = \"*\"\nroute = [{{ proxy = {{ to = \":1\" }} }}]\n",
            at(path)
        );
        std::fs::write(at("larder.toml"), text).unwrap();
        let expect = format!("larder.toml:3: cache.disk.path: {}{expect}", at(path).display());
        for verb in ["check", "run"] {
            let ended = command::run(folder.path(), &[verb]);
            assert!(ended.code == 2 && ended.err.contains(&expect), "{verb} {path}: {ended:?}");
        }
    };
    check("no/such", " cannot be created: the parent directory does not exist");
    check("file/beneath", " is not a directory, or is below a path that is not a directory");
    check("file", ": is not a directory; use a directory, or a path that can be created");
    check("link", " is a dangling symbolic link");
    check("full", " contains other files (letter) and is not a disk tier: use an empty directory");
    std::fs::create_dir(at("empty")).unwrap();
    for fair in ["new", "empty"] {
        let text = std::fs::read_to_string(at("larder.toml")).unwrap();
        let text = text.replace(&format!("{:?}", at("full")), &format!("{:?}", at(fair)));
        std::fs::write(at("fair.toml"), text).unwrap();
        let ended = command::run(folder.path(), &["check", "-c", "fair.toml"]);
        assert!(ended.code == 0 && ended.err.is_empty(), "{ended:?}");
    }
    assert!(!at("new").exists());
}

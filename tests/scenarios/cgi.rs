//! CGI programs: their paths, their environment, their output whole and cut, their processes, and their redirects within the server.

mod beside;
mod cgit;
mod clients;
mod local_redirects;

use crate::harness::server::Setup;
use crate::harness::{Client, Larder, Response, until};
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// A larder with a directory of programs.
struct Programs {
    larder: Larder,
    /// The directory, below which `bin` has the programs.
    folder: tempfile::TempDir,
}

/// Writes an executable file. Another process writes it: a process that this one forks at the same time would have it open for
/// writing, and it could not be executed.
pub(super) fn program(path: &Path, text: &str) {
    let mut shell = Command::new("sh")
        .args(["-c", "cat > \"$1\" && chmod 755 \"$1\"", "sh"])
        .arg(path)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    shell.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    assert!(shell.wait().unwrap().success());
}

impl Programs {
    /// larder with these programs, by their name and the text of their shell script.
    fn new(keys: &str, scripts: &[(&str, &str)]) -> Self {
        Self::with("", keys, scripts)
    }

    fn with(more: &str, keys: &str, scripts: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("bin")).unwrap();
        for (name, text) in scripts {
            program(&folder.path().join("bin").join(name), &format!("#!/bin/sh\n{text}"));
        }
        let at = folder.path().display();
        let config = format!(
            "listen = [\"127.0.0.1:0\"]\nworkers = 2\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/cgi-bin/*\"\n\
             cgi = {{ root = \"{at}/bin\", env = {{ FOLDER = \"{at}\" }}{keys} }}\n{more}\n"
        );
        let larder = Larder::start(Setup { config, env: vec![("LARDER_SECRET".to_owned(), "s".to_owned())] });
        Self { larder, folder }
    }

    fn get(&self, target: &str) -> Response {
        self.larder.get(target)
    }

    /// The content of a file that a program has written, once it is whole.
    fn note(&self, name: &str) -> String {
        let path = self.folder.path().join(name);
        let read = || std::fs::read_to_string(&path).unwrap_or_default();
        until("the program has written its note", || read().ends_with('\n'));
        read().trim().to_owned()
    }
}

fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|it| !it.1.starts_with('Z'))
}

/// The children of a process, zombies included.
fn children(parent: u32) -> usize {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let is_child = |it: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(it.path().join("stat")).ok()?;
        let of = stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok()?;
        (of == parent).then_some(())
    };
    all.filter_map(is_child).count()
}

#[test]
fn a_program_gets_the_variables_of_the_request_and_nothing_of_larder() {
    let it = Programs::new(
        ", pass_env = \"TZ\"",
        &[("show", "printf 'Content-Type: text/plain\\n\\n'; pwd; exec env")],
    );
    let mut client = it.larder.client();
    client.send(
        "GET /cgi-bin/show/a%20b/c%00d?x=%31 HTTP/1.1\r\nHost: example.com:81\r\nX-A: 1\r\nProxy: http://evil\r\nRemote_User: root\r\n\r\n",
    );
    let answer = client.read();
    assert_eq!((200, Some("text/plain")), (answer.status, answer.field("content-type")));
    let text = answer.text();
    let (directory, variables) = text.split_once('\n').unwrap();
    let bin = it.folder.path().join("bin");
    assert_eq!(bin.canonicalize().unwrap(), Path::new(directory).canonicalize().unwrap());
    let value = |name: &str| {
        let lines = variables.lines().filter_map(|it| it.split_once('='));
        lines.filter(|it| it.0 == name).map(|it| it.1.to_owned()).next().unwrap_or("-".to_owned())
    };
    let names =
        ["GATEWAY_INTERFACE", "REQUEST_METHOD", "QUERY_STRING", "SCRIPT_NAME", "PATH_INFO", "REQUEST_URI"];
    assert_eq!(
        "CGI/1.1 | GET | x=%31 | /cgi-bin/show | /a b/c%00d | /cgi-bin/show/a%20b/c%00d?x=%31",
        names.map(value).join(" | ")
    );
    let names = [
        "HTTP_X_A",
        "HTTP_PROXY",
        "HTTP_REMOTE_USER",
        "REMOTE_ADDR",
        "SERVER_PORT",
        "PATH",
        "CONTENT_LENGTH",
    ];
    assert_eq!("1 | - | - | 127.0.0.1 | 81 | /usr/local/bin:/usr/bin:/bin | -", names.map(value).join(" | "));
    assert_eq!(it.folder.path().to_string_lossy(), value("FOLDER"));
    assert_eq!(bin.canonicalize().unwrap().join("show").to_string_lossy(), value("SCRIPT_FILENAME"));
    assert!(!variables.contains("LARDER"), "{variables}");
}

/// A program that wants more memory does not get it, and one that computes for longer is ended, with the reason in the log.
#[test]
fn memory_and_processor_time_are_bounded() {
    let it = Programs::new(
        ", memory = \"512MiB\", cpu = \"1s\", timeout = \"10m\"",
        &[("busy", "while :; do :; done"), ("quick", "printf 'X: 1\\n\\nquick'")],
    );
    // The bound is set once the process runs.
    let hungry = "#!/usr/bin/python3\nimport resource\nwhile resource.getrlimit(resource.RLIMIT_AS)[0] < 0: pass\n\
                  print('X: 1\\n')\ntry:\n    bytearray(1 << 30)\n    print('has it')\nexcept MemoryError:\n    print('refused')\n";
    program(&it.folder.path().join("bin/hungry"), hungry);
    assert_eq!("refused\n", it.get("/cgi-bin/hungry").text());
    assert_eq!(502, it.get("/cgi-bin/busy").status);
    assert_eq!("quick", it.get("/cgi-bin/quick").text());
}

#[test]
fn a_program_has_three_descriptors_and_no_signal_is_blocked_or_ignored() {
    let it = Programs::new(
        ", files = 77",
        &[
            ("signals", "printf 'X: 1\\n\\n'; exec grep -E '^(SigBlk|SigIgn):' /proc/self/status"),
            ("limit", "printf 'X: 1\\n\\n'; sleep 0.2; ulimit -n"),
            ("arguments", "printf 'X: 1\\n\\n%s' $#"),
        ],
    );
    // A shell has its script open. The fourth is that of the list itself.
    let list = "#!/usr/bin/python3\nimport os\nprint('X: 1\\n\\n' + ' '.join(sorted(os.listdir('/proc/self/fd'))))\n";
    program(&it.folder.path().join("bin/fds"), list);
    assert_eq!("0 1 2 3\n", it.get("/cgi-bin/fds").text());
    let signals = it.get("/cgi-bin/signals").text();
    let sets: Vec<u64> =
        signals.split_whitespace().filter_map(|it| u64::from_str_radix(it, 16).ok()).collect();
    // The two signals that the C library has for itself are ignored in every process that it spawns, and a shell that starts a
    // command in the background ignores more, for all its descendants.
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let inherited = status.lines().find_map(|it| it.strip_prefix("SigIgn:")).unwrap().trim();
    let own = 1 << 31 | 1 << 32 | u64::from_str_radix(inherited, 16).unwrap();
    assert_eq!(vec![0, 0], sets.iter().map(|it| it & !own).collect::<Vec<u64>>(), "{signals}");
    assert_eq!("77\n", it.get("/cgi-bin/limit").text());
    // CVE-2012-1823: a query without `=` became arguments.
    assert_eq!("0", it.get("/cgi-bin/arguments?-s+-d+a").text());
}

#[test]
fn paths_that_name_a_program_and_paths_that_do_not() {
    let name = "printf 'X: 1\\n\\n%s %s' \"$SCRIPT_NAME\" \"$PATH_INFO\"";
    let it = Programs::new("", &[("a.cgi", name), (".hidden", name), ("a b", name)]);
    let bin = it.folder.path().join("bin");
    std::fs::create_dir_all(bin.join("sub/deep")).unwrap();
    program(&bin.join("sub/deep/b"), &format!("#!/bin/sh\n{name}"));
    program(&it.folder.path().join("outside"), &format!("#!/bin/sh\n{name}"));
    std::fs::write(bin.join("text"), "secret source").unwrap();
    program(&bin.join("sub/.draft"), &format!("#!/bin/sh\n{name}"));
    let links = [
        ("../outside", "out"),
        ("..", "up"),
        ("/bin/sh", "shell"),
        ("a.cgi", "in"),
        ("a.cgi/", "slash"),
        ("loop", "loop"),
        (".hidden", "shown"),
        ("deep/../.draft", "sub/draft"),
        ("sub/draft", "twice"),
        ("sub/deep", ".current"),
        (".current", "current"),
    ];
    for (to, name) in links {
        std::os::unix::fs::symlink(to, bin.join(name)).unwrap();
    }
    let pages = [
        ("/cgi-bin/a.cgi", "/cgi-bin/a.cgi "),
        ("/cgi-bin/a.cgi/", "/cgi-bin/a.cgi /"),
        ("/cgi-bin/a.cgi/x/y?z", "/cgi-bin/a.cgi /x/y"),
        ("/cgi-bin/sub/deep/b/x", "/cgi-bin/sub/deep/b /x"),
        ("/cgi-bin/a%20b", "/cgi-bin/a b "),
        ("/cgi-bin/%61.cgi/%0a", "/cgi-bin/a.cgi /%0A"),
        ("/cgi-bin/in", "/cgi-bin/in "),
        ("/cgi-bin/current/b", "/cgi-bin/current/b "),
        ("/cgi-bin/sub/../a.cgi", "/cgi-bin/a.cgi "),
        ("/cgi-bin//a.cgi", "/cgi-bin/a.cgi "),
    ];
    for (target, page) in pages {
        let answer = it.get(target);
        assert_eq!((200, page), (answer.status, &*answer.text()), "{target}");
    }
    let wrong = [
        ("/cgi-bin/", 404),
        ("/cgi-bin/none", 404),
        ("/cgi-bin/sub", 404),
        ("/cgi-bin/sub/", 404),
        ("/cgi-bin/text", 404),
        ("/cgi-bin/text/a.cgi", 404),
        ("/cgi-bin/out", 404),
        ("/cgi-bin/up/outside", 404),
        ("/cgi-bin/shell", 404),
        ("/cgi-bin/slash", 404),
        ("/cgi-bin/loop", 404),
        // The file at the end of a link is judged by its own name, as a file that is sent is.
        ("/cgi-bin/shown", 404),
        ("/cgi-bin/sub/draft", 404),
        ("/cgi-bin/twice/x", 404),
        ("/cgi-bin/.hidden", 404),
        ("/cgi-bin/a.cgi%00", 404),
        ("/cgi-bin/a.cgi%0a", 404),
        ("/cgi-bin/..%2foutside", 404),
        ("/cgi-bin/%2e%2e/outside", 404),
        ("/outside", 404),
    ];
    for (target, status) in wrong {
        let answer = it.get(target);
        assert_eq!(status, answer.status, "{target}");
        assert!(!answer.text().contains("secret"), "{target}");
    }
}

/// The program that was found runs, not the one to which a link leads a moment later.
#[test]
fn a_link_that_is_replaced_meanwhile_runs_nothing_outside() {
    let it = Programs::new("", &[]);
    let bin = it.folder.path().join("bin");
    for (directory, says) in [(bin.join("in"), "inside"), (it.folder.path().join("out"), "outside")] {
        std::fs::create_dir(&directory).unwrap();
        program(&directory.join("p"), &format!("#!/bin/sh\nprintf 'X: 1\\n\\n{says}'"));
    }
    let lead = |to: &str| {
        let new = bin.join("new");
        std::os::unix::fs::symlink(to, &new).unwrap();
        std::fs::rename(&new, bin.join("current")).unwrap();
    };
    lead("in");
    assert_eq!("inside", it.get("/cgi-bin/current/p").text());
    let ends = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !ends.load(std::sync::atomic::Ordering::Relaxed) {
                lead("../out");
                lead("in");
            }
        });
        let pages: Vec<String> = (0..300).map(|_| it.get("/cgi-bin/current/p").text()).collect();
        ends.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(0, pages.iter().filter(|it| *it == "outside").count());
    });
}

/// By the paths that CGI programs use: `$0`, their working directory, `SCRIPT_FILENAME`.
#[test]
fn programs_behind_links_find_the_files_of_their_directory() {
    let library = ". \"$(dirname \"$0\")/lib.sh\"; . ./lib.sh; . \"$(dirname \"$SCRIPT_FILENAME\")/lib.sh\"";
    let it = Programs::new("", &[]);
    let release = it.folder.path().join("bin/.releases/5");
    std::fs::create_dir_all(&release).unwrap();
    std::fs::write(release.join("lib.sh"), "cd /tmp; cd - >/dev/null; found=$found+").unwrap();
    std::fs::write(release.join("lib.py"), "found = 'found'").unwrap();
    std::fs::write(release.join("Lib.pm"), "package Lib; sub found { 'found' } 1;").unwrap();
    let page = "printf 'X: 1\\n\\n%s %s' \"$found\" \"$SCRIPT_NAME\"";
    program(&release.join("a.sh"), &format!("#!/bin/sh\n{library}\n{page}\n"));
    program(
        &release.join("a.py"),
        "#!/usr/bin/python3\nimport os; os.chdir('/')\nimport lib\nprint('X: 1\\n\\n' + lib.found, end='')\n",
    );
    program(
        &release.join("a.pl"),
        "#!/usr/bin/perl\nuse FindBin; use lib $FindBin::RealBin; use Lib;\nprint \"X: 1\\n\\n\", Lib::found();\n",
    );
    let bin = it.folder.path().join("bin");
    std::os::unix::fs::symlink(".releases/5", bin.join("current")).unwrap();
    std::os::unix::fs::symlink("current/a.sh", bin.join("b.sh")).unwrap();
    for (path, expect) in [
        ("/cgi-bin/current/a.sh", "+++ /cgi-bin/current/a.sh"),
        ("/cgi-bin/b.sh", "+++ /cgi-bin/b.sh"),
        ("/cgi-bin/current/a.py", "found"),
        ("/cgi-bin/current/a.pl", "found"),
    ] {
        assert_eq!(expect, it.get(path).text(), "{path}");
    }
}

#[test]
fn bodies_of_requests() {
    let it = Programs::new(
        "",
        &[
            ("echo", "printf 'Content-Type: text/plain\\n\\n%s ' \"$CONTENT_LENGTH\"; exec cat"),
            ("deaf", "printf 'X: 1\\n\\nnot read'"),
            ("late", "printf 'X: 1\\n\\n'; head -c 5; printf ' and no more'"),
        ],
    );
    let sized = |name: &str, body: &str| {
        let mut client = it.larder.client();
        client.send(format!(
            "POST /cgi-bin/{name} HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        let answer = client.read();
        (answer.status, answer.text())
    };
    assert_eq!((200, "5 hello".to_owned()), sized("echo", "hello"));
    assert_eq!((200, " ".to_owned()), (200, it.get("/cgi-bin/echo").text()), "no body is the end at once");
    let long = "x".repeat(1_000_000);
    assert_eq!((200, format!("1000000 {long}")), sized("echo", &long));
    assert_eq!((200, "not read".to_owned()), sized("deaf", &long));
    assert_eq!((200, "xxxxx and no more".to_owned()), sized("late", &long));
    let mut client = it.larder.client();
    client.send("POST /cgi-bin/echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n");
    assert_eq!("5 hello", client.read().text());
}

#[test]
fn heads_of_responses() {
    let it = Programs::new(
        "",
        &[
            ("status", "printf 'Status: 418 Teapot\\nX-B: 2\\n\\nshort and stout'"),
            ("away", "printf 'Location: https://example.com/b\\n\\n'"),
            ("cookie", "printf 'Location: /cgi-bin/status\\nSet-Cookie: a=b\\n\\n'"),
            ("network", "printf 'Location: //example.com/\\n\\n'"),
            ("failed", "printf 'X: 1\\n\\nwhole'; exit 3"),
            ("length", "printf 'Content-Length: 5\\n\\nhello'"),
        ],
    );
    let answer = it.get("/cgi-bin/status");
    assert_eq!((418, Some("2"), "short and stout"), (answer.status, answer.field("x-b"), &*answer.text()));
    let elsewhere =
        [("away", "https://example.com/b"), ("cookie", "/cgi-bin/status"), ("network", "//example.com/")];
    for (name, to) in elsewhere {
        let answer = it.get(&format!("/cgi-bin/{name}"));
        assert_eq!((302, Some(to)), (answer.status, answer.field("location")), "{name}");
    }
    assert_eq!("whole", it.get("/cgi-bin/failed").text(), "CGI has no meaning for an exit status");
    let mut client = it.larder.client();
    client.send("HEAD /cgi-bin/length HTTP/1.1\r\nHost: a\r\n\r\n");
    assert_eq!(Some("5"), client.read_for("HEAD").field("content-length"));
    assert_eq!("hello", client.get("/cgi-bin/length").text());
}

#[test]
fn outputs_that_are_no_response_are_502() {
    let it = Programs::new(
        "",
        &[
            ("nothing", "exit 0"),
            ("text", "echo hello"),
            ("headless", "printf 'X: 1\\n'"),
            ("long", "printf 'X: '; exec head -c 100000 /dev/zero"),
            ("killed", "printf 'X: 1\\n'; kill -9 $$"),
            ("more", "printf 'Status: 99\\n\\n'"),
            ("coded", "printf 'Transfer-Encoding: chunked\\n\\n0\\r\\n\\r\\n'"),
        ],
    );
    program(&it.folder.path().join("bin/no_interpreter"), "#!/no/such/interpreter\n");
    program(&it.folder.path().join("bin/no_program"), "hello");
    let names =
        ["nothing", "text", "headless", "long", "killed", "more", "coded", "no_interpreter", "no_program"];
    for name in names {
        assert_eq!(502, it.get(&format!("/cgi-bin/{name}")).status, "{name}");
    }
}

/// A response that a signal cut is visibly cut for its client, and not stored.
#[test]
fn a_response_whose_program_was_killed_is_not_stored() {
    let it = Programs::with(
        "",
        "",
        &[(
            "cut",
            "echo >> \"$FOLDER/runs\"\nprintf 'Cache-Control: max-age=60\\n\\npart'\n[ $(wc -l < \"$FOLDER/runs\") = 2 ] || kill -9 $$",
        )],
    );
    let mut client = it.larder.client();
    client.send("GET /cgi-bin/cut HTTP/1.1\r\nHost: a\r\n\r\n");
    client.read_raw_head();
    let mut parts = Vec::new();
    while let Some(part) = client.read_chunk() {
        parts.extend(part);
    }
    assert_eq!("part", String::from_utf8_lossy(&parts));
    let second = it.get("/cgi-bin/cut");
    assert_eq!((false, "part"), (second.is_hit(), &*second.text()));
    assert!(it.get("/cgi-bin/cut").is_hit(), "the whole one is stored as any page");
    assert_eq!(2, std::fs::read_to_string(it.folder.path().join("runs")).unwrap().len());
}

#[test]
fn error_output_is_logged() {
    let it = Programs::with(
        "[log]\naccess = \"off\"\nerror = \"error.log\"",
        "",
        &[
            ("warns", "echo 'careful: x' >&2; printf 'X: 1\\n\\npage'"),
            ("dies", "echo 'no module' >&2; exit 2"),
            ("killed", "kill -9 $$"),
        ],
    );
    assert_eq!("page", it.get("/cgi-bin/warns").text());
    let log = || std::fs::read_to_string(it.larder.folder.path().join("error.log")).unwrap_or_default();
    until("the error output is logged", || log().contains("text=\"careful: x\""));
    assert_eq!(502, it.get("/cgi-bin/dies").status);
    let why = "the program dies ended with status 2 before its response was complete";
    until("the program and its status are logged", || log().contains(why));
    let why = "the program killed was ended by signal 9 before its response was complete";
    // Failures of an origin that follow one another within a second are one line.
    until("the program and its signal are logged", || {
        assert_eq!(502, it.get("/cgi-bin/killed").status);
        log().contains(why)
    });
}

/// Four processes at a time in both workers, however many requests come; every request is answered.
#[test]
fn the_number_of_processes_is_bounded() {
    let it = Programs::with(
        "cache = { enabled = false }",
        ", max_processes = 4, queue = 400, queue_timeout = \"60s\"",
        &[(
            "count",
            "mkdir -p \"$FOLDER/now/$$\"; n=$(ls \"$FOLDER/now\" | wc -l); sleep 0.02; rmdir \"$FOLDER/now/$$\"; printf 'X: 1\\n\\n%s' $n",
        )],
    );
    let mut clients: Vec<Client> = (0..200).map(|_| it.larder.client()).collect();
    for client in &mut clients {
        client.send("GET /cgi-bin/count HTTP/1.1\r\nHost: a\r\n\r\n");
    }
    let counts: Vec<usize> = clients
        .iter_mut()
        .map(|it| {
            let answer = it.read();
            assert_eq!(200, answer.status, "{}", answer.text());
            answer.text().trim().parse().unwrap()
        })
        .collect();
    assert!(counts.iter().all(|it| (1..=4).contains(it)), "{counts:?}");
    until("no process is left, not even a zombie", || children(it.larder.child.id()) == 0);
}

#[test]
fn a_request_that_finds_no_free_process_in_time_is_503() {
    let it = Programs::with(
        "cache = { enabled = false }",
        ", max_processes = 1, queue_timeout = \"200ms\"",
        &[
            ("slow", "echo $$ > \"$FOLDER/pid\"; printf 'X: 1\\n\\n'; exec sleep 1000"),
            ("fast", "printf 'X: 1\\n\\nfast'"),
        ],
    );
    let mut client = it.larder.client();
    client.send("GET /cgi-bin/slow HTTP/1.1\r\nHost: a\r\n\r\n");
    let pid = it.note("pid");
    assert_eq!(503, it.get("/cgi-bin/fast").status);
    drop(client);
    // Of either worker: a request that waits takes the place of a client that may be gone.
    until("the place of a client that left is free", || it.get("/cgi-bin/fast").status == 200);
    until("its program is ended", || !is_running(&pid));
}

/// Programs that ignore SIGTERM, and those that they started, end as well.
#[test]
fn a_program_that_is_silent_for_too_long_is_killed_with_its_group() {
    let it = Programs::with(
        "cache = { enabled = false }",
        ", timeout = \"3s\"",
        &[(
            "stubborn",
            "trap '' TERM; sleep 1000 & echo $! > \"$FOLDER/child\"; echo $$ > \"$FOLDER/pid\"; while :; do sleep 1; done",
        )],
    );
    assert_eq!(504, it.get("/cgi-bin/stubborn").status);
    let (pid, child) = (it.note("pid"), it.note("child"));
    until("it is killed", || !is_running(&pid) && !is_running(&child));
    until("it is reaped", || children(it.larder.child.id()) == 0);
}

#[test]
fn a_program_that_writes_for_ever_ends_at_its_deadline() {
    let it = Programs::with(
        "cache = { enabled = false }",
        ", total_timeout = \"3s\"",
        &[("forever", "echo $$ > \"$FOLDER/pid\"; printf 'X: 1\\n\\n'; exec cat /dev/zero")],
    );
    let mut client = it.larder.client();
    client.send("GET /cgi-bin/forever HTTP/1.1\r\nHost: a\r\n\r\n");
    client.read_raw_head();
    while client.read_chunk().is_some() {}
    let pid = it.note("pid");
    until("it is ended", || !is_running(&pid));
}

/// The page of a program is whole although a process that it left behind holds its output open; that process is not ended.
#[test]
fn a_process_that_a_program_left_behind_holds_up_no_page() {
    let it = Programs::new(
        "",
        &[("starter", "sleep 1000 & echo $! > \"$FOLDER/child\"; printf 'X: 1\\n\\nstarted'")],
    );
    assert_eq!("started", it.get("/cgi-bin/starter").text());
    let child = it.note("child");
    until("the program is reaped", || children(it.larder.child.id()) == 0);
    assert!(is_running(&child));
    // SAFETY: kill takes no pointers; the process was started by this scenario's program and runs.
    unsafe { libc::kill(child.parse().unwrap(), libc::SIGKILL) };
}

/// A program may go on after its output. It occupies its place until it ends.
#[test]
fn a_program_may_run_on_after_its_page() {
    let it = Programs::with(
        "cache = { enabled = false }",
        ", max_processes = 1",
        &[
            (
                "works",
                "printf 'X: 1\\n\\npage'; exec >&- 2>&-; echo $$ > \"$FOLDER/pid\"; while ! [ -e \"$FOLDER/go\" ]; do sleep 0.02; done; echo done > \"$FOLDER/end\"",
            ),
            ("fast", "printf 'X: 1\\n\\n'; cat \"$FOLDER/end\""),
        ],
    );
    assert_eq!("page", it.get("/cgi-bin/works").text());
    assert!(is_running(&it.note("pid")));
    let mut client = it.larder.client();
    client.send("GET /cgi-bin/fast HTTP/1.1\r\nHost: a\r\n\r\n");
    std::fs::write(it.folder.path().join("go"), "").unwrap();
    assert_eq!("done\n", client.read().text());
}

#[test]
fn a_reload_and_a_stop_while_programs_run() {
    let wait = "echo $$ > \"$FOLDER/pid\"; while ! [ -e \"$FOLDER/go\" ]; do sleep 0.02; done; printf 'X: 1\\n\\n%s' \"$NAME\"";
    let mut it = Programs::with("cache = { enabled = false }", "", &[("wait", wait)]);
    let mut client = it.larder.client();
    client.send("GET /cgi-bin/wait HTTP/1.1\r\nHost: a\r\n\r\n");
    it.note("pid");
    let config = std::fs::read_to_string(it.larder.config()).unwrap();
    std::fs::write(it.larder.config(), config.replace("env = { ", "env = { NAME = \"new\", ")).unwrap();
    it.larder.signal(libc::SIGHUP);
    let go = it.folder.path().join("go");
    until("the reload is in force", || {
        std::fs::write(&go, "").unwrap();
        it.get("/cgi-bin/wait").text() == "new"
    });
    assert_eq!("", client.read().text(), "it was started before");
    // A request in progress is finished, and then larder ends.
    for name in ["go", "pid"] {
        std::fs::remove_file(it.folder.path().join(name)).unwrap();
    }
    let mut client = it.larder.client();
    client.send("GET /cgi-bin/wait HTTP/1.1\r\nHost: a\r\n\r\n");
    it.note("pid");
    it.larder.signal(libc::SIGTERM);
    std::fs::write(&go, "").unwrap();
    assert_eq!("new", client.read().text());
    assert!(it.larder.child.wait().unwrap().success());
}

#[test]
fn one_program_for_all_paths_of_a_route() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("app.py");
    program(
        &file,
        "#!/usr/bin/python3\nimport os, sys\nsys.stdout.write('Content-Type: text/plain\\r\\nCache-Control: max-age=60\\r\\n\\r\\n')\n\
         print(os.environ['SCRIPT_NAME'], os.environ.get('PATH_INFO'), os.environ['SCRIPT_FILENAME'], os.getcwd())\n",
    );
    let larder = Larder::configured(format!(
        "listen = [\"127.0.0.1:0\"]\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/app/*\"\n\
         cgi = {{ program = \"{}\" }}\n",
        file.display()
    ));
    let here = folder.path().canonicalize().unwrap();
    let expect = format!("/app /x/y {} {}\n", file.display(), here.display());
    assert_eq!(expect, larder.get("/app/x/y").text());
    assert!(larder.get("/app/x/y").is_hit());
    let before = larder.counter("origin_requests");
    assert!(larder.get("/app/").text().starts_with("/app / "));
    assert_eq!(before + 1, larder.counter("origin_requests"));
}

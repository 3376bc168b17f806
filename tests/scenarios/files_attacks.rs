//! Statement 16, through the binary: the effects of a request on a directory, and of a directory's content on a response.

use crate::harness::server::{Setup, binary};
use crate::harness::{Client, Larder, Response, until};
use crate::scenarios::sandbox::without_call;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

const SECRET: &str = "nobody may read this";

/// Ways out of a directory, to what is hidden in it, and to what is no file.
pub const TARGETS: &[&str] = &[
    "/../secret.txt",
    "/../../../../../../../../etc/passwd",
    "/folder/../../secret.txt",
    "/./../secret.txt",
    "/%2e%2e/secret.txt",
    "/%2e%2e%2fsecret.txt",
    "/..%2fsecret.txt",
    "/..%2Fsecret.txt",
    "/%2E%2E/secret.txt",
    "/.%2e/secret.txt",
    "/%2e./secret.txt",
    "/folder/%2e%2e/%2e%2e/secret.txt",
    "/folder/..%2f..%2fsecret.txt",
    "/..%5csecret.txt",
    "/..\\secret.txt",
    "/%252e%252e/secret.txt",
    "/%252e%252e%252fsecret.txt",
    "/..%252fsecret.txt",
    "/..%c0%afsecret.txt",
    "/%c0%ae%c0%ae/secret.txt",
    "/..%ef%bc%8fsecret.txt",
    "/%u002e%u002e/secret.txt",
    "/..;/secret.txt",
    "/..;x/secret.txt",
    "/folder;/../../secret.txt",
    "/...//secret.txt",
    "/....//secret.txt",
    "//../secret.txt",
    "//etc/passwd",
    "///etc/passwd",
    "/%2fetc%2fpasswd",
    "/%2Fetc/passwd",
    "/a.txt/../../secret.txt",
    "/a.txt/..%2f..%2fsecret.txt",
    "/../root-beside/secret.txt",
    "/..%2froot-beside/secret.txt",
    "/-beside/secret.txt",
    "/%00/../secret.txt",
    "/a.txt%00.html",
    "/%00",
    "/..%00/secret.txt",
    "/.hidden",
    "/%2ehidden",
    "/.git/config",
    "/%2egit/config",
    "/.git%2fconfig",
    "/folder/.htaccess",
    "/folder/%2ehtaccess",
    "/./.hidden",
    "//.hidden",
    "/folder/../.hidden",
    "/out.txt",
    "/out-absolute.txt",
    "/up/secret.txt",
    "/up/root/.hidden",
    "/loop-a",
    "/loop-b/x",
    "/fifo",
    "/socket",
    "/fifo/",
    "/a.txt/",
    "/a.txt/x",
    "/../",
    "/..",
    "/.",
    "/%2e%2e",
    "/proc/self/environ",
    "/%ff%fe",
    "/%",
    "/%2",
    "/%zz",
    "/a.txt%2f",
    "/folder%2fb.txt",
];

/// A directory with everything in it that may be in the way, served; the secret is beside it.
fn serve() -> (tempfile::TempDir, Larder) {
    serve_by(Command::new(binary()))
}

/// The same by a command that runs larder.
fn serve_by(command: Command) -> (tempfile::TempDir, Larder) {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    std::fs::create_dir_all(root.join("folder/deep")).unwrap();
    std::fs::create_dir_all(root.join(".git")).unwrap();
    std::fs::create_dir_all(folder.path().join("root-beside")).unwrap();
    for (path, text) in [
        ("secret.txt", SECRET),
        ("root-beside/secret.txt", SECRET),
        ("root/.hidden", SECRET),
        ("root/.git/config", SECRET),
        ("root/a.txt", "plain"),
        ("root/folder/index.html", "index"),
        ("root/folder/.htaccess", SECRET),
        ("root/folder/b.txt", "b"),
        ("root/name with space.txt", "space"),
    ] {
        std::fs::write(folder.path().join(path), text).unwrap();
    }
    symlink("../secret.txt", root.join("out.txt")).unwrap();
    symlink(folder.path().join("secret.txt"), root.join("out-absolute.txt")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink("loop-b", root.join("loop-a")).unwrap();
    symlink("loop-a", root.join("loop-b")).unwrap();
    symlink("a.txt", root.join("in.txt")).unwrap();
    let fifo = std::ffi::CString::new(root.join("fifo").to_str().unwrap()).unwrap();
    // SAFETY: the path is a string that ends with NUL and lives through the call.
    assert_eq!(0, unsafe { libc::mkfifo(fifo.as_ptr(), 0o644) });
    drop(std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap());
    let config = format!(
        "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/*\"\nfiles = {{ root = {root:?} }}\n"
    );
    let larder = Larder::start_by(command, Setup { config, env: Vec::new() });
    (folder, larder)
}

/// Asks for exactly this target.
fn fetch(larder: &Larder, target: &str) -> Response {
    let mut client = larder.client();
    client.send(format!("GET {target} HTTP/1.1\r\nHost: h\r\n\r\n"));
    client.read()
}

#[test]
fn no_file_outside_of_the_root_is_disclosed() {
    let (_folder, larder) = serve();
    discloses_only_its_files(&larder);
}

/// As under `RestrictSUIDSGID=` of systemd, and in Linux before 5.6.
#[test]
fn no_file_outside_of_the_root_is_disclosed_where_openat2_is_refused() {
    let mut command = Command::new(binary());
    without_call(&mut command, libc::SYS_openat2);
    let (_folder, larder) = serve_by(command);
    discloses_only_its_files(&larder);
    assert_eq!("plain", fetch(&larder, "/in.txt").text(), "a link beneath the root");
}

fn discloses_only_its_files(larder: &Larder) {
    for target in TARGETS {
        let it = fetch(larder, target);
        let text = it.text();
        assert!(!text.contains(SECRET) && !text.contains("root:"), "{target}: {it:?}");
        assert!(it.complete && (300..500).contains(&it.status), "{target}: {it:?}");
        assert!(
            !text.contains("/tmp") && !text.contains("root-beside"),
            "{target}: says where it is: {it:?}"
        );
    }
    for location in [
        "//evil.example",
        "//evil.example/..",
        "/\\evil.example",
        "/%2f%2fevil.example/%2e%2e",
        "//evil.example/%2e%2e",
    ] {
        let it = fetch(larder, location);
        let to = it.field("location").unwrap_or("/");
        assert!(to.starts_with('/') && !to.starts_with("//") && !to.starts_with("/\\"), "{location}: {it:?}");
    }
    // What may be had is had, however it is spelled.
    for (target, text) in [
        ("/a.txt", "plain"),
        ("/%61.txt", "plain"),
        ("/name%20with%20space.txt", "space"),
        ("/folder/", "index"),
        ("/folder/b.txt", "b"),
    ] {
        assert_eq!(text, fetch(larder, target).text(), "{target}");
    }
}

#[test]
fn only_reading_is_allowed() {
    let (folder, larder) = serve();
    for method in ["POST", "PUT", "DELETE", "PATCH", "MKCOL", "MOVE", "PROPFIND", "FROB"] {
        let it = larder.client().request(method, "/a.txt", "Destination: /b.txt\r\n", "x");
        assert_eq!(405, it.status, "{method}: {it:?}");
        assert!(it.field("allow").is_some(), "{it:?}");
    }
    assert_eq!("plain", std::fs::read_to_string(folder.path().join("root/a.txt")).unwrap());
}

/// A file of 8 MiB whose every byte is `letter`.
fn write_large(path: &Path, letter: u8) {
    let beside = path.with_extension("new");
    std::fs::write(&beside, vec![letter; 8 << 20]).unwrap();
    std::fs::rename(beside, path).unwrap();
}

/// A client that has the head and the beginning of `/large`, and is slow with the rest.
fn half_way(larder: &Larder) -> Client {
    let client = larder.client();
    socket2::SockRef::from(&client.stream).set_recv_buffer_size(32 * 1024).unwrap();
    let mut client = client;
    client.send("GET /large HTTP/1.1\r\nHost: h\r\n\r\n");
    let start = client.read_bytes(2000);
    assert!(start.starts_with(b"HTTP/1.1 200 "));
    client
}

/// The rest of what [`half_way`] began, without its head.
fn rest(client: &mut Client) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let part = client.read_bytes(100_000);
        if part.is_empty() {
            return all;
        }
        all.extend(part);
    }
}

#[test]
fn a_file_that_changes_while_it_is_served() {
    let (folder, larder) = serve();
    let path = folder.path().join("root/large");
    // Replaced and deleted: who had begun has the old bytes, all of them.
    for change in ["rename", "delete"] {
        write_large(&path, b'a');
        until("the new one is served", || fetch(&larder, "/large").body.first() == Some(&b'a'));
        let mut clients: Vec<Client> = (0..4).map(|_| half_way(&larder)).collect();
        match change {
            "rename" => write_large(&path, b'b'),
            _ => std::fs::remove_file(&path).unwrap(),
        }
        for client in &mut clients {
            client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            let all = rest(client);
            let letters = all.iter().take_while(|it| **it == b'a').count();
            assert!(letters > (8 << 20) - 2000, "{change}: {letters}");
            assert!(all[letters..].starts_with(b"HTTP/1.1 200 ") && all.ends_with(b"plain"), "{change}");
        }
    }
    // Truncated or written to in place: cut off, so that nobody takes a mix for the file, and nothing crashes.
    for change in ["truncate", "write", "write more", "grow"] {
        let counted = larder.counter("files_changed");
        write_large(&path, b'a');
        until("the new one is served", || fetch(&larder, "/large").body.first() == Some(&b'a'));
        let mut clients: Vec<Client> = (0..4).map(|_| half_way(&larder)).collect();
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        match change {
            "truncate" => file.set_len(100).unwrap(),
            "write more" => std::io::Write::write_all(&mut &file, &vec![b'b'; 9 << 20]).unwrap(),
            "grow" => file.set_len(9 << 20).unwrap(),
            _ => std::io::Write::write_all(&mut &file, &vec![b'b'; 8 << 20]).unwrap(),
        }
        for client in &mut clients {
            if change == "grow" {
                // As a log does: what was promised is sent, and the connection goes on.
                client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
                let all = rest(client);
                let letters = all.iter().take_while(|it| **it == b'a').count();
                assert!(letters > (8 << 20) - 2000 && all.ends_with(b"plain"), "{letters}");
                continue;
            }
            let all = rest(client);
            // What the kernel held already may show the change; it never makes a whole response.
            assert!(all.len() < (8 << 20) - 2000, "{change}: {}", all.len());
        }
        assert_eq!(
            change != "grow",
            larder.counter("files_changed") > counted,
            "{change}: it is counted, and so logged"
        );
        let it = larder.client().get("/a.txt");
        assert_eq!("plain", it.text(), "{change}");
    }
}

/// A new time alone cuts no download, and neither does a recording whose header is written anew while it grows.
#[test]
fn a_file_whose_bytes_stay_while_it_is_served() {
    for change in ["touch", "record"] {
        let (folder, larder) = serve();
        let path = folder.path().join("root/large");
        write_large(&path, b'a');
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        let time = |seconds| std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        file.set_modified(time(1_000_000_000)).unwrap();
        let mut clients: Vec<Client> = (0..4).map(|_| half_way(&larder)).collect();
        match change {
            "touch" => file.set_modified(time(1_500_000_000)).unwrap(),
            _ => {
                std::os::unix::fs::FileExt::write_all_at(&file, b"RIFF", 0).unwrap();
                file.set_len(9 << 20).unwrap();
            }
        }
        for client in &mut clients {
            client.send("GET /a.txt HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
            let all = rest(client);
            let letters = all.iter().take_while(|it| **it == b'a').count();
            assert!(letters > (8 << 20) - 2000 && all.ends_with(b"plain"), "{change}: {letters}");
        }
        assert_eq!(0, larder.counter("files_changed"), "{change}");
        // Who asks now has it as it is now.
        let now = fetch(&larder, "/large");
        assert_eq!(if change == "touch" { 8 << 20 } else { 9 << 20 }, now.body.len(), "{change}");
    }
}

#[test]
fn a_directory_that_disappears() {
    let (folder, larder) = serve();
    assert_eq!("b", fetch(&larder, "/folder/b.txt").text());
    std::fs::remove_dir_all(folder.path().join("root/folder")).unwrap();
    until("it is gone", || fetch(&larder, "/folder/b.txt").status == 404);
    // A file becomes a folder, and a folder a way out.
    std::fs::remove_file(folder.path().join("root/a.txt")).unwrap();
    std::fs::create_dir(folder.path().join("root/a.txt")).unwrap();
    symlink("..", folder.path().join("root/folder")).unwrap();
    until("it is another", || fetch(&larder, "/a.txt").status != 200);
    assert!(!fetch(&larder, "/folder/secret.txt").text().contains(SECRET));
}

#[test]
fn a_file_that_is_truncated_while_it_waits_in_the_socket() {
    for length in [2_000_000, 20_000_000] {
        let (folder, larder) = serve();
        let path = folder.path().join("root/large");
        std::fs::write(&path, vec![b'A'; length]).unwrap();
        let mut client = larder.client();
        client.send("GET /large HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n");
        let head = client.read_bytes(64);
        assert!(head.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&head));
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(100).unwrap();
        let rest = rest(&mut client);
        let body = rest.windows(4).position(|it| it == b"\r\n\r\n").map_or(&rest[..], |it| &rest[it + 4..]);
        let foreign = body.iter().filter(|it| **it != b'A').count();
        assert_eq!(0, foreign, "bytes that the file never had, among {} of {length}", body.len());
    }
}

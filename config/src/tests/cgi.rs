//! The section `cgi`: its programs, the part of a path that is stripped, and mistakes.

use super::{read, refuse_whole};
use crate::{Proxy, Service};
use larder_origin::{OriginAddress, ProgramPlace, ProgramSettings};
use std::sync::Arc;

fn proxy(path: &str, keys: &str) -> (Proxy, Arc<ProgramSettings>) {
    let text = format!("[[site]]\nhosts = \"a\"\n[[site.route]]\npath = \"{path}\"\ncgi = {{ {keys} }}\n");
    let config = read(&text).unwrap();
    let Service::Proxy(proxy) = config.sites[0].routes[0].service.clone() else { panic!("proxy") };
    let OriginAddress::Programs(programs) = proxy.to.members[0].at.clone() else { panic!("programs") };
    (*proxy, programs)
}

#[track_caller]
fn refuse(keys: &str, line: u32, expect: &str) {
    let text = format!("[[site]]\nhosts = \"a\"\n[[site.route]]\n{keys}\n");
    refuse_whole(&text, &format!("t.toml:{line}: site.route.{expect}"));
}

#[test]
fn programs_of_a_directory_are_named_behind_the_directory_of_the_route() {
    let (proxy, programs) = proxy("/cgi-bin/*", "root = \"src\"");
    let ProgramPlace::Directory(root) = &programs.place else { panic!("directory") };
    assert!(root.is_absolute() && root.ends_with("src"));
    assert_eq!(format!("cgi:{}", root.display()), proxy.to.members[0].name());
    assert_eq!((16, 256), (proxy.limits.connections, proxy.limits.queue));
    assert_eq!((16, 1024, None), (programs.processes, programs.bounds.files, programs.bounds.memory));
    let strip = |path: &str, keys: &str| {
        let programs = super::cgi::proxy(path, &format!("root = \"src\"{keys}")).1;
        String::from_utf8(programs.strip.clone()).unwrap()
    };
    assert_eq!("/cgi-bin", strip("/cgi-bin/*", ""));
    assert_eq!("", strip("/*", ""));
    assert_eq!("", strip("*.cgi", ""));
    assert_eq!("", strip("/tools/*.pl", ""));
    assert_eq!("/tools", strip("/tools/*.pl", ", strip = \"/tools/\""));
}

#[test]
fn one_program() {
    // The only file that is certainly executable.
    let file = std::env::current_exe().unwrap();
    let program = format!("program = \"{}\"", file.display());
    let (_, programs) = proxy("/git/*", &program);
    assert_eq!(ProgramPlace::Program(file), programs.place);
    assert_eq!(b"/git", &programs.strip[..]);
    assert_eq!(b"/search", &proxy("/search", &program).1.strip[..]);
    let env = format!("{program}, env = {{ B = \"2\", PATH = \"/opt\" }}, pass_env = \"CARGO_MANIFEST_DIR\"");
    let (_, programs) = proxy("/*", &env);
    let names: Vec<_> = programs.env.iter().map(|it| it.0.as_str()).collect();
    assert_eq!(vec!["CARGO_MANIFEST_DIR", "B", "PATH"], names);
    assert!(!format!("{programs:?}").contains("/opt"), "a value may be a secret");
}

#[test]
fn mistakes() {
    let here = env!("CARGO_MANIFEST_DIR");
    refuse(
        "cgi = {}",
        3,
        "cgi.root: missing; set the directory of the programs, such as root = \"/usr/lib/cgi-bin\", or program = \"FILE\" for one program",
    );
    refuse(
        "cgi = { root = \"src\", program = \"a\" }",
        4,
        "cgi.program: root and program exclude each other; remove program for the programs of a directory, or root for one program",
    );
    refuse(
        "cgi = { root = \"nowhere\" }",
        4,
        &format!("cgi.root: {here}/nowhere: no such file or directory; use an existing directory"),
    );
    refuse(
        "cgi = { program = \"Cargo.toml\" }",
        4,
        &format!("cgi.program: {here}/Cargo.toml: is not executable; make it executable (chmod +x)"),
    );
    refuse(
        "cgi = { program = \"src\" }",
        4,
        &format!("cgi.program: {here}/src: is a directory; write root = in place of program ="),
    );
    refuse(
        "cgi = { root = \"src\" }\nstrip = \"/a\"",
        5,
        "strip: the path of the request names the program, and is not rewritten; write cgi.strip instead",
    );
    refuse(
        "cgi = { root = \"src\" }\nrewrite = \"/a\"",
        5,
        "rewrite: the path of the request names the program, and is not rewritten; remove it; cgi.program runs one program for all \
         paths, and query.set gives it parts of the path",
    );
    refuse(
        "path = \"/a/*\"\ncgi = { root = \"src\", strip = \"/b\" }",
        5,
        "cgi.strip: no path that matches \"/a/*\" begins with \"/b/\"; remove it, or change the path",
    );
}

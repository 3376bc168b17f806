//! The same CGI program by Apache (mod_cgi), by nginx before fcgiwrap, and by larder: the variables of the program and of the site.

use super::cgit::Fcgiwrap;
use super::program;
use crate::harness::apache::Apache;
use crate::harness::nginx::Nginx;
use crate::harness::{Client, Larder};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

const TARGETS: [&str; 4] =
    ["/cgi-bin/show", "/cgi-bin/show/", "/cgi-bin/show/a%20b/c?d=e", "/cgi-bin/show?d=/e"];

/// The variables that are compared.
const COMPARED: [&str; 9] = [
    "DOCUMENT_ROOT",
    "SCRIPT_NAME",
    "SCRIPT_FILENAME",
    "PATH_INFO",
    "PATH_TRANSLATED",
    "REQUEST_URI",
    "QUERY_STRING",
    "REQUEST_METHOD",
    "GATEWAY_INTERFACE",
];

/// The variables that a program gets; one that is empty counts as missing.
fn variables(mut client: Client, target: &str, root: &str) -> Vec<(&'static str, String)> {
    let answer = client.get(target);
    let text = answer.text();
    assert_eq!(200, answer.status, "{target}: {text}");
    let value = |name: &str| {
        let mut lines = text.lines().filter_map(|it| it.split_once('='));
        lines.find(|it| it.0 == name && !it.1.is_empty()).map_or("-", |it| it.1).replace(root, "ROOT")
    };
    COMPARED.map(|name| (name, value(name))).to_vec()
}

/// Opens the way to a folder for the user of Apache.
fn open_to_all(folder: &Path) {
    std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn programs_get_the_variables_that_apache_and_nginx_set() {
    let (site, of_nginx, of_apache) =
        (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    [&site, &of_nginx, &of_apache].into_iter().for_each(|it| open_to_all(it.path()));
    std::fs::create_dir(site.path().join("cgi-bin")).unwrap();
    open_to_all(&site.path().join("cgi-bin"));
    program(
        &site.path().join("cgi-bin/show"),
        "#!/bin/sh\nprintf 'Content-Type: text/plain\\n\\n'\nexec env\n",
    );
    let root = site.path().canonicalize().unwrap().display().to_string();
    let apache = format!(
        "DocumentRoot {root}\nScriptAlias /cgi-bin/ {root}/cgi-bin/\n<Directory {root}>\nRequire all granted\n</Directory>"
    );
    let apache = Apache::start(of_apache.path(), &["alias", "cgi"], &apache);
    let socket = of_nginx.path().join("fcgiwrap.sock");
    let _fcgiwrap = Fcgiwrap::start(&socket);
    let nginx = format!(
        "server {{ listen LISTEN; root {root}; location /cgi-bin/ {{ include /etc/nginx/fastcgi_params;\n\
         fastcgi_split_path_info ^(/cgi-bin/[^/]+)(/.*)?$; fastcgi_param PATH_INFO $fastcgi_path_info;\n\
         fastcgi_param SCRIPT_FILENAME $document_root$fastcgi_script_name; fastcgi_pass unix:{}; }} }}",
        socket.display()
    );
    let nginx = Nginx::start(of_nginx.path(), &nginx);
    let larder = |files: &str| {
        Larder::configured(format!(
            "listen = [\"127.0.0.1:0\"]\nworkers = 1\n[[site]]\nhosts = [\"*\"]\n[[site.route]]\npath = \"/cgi-bin/*\"\n\
             cgi.root = \"{root}/cgi-bin\"\n{files}\n"
        ))
    };
    let larders = [
        larder(""),
        larder(&format!("[[site.route]]\nfiles.root = \"{root}\"")),
        larder(&format!("cgi.env.DOCUMENT_ROOT = \"{root}\"")),
    ];
    for target in TARGETS {
        let expect = variables(apache.client(), target, &root);
        for larder in &larders {
            assert_eq!(expect, variables(larder.client(), target, &root), "{target}");
        }
        let of_nginx = variables(nginx.client(), target, &root);
        let without = |it: &[(&'static str, String)]| {
            // nginx sets none.
            it.iter().filter(|it| it.0 != "PATH_TRANSLATED").cloned().collect::<Vec<_>>()
        };
        assert_eq!(without(&expect), without(&of_nginx), "{target}");
    }
}

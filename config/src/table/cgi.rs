//! Keys of CGI programs. The types of rows are in `super`.

use super::*;

#[rustfmt::skip]
pub(super) const ROWS: &[Key] = &[
    once("site[].route[].cgi.root", ValueKind::One(TextForm::PathFor(PathAccess::RUN)), None,
        "Directory of CGI programs, relative to the directory of the configuration file: a request runs the first executable file that its path names beneath it, and the rest of the path is `PATH_INFO`. Names that begin with a dot, and symbolic links that lead out of it, name none. Programs run as the user of larder.", r#""cgi-bin""#),
    once("site[].route[].cgi.program", ValueKind::One(TextForm::PathFor(PathAccess::RUN)), None,
        "One CGI program for every path of the route, in place of `root`.", r#""cgit.cgi""#),
    once("site[].route[].cgi.strip", ValueKind::One(TextForm::PathPrefix), None,
        "Prefix of request paths in front of the path of a program; with `program`, its `SCRIPT_NAME`. Default: the directory of the route's `path`, if that is `/DIRECTORY/*`, otherwise none.", r#""/cgi-bin""#),
    once("site[].route[].cgi.env", ValueKind::Pairs { name: TextForm::VariableName, value: TextForm::Secret, example: r#"{ CGIT_CONFIG = "/etc/cgitrc" }"# }, None,
        "Variables of the environment of programs, in addition to those of the request. `DOCUMENT_ROOT`, by default the directory of `files` or `php` of the site, is also that of `PATH_TRANSLATED`. Nothing of the environment of larder is passed, apart from `pass_env`. `PATH` is `/usr/local/bin:/usr/bin:/bin` unless it is set here.", r#"{ CGIT_CONFIG = "/etc/cgitrc" }"#),
    once("site[].route[].cgi.pass_env", ValueKind::List(TextForm::VariableName), None,
        "Variables of the environment of larder that programs get.", r#"["LANG", "TZ"]"#),
    once("site[].route[].cgi.directory", ValueKind::One(TextForm::PathFor(PathAccess::RUN)), None,
        "Working directory of programs. Default: the directory of the program.", r#""cgi-bin""#),
    once("site[].route[].cgi.max_processes", integer(1, 10_000), Some("16"),
        "Maximum number of programs of `root` or `program` that run at a time, in all workers. Further requests wait.", "4"),
    once("site[].route[].cgi.queue", integer(0, 1_000_000), None,
        "Maximum number of requests that wait for one of `max_processes`, per worker. Requests beyond it receive 503. Default: 16 per process.", "100"),
    once("site[].route[].cgi.queue_timeout", time(1, HOUR), Some("30s"),
        "Timeout in the queue; the request then receives 503.", r#""5s""#),
    once("site[].route[].cgi.timeout", time(1, DAY), Some("60s"),
        "Timeout for the head of the response, and between two parts of the output. The process group of the program is then ended.", r#""30s""#),
    once("site[].route[].cgi.total_timeout", time(1, 7 * DAY), Some("10m"),
        "Maximum run time of a program. Its process group then gets SIGTERM, and 3 s later SIGKILL.", r#""1h""#),
    once("site[].route[].cgi.memory", size(MIB, TIB), None,
        "Maximum address space of each process (`RLIMIT_AS`). Default: that of larder.", r#""256MiB""#),
    once("site[].route[].cgi.cpu", time(SECOND, DAY), None,
        "Maximum CPU time of each process, in whole seconds (`RLIMIT_CPU`). Default: that of larder.", r#""30s""#),
    once("site[].route[].cgi.files", integer(3, 1_000_000), Some("1024"),
        "Maximum number of open files of each process (`RLIMIT_NOFILE`).", "64"),
];

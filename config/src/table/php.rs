//! Keys of PHP. The types of rows are in `super`.

use super::*;

#[rustfmt::skip]
pub(super) const ROWS: &[Key] = &[
    once("site[].route[].php.root", ValueKind::One(TextForm::Path), None,
        "Directory of a PHP site, relative to the directory of the configuration file. Its files answer first, with the keys of `files` (`index`, `try`, `cache_control` and others); every other path belongs to a script, which php-fpm runs. The first segment of the path that ends in `.php` is the script, if it is a file beneath `root`; the rest is `PATH_INFO`. A directory has its `index.php`; every other path has `front_controller`. Names that begin with a dot are never scripts. `cache`, `access` and the other keys of the route hold for files and scripts.", r#""public""#),
    once("site[].route[].php.to", ValueKind::List(TextForm::FastCgiMember), None,
        "php-fpm, one or several: `unix:PATH`, `HOST:PORT`, `fastcgi://HOST:PORT` or `fastcgi+unix:PATH`, each optionally with `weight=N` or `drain` as in `proxy.to`. A relative path of a socket starts at the working directory of the process, that of `php.root` at the directory of the configuration file. The other keys of `proxy` (`health`, `connections`, timeouts, `backup`) hold for them; the path of a health check is `ping.path` of php-fpm. Every process that may write this socket runs any code as the user of php-fpm.", r#""unix:/run/php/php-fpm.sock""#),
    once("site[].route[].php.front_controller", ValueKind::One(TextForm::FrontController), Some("/index.php"),
        "Script for paths that name neither a file nor a script: `try_files $uri $uri/ /index.php` of nginx. `off`: such paths are 404.", r#""/blog/index.php""#),
    once("site[].route[].php.application_root", ValueKind::One(TextForm::PathPrefix), None,
        "The directory `root` as php-fpm sees it, if it runs in a container or a chroot: for `SCRIPT_FILENAME` and `DOCUMENT_ROOT`. Default: `root`, with its symbolic links resolved when a script is looked up.", r#""/app/public""#),
    once("site[].route[].php.env", ValueKind::Pairs { name: TextForm::VariableName, value: TextForm::VariableTemplate, example: r#"{ APP_ENV = "production" }"# }, None,
        "Variables for every script, as `fastcgi_param` of nginx, with variables of the request such as `{host}` and the captures of `path`. Constants replace those of larder with the same name. A value that reads the request replaces none that describes the request, its client (as in `proxy.env`) or the file of the script, and is left out where the response may be shared and the cache key lacks what it reads.", r#"{ APP_ENV = "production", PHP_VALUE = "memory_limit=256M", TENANT = "{host}" }"#),
];

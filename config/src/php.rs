//! The settings of a route for PHP (`php`): the scripts of a directory and their variables. The addresses of php-fpm are origins
//! (`Proxy`), the files before the scripts a route of their own.

use crate::FilesConfig;
use larder_semantics::cgi::EarlierRoute;
use std::sync::Arc;

/// A directory with scripts.
#[derive(Clone, Debug)]
pub struct PhpConfig {
    /// The directory with its files, which answer before a script.
    pub files: FilesConfig,
    /// The directory as php-fpm sees it, without a slash at its end; `None` for the path of `files.root` without symbolic links.
    pub application_root: Option<String>,
    /// The script for paths that name none, with a slash in front; `None` where such paths are not found.
    pub front_controller: Option<String>,
    /// Variables for every script.
    pub env: Arc<[(String, String)]>,
    /// The routes before it: a script of theirs is not run by another path.
    pub before: Arc<[EarlierRoute]>,
}

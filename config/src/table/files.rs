//! Keys of files. The types of rows are in `super`.

use super::*;

#[rustfmt::skip]
pub(super) const ROWS: &[Key] = &[
    once("site[].route[].files.root", ValueKind::One(TextForm::Path), None,
        "Directory of the files, relative to the directory of the configuration file. Sources of PHP scripts (`.php`, `.phtml`, `.phar`) are never served: they count as absent.", r#""public""#),
    once("site[].route[].files.strip", ValueKind::One(TextForm::PathPrefix), None,
        "Prefix that is removed from the request path before the lookup in `root`.", r#""/static""#),
    once("site[].route[].files.index", ValueKind::List(TextForm::FileName), Some("index.html"),
        "Index files of a directory, tried in this order.", r#"["index.html", "index.htm"]"#),
    once("site[].route[].files.try", ValueKind::List(TextForm::TryMember), Some("{path}"),
        "The files that a path may mean, tried in this order. `{path}` is the request path in normal form, without `strip`. A member without `{path}` is one file for every path. `=404` or `=410` ends the list with that status. A directory with an index is redirected to its path with a slash.", r#"["{path}", "{path}.html", "{path}/index.html", "/index.html"]"#),
    once("site[].route[].files.clean_urls", ValueKind::Bool, Some("false"),
        "Serve `about.html` as `/about`, and redirect `/about.html` to `/about` and `/about/index.html` to `/about/`. The query is kept.", "true"),
    once("site[].route[].files.fall_through", ValueKind::Bool, Some("false"),
        "Paths without a file belong to the next route of the site that matches, as if this route did not exist: `try_files $uri @app` of nginx. Directories without an index and hidden files count as absent. The route answers GET and HEAD only.", "true"),
    once("site[].route[].files.spa", ValueKind::Bool, Some("false"),
        "Single-page application: serve the first file of `index` in `root` for paths without a file if a browser navigates to them: the last segment has no extension, or the request accepts HTML by name. A missing script or image remains 404.", "true"),
    once("site[].route[].files.not_found", ValueKind::One(TextForm::Page), None,
        "Page that is sent with 404 if no file exists. Default: one sentence of text. `larder serve` uses `/404.html`.", r#""/404.html""#),
    once("site[].route[].files.compress", ValueKind::Bool, Some("false"),
        "Compress files that have no precompressed file in the coding, by `codings`, `min_size`, `max_size` and `types` of `cache.compress`. Each encoding is made once and kept with the open file. `larder serve` uses `true`.", "true"),
    once("site[].route[].files.listing", ValueKind::Bool, Some("false"),
        "List directories without an index file.", "true"),
    once("site[].route[].files.dotfiles", ValueKind::Bool, Some("false"),
        "Serve names that begin with a dot.", "true"),
    once("site[].route[].files.symlinks", ValueKind::OneOf(&["never", "beneath", "follow"]), Some("beneath"),
        "Symbolic links: rejected, followed inside `root` only, or followed everywhere.", r#""never""#),
    once("site[].route[].files.precompressed", ValueKind::Bool, Some("true"),
        "Serve `FILE.br`, `FILE.zst` or `FILE.gz` instead of `FILE` to clients that accept the coding.", "false"),
    once("site[].route[].files.cache_control", ValueKind::One(TextForm::FieldValue), None,
        "`Cache-Control` that is sent with every file. Default: none.", r#""max-age=3600""#),
    once("site[].route[].files.cache_for", time(0, HOUR), Some("1s"),
        "How long an open file is reused before the file system is checked. A change is visible within this time.", r#""10s""#),
    once("site[].route[].files.small_file", size(0, 16 * MIB), Some("16KiB"),
        "Files up to this size are kept in RAM.", r#""64KiB""#),
];

//! The documents generated from the table: the manual of keys and the JSON schema for editors.

use super::kind::{CODINGS, TIERS, TextForm, ValueKind};
use super::presets::{PRESETS, Preset};
use super::table::{self, Key, KeyScope, Takes};
use larder_semantics::cookies;
use larder_semantics::expression::{Expression, ExpressionSubject};
use larder_semantics::template;
use larder_stdx::size::ByteSize;
use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;

/// The manual of keys: `docs/generated/config.md`.
#[must_use]
pub fn manual() -> String {
    let mut out = String::from(
        "# Configuration keys\n\nGenerated from `config/src/table.rs`; do not edit.\n\nOne file, \
         `larder.toml`. Unknown keys are errors. Sizes are written `\"64KiB\"`, `\"1.5GiB\"`, `\"200MB\"`\nor a \
         number of bytes; durations `\"50ms\"`, `\"60s\"`, `\"1h30m\"`, `\"7d\"`. A list with one member may be \
         written\nwithout brackets. Every key of `[cache]` except those of `cache.ram`, `cache.disk` and \
         `cache.fleet` is the default of\nall routes. A route overrides it with `cache = { … }` in its \
         `[[site.route]]`.\n\nIn every text, `${NAME}` is the value of an environment variable, and `${NAME:-default}` has a default for one that is not\nset or \
         empty; `$${` is a literal `${`. A key whose value is only such a text may be a number or, with commas, a list.\nA key that holds a secret \
         also accepts `file:PATH`: the content of the file, without the line end at its end.\n`[block.NAME]` has keys of a route for the routes and sites with \
         `use = [\"NAME\"]`.\n\nA changed file is reloaded while larder runs. Keys marked *(start)* require a restart: \
         a reload that changes one keeps its\nold value, names the key in the error log, and takes over the rest. Keys of a route that are marked\n*(site)* may also be set in `[[site]]`, for \
         all its routes.\n",
    );
    let mut section = "";
    for key in table::rows() {
        let own = section_of(key.path);
        if own != section || section.is_empty() && key.path == "listen" {
            section = own;
            let title = if own.is_empty() { "Top level".to_owned() } else { heading(own, key.scope) };
            let _ = write!(out, "\n## {title}\n\n| key | value | default | meaning |\n|---|---|---|---|\n");
        }
        let default = key.default.map_or("none".to_owned(), |it| format!("`{}`", literal(key.kind, it)));
        let allowed = key.kind.allowed().replace('|', "\\|");
        let help = key.help.replace('|', "\\|");
        let path = key.path.replace("[]", "");
        // The headings of other sections say it for all of their keys.
        let is_of_site = own == "site[].route[]" && key.scope == KeyScope::SiteAndRoute;
        let mark = match key.takes {
            Takes::AtStart => " *(start)*",
            Takes::AtReload if is_of_site => " *(site)*",
            Takes::AtReload => "",
        };
        let _ =
            writeln!(out, "| `{path}`{mark} | {allowed} | {default} | {help} Example: `{}` |", key.example);
    }
    presets(&mut out);
    files(&mut out);
    variables(&mut out);
    conditions(&mut out);
    out
}

/// The variables of texts.
fn variables(out: &mut String) {
    out.push_str(
        "\n## Variables\n\nOf redirects, fixed answers, rewrites, and values of fields and parameters, such as \
         `request_headers.set`. `{{` and `}}` are\nliteral braces. A value never has line ends or control characters; in a URL it is \
         percent-encoded. A request whose\nresponse may be shared contains only values that its key determines. `log.format` has fields of its own: \
         [log.md](log.md).\n\n| variable | value |\n|---|---|\n",
    );
    for (name, value) in template::manual() {
        let _ = writeln!(out, "| `{name}` | {value} |");
    }
}

/// The extensions of files.
fn files(out: &mut String) {
    let (kinds, data) = cookies::file_extensions();
    let list = |all: &[&str]| all.iter().map(|it| format!("`.{it}`")).collect::<Vec<_>>().join(" ");
    out.push_str(
        "\n## Files\n\nPaths that end with these are files for `cache.private_cookies` and `cache.public_files`: the same for every \
         visitor if their response says so.\n\n| kind | extensions |\n|---|---|\n",
    );
    for (kind, all) in kinds {
        let _ = writeln!(out, "| {kind} | {} |", list(all));
    }
    let _ = writeln!(out, "| only in the directories of `public_files` | {} |", list(data));
    out.push_str(
        "\nElsewhere the last ones may be pages, or data that an application gives to one visitor (`/account.json`): with a private cookie \
         such a request bypasses the cache.\n",
    );
}

/// The names and operators of conditions.
fn conditions(out: &mut String) {
    out.push_str(
        "\n## Conditions\n\n`name OPERATOR value`, combined with `&&`, `||`, `!` and parentheses. Texts are in double quotes.\n\n\
         | keys | names |\n|---|---|\n",
    );
    let subjects = [
        ("`when` of a route, `access`", ExpressionSubject::Request),
        ("`cache.rule`", ExpressionSubject::Response),
        ("`purge --where`, `objects`", ExpressionSubject::Stored),
        ("`tail`, `log_skip`", ExpressionSubject::Finished),
    ];
    for (keys, subject) in subjects {
        let names: Vec<String> = Expression::names_of(subject).map(|it| format!("`{it}`")).collect();
        let _ = writeln!(out, "| {keys} | {} |", names.join(", ").replace("query, query", "query`, `query"));
    }
    out.push_str(
        "\n`header.Accept` is short for `header[\"Accept\"]`, and so for cookies and parameters of the query.\n\n\
         * texts: `==`, `!=`, `contains`, `in [\"a\", \"b\"]`, and `~`, `!~` with a regular expression, which matches anywhere unless it is \
         anchored\n\
         * numbers: `==`, `!=`, `<`, `<=`, `>`, `>=`, `in [301, 308]`, with the units of their names: `60s`, `1KiB`\n\
         * `client in \"10.0.0.0/8\"`, or a list of networks\n\n\
         A missing field, cookie or parameter is the empty text for every operator: `header.User-Agent == \"\"` is true for requests without \
         `User-Agent`,\n`header.Referer ~ \"^($|https://www\\.example\\.com/)\"` for requests without `Referer` or with one of that site, \
         and `cookie.beta != \"\"` if the\ncookie has a value. \
         Of several lines, cookies or \
         parameters of one name any may make a condition true, also with `!=`, `!~` and `!`, and\n`access.allow_when` is true only if it is for \
         each: the application may read any of them. A test of a number that is not known is false.\n",
    );
}

/// The values of each preset.
fn presets(out: &mut String) {
    out.push_str(
        "\n## Presets\n\nThe values that `cache.preset` sets for a route. A key that is set for the route or for all \
         routes overrides the preset.\nA preset value that would contradict such a key is dropped: `key.drop` if \
         `key.keep` or `key.query` is set, `default_ttl` if\n`override_ttl` is set. `larder check` and `larder \
         explain` show which values come from a preset. Applications of \
         Rails, Laravel,\nNode.js, Flask, PHP and Next.js read cookies of any name: with these presets each cookie that is \
         not in `ignored_cookies` (analytics,\nconsent) or `key.cookies` makes a request private, and the application \
         receives it. WordPress, Drupal and Django have a fixed set:\nthe cookies that are not listed, such as those of \
         analytics, are removed from requests for pages. If the application sets such a cookie again (a session under another\nname), the \
         advice names it (`removed-cookies`): it belongs in `private_cookies`.\n\n| preset | key | value |\n|---|---|---|\n",
    );
    let row = |preset: &'static Preset, (key, text): &(&str, &str)| {
        let kind = table::find(&format!("{}{key}", table::ROUTE_CACHE)).map_or(ValueKind::Bool, |it| it.kind);
        format!("| `{}` | `cache.{key}` | `{}` |\n", preset.name, literal(kind, text))
    };
    for preset in &PRESETS {
        out.extend(preset.values.iter().map(|it| row(preset, it)));
    }
    out.push('\n');
    for preset in &PRESETS {
        let _ = writeln!(out, "* `{}`: {}", preset.name, preset.note);
    }
}

fn section_of(path: &str) -> &str {
    match path {
        _ if path.starts_with("cache.key.") => "cache.key",
        _ => path.rfind('.').map_or("", |dot| &path[..dot]),
    }
}

fn heading(section: &str, scope: KeyScope) -> String {
    match section {
        "site[].route[]" => "`[[site.route]]`".to_owned(),
        _ => match section.strip_prefix("site[].route[].") {
            Some(rest) => {
                let of = if scope == KeyScope::SiteAndRoute { "a site or a route" } else { "a route" };
                match rest.strip_suffix("[]") {
                    Some(list) => format!("`{list} = [{{ … }}]` of {of}"),
                    None => format!("`{rest} = {{ … }}` of {of}"),
                }
            }
            None if scope == KeyScope::EveryRoute => {
                format!("`[{section}]`, and `{section} = {{ … }}` of a route")
            }
            None => match section.split_once("[]") {
                Some((list, "")) => format!("`[[{list}]]`"),
                Some((list, within)) => format!("`{} = {{ … }}` of `[[{list}]]`", &within[1..]),
                None => format!("`[{section}]`"),
            },
        },
    }
}

/// A default in TOML notation.
pub fn literal(kind: ValueKind, text: &str) -> String {
    match kind {
        ValueKind::Bool
        | ValueKind::Integer { .. }
        | ValueKind::OneNumber(_)
        | ValueKind::StatusTtls { .. }
        | ValueKind::Pairs { .. } => text.to_owned(),
        ValueKind::List(_) => {
            let each: Vec<_> = text.split(',').map(|it| format!("\"{it}\"")).collect();
            format!("[{}]", each.join(", "))
        }
        _ => format!("\"{text}\""),
    }
}

/// The schema for editors: `docs/generated/config.schema.json`, JSON Schema 2020-12.
#[must_use]
pub fn schema() -> String {
    let mut root = section("larder.toml");
    for key in table::rows() {
        insert(&mut root, key.path, key);
        if key.scope == KeyScope::EveryRoute
            && let Some(rest) = key.path.strip_prefix("cache.")
        {
            insert(&mut root, &format!("{}{rest}", table::ROUTE_CACHE), key);
        }
        if let Some(path) = key.path_of_site() {
            insert(&mut root, &path, key);
        }
    }
    let mut block = root["properties"]["site"]["items"]["properties"]["route"]["items"].clone();
    block["title"] = json!("block");
    if let Some(keys) = block["properties"].as_object_mut() {
        keys.shift_remove("use");
    }
    let blocks = json!({ "title": "block", "type": "object", "additionalProperties": block });
    root["properties"]["block"] = blocks;
    if let Some(map) = root.as_object_mut() {
        map.insert("$schema".to_owned(), json!("https://json-schema.org/draft/2020-12/schema"));
    }
    let mut text = serde_json::to_string_pretty(&root).unwrap_or_default();
    text.push('\n');
    text
}

fn section(title: &str) -> Json {
    json!({ "title": title, "type": "object", "additionalProperties": false, "properties": {} })
}

/// Puts a key's schema at its path, creating sections as needed.
fn insert(root: &mut Json, path: &str, key: &Key) {
    let mut at = root;
    let mut parts = path.split('.').peekable();
    while let Some(part) = parts.next() {
        let (name, is_list) = part.strip_suffix("[]").map_or((part, false), |it| (it, true));
        let properties = at["properties"].as_object_mut();
        let Some(properties): Option<&mut Map<String, Json>> = properties else { return };
        if parts.peek().is_none() {
            properties.insert(name.to_owned(), schema_of(key));
            return;
        }
        let fresh = if is_list {
            json!({ "type": "array", "minItems": 1, "items": section(name) })
        } else {
            section(name)
        };
        at = properties.entry(name).or_insert(fresh);
        if is_list {
            at = &mut at["items"];
        }
    }
}

fn schema_of(key: &Key) -> Json {
    let duration = r"^(0|([0-9]+(ms|s|m|h|d|w|y))+)$";
    let mut schema = match key.kind {
        ValueKind::Bool => json!({ "type": "boolean" }),
        ValueKind::Integer { least, most } => json!({ "type": "integer", "minimum": least, "maximum": most }),
        ValueKind::Size { least, most } => json!({
            "anyOf": [
                { "type": "string", "pattern": r"^[0-9]+(\.[0-9]+)? ?([kKMGT](i?B)?|B)?$" },
                { "type": "integer", "minimum": least, "maximum": most },
            ],
            "$comment": format!("from {} to {}", ByteSize(least), ByteSize(most)),
        }),
        ValueKind::SizeOrOff { least, most } => json!({
            "anyOf": [
                { "type": "string", "pattern": r"^([0-9]+(\.[0-9]+)? ?([kKMGT](i?B)?|B)?|off)$" },
                { "type": "integer", "minimum": least, "maximum": most },
            ],
            "$comment": format!("from {} to {}", ByteSize(least), ByteSize(most)),
        }),
        ValueKind::Time { .. } | ValueKind::Seconds { .. } => {
            json!({ "type": "string", "pattern": duration })
        }
        ValueKind::SecondsOrOff { .. } | ValueKind::TimeOrOff { .. } => {
            json!({ "anyOf": [{ "type": "string", "pattern": duration }, { "const": "off" }] })
        }
        ValueKind::OneNumber(numbers) => json!({ "enum": numbers }),
        ValueKind::OneOf(words) => json!({ "enum": words }),
        ValueKind::One(form) => text_schema(form),
        ValueKind::List(form) => json!({
            "anyOf": [{ "type": "array", "items": text_schema(form) }, text_schema(form)],
        }),
        ValueKind::StatusTtls { .. } => json!({
            "type": "object",
            "propertyNames": { "pattern": "^[2-5][0-9][0-9]$" },
            "additionalProperties": { "type": "string", "pattern": duration },
        }),
        ValueKind::Pairs { value, .. } => {
            json!({ "type": "object", "additionalProperties": text_schema(value) })
        }
    };
    if let Some(map) = schema.as_object_mut() {
        map.insert("description".to_owned(), json!(format!("{} Allowed: {}.", key.help, key.kind.allowed())));
        if let Some(default) = key.default {
            map.insert("default".to_owned(), default_of(key.kind, default));
        }
    }
    schema
}

fn default_of(kind: ValueKind, text: &str) -> Json {
    match kind {
        ValueKind::Bool => json!(text == "true"),
        ValueKind::Integer { .. } | ValueKind::OneNumber(_) => {
            text.parse::<u64>().map_or(Json::Null, |it| json!(it))
        }
        ValueKind::List(_) => json!(text.split(',').collect::<Vec<_>>()),
        _ => json!(text),
    }
}

fn text_schema(form: TextForm) -> Json {
    match form {
        TextForm::Origin => json!({ "type": "string", "pattern": "^(http://|unix:|[^/]*:[0-9]+$)" }),
        TextForm::Member => {
            json!({ "type": "string", "pattern": "^(https?://|h2c://|(h2c[+])?unix:|(fastcgi|scgi|uwsgi)(://|[+]unix:)|[^/]*:[0-9]+)[^ ]*( (weight=[0-9]+|drain))*$" })
        }
        TextForm::FastCgiMember => {
            json!({ "type": "string", "pattern": "^(fastcgi://|(fastcgi[+])?unix:|[^/]*:[0-9]+)[^ ]*( (weight=[0-9]+|drain))*$" })
        }
        TextForm::VariableName => json!({ "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" }),
        TextForm::HashBy => json!({ "type": "string", "pattern": "^(target|client|(header|cookie):.+)$" }),
        TextForm::FailureStatus => json!({ "anyOf": [
            { "type": "integer", "minimum": 400, "maximum": 599 },
            { "type": "string", "pattern": "^[45][0-9][0-9]$" },
        ] }),
        TextForm::StatusRange => json!({ "anyOf": [
            { "type": "integer", "minimum": 100, "maximum": 599 },
            { "type": "string", "pattern": "^[1-5][0-9][0-9](-[1-5][0-9][0-9])?$" },
        ] }),
        TextForm::RouteName => json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$" }),
        TextForm::PathPattern => json!({ "type": "string", "pattern": "^(/|[*].|regex:)" }),
        TextForm::PathPrefix | TextForm::RewritePrefix => json!({ "type": "string", "pattern": "^/" }),
        TextForm::Tier => json!({ "enum": TIERS }),
        TextForm::Coding => json!({ "enum": CODINGS }),
        TextForm::MediaType => {
            json!({ "type": "string", "pattern": "^([a-z0-9.+-]+/([a-z0-9.+-]+|\\*)|\\+[a-z0-9.+-]+)$" })
        }
        TextForm::Language => json!({ "type": "string", "pattern": "^[A-Za-z]{1,8}(-[A-Za-z0-9]{1,8})*$" }),
        TextForm::Offer => json!({ "type": "string", "pattern": "^[a-z0-9.+-]+/[a-z0-9.+-]+$" }),
        TextForm::Path
        | TextForm::PathFor(_)
        | TextForm::PathOrOff
        | TextForm::LogTarget
        | TextForm::FileName => {
            json!({ "type": "string", "minLength": 1 })
        }
        _ => json!({ "type": "string" }),
    }
}

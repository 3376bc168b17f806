//! Words of the configurations of other servers (nginx, Caddy, Apache, lighttpd, HAProxy, Varnish), and the keys of larder
//! for them. A hint names a key only if the table of keys has it.

use super::key_path::dotted;
use super::table::{self, ROUTE, ROUTE_CACHE, SITE};
use std::cmp::Reverse;

/// Words of other servers with one meaning.
struct ForeignWord {
    /// The words, separated by spaces; case, `_` and `-` do not count.
    words: &'static str,
    /// The beginning of the sections in which they have this meaning; empty for all.
    within: &'static str,
    /// The keys or sections of larder, each with its effect, which is named if there are several.
    keys: &'static [(&'static str, &'static str)],
    /// The rest of the sentence: how to write it, or why there is no key.
    note: &'static str,
}

const fn word(
    words: &'static str,
    keys: &'static [(&'static str, &'static str)],
    note: &'static str,
) -> ForeignWord {
    ForeignWord { words, within: "", keys, note }
}

const fn inside(
    within: &'static str,
    words: &'static str,
    keys: &'static [(&'static str, &'static str)],
    note: &'static str,
) -> ForeignWord {
    ForeignWord { words, within, keys, note }
}

const TO_CLIENT: (&str, &str) = ("site[].route[].response_headers", "fields of responses to clients");
const TO_ORIGIN: (&str, &str) = ("site[].route[].request_headers", "fields of requests to the origin");
const ACCESS: &str = "site[].route[].access";
const PROXY_TO: &str = "site[].route[].proxy.to";

/// The words. The row with the narrowest section counts, of several the first.
#[rustfmt::skip]
const WORDS: &[ForeignWord] = &[
    // Sites and routes.
    word("server virtual_host vhost frontend", &[("site", "")], "a virtual host is a [[site]] with hosts"),
    word("server_name server_names server_alias host hostname domain domains", &[("site[].hosts", "")], ""),
    word("location location_match handle handle_path directory directory_match files_match", &[("site[].route", "")], "a location is a [[site.route]] with a path"),
    inside(SITE, "routes", &[("site[].route", "")], "write [[site.route]]"),
    word("sites servers", &[("site", "")], "write [[site]]"),
    inside(SITE, "listen bind port", &[("site[].listeners", "addresses that serve this site only"), ("listen", "every address of larder, at the top level")], ""),
    word("bind port ports address addr http_port https_port", &[("listen", "")], ""),
    inside(ROUTE, "path_regexp path_regex path_beg path_end match matcher pattern url uri_pattern", &[("site[].route[].path", ""), ("site[].route[].when", "an expression over the request")], ""),
    word("acl if condition matcher use_backend valid_referers rewrite_cond set_env_if http_request", &[("site[].route[].when", "an expression over the request"), (ACCESS, "rules that allow and deny")], ""),
    word("limit_except allowed_methods allow_methods http_methods proxy_cache_methods", &[("site[].route[].methods", "")], "a request with another method is one of a later route for its path, and without one gets 405"),
    inside(ROUTE, "method http_method verb verbs", &[("site[].route[].methods", "")], "for example methods = [\"GET\", \"POST\"]"),
    word("import", &[("include", "")], "a list of file patterns"),
    word("default_server default_host", &[("site[].hosts", "")], "hosts = [\"*\"] has the requests of every other host"),
    word("internal", &[("site[].route[].sendfile.root", "files that an application hands over")], "files of error_pages and sendfile need no route; for other paths, write respond = { status = 404 }"),
    word("ssi ssi_types esi", &[], "larder assembles no page from parts"),
    word("mirror mirror_request_body", &[], "larder sends no copy of a request to a second origin"),
    word("dav_methods dav_access create_full_put_path webdav", &[], "larder serves files for reading only; an application behind `site.route.proxy.to` can write them"),
    word("merge_slashes", &[], "larder needs no key for it: routes compare paths with merged slashes"),
    word("http2 http2_push spdy", &[("site[].route[].proxy.http2", "towards an origin")], "clients use HTTP/2 over TLS without a key"),
    word("template templates", &[], "larder renders no templates; respond.body is a text with variables"),
    word("snippet snippets preset defaults", &[("site[].route[].use", "names of [block.NAME]"), ("cache.preset", "values for a well-known application")], ""),
    word("map geo", &[("site[].route[].when", "an expression over the request"), ("site[].redirect_map", "a file of redirects")], ""),

    // Answers.
    word("alias", &[("site[].route[].files.root", "the directory"), ("site[].route[].files.strip", "the prefix that it stands for")], "for example files = { root = \"public\", strip = \"/static\" }"),
    word("root document_root server_root dir web_root file_server static", &[("site[].route[].files.root", "")], "for example files = { root = \"public\" }"),
    word("try_files fallback_resource fallback", &[("site[].route[].files.try", "files"), ("site[].route[].php.front_controller", "a script of PHP")], ""),
    word("directory_index index_file index_files index_file_names", &[("site[].route[].files.index", "")], ""),
    inside(ROUTE, "index", &[("site[].route[].files.index", "")], ""),
    inside(SITE, "index", &[("site[].route[].files.index", "")], ""),
    word("options follow_symlinks", &[("site[].route[].files.listing", "lists of directories"), ("site[].route[].files.symlinks", "symbolic links")], ""),
    word("autoindex browse dir_listing directory_listing", &[("site[].route[].files.listing", "")], ""),
    word("gzip_static brotli_static precompress", &[("site[].route[].files.precompressed", "")], ""),
    word("open_file_cache", &[("site[].route[].files.cache_for", "")], ""),
    word("default_type add_type mime_types", &[("site[].route[].response_headers", "")], "the content type follows from the name of the file"),
    word("return redir redirect_match redirect_permanent redirect_temp http_redirect", &[("site[].route[].redirect", "another URL"), ("site[].route[].respond", "a fixed response")], ""),
    word("redirect", &[("site[].route[].redirect", "")], ""),
    word("synth synthetic static_response monitor_uri", &[("site[].route[].respond", "")], ""),
    word("respond", &[("site[].route[].respond", "")], ""),
    word("abort", &[("site[].route[].respond", "")], "every request gets a response, for example respond = { status = 403 }"),
    word("maintenance_mode", &[("site[].route[].respond", ""), ("site[].maintenance", "")], ""),
    word("proxy_pass reverse_proxy proxy_pass_match balancer_member upstream upstreams backend backends default_backend director origin origins pass_to target", &[(PROXY_TO, "")], "for example proxy = { to = [\"http://127.0.0.1:8000\"] }"),
    inside("site[].route[].proxy.", "url uri server servers members pass host_port", &[(PROXY_TO, "")], ""),
    word("fastcgi_pass php_fastcgi fpm php_fpm", &[("site[].route[].php.to", "php-fpm"), (PROXY_TO, "other applications")], "for example php = { root = \"/var/www/wordpress\", to = \"unix:/run/php/php-fpm.sock\" }"),
    word("fastcgi_index fastcgi_split_path_info fix_pathinfo", &[], "larder needs no key for it: php finds the script of each path"),
    word("fastcgi_param fastcgi_params", &[("site[].route[].php.env", "")], "larder sets the usual ones"),
    word("uwsgi_pass", &[(PROXY_TO, "")], "for example proxy = { to = [\"uwsgi://127.0.0.1:3031\"] }"),
    word("scgi_pass", &[(PROXY_TO, "")], "for example proxy = { to = [\"scgi://127.0.0.1:4000\"] }"),

    // Rewriting, and fields.
    word("rewrite rewrite_rule uri_rewrite url_rewrite set_path", &[("site[].route[].rewrite", "")], ""),
    word("strip_prefix uri_strip_prefix strip_path", &[("site[].route[].strip", "before the request is sent to the origin"), ("site[].route[].files.strip", "before a file is looked up")], ""),
    word("path_prefix prefix_path", &[("site[].route[].add_prefix", "")], ""),
    word("header headers set_header add_headers fields http_response setenv", &[TO_CLIENT, TO_ORIGIN], ""),
    word("add_header add_response_header header_down response_header resp_headers more_set_headers beresp_headers proxy_hide_header set_response_header", &[TO_CLIENT], ""),
    word("proxy_set_header header_up request_header req_headers set_request_header proxy_pass_request_headers", &[TO_ORIGIN], ""),
    word("response_headers", &[TO_CLIENT], ""),
    word("request_headers", &[TO_ORIGIN], ""),
    word("proxy_preserve_host preserve_host pass_host proxy_set_host", &[("site[].route[].proxy.preserve_host", "")], ""),
    word("hsts strict_transport_security", &[("site[].hsts", ""), ("site[].route[].hsts", ""), TO_CLIENT], ""),
    word("cors cross_origin allow_origin access_control_allow_origin", &[("site[].route[].cors", ""), TO_CLIENT], ""),
    word("expires expires_default expires_by_type expires_active expire expire_url max_age browser_ttl", &[("site[].route[].client_ttl", "the lifetime in clients"), ("cache.default_ttl", "the lifetime in the cache")], ""),
    word("etag file_etag", &[], "larder needs no key for it: files have an ETag"),
    word("error_page error_pages error_document handle_errors errorfile errorfiles errorloc server_error_page", &[("site[].route[].error_pages", "")], ""),
    word("handle_response", &[("site[].route[].error_pages", "pages in place of errors"), ("site[].route[].intercept_errors", "also of those of an origin")], "a response of one origin sends no request to another"),
    word("proxy_intercept_errors fastcgi_intercept_errors intercept_error", &[("site[].route[].intercept_errors", "")], "with error_pages"),
    word("sub_filter sub_filter_once sub_filter_types replace subs_filter substitute", &[], "larder does not change the text of responses"),
    word("auto_https https_redirect force_https ssl_redirect redirect_scheme force_ssl upgrade_insecure", &[("site[].redirect_https", "")], ""),
    word("www_redirect use_canonical_name canonical", &[("site[].canonical_host", "")], ""),

    // Access and limits.
    word("auth_basic auth_basic_user_file basicauth basic_auth auth_user_file auth_type auth_name auth_require htpasswd userlist users", &[("site[].route[].access.basic", "")], ""),
    word("auth_request forward_auth auth_backend external_auth", &[("site[].route[].access.forward", "")], ""),
    word("auth_jwt jwt jwt_auth", &[("site[].route[].access.jwt", "")], ""),
    word("secure_link signed_url", &[("site[].route[].access.signed", "")], ""),
    word("satisfy", &[("site[].route[].access.satisfy", "")], "\"any\" or \"all\""),
    word("allow require allow_from remote_ip allowlist whitelist", &[("site[].route[].access.allow", "")], ""),
    word("deny deny_from block denylist blacklist order", &[("site[].route[].access.deny", "")], ""),
    word("auth authentication", &[(ACCESS, "")], ""),
    word("limit_req limit_req_zone rate_limit ratelimit stick_table throttle limit_rate_requests", &[("site[].route[].access.limit", "")], ""),
    inside(SITE, "limits", &[("site[].route[].access.limit", "requests of each client"), ("site[].route[].body_size", "the size of request bodies")], "the limits of all clients together are in the section [limits]"),
    word("limit_conn limit_conn_zone", &[("site[].route[].access.limit.concurrency", "of each client"), ("limits.connections", "of all clients together")], ""),
    word("maxconn max_connections worker_connections max_request_workers max_clients maxconnections", &[("limits.connections", "of clients, all together"), ("site[].route[].proxy.connections", "to each origin")], ""),
    word("client_max_body_size request_body max_body_size max_request_body_size limit_request_body maxrequestsize max_size", &[("site[].route[].body_size", "for the routes of a site"), ("limits.body_size", "for all")], ""),
    word("client_header_buffer_size large_client_header_buffers max_header_size limit_request_field_size limit_request_line max_header_bytes", &[("limits.head_size", "")], ""),
    word("client_header_timeout request_read_timeout read_header_timeout http_request_timeout", &[("limits.head_timeout", "")], ""),
    word("client_body_timeout read_body", &[("site[].route[].body_timeout", "for the routes of a site"), ("limits.body_timeout", "for all")], ""),
    word("send_timeout write_timeout client_timeout", &[("site[].route[].write_timeout", "for the routes of a site"), ("limits.write_timeout", "for all")], ""),
    word("keepalive_timeout keep_alive_timeout keep_alive timeout_idle idle_conns_timeout keepalive", &[("limits.idle_timeout", "of clients"), ("site[].route[].proxy.idle_timeout", "of connections to an origin")], ""),
    word("http2_max_concurrent_streams max_concurrent_streams", &[("limits.http2_streams", "")], ""),
    word("grace_period worker_shutdown_timeout graceful_shutdown_timeout hard_stop_after", &[("limits.drain_timeout", "")], ""),
    word("limit_rate limit_rate_after", &[], "larder does not limit the rate of a response"),

    // Origins.
    word("proxy_read_timeout first_byte_timeout timeout_server server_timeout proxy_timeout read_timeout response_header_timeout upstream_timeout", &[("site[].route[].proxy.first_byte_timeout", "until the response begins"), ("site[].route[].proxy.between_bytes_timeout", "between two parts of it")], ""),
    word("between_bytes_timeout proxy_send_timeout", &[("site[].route[].proxy.between_bytes_timeout", "")], ""),
    word("proxy_connect_timeout timeout_connect dial_timeout", &[("site[].route[].proxy.connect_timeout", "")], ""),
    word("timeout timeouts", &[("site[].route[].proxy.connect_timeout", "to an origin"), ("site[].route[].proxy.first_byte_timeout", "of its response"), ("limits.idle_timeout", "of a client")], ""),
    word("proxy_next_upstream proxy_next_upstream_tries retries retry retry_on lb_try_duration redispatch", &[("site[].route[].proxy.tries", "")], ""),
    word("lb_policy load_balancing load_balance least_conn leastconn roundrobin ip_hash balancer hash_type", &[("site[].route[].proxy.balance", "")], ""),
    word("hash", &[("site[].route[].proxy.hash_by", "")], "with balance = \"consistent_hash\""),
    word("sticky sticky_session sticky_cookie stick cookie_insert session_affinity affinity", &[("site[].route[].proxy.sticky.cookie", "by a cookie of larder"), ("site[].route[].proxy.hash_by", "by a part of the request")], ""),
    word("max_fails fall_count passive_health", &[("site[].route[].proxy.eject_after", "")], ""),
    word("fail_timeout fail_duration", &[("site[].route[].proxy.eject_time", "")], ""),
    word("http_check health_check health_uri health_path healthcheck probe option_httpchk httpchk", &[("site[].route[].proxy.health.path", "")], ""),
    word("health_interval", &[("site[].route[].proxy.health.interval", "")], ""),
    word("proxy_ssl_verify ssl_verify tls_insecure_skip_verify insecure_skip_verify", &[("site[].route[].proxy.tls.verify", "")], ""),
    word("proxy_ssl_trusted_certificate ca_file tls_trusted_ca_certs", &[("site[].route[].proxy.tls.ca", "")], ""),
    word("proxy_ssl_name sni tls_server_name proxy_ssl_server_name", &[("site[].route[].proxy.tls.name", "")], ""),
    word("proxy_ssl_certificate", &[("site[].route[].proxy.tls.client_cert", "")], ""),
    word("proxy_ssl_certificate_key", &[("site[].route[].proxy.tls.client_key", "")], ""),
    word("proxy_http_version", &[("site[].route[].proxy.http2", "")], "HTTP/1.1 is the default"),
    word("proxy_redirect proxy_pass_reverse", &[], "larder needs no key for it: `Location` fields of the origin are rewritten"),
    word("proxy_cookie_path proxy_cookie_domain", &[], "larder needs no key for it: `Path` and `Domain` in cookies of the origin are rewritten"),
    word("proxy_cookie_flags", &[], "larder does not change other attributes of the cookies of an origin"),
    word("proxy_ignore_client_abort", &[("cache.on_abort", "")], ""),
    word("proxy_buffering proxy_request_buffering proxy_buffers proxy_buffer_size flush_interval client_body_buffer_size", &[], "larder needs no key for it: bodies are forwarded as they arrive"),
    word("websocket websockets proxy_upgrade upgrades", &[("site[].route[].upgrade", "")], ""),
    word("slowstart", &[("site[].route[].proxy.slow_start", "")], ""),

    // The cache.
    word("proxy_cache fastcgi_cache cache_enable caching", &[("cache.enabled", "")], ""),
    word("proxy_cache_path cache_root cache_dir storage fastcgi_cache_path", &[("cache.disk.path", "on disk"), ("cache.ram.size", "in RAM")], ""),
    word("malloc memory total_max_size cache_size", &[("cache.ram.size", "")], ""),
    word("ttl proxy_cache_valid cache_default_expire cache_valid s_maxage", &[("cache.default_ttl", "for responses that declare none"), ("cache.override_ttl", "for all responses"), ("cache.status_ttl", "by status")], ""),
    word("cache_max_expire max_expire", &[("cache.max_ttl", "")], ""),
    word("grace default_grace proxy_cache_background_update stale stale_ttl swr", &[("cache.stale_while_revalidate", "while it is fetched again"), ("cache.stale_if_error", "after a failure of the origin")], ""),
    word("proxy_cache_use_stale saintmode sie", &[("cache.stale_if_error", ""), ("cache.stale_while_revalidate", "")], ""),
    word("default_keep", &[], "larder needs no key for it: stale entries with a validator are kept while there is room"),
    word("proxy_cache_key cache_key hash_data fastcgi_cache_key", &[("cache.key", "")], ""),
    word("proxy_cache_bypass proxy_no_cache no_cache bypass skip_cache pass", &[("cache.private_cookies", "cookies whose requests bypass the cache"), ("cache.enabled", "")], ""),
    word("proxy_cache_lock proxy_cache_lock_timeout collapse collapsed_forwarding cache_lock", &[("cache.collapse_wait", "")], ""),
    word("proxy_cache_revalidate", &[], "larder needs no key for it: stale entries are validated"),
    word("max_object_size proxy_cache_max_size cache_max_file_size", &[("cache.max_object", "")], ""),
    word("proxy_ignore_headers ignore_headers", &[("cache.override_ttl", "")], ""),
    word("purge ban proxy_cache_purge purge_method", &[("cache.purge", "")], ""),
    word("xkey surrogate_keys cache_tags", &[("cache.tags.headers", "")], ""),
    word("gzip encode compress compression deflate brotli zstd compression_algo gzip_on output_filter", &[("cache.compress.enabled", "of the cache"), ("site[].route[].files.compress", "of files")], ""),
    word("gzip_types compress_types add_output_filter_by_type compression_type gzip_min_length", &[("cache.compress.types", "media types"), ("cache.compress.min_size", "the smallest body")], ""),
    word("gzip_comp_level brotli_comp_level", &[("cache.compress.gzip_level", "of gzip"), ("cache.compress.br_level", "of brotli")], ""),
    word("vcl sub vcl_recv vcl_backend_response lua js", &[], "larder has no program in its configuration; `docs/generated/config.md` lists the keys"),

    // TLS.
    word("tls ssl https tls_on ssl_engine ssl_on", &[("tls.certificates", "")], "write [[tls.certificates]] with cert and key, and `https://ADDR:PORT` in listen"),
    word("ssl_certificate ssl_certificate_file crt certificate cert_file tls_cert ssl_pemfile", &[("tls.certificates[].cert", "")], "in [[tls.certificates]]"),
    word("ssl_certificate_key ssl_certificate_key_file key_file tls_key ssl_privkey", &[("tls.certificates[].key", "")], "in [[tls.certificates]]"),
    word("ssl_protocols ssl_protocol protocols ssl_min_ver ssl_minimum_version", &[("site[].tls.min_version", ""), ("tls.min_version", "")], ""),
    word("ssl_client_certificate ssl_ca_certificate_file ssl_ca_file", &[("site[].tls.client_ca", ""), ("tls.client_ca", "")], ""),
    word("ssl_verify_client verify_client client_auth", &[("site[].tls.client_auth", ""), ("tls.client_auth", "")], ""),
    word("ssl_stapling ssl_stapling_file ssl_use_stapling ocsp", &[("tls.certificates[].ocsp", "")], ""),
    word("ssl_ciphers ssl_cipher_suite ciphers ssl_prefer_server_ciphers ssl_session_cache ssl_session_timeout ssl_session_tickets ssl_dhparam", &[], "larder needs no key for it: only current cipher suites are offered"),
    word("email letsencrypt", &[("tls.acme.email", "")], ""),
    word("acme_ca cert_issuer", &[("tls.acme.ca[].directory", "")], "in [[tls.acme.ca]]"),
    word("acme_eab", &[("tls.acme.ca[].eab_id", "the key identifier"), ("tls.acme.ca[].eab_key", "its MAC key")], "in [[tls.acme.ca]]"),
    inside("tls.acme.", "domains subjects hosts", &[("tls.acme.names", "")], ""),
    inside("tls.acme.", "storage path directory", &[("tls.acme.folder", "accounts, keys and certificates"), ("tls.acme.ca[].directory", "the URL of a CA")], ""),
    word("acme_dns dns_challenge dns dns_provider", &[], "larder has no DNS-01 challenge; CAs validate a name by HTTP-01 or TLS-ALPN-01, or another ACME client writes the files of [[tls.certificates]]"),

    // Clients, logs and the process.
    word("real_ip_header remote_ip_header", &[("clients.header", "")], ""),
    word("set_real_ip_from remote_ip_trusted_proxy trusted_proxies trust_proxy remote_ip_internal_proxy", &[("clients.trusted", "")], ""),
    word("send_proxy send_proxy_v2", &[("site[].route[].proxy.proxy_protocol", "")], ""),
    word("proxy_protocol accept_proxy listener_wrappers", &[("listen", ""), ("clients.proxies", "networks that may send the header")], "write `http+proxy://ADDR:PORT`"),
    inside(SITE, "log access_log custom_log transfer_log accesslog logs", &[("site[].access_log", "of the site"), ("log.access", "of all sites, at the top level")], ""),
    word("access_log custom_log transfer_log accesslog capture", &[("log.access", "")], "in [log]"),
    word("log_format accesslog_format", &[("log.format", "")], ""),
    word("log_not_found", &[("site[].log_skip", "")], "the error log has no line for a 404; log_skip = 'status == 404' keeps it out of the access log"),
    word("error_log errorlog", &[("log.error", "")], "in [log]"),
    word("log_level log_levels loglevel", &[("log.levels", "")], ""),
    inside("log.", "level", &[("log.levels", "")], "one for each part of larder"),
    inside("log.", "output path file target", &[("log.access", "of requests"), ("log.error", "of events")], ""),
    word("logging logger", &[("log", "")], ""),
    word("worker_processes nbthread nbproc threads max_worker", &[("workers", "")], ""),
    word("status stub_status server_status stats", &[("admin", "")], "the admin page and API show it"),
    word("uid setuid username run_as", &[("user", "")], "of a start as root"),
    word("gid setgid groupname", &[("group", "")], "of a start as root"),
    word("events http global daemon pid pidfile worker_cpu_affinity worker_rlimit_nofile sendfile tcp_nopush tcp_nodelay use epoll multi_accept load_module modules mod include_mime reuseport accept_mutex server_tokens server_signature mode option http_only charset resolver aio directio output_buffers postpone_output chunked_transfer_encoding types_hash_max_size server_names_hash_bucket_size variables_hash_max_size", &[], "larder needs no key for it"),
];

/// The end of the sentence about an unknown key named `name` in `section` (a pattern that ends with a dot, or empty), if it is a word
/// of another server; `Some("")` if larder has no key for it at present.
#[must_use]
pub fn hint(section: &str, name: &str) -> Option<String> {
    let plain = |it: &str| it.to_ascii_lowercase().replace(['_', '-'], "");
    let wanted = plain(name);
    let fits = |it: &&ForeignWord| {
        section.starts_with(it.within) && it.words.split(' ').any(|it| plain(it) == wanted)
    };
    let row = WORDS.iter().filter(fits).min_by_key(|it| Reverse(it.within.len()))?;
    let known: Vec<(String, &str)> =
        row.keys.iter().filter_map(|(key, effect)| Some((place_of(key, section)?, *effect))).collect();
    let told = |(key, effect): &(String, &str)| match known.len() > 1 && !effect.is_empty() {
        true => format!("`{}` ({effect})", dotted(key)),
        false => format!("`{}`", dotted(key)),
    };
    let mut named: Vec<String> = known.iter().map(told).collect();
    named.dedup();
    let last = named.pop();
    let keys = match (last, named.as_slice()) {
        (None, _) => return Some(row.note.to_owned()),
        (Some(only), []) => format!("larder calls it {only}"),
        (Some(last), first) => format!("larder calls these {} and {last}", first.join(", ")),
    };
    Some(if row.note.is_empty() { keys } else { format!("{keys}; {}", row.note) })
}

/// The pattern under which `key` is set from within `section`: in the same route or site, if it may stand there. `None` if
/// the table has no such key.
fn place_of(key: &str, section: &str) -> Option<String> {
    let is_known = |it: &String| {
        table::find(it).is_some() || table::is_section(it) || table::is_section(&format!("{it}[]"))
    };
    let in_route = key.strip_prefix("cache.").filter(|_| section.starts_with(ROUTE));
    let in_site =
        key.strip_prefix(ROUTE).filter(|_| section.starts_with(SITE) && !section.starts_with(ROUTE));
    let nearer = in_route
        .map(|rest| format!("{ROUTE_CACHE}{rest}"))
        .or_else(|| in_site.map(|rest| format!("{SITE}{rest}")))
        .filter(is_known);
    nearer.or_else(|| Some(key.to_owned()).filter(is_known))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_hint_names_a_key_that_exists() {
        for row in WORDS {
            for (key, _) in row.keys {
                assert!(place_of(key, "").is_some(), "{}: {key}", row.words);
            }
            assert!(!row.keys.is_empty() || !row.note.is_empty(), "{}", row.words);
        }
    }

    #[test]
    fn every_word_has_one_row_for_a_place() {
        let mut seen = std::collections::HashSet::new();
        for row in WORDS {
            for it in row.words.split(' ') {
                assert!(seen.insert((row.within, it)), "{it} has two rows");
            }
        }
    }

    #[test]
    fn words_of_other_servers() {
        #[track_caller]
        fn check(section: &str, name: &str, expect: &str) {
            assert_eq!(Some(expect), hint(section, name).as_deref(), "{section}{name}");
        }
        check(
            ROUTE,
            "root",
            "larder calls it `site.route.files.root`; for example files = { root = \"public\" }",
        );
        check(SITE, "server_name", "larder calls it `site.hosts`");
        check(
            ROUTE,
            "limits",
            "larder calls these `site.route.access.limit` (requests of each client) and `site.route.body_size` (the size of \
             request bodies); the limits of all clients together are in the section [limits]",
        );
        check(SITE, "ServerName", "larder calls it `site.hosts`");
        check("", "server", "larder calls it `site`; a virtual host is a [[site]] with hosts");
        check(SITE, "location", "larder calls it `site.route`; a location is a [[site.route]] with a path");
        check(
            ROUTE,
            "ttl",
            "larder calls these `site.route.cache.default_ttl` (for responses that declare none), \
             `site.route.cache.override_ttl` (for all responses) and `site.route.cache.status_ttl` (by status)",
        );
        check(
            "cache.",
            "grace",
            "larder calls these `cache.stale_while_revalidate` (while it is fetched again) and `cache.stale_if_error` \
             (after a failure of the origin)",
        );
        check(
            ROUTE,
            "proxy_pass",
            "larder calls it `site.route.proxy.to`; for example proxy = { to = [\"http://127.0.0.1:8000\"] }",
        );
        check("", "sendfile", "larder needs no key for it");
        assert_eq!(None, hint(ROUTE, "colour"));
        let proxy = "site[].route[].proxy.";
        check(proxy, "servers", "larder calls it `site.route.proxy.to`");
        check(SITE, "satisfy", "larder calls it `site.access.satisfy`; \"any\" or \"all\"");
        check(
            ROUTE,
            "limit_conn",
            "larder calls these `site.route.access.limit.concurrency` (of each client) and `limits.connections` (of all clients together)",
        );
        for (word, part) in [
            ("alias", "`site.route.files.strip` (the prefix that it stands for)"),
            ("templates", "larder renders no templates"),
            ("proxy_intercept_errors", "`site.route.intercept_errors`"),
            ("fastcgi_pass", "`site.route.php.to` (php-fpm)"),
            ("php_fastcgi", "`site.route.php.to` (php-fpm)"),
            ("sub_filter", "does not change the text of responses"),
            ("http_check", "`site.route.proxy.health.path`"),
            ("Options", "`site.route.files.listing` (lists of directories)"),
            ("stub_status", "`admin`; the admin page"),
            ("http2", "clients use HTTP/2 over TLS without a key"),
            ("internal", "`site.route.sendfile.root`"),
            ("default_server", "hosts = [\"*\"]"),
            ("proxy_cookie_path", "`Path` and `Domain` in cookies of the origin are rewritten"),
            ("ssi", "assembles no page"),
            ("mirror", "no copy of a request"),
            ("abort", "respond = { status = 403 }"),
            ("merge_slashes", "needs no key"),
            ("dav_methods", "for reading only"),
            ("log_not_found", "`site.log_skip`"),
            ("handle_response", "`site.route.error_pages` (pages in place of errors)"),
            ("map", "`site.redirect_map` (a file of redirects)"),
        ] {
            let found = hint(ROUTE, word).unwrap();
            assert!(found.contains(part), "{word}: {found}");
        }
        assert!(hint("", "uid").unwrap().contains("`user`"));
    }
}

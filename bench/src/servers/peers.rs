//! The configuration files of the peers. Every choice that helps the peer is made; see `docs/benchmarks.md`.

use super::{Place, Plan};

fn words(line: &str) -> Vec<String> {
    line.split_ascii_whitespace().map(str::to_owned).collect()
}

/// nginx with `server`, the body of its `server` block.
pub fn nginx(place: &Place, server: &str) -> Plan {
    let dir = place.dir.display();
    let user = if place.root_user { "user root;\n" } else { "" };
    let tls = place.certificate.as_ref().map_or(String::new(), |it| {
        let it = it.display();
        format!("ssl_certificate {it}/cert.pem;\nssl_certificate_key {it}/key.pem;\nssl_protocols TLSv1.3;\n")
    });
    let text = format!(
        "{user}daemon off;\nworker_processes 1;\npid {dir}/pid;\nerror_log {dir}/error.log;\n\
         events {{ worker_connections {connections}; multi_accept on; use epoll; }}\n\
         http {{\n\
         access_log off;\nserver_tokens off;\ntcp_nodelay on;\n\
         keepalive_timeout 1h;\nkeepalive_requests 1000000000;\nkeepalive_time 1d;\n\
         types {{ text/html html; }}\n\
         client_body_temp_path {dir}/body;\nproxy_temp_path {dir}/proxy;\nfastcgi_temp_path {dir}/fastcgi;\n\
         uwsgi_temp_path {dir}/uwsgi;\nscgi_temp_path {dir}/scgi;\n\
         open_file_cache max=1000 inactive=1h;\nopen_file_cache_valid 1h;\n\
         proxy_cache_path {dir}/cache keys_zone=page:10m inactive=1d use_temp_path=off;\n\
         upstream app {{ server 127.0.0.1:{origin}; keepalive 600; keepalive_requests 1000000000; }}\n\
         server {{ listen 127.0.0.1:{port}{sealed} backlog=4096;\n{tls}{server}\n}}\n}}\n",
        sealed = if place.certificate.is_some() { " ssl http2" } else { "" },
        connections = place.connections,
        origin = if server.contains("http://app") { place.origin } else { 1 },
        port = place.port,
    );
    let argv = vec!["nginx".into(), "-p".into(), dir.to_string(), "-c".into(), format!("{dir}/nginx.conf")];
    Plan { files: vec![("nginx.conf", text)], argv, ..Plan::default() }
}

/// Files. With `sendfile`, head and body leave in one segment (`tcp_nopush`).
pub fn nginx_files(place: &Place, sendfile: bool) -> String {
    let root = place.root.display();
    let how = if sendfile { "sendfile on; tcp_nopush on;" } else { "sendfile off; output_buffers 1 64k;" };
    format!("root {root};\n{how}")
}

/// A cache in files that the page cache holds, sent by `sendfile`.
pub fn nginx_cache(_place: &Place) -> String {
    "sendfile on; tcp_nopush on;\nproxy_http_version 1.1;\nproxy_set_header Connection \"\";\n\
     location / { proxy_pass http://app; proxy_cache page; proxy_cache_valid 1d; }"
        .to_owned()
}

/// A plain proxy with connections that are kept.
pub fn nginx_proxy(_place: &Place) -> String {
    "proxy_http_version 1.1;\nproxy_set_header Connection \"\";\n\
     location / { proxy_pass http://app; }"
        .to_owned()
}

/// A script of php-fpm for every path, with the parameters of its package.
pub fn nginx_php(place: &Place, script: &str) -> String {
    let root = place.root.join(script);
    format!(
        "root {root};\nlocation / {{ include /etc/nginx/fastcgi_params; fastcgi_param SCRIPT_FILENAME {root}/index.php;\n\
         fastcgi_pass unix:{}; }}",
        place.root.join("application/php").display(),
        root = root.display()
    )
}

/// Varnish's records in its shared log for each request; masked, as the access logs of the others are off.
const VARNISH_QUIET: &str = "-ReqStart,-ReqMethod,-ReqURL,-ReqProtocol,-ReqHeader,-ReqUnset,-ReqAcct,\
    -RespProtocol,-RespStatus,-RespReason,-RespHeader,-RespUnset,-Timestamp,-VCL_call,-VCL_return,-Hit,\
    -HitMiss,-HitPass,-Begin,-End,-SessOpen,-SessClose,-Link,-VCL_use,-Filters,-Length,-TTL,\
    -BereqMethod,-BereqURL,-BereqProtocol,-BereqHeader,-BereqUnset,-BereqAcct,-BerespProtocol,\
    -BerespStatus,-BerespReason,-BerespHeader,-BerespUnset,-BackendOpen,-BackendReuse,-BackendClose,\
    -Storage,-Fetch_Body,-Gzip";

/// Varnish; `verdict` is what `vcl_recv` returns: `hash` looks up, `pass` goes to the origin.
pub fn varnish(place: &Place, verdict: &str) -> Plan {
    let vcl = format!(
        "vcl 4.1;\nbackend default {{ .host = \"127.0.0.1\"; .port = \"{}\"; }}\n\
         sub vcl_recv {{ return ({verdict}); }}\n",
        place.origin
    );
    let (dir, port) = (place.dir.display(), place.port);
    let mut argv = words(&format!(
        "varnishd -F -j none -n {dir}/work -a 127.0.0.1:{port} -f {dir}/page.vcl -s malloc,1g \
         -p thread_pools=1 -p thread_pool_min=200 -p thread_pool_max=5000 -p timeout_idle=3600 \
         -p listen_depth=4096 -p nuke_limit=50 -p vsl_mask="
    ));
    if let Some(mask) = argv.last_mut() {
        mask.push_str(VARNISH_QUIET);
    }
    Plan { files: vec![("page.vcl", vcl)], argv, ..Plan::default() }
}

/// HAProxy, with its `cache` where `cached`.
pub fn haproxy(place: &Place, cached: bool) -> Plan {
    let (port, origin) = (place.port, place.origin);
    let tls = place.certificate.as_ref().map_or(String::new(), |it| {
        format!(" ssl crt {}/both.pem ssl-min-ver TLSv1.3 alpn h2,http/1.1", it.display())
    });
    let rules = if cached { "http-request cache-use page\nhttp-response cache-store page\n" } else { "" };
    let text = format!(
        "global\nno strict-limits\nnbthread 1\nmaxconn {connections}\n\
         defaults\nmode http\nmaxconn {connections}\ntimeout connect 5s\ntimeout client 1h\ntimeout server 1h\n\
         timeout http-keep-alive 1h\noption http-keep-alive\nhttp-reuse always\n\
         cache page\ntotal-max-size 64\nmax-object-size 4000000\nmax-age 86400\n\
         frontend here\nbind 127.0.0.1:{port} backlog 4096{tls}\ndefault_backend app\n\
         backend app\n{rules}server origin 127.0.0.1:{origin}\n",
        connections = place.connections,
    );
    let argv = words(&format!("haproxy -db -q -f {}/haproxy.cfg", place.dir.display()));
    Plan { files: vec![("haproxy.cfg", text)], argv, ..Plan::default() }
}

/// Traffic Server as a reverse proxy whose RAM cache holds everything. It refuses to serve as root.
pub fn traffic_server(place: &Place) -> Plan {
    let (dir, port, origin) = (place.dir.display(), place.port, place.origin);
    let owner = place.root_user.then_some("trafficserver");
    let runroot = format!(
        "prefix: {dir}\nexec_prefix: /usr\nbindir: /usr/bin\nsbindir: /usr/sbin\nsysconfdir: {dir}/etc\n\
         datadir: {dir}/cache\nincludedir: /usr/include\nlibdir: /usr/lib/trafficserver\n\
         libexecdir: /usr/lib/trafficserver/modules\nlocalstatedir: {dir}/var\nruntimedir: {dir}/run\n\
         logdir: {dir}/log\ncachedir: {dir}/cache\n"
    );
    let settings = [
        ("http.server_ports STRING", format!("{port}:ip-in=127.0.0.1")),
        ("admin.user_id STRING", owner.unwrap_or("#-1").to_owned()),
        ("exec_thread.autoconfig INT", "0".into()),
        ("exec_thread.limit INT", "1".into()),
        ("accept_threads INT", "0".into()),
        ("task_threads INT", "1".into()),
        ("cache.threads_per_disk INT", "1".into()),
        ("log.logging_enabled INT", "0".into()),
        ("http.cache.required_headers INT", "0".into()),
        ("cache.ram_cache.size INT", "268435456".into()),
        ("cache.ram_cache.algorithm INT", "1".into()),
        ("net.connections_throttle INT", place.connections.to_string()),
        ("net.max_connections_in INT", place.connections.to_string()),
        ("net.listen_backlog INT", "4096".into()),
        ("http.keep_alive_no_activity_timeout_in INT", "3600".into()),
        ("url_remap.pristine_host_hdr INT", "1".into()),
        ("crash_log_helper STRING", "NULL".into()),
    ];
    let records = settings.map(|(name, value)| format!("CONFIG proxy.config.{name} {value}\n")).concat();
    Plan {
        folders: vec!["etc", "var", "run", "log", "cache"],
        files: vec![
            ("runroot.yaml", runroot),
            ("etc/records.config", records),
            ("etc/storage.config", format!("{dir}/cache 256M\n")),
            ("etc/remap.config", format!("map / http://127.0.0.1:{origin}/\n")),
            (
                "etc/ip_allow.yaml",
                "ip_allow:\n- apply: in\n  ip_addrs: 127.0.0.0/8\n  action: allow\n  methods: ALL\n".into(),
            ),
        ],
        argv: words(&format!("traffic_server --run-root={dir}")),
        owner,
    }
}

/// H2O serving files.
pub fn h2o(place: &Place) -> Plan {
    let (port, connections) = (place.port, place.connections);
    let user = if place.root_user { "user: root\n" } else { "" };
    let tls = place.certificate.as_ref().map_or(String::new(), |it| {
        let it = it.display();
        format!(
            "  ssl:\n    certificate-file: {it}/cert.pem\n    key-file: {it}/key.pem\n    neverbleed: OFF\n    \
             ocsp-update-interval: 0\n"
        )
    });
    let text = format!(
        "{user}num-threads: 1\nmax-connections: {connections}\nhttp1-request-timeout: 3600\n\
         listen:\n  host: 127.0.0.1\n  port: {port}\n{tls}\
         hosts:\n  default:\n    paths:\n      \"/\":\n        file.dir: {}\n",
        place.root.display()
    );
    let argv = words(&format!("h2o -m worker -c {}/h2o.conf", place.dir.display()));
    Plan { files: vec![("h2o.conf", text)], argv, ..Plan::default() }
}

/// lighttpd serving files. Its counter of requests per connection has 16 bits.
pub fn lighttpd(place: &Place) -> Plan {
    let tls = place.certificate.as_ref().map_or(String::new(), |it| {
        let it = it.display();
        format!(
            "server.modules = ( \"mod_openssl\" )\nssl.engine = \"enable\"\nssl.pemfile = \"{it}/cert.pem\"\n\
             ssl.privkey = \"{it}/key.pem\"\n"
        )
    });
    let text = format!(
        "{tls}server.document-root = \"{root}\"\nserver.bind = \"127.0.0.1\"\nserver.port = {port}\n\
         server.max-fds = {files}\nserver.max-connections = {connections}\nserver.listen-backlog = 4096\n\
         server.max-keep-alive-requests = 65535\nserver.max-keep-alive-idle = 3600\n\
         server.stat-cache-engine = \"simple\"\nserver.network-backend = \"sendfile\"\n\
         server.event-handler = \"linux-sysepoll\"\nmimetype.assign = ( \".html\" => \"text/html\" )\n",
        root = place.root.display(),
        port = place.port,
        files = place.connections + 100,
        connections = place.connections,
    );
    let argv = words(&format!("lighttpd -D -f {}/lighttpd.conf", place.dir.display()));
    Plan { files: vec![("lighttpd.conf", text)], argv, ..Plan::default() }
}

/// Caddy serving files. It is one process with one processor, as the others have one worker.
pub fn caddy(place: &Place) -> Plan {
    let (port, root) = (place.port, place.root.display());
    let tls = place.certificate.as_ref().map_or(String::new(), |it| {
        let it = it.display();
        format!("tls {it}/cert.pem {it}/key.pem\n")
    });
    let scheme = if place.certificate.is_some() { "https" } else { "http" };
    let text = format!(
        "{{\nadmin off\nauto_https off\nservers {{\nprotocols h1 h2 h3\n}}\n}}\n\
         {scheme}://localhost:{port}, {scheme}://127.0.0.1:{port} {{\nbind 127.0.0.1\n{tls}root * {root}\nfile_server\n}}\n"
    );
    let argv = words(&format!("caddy run --adapter caddyfile --config {}/Caddyfile", place.dir.display()));
    Plan { files: vec![("Caddyfile", text)], argv, ..Plan::default() }
}

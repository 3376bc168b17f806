//! Values for well-known applications, of ordinary keys: `cache.preset` sets them for a route that does not set them
//! itself. The names of cookies are those of each application's documentation.

/// Values for routes to one kind of application.
#[derive(Debug)]
pub struct Preset {
    /// Its name in the configuration.
    pub name: &'static str,
    /// Keys beneath `cache.`, with values in the notation of flags.
    pub values: &'static [(&'static str, &'static str)],
    /// A requirement on the application, or its behaviour: one sentence, for the manual.
    pub note: &'static str,
}

/// Parameters with the source of a visitor: no application varies its pages by them.
const ANALYTICS: &str = "utm_*,mtm_*,matomo_*,pk_*,piwik_*,hsa_*,gad_*,gclid,gclsrc,dclid,gbraid,wbraid,_ga,_gl,srsltid,fbclid,\
                         igshid,msclkid,yclid,ysclid,_openstat,ttclid,twclid,li_fat_id,epik,mc_cid,mc_eid,mkt_tok,_hsenc,_hsmi,\
                         vero_id,_ke,s_kwcid,ef_id";

/// Cookies that scripts of analytics, advertising and consent set and read in the browser: no application makes another page of
/// them. The most frequent are first.
macro_rules! ignored {
    () => {
        "_ga*,_gid,_gat*,_gcl_*,_gac_*,_fbp,_fbc,__utm*,_hj*,_pk_*,_clck,_clsk,CookieConsent,OptanonConsent,\
         OptanonAlertBoxClosed,cookieyes-consent,cookieconsent_status,cmplz_*,borlabs-cookie,euconsent-v2,addtl_consent,\
         usprivacy,didomi_token,__hstc,__hssc,__hssrc,hubspotutk,_uetsid,_uetvid,_ttp,_tt_enable_cookie,_scid,_pin_unauth,\
         _rdt_uuid,_ym_*,__qca,__gads,__gpi,ajs_*,mp_*_mixpanel,_mkto_trk,_dd_s,__stripe_*,__cf_bm,cf_clearance,_cfuvid"
    };
}

/// The reload of a browser (`max-age=0`, `no-cache`) is answered from the cache, as by Varnish and nginx: otherwise a key held down is load on the
/// application. Its pages change with their lifetimes and by purges.
const RELOADS: (&str, &str) = ("request_directives", "harmless");

/// Every cookie: applications of some frameworks read cookies of any name.
const EVERY: &str = "*";

/// The names, as the table of keys allows them.
pub const NAMES: [&str; 9] =
    ["wordpress", "drupal", "django", "rails", "laravel", "node", "flask", "php", "nextjs"];

/// The presets, in the order of [`NAMES`].
pub const PRESETS: [Preset; 9] = [
    Preset {
        name: NAMES[0],
        values: &[
            // wp_set_auth_cookie(), RECOVERY_MODE_COOKIE, wp_set_comment_cookies(), carts of WooCommerce and Easy Digital
            // Downloads.
            (
                "private_cookies",
                "wordpress_logged_in_*,wordpress_sec_*,wordpress_rec_*,wp-postpass_*,comment_author_*,wp_woocommerce_session_*,\
                 woocommerce_items_in_cart,woocommerce_cart_hash,edd_items_in_cart,PHPSESSID",
            ),
            ("key.drop", ANALYTICS),
            RELOADS,
            // Sends `no-cache` for pages that must not be stored, and no directive for the rest.
            ("default_ttl", "10m"),
            ("stale_while_revalidate", "1m"),
            // The files that web servers hand out themselves; scripts are no files of `public_files`.
            ("public_files", "/wp-content/*,/wp-includes/*,/wp-admin/*"),
        ],
        note: "WordPress marks private pages as not cacheable and declares no lifetime for the others; this preset \
               caches them for 10 minutes. Uploads that a plugin protects by a login need a route of their own with \
               `public_files = []`.",
    },
    Preset {
        name: NAMES[1],
        values: &[
            // `SESS` or, over TLS, `SSESS`, and a hash of the host; NO_CACHE and PERSISTENT_LOGIN belong to modules.
            ("private_cookies", "SESS*,SSESS*,NO_CACHE,PERSISTENT_LOGIN_*"),
            ("key.drop", ANALYTICS),
            RELOADS,
            ("stale_while_revalidate", "1m"),
            // The files that its .htaccess leaves to the web server. Private ones are at `/system/files/`.
            (
                "public_files",
                "/core/*,/modules/*,/profiles/*,/themes/*,/libraries/*,/sites/{site}/files/{rest...}",
            ),
        ],
        note: "Drupal declares lifetimes once \"Browser and proxy cache maximum age\" is set. Its private files (`/system/files/`) go to \
               Drupal with the session of the visitor.",
    },
    Preset {
        name: NAMES[2],
        values: &[
            // SESSION_COOKIE_NAME, CSRF_COOKIE_NAME, and the cookie of django.contrib.messages. Without its `csrftoken` a
            // visitor's second form would get another secret, and the first form would be rejected.
            ("private_cookies", "sessionid,csrftoken,messages"),
            // LANGUAGE_COOKIE_NAME, of django.views.i18n.set_language.
            ("key.cookies", "django_language"),
            ("key.drop", ANALYTICS),
            RELOADS,
            // No directive is sent unless the view sets one.
            ("default_ttl", "1m"),
            ("stale_while_revalidate", "30s"),
            // STATIC_URL.
            ("public_files", "/static/*"),
        ],
        note: "Views without a declared lifetime are cached for 1 minute; mark views that must not be cached with \
               `never_cache`. Uploads are shared with every visitor if \
               `public_files = [\"/static/*\", \"/media/*\"]` says that MEDIA_URL is public.",
    },
    Preset {
        name: NAMES[3],
        values: &[
            // The session's cookie has the name of the application, and actions read others (`cookies[:theme]`).
            ("private_cookies", EVERY),
            ("ignored_cookies", ignored!()),
            ("key.drop", ANALYTICS),
            RELOADS,
            ("stale_while_revalidate", "30s"),
            // Sprockets and Propshaft; Shakapacker.
            ("public_files", "/assets/*,/packs/*"),
        ],
        note: "Rails sends `private` unless the action calls `expires_in …, public: true`. An action that uses the \
               session sets a cookie and is not cached. Files of Active Storage (`/rails/active_storage/`) and of the \
               application are requested for each session unless they say `public`, or `public_files` names their directory.",
    },
    Preset {
        name: NAMES[4],
        values: &[
            // The session's cookie has the name of the application, and actions read others. `XSRF-TOKEN` is read by scripts
            // in the browser: the application reads the field that they make of it.
            ("private_cookies", EVERY),
            ("ignored_cookies", concat!(ignored!(), ",XSRF-TOKEN")),
            ("key.drop", ANALYTICS),
            RELOADS,
            ("stale_while_revalidate", "30s"),
            // Vite, Mix, packages, and `php artisan storage:link`.
            ("public_files", "/build/*,/css/*,/js/*,/vendor/*,/storage/*"),
        ],
        note: "Laravel sends `private` unless the route has the middleware `cache.headers:public;max_age=…`. Only \
               routes outside the group `web` start no session (set no cookie). `/storage/` is the disk `public`; an application that protects it by a \
               login needs `public_files` without it.",
    },
    Preset {
        name: NAMES[5],
        values: &[
            // Each library of sessions and tokens has names of its own.
            ("private_cookies", EVERY),
            ("ignored_cookies", ignored!()),
            ("key.drop", ANALYTICS),
            RELOADS,
            ("stale_while_revalidate", "30s"),
        ],
        note: "Express and its kind declare no lifetime, only a weak validator: pages are cached once the application \
               sends `Cache-Control: public, max-age=…`. No directory is public by convention: with `public_files = [\"/static/*\"]` the files of \
               that directory are served from the cache to visitors with a session as well.",
    },
    Preset {
        name: NAMES[6],
        values: &[
            // SESSION_COOKIE_NAME is often changed, and views read others.
            ("private_cookies", EVERY),
            ("ignored_cookies", ignored!()),
            ("key.drop", ANALYTICS),
            RELOADS,
            // No directive is sent unless the view sets one. `Vary: Cookie` is, where a view reads the session.
            ("default_ttl", "1m"),
            ("stale_while_revalidate", "30s"),
            // The folder `static`.
            ("public_files", "/static/*"),
        ],
        note: "Views without a declared lifetime are cached for 1 minute; send `Cache-Control: private` from views that \
               must not be cached. Flask sends `no-cache` for its static files unless SEND_FILE_MAX_AGE_DEFAULT is set.",
    },
    Preset {
        name: NAMES[7],
        values: &[
            // session.name is often changed, and scripts read others.
            ("private_cookies", EVERY),
            ("ignored_cookies", ignored!()),
            ("key.drop", ANALYTICS),
            RELOADS,
            ("stale_while_revalidate", "30s"),
        ],
        note: "PHP sends `no-store` for pages with a session (session.cache_limiter) and no directive for the others; they \
               are cached if the script sends `Cache-Control: public, max-age=…` or the route has `default_ttl`. No directory is public by convention: with `public_files = [\"/assets/*\"]` the files of that \
               directory are served from the cache to visitors with a session as well.",
    },
    Preset {
        name: NAMES[8],
        values: &[
            // Libraries of sessions, experiments and previews have names of their own.
            ("private_cookies", EVERY),
            ("ignored_cookies", ignored!()),
            // The language that a visitor chose, of the router of Next.js and of next-intl.
            ("key.cookies", "NEXT_LOCALE"),
            // Pages and the payloads of navigation have one path; `_rsc` in the query, a hash of the state of the router,
            // distinguishes payloads. So the key has it, and `rsc` for clients that send no `_rsc`.
            ("key.headers", "rsc"),
            // The fields that select a payload, which Next.js and proxies before it have left out of `Vary`.
            ("vary", "rsc,next-router-state-tree,next-router-prefetch,next-router-segment-prefetch,next-url"),
            ("key.drop", ANALYTICS),
            RELOADS,
            ("stale_while_revalidate", "1m"),
            ("public_files", "/_next/static/*"),
        ],
        note: "Next.js declares lifetimes: `s-maxage` for pages that it revalidates, a year for `/_next/static`, and \
               `private, no-store` for pages rendered for one request. Files of `public` have no directory of their own, and say `public`.",
    },
];

/// The keys, in addition to its own, that override a value of a preset: with one of them set, it would contradict or have
/// no effect.
pub const YIELDS: &[(&str, &[&str])] =
    &[("key.drop", &["key.keep", "key.query"]), ("default_ttl", &["override_ttl"])];

/// The preset of a checked name.
#[must_use]
pub fn find(name: &str) -> Option<&'static Preset> {
    PRESETS.iter().find(|it| it.name == name)
}

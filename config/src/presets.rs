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
            // Sends `no-cache` for pages that must not be stored, and no directive for the rest.
            ("default_ttl", "10m"),
            ("stale_while_revalidate", "1m"),
        ],
        note: "WordPress marks private pages as not cacheable and declares no lifetime for the others; this preset \
               caches them for 10 minutes.",
    },
    Preset {
        name: NAMES[1],
        values: &[
            // `SESS` or, over TLS, `SSESS`, and a hash of the host; NO_CACHE and PERSISTENT_LOGIN belong to modules.
            ("private_cookies", "SESS*,SSESS*,NO_CACHE,PERSISTENT_LOGIN_*"),
            ("key.drop", ANALYTICS),
            ("stale_while_revalidate", "1m"),
        ],
        note: "Drupal declares lifetimes once \"Browser and proxy cache maximum age\" is set.",
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
            // No directive is sent unless the view sets one.
            ("default_ttl", "1m"),
            ("stale_while_revalidate", "30s"),
        ],
        note: "Views without a declared lifetime are cached for 1 minute; mark views that must not be cached with \
               `never_cache`.",
    },
    Preset {
        name: NAMES[3],
        values: &[
            // The default store's key, that of a store without a key (`_session_id`, of ActionDispatch), the generated
            // authentication's `session_id`, and Devise's.
            ("private_cookies", "_*_session,_session_id,session_id,remember_*"),
            ("key.drop", ANALYTICS),
            ("stale_while_revalidate", "30s"),
        ],
        note: "Rails sends `private` unless the action calls `expires_in …, public: true`. An action that uses the \
               session sets a cookie and is not cached.",
    },
    Preset {
        name: NAMES[4],
        values: &[
            // SESSION_COOKIE is `APP_NAME-session`, before Laravel 12 `APP_NAME_session`; remember_web_HASH; and the
            // cookie that grants access while `artisan down --secret` is in force.
            ("private_cookies", "*-session,*_session,remember_*,laravel_maintenance"),
            ("key.drop", ANALYTICS),
            ("stale_while_revalidate", "30s"),
        ],
        note: "Laravel sends `private` unless the route has the middleware `cache.headers:public;max_age=…`. Only \
               routes outside the group `web` start no session (set no cookie).",
    },
    Preset {
        name: NAMES[5],
        values: &[
            // express-session (`connect.sid`), cookie-session (`session`, `session.sig`), Koa (`koa.sess`), Sails
            // (`sails.sid`), Fastify (`sessionId`), Passport's `remember_me`, and the usual names of tokens.
            (
                "private_cookies",
                "*.sid,*.sig,*sess,*session,*sessionId,sid,remember_me,*token,*jwt,*auth,*Authorization",
            ),
            ("key.drop", ANALYTICS),
            ("stale_while_revalidate", "30s"),
        ],
        note: "Express and its kind declare no lifetime, only a weak validator: pages are cached once the application \
               sends `Cache-Control: public, max-age=…`. Name the session cookie in `private_cookies` if it has a name of \
               its own.",
    },
    Preset {
        name: NAMES[6],
        values: &[
            // SESSION_COOKIE_NAME, and REMEMBER_COOKIE_NAME of Flask-Login.
            ("private_cookies", "session,remember_token"),
            ("key.drop", ANALYTICS),
            // No directive is sent unless the view sets one. `Vary: Cookie` is, where a view reads the session.
            ("default_ttl", "1m"),
            ("stale_while_revalidate", "30s"),
        ],
        note: "Views without a declared lifetime are cached for 1 minute; send `Cache-Control: private` from views that \
               must not be cached. Flask sends `no-cache` for its static files unless SEND_FILE_MAX_AGE_DEFAULT is set.",
    },
    Preset {
        name: NAMES[7],
        values: &[
            // session.name, and the usual names for those who stay logged in.
            ("private_cookies", "PHPSESSID,*SESSID,*sess,*session,*sid,remember*,*token,*login,*auth"),
            ("key.drop", ANALYTICS),
            ("stale_while_revalidate", "30s"),
        ],
        note: "PHP sends `no-store` for pages with a session (session.cache_limiter) and no directive for the others; they \
               are cached if the script sends `Cache-Control: public, max-age=…` or the route has `default_ttl`.",
    },
    Preset {
        name: NAMES[8],
        values: &[
            // NextAuth and Auth.js, with and without the prefix of secure cookies; draft and preview mode.
            (
                "private_cookies",
                "next-auth.session-token*,__Secure-next-auth.session-token*,authjs.session-token*,\
                 __Secure-authjs.session-token*,__prerender_bypass,__next_preview_data,*session,*token",
            ),
            // Pages and the payloads of navigation have one path; `_rsc` in the query, a hash of the state of the router,
            // distinguishes payloads. So the key has it, and `rsc` for clients that send no `_rsc`.
            ("key.headers", "rsc"),
            // The fields that select a payload, which Next.js and proxies before it have left out of `Vary`.
            ("vary", "rsc,next-router-state-tree,next-router-prefetch,next-router-segment-prefetch,next-url"),
            ("key.drop", ANALYTICS),
            ("stale_while_revalidate", "1m"),
        ],
        note: "Next.js declares lifetimes: `s-maxage` for pages that it revalidates, a year for `/_next/static`, and \
               `private, no-store` for pages rendered for one request.",
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

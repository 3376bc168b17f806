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
pub const NAMES: [&str; 5] = ["wordpress", "drupal", "django", "rails", "laravel"];

/// The presets, in the order of [`NAMES`].
pub const PRESETS: [Preset; 5] = [
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
            ("tags.headers", "Cache-Tag,Surrogate-Key,Purge-Cache-Tags"),
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

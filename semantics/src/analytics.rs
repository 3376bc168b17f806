//! Query parameters and cookies of analytics, advertising and consent: scripts in the browser read them, and no application
//! makes another page of them. The presets use the same names.

use crate::parameter::{matches_decoded, name_of};

/// Names of query parameters; a `*` at the end matches any rest.
pub const PARAMETERS: &[&str] = &[
    "utm_*",
    "mtm_*",
    "matomo_*",
    "pk_*",
    "piwik_*",
    "hsa_*",
    "gad_*",
    "gclid",
    "gclsrc",
    "dclid",
    "gbraid",
    "wbraid",
    "_ga",
    "_gl",
    "srsltid",
    "fbclid",
    "igshid",
    "msclkid",
    "yclid",
    "ysclid",
    "_openstat",
    "ttclid",
    "twclid",
    "li_fat_id",
    "epik",
    "mc_cid",
    "mc_eid",
    "mkt_tok",
    "_hsenc",
    "_hsmi",
    "vero_id",
    "_ke",
    "s_kwcid",
    "ef_id",
];

/// Names of the most frequent cookies of this kind; a `*` matches any rest.
pub const COOKIES: &[&str] = &[
    "_ga*",
    "_gid",
    "_gat*",
    "_gcl_*",
    "_gac_*",
    "_fbp",
    "_fbc",
    "__utm*",
    "_hj*",
    "_pk_*",
    "_clck",
    "_clsk",
    "CookieConsent",
    "OptanonConsent",
    "OptanonAlertBoxClosed",
];

const _: () = assert!(PARAMETERS.len() <= 64);

/// The members of [`PARAMETERS`] in the query of a target, one bit each.
#[must_use]
pub fn parameters_of(target: &str) -> u64 {
    let Some((_, query)) = target.split_once('?') else { return 0 };
    let names = query.split('&').map(name_of);
    let position = |name| PARAMETERS.iter().position(|it| matches_decoded(it, name));
    names.filter_map(position).fold(0, |seen, at| seen | 1 << at)
}

/// The names of these bits.
#[must_use]
pub fn names(bits: u64) -> Vec<&'static str> {
    PARAMETERS.iter().enumerate().filter(|it| bits >> it.0 & 1 == 1).map(|it| *it.1).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: &str, expect: &[&str]) {
        assert_eq!(expect, names(parameters_of(target)), "{target}");
    }

    #[test]
    fn only_the_parameters_of_analytics() {
        check("/", &[]);
        check("/?page=2&q=utm_source", &[]);
        check("/?utm_source=a&utm_medium=b&gclid=1", &["utm_*", "gclid"]);
        check("/?a=1&fbclid", &["fbclid"]);
        check("/?%75tm_source=a", &["utm_*"]);
        check("/utm_source=1", &[]);
        check("/?gclidx=1&GCLID=1", &[]);
    }
}

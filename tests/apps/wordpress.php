<?php
/* A plugin of WordPress that purges larder as "Proxy Cache Purge" does when a post appears, changes or goes: PURGE of all pages of the site. */

add_action('transition_post_status', function ($new, $old) {
    if ($new !== 'publish' && $old !== 'publish') {
        return;
    }
    $home = parse_url(home_url());
    $sent = wp_remote_request(home_url('/.*'), [
        'method' => 'PURGE',
        'headers' => ['host' => "{$home['host']}:{$home['port']}", 'X-Purge-Method' => 'regex'],
        'timeout' => 120,
    ]);
    if (wp_remote_retrieve_response_code($sent) !== 200) {
        error_log('not purged: ' . print_r($sent, true));
    }
}, 10, 2);

/* The site of a test sends no mail, and its permalinks do not depend on how fast it answers itself. */
function wp_mail() {
    return true;
}
add_filter('pre_option_permalink_structure', fn() => '/%postname%/');

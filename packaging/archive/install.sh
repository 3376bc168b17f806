#!/bin/sh
# Installs larder from this directory, upgrades it, or removes it. A configuration that is there is never changed.
set -eu
# What is installed is read by all users, whatever the shell of root allows.
umask 022
unset CDPATH

usage() {
    cat <<'END'
Usage: ./install.sh [--prefix DIR] [--no-service]
       ./install.sh --uninstall [--purge] [--prefix DIR]

  --prefix DIR   where the program is installed; /usr/local by default
  --no-service   neither a user nor a service of systemd
  --uninstall    removes what was installed; configuration, logs and cache stay
  --purge        with --uninstall: removes these as well

A running service goes on with the new program without losing a request (larder upgrade).
DESTDIR=DIR in the environment installs below DIR, and starts and stops nothing.
END
}

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

prefix=/usr/local service=yes action=install purge=no
while [ $# -gt 0 ]; do
    case $1 in
    --prefix)
        [ $# -ge 2 ] || fail "--prefix requires a directory"
        prefix=$2
        shift
        ;;
    --prefix=*) prefix=${1#*=} ;;
    --no-service) service=no ;;
    --uninstall) action=uninstall ;;
    --purge) purge=yes ;;
    -h | --help)
        usage
        exit 0
        ;;
    *) fail "unknown argument $1; --help lists them" ;;
    esac
    shift
done
case $prefix in
*/../* | */..) fail "--prefix $prefix: use a path without .." ;;
/*[!A-Za-z0-9/._+-]*) fail "--prefix $prefix: use only letters, digits and /._+-" ;;
/*) ;;
*) fail "--prefix $prefix: it has to begin with /" ;;
esac
[ "$purge" = no ] || [ "$action" = uninstall ] || fail "--purge requires --uninstall"

root=${DESTDIR:-}
here=$(cd -- "$(dirname -- "$0")" && pwd)
[ -n "$root" ] || [ "$(id -u)" = 0 ] || fail "run it as root, or set DESTDIR"

unit=$root/etc/systemd/system/larder.service
program=$root$prefix/bin/larder
# systemd runs here, and this is no image that is only prepared.
live() { [ -z "$root" ] && [ -d /run/systemd/system ]; }
has_user() { getent passwd larder >/dev/null 2>&1 || grep -q '^larder:' /etc/passwd 2>/dev/null; }

# Installs a file under its name at once, so that no one reads half of it, and a program that runs is not written to. The draft is a new
# file in any case (-C): a link under its name is not followed, since another user may have made it.
put() { # MODE SOURCE TARGET
    mkdir -p "$(dirname "$3")"
    rm -f "$3.new"
    (
        set -C
        cat "$2" >"$3.new"
    )
    [ "$1" = 644 ] || chmod "$1" "$3.new"
    mv -f "$3.new" "$3"
}

add_user() {
    has_user && return
    if command -v systemd-sysusers >/dev/null 2>&1; then
        systemd-sysusers "$here/larder.sysusers"
    elif command -v useradd >/dev/null 2>&1; then
        useradd --system --user-group --no-create-home --home-dir /var/lib/larder --shell /usr/sbin/nologin larder
    elif command -v adduser >/dev/null 2>&1; then
        adduser -S -D -H -h /var/lib/larder -s /sbin/nologin larder
    else
        fail "there is no program that adds the user larder (systemd-sysusers, useradd or adduser)"
    fi
}

# The unit creates them at a start, too. `larder check` needs that of the access log.
make_directories() {
    for it in log lib cache; do
        [ -d "$root/var/$it/larder" ] && continue
        mkdir -p "$root/var/$it/larder"
        [ -n "$root" ] || ! has_user || chown larder: "/var/$it/larder"
    done
}

install_all() {
    "$here/larder" version >/dev/null || fail "the program of this archive does not run on this machine ($(uname -sm))"
    put 755 "$here/larder" "$program"
    for it in larder.1 larder.toml.5; do put 644 "$here/man/$it" "$root$prefix/share/man/man${it##*.}/$it"; done
    put 644 "$here/completions/larder.bash" "$root$prefix/share/bash-completion/completions/larder"
    put 644 "$here/completions/larder.zsh" "$root$prefix/share/zsh/site-functions/_larder"
    put 644 "$here/completions/larder.fish" "$root$prefix/share/fish/vendor_completions.d/larder.fish"
    put 644 "$here/www/index.html" "$root$prefix/share/larder/www/index.html"
    mkdir -p "$root/etc/larder/conf.d"
    if [ ! -e "$root/etc/larder/larder.toml" ] && [ ! -L "$root/etc/larder/larder.toml" ]; then
        sed "s|/usr/share/larder|$prefix/share/larder|" "$here/larder.toml" >"$work/larder.toml"
        put 644 "$work/larder.toml" "$root/etc/larder/larder.toml"
    fi
    [ "$service" = no ] || [ -n "$root" ] || add_user
    make_directories
    [ "$service" = yes ] || return 0
    sed "s|/usr/bin/larder|$prefix/bin/larder|" "$here/larder.service" >"$work/larder.service"
    put 644 "$work/larder.service" "$unit"
    live || return 0
    systemctl daemon-reload
    if systemctl --quiet is-active larder.service; then
        # The reason of a failure is printed. Without an admin the program can only be asked by a signal.
        if "$program" stats -c "$root/etc/larder/larder.toml" >/dev/null 2>&1; then
            "$program" upgrade -c "$root/etc/larder/larder.toml" ||
                fail "the previous version goes on serving; retry: larder upgrade (or systemctl restart larder)"
        else
            systemctl kill --kill-who=main --signal=USR2 larder.service
            echo "The running service hands over to the new program; its log has the result (journalctl -u larder)."
        fi
    else
        echo "Start it: systemctl enable --now larder"
    fi
}

uninstall_all() {
    if [ -e "$unit" ]; then
        if live; then systemctl disable --now larder.service || true; fi
        rm -f "$unit"
        if live; then systemctl daemon-reload; fi
    fi
    rm -f "$program" "$root$prefix/share/man/man1/larder.1" "$root$prefix/share/man/man5/larder.toml.5" \
        "$root$prefix/share/bash-completion/completions/larder" "$root$prefix/share/zsh/site-functions/_larder" \
        "$root$prefix/share/fish/vendor_completions.d/larder.fish"
    rm -rf "$root$prefix/share/larder"
    [ "$purge" = yes ] || return 0
    rm -rf "$root/etc/larder" "$root/var/lib/larder" "$root/var/cache/larder" "$root/var/log/larder"
}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${action}_all"

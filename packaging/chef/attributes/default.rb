# The package: a path on the node; a newer file there is an upgrade. Without it: `larder` of the configured package sources.
default['larder']['deb'] = nil

# The keys of larder.toml but `site`, as in docs/generated/config.md: addresses, logs, tiers. Paths are absolute; nil removes a default.
# Roles and environments set lists by override_attributes: Chef joins the lists of its default levels.
#
#   default['larder']['settings']['cache']['disk'] = { 'path' => '/var/cache/larder', 'size' => '10GiB' }
#   default['larder']['settings']['cache']['fleet'] = { 'servers' => ['10.0.0.2:11211', '10.0.0.3:11211'] }
default['larder']['settings'] = {
  'listen' => ['[::]:80'],
  'log' => { 'access' => '/var/log/larder/access.log' },
  'cache' => { 'ram' => { 'size' => '256MiB' } },
}

# The sites by a name of their own: the keys of [[site]]; nil removes one. Without any: the page of the package.
#
#   default['larder']['sites']['shop'] = {
#     'hosts' => ['www.example.com'],
#     'route' => [
#       { 'path' => '/assets/*', 'files' => { 'root' => '/srv/shop/assets' } },
#       { 'path' => '/*', 'proxy' => { 'to' => ['http://127.0.0.1:8000'] }, 'cache' => { 'preset' => 'django' } },
#     ],
#   }
default['larder']['sites'] = {}

# The configuration may contain secrets: it is readable by root and by the group of the service.
default['larder']['group'] = 'larder'

# Starts the service now and at boot, and reloads it after changes.
default['larder']['service'] = true

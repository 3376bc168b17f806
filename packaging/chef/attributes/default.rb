# The package: a path on the node. Without it: `larder` of the configured package sources.
default['larder']['deb'] = nil

# The keys of larder.toml but `site`, as in docs/generated/config.md. Paths are absolute.
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
#       { 'path' => '/*', 'proxy' => { 'to' => ['http://127.0.0.1:8000'] } },
#     ],
#   }
default['larder']['sites'] = {}

# The configuration may contain secrets: it is readable by root and by the group of the service.
default['larder']['group'] = 'larder'

# Starts the service now and at boot, and reloads it after changes.
default['larder']['service'] = true

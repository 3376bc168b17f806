# Installs larder, writes its configuration, and starts the service.
larder = node['larder']

# A newer file is an upgrade, and keeps the configuration; without an option dpkg asks, and fails without a terminal.
if larder['deb']
  package 'adduser'

  dpkg_package 'larder' do
    source larder['deb']
    options '--force-confold'
    action :upgrade
  end
else
  package 'larder'
end

sites = larder['sites'].to_h.values.compact
sites = [{ 'hosts' => ['*'], 'route' => [{ 'path' => '/*', 'files' => { 'root' => '/usr/share/larder/www' } }] }] if sites.empty?

# The file is checked before it replaces the one in force. A rejected file stays out.
template '/etc/larder/larder.toml' do
  source 'larder.toml.erb'
  variables settings: larder['settings'].to_h.merge('site' => sites)
  group larder['group']
  mode '0640'
  verify 'larder check -c %{path}'
  sensitive true
  notifies :reload, 'service[larder]' if larder['service']
end

service 'larder' do
  supports reload: true
  action larder['service'] ? %i(enable start) : :nothing
end

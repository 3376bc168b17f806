# Installs larder, writes its configuration, and starts the service.
larder = node['larder']

if larder['deb']
  dpkg_package 'larder' do
    source larder['deb']
  end
else
  package 'larder'
end

service 'larder' do
  supports reload: true
  action larder['service'] ? %i(enable start) : :nothing
end

sites = larder['sites'].values.compact
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

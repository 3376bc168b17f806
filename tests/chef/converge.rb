# Runs the cookbook as Chef does, with the four resources that it uses: the node's attributes, the recipe, then each resource in its
# order and the delayed notifications. dpkg, the templates and their checks are real, below ROOT; packages of apt and services are only
# recorded there. This is not Chef, which Debian does not have: the actions follow the sources of its providers.
# Usage: ruby converge.rb COOKBOOK NODE.json ROOT
# Prints each updated resource and action, one a line.
require 'erb'
require 'fileutils'
require 'json'
require 'open3'
require 'tempfile'

COOKBOOK, NODE, ROOT = ARGV

def run(*command)
  out, status = Open3.capture2e(*command, stdin_data: '')
  raise "#{command.join(' ')}: #{out}" unless status.success?
  out
end

# Attributes are read-only for recipes.
def frozen(it)
  it.each_value { |inner| frozen(inner) } if it.is_a?(Hash)
  it.freeze
end

# Own values replace defaults; tables are merged.
def merged(default, own)
  default.merge(own) { |_, old, new| old.is_a?(Hash) && new.is_a?(Hash) ? merged(old, new) : new }
end

class Resource
  attr_reader :name, :notified

  # The properties of a kind, in the form of Chef: a call with a value sets one.
  def self.properties(*names)
    names.each do |name|
      define_method(name) do |value = nil|
        @set[name] = value unless value.nil?
        @set[name]
      end
    end
  end

  def initialize(name)
    @name = name
    @set = {}
    @notified = []
  end

  def action(value = nil)
    @action = value if value
    @action || self.class::ACTION
  end

  def notifies(action, resource)
    @notified << [action, resource]
  end

  def to_s
    "#{self.class.name.gsub(/([a-z])([A-Z])/, '\1_\2').downcase}[#{@name}]"
  end

  # A fact of the machine that is only recorded; true if it is new.
  def record(it)
    path = File.join(ROOT, 'recorded', "#{self.class}-#{@name}-#{it}")
    return false if File.exist?(path)
    FileUtils.mkdir_p(File.dirname(path))
    FileUtils.touch(path)
  end
end

class Package < Resource
  ACTION = :install

  def install
    record(:install)
  end
end

class Service < Resource
  ACTION = :nothing
  properties :supports

  def enable
    record(:enable)
  end

  def start
    record(:start)
  end

  def reload
    raise "#{self} cannot reload" unless supports[:reload]
    true
  end
end

class DpkgPackage < Resource
  ACTION = :install
  properties :source, :options

  # A package that is there stays, whatever its version.
  def install
    current.nil? && upgrade
  end

  def upgrade
    return false if current == run('dpkg-deb', '--field', source, 'Version').strip
    run('dpkg', "--root=#{ROOT}", '--force-not-root', '-i', *options, source)
  end

  def current
    out, status = Open3.capture2e('dpkg-query', "--admindir=#{ROOT}/var/lib/dpkg", '-W', '-f', '${Version}', @name)
    out if status.success?
  end
end

class Template < Resource
  ACTION = :create
  properties :source, :variables, :group, :mode, :verify, :sensitive

  def create
    variables.each { |name, value| instance_variable_set("@#{name}", value) }
    text = ERB.new(File.read("#{COOKBOOK}/templates/#{source}"), trim_mode: '-').result(binding)
    path = File.join(ROOT, @name)
    return false if File.exist?(path) && File.read(path) == text
    Tempfile.create('.chef', File.dirname(path)) do |draft|
      draft.write(text)
      draft.close
      run('sh', '-c', format(verify, path: draft.path))
      File.chmod(Integer(mode, 8), draft.path)
      FileUtils.cp(draft.path, path, preserve: true)
    end
    true
  end
end

# The names that a recipe and a file of attributes use.
class Run
  attr_reader :default, :node

  def initialize
    @default = Hash.new { |all, name| all[name] = {} }
    @resources = []
    instance_eval(File.read("#{COOKBOOK}/attributes/default.rb"), 'attributes')
    @node = frozen(merged(@default, JSON.parse(File.read(NODE))))
    Dir["#{COOKBOOK}/libraries/*.rb"].each { |it| require File.expand_path(it) }
    instance_eval(File.read("#{COOKBOOK}/recipes/default.rb"), 'recipe')
  end

  { package: Package, dpkg_package: DpkgPackage, service: Service, template: Template }.each do |name, kind|
    define_method(name) do |title, &block|
      @resources << kind.new(title)
      @resources.last.instance_eval(&block) if block
    end
  end

  def act(resource, action)
    return if action == :nothing || !resource.public_send(action)
    puts "#{resource} #{action}"
    @delayed |= resource.notified
  end

  def converge
    @delayed = []
    @resources.each { |resource| Array(resource.action).each { |action| act(resource, action) } }
    @delayed.each do |action, name|
      act(@resources.find { |it| it.to_s == name } || raise("no #{name}"), action)
    end
  end
end

Run.new.converge

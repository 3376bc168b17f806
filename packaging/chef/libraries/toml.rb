# Settings as TOML: in each table its values first, then the tables in it. A key with nil is left out: it removes a default.
require 'json'

module Larder
  # The lines of the table `it`, whose name with a dot at its end is `path`.
  def self.toml(it, path = '')
    tables, rest = it.compact.partition { |_, inner| inner.respond_to?(:to_hash) }
    arrays, values = rest.partition { |_, inner| inner.respond_to?(:to_ary) && inner.any? { |one| one.respond_to?(:to_hash) } }
    lines = values.map { |name, inner| "#{key(name)} = #{value(inner)}\n" }
    lines += tables.map { |name, inner| "\n[#{path}#{key(name)}]\n" + toml(inner, "#{path}#{key(name)}.") }
    lines += arrays.flat_map do |name, all|
      all.map { |inner| "\n[[#{path}#{key(name)}]]\n" + toml(inner, "#{path}#{key(name)}.") }
    end
    lines.join
  end

  def self.key(it)
    it.match?(/\A[A-Za-z0-9_-]+\z/) ? it : JSON.generate(it)
  end

  def self.value(it)
    it.respond_to?(:to_ary) ? "[#{it.map { |inner| value(inner) }.join(', ')}]" : JSON.generate(it)
  end
end

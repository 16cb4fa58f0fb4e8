"""What is right: a pure executable specification of the cache control plane of an LLM serving engine."""

__version__ = "0.2.0"

SPECIFICATION_VERSION = "0.1"
"""What an implementation is held to, apart from the version of this package: MAJOR.MINOR.

The first number changes where an implementation that conformed may no longer do so: an outcome, an observable or a
configuration of the normative variant of a component changes its meaning, or an operation goes. The second changes
where something is added: a component, an operation, an observable, a field of a configuration that has a default. While
the first is 0, the second changes with either. Eras, properties, scopes and speed change neither.
"""

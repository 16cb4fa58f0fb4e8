"""What is right: a pure executable specification of the cache control plane of an LLM serving engine."""

__version__ = "0.1.0"

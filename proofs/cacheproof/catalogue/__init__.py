"""The catalogue of known violations: what is known of each, where a scope shows it, and its shortest trace."""

"""Exploring every reachable state of a scope."""

"""Runs in the environment of a release."""

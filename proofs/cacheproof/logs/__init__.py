"""Logs: recorded in a running engine or by several processes, and validated against the specification."""

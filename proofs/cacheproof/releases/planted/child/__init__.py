"""Bugs of ours, planted in the process that drives a release. Imports the standard library and the driver."""

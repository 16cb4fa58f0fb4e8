"""Recorded workloads through the specification, at production sizes, with properties checked as they go."""

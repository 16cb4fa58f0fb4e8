"""Recorded workloads through the specification or a target."""

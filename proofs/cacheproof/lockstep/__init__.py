"""Stateful fuzzing of any component against any target."""

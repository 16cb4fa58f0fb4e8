"""Macro operations: what many callers do at once, made by a target in bursts, and by the specification call by call.

A macro such as `Burst(37, 5)` has a count and a seed. What it does depends on these and on the state in which its turn
comes, so a run of macros is repeated from a handful of numbers, and shrinks by making its counts smaller.
"""

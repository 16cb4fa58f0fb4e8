"""Runs that an implementation has recorded of itself, validated by the specification.

`python -m cacheproof.recorded PATH` performs every recorded operation on the specification and names the first one that
cannot have happened: `PATH` is a run as one file (`run.py`), or the folder of a mirror in several processes
(`mirror.py`).
"""

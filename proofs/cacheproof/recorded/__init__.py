"""Runs that an implementation has recorded of itself in several processes, validated by the specification.

`python -m cacheproof.recorded FOLDER` puts the recordings of a mirror together (`mirror.py`), validates them as a log
is validated (`run.py`), and names the first operation that cannot have happened. `--write` writes that log.
"""

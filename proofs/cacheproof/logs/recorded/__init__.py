"""Runs that an implementation has recorded of itself in several processes, validated by the specification.

`python -m cacheproof.logs.recorded FOLDER` joins the recordings of a mirror (`mirror.py`), validates them as a log is
validated (`run.py`), and names the first operation that cannot have happened. `--write` writes that log.
"""

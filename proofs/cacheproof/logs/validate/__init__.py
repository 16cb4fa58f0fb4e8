"""Logs of implementations, validated: is what an implementation logged of itself a run of the specification?

`docs/formats/log.md` is the format, and the algorithm that these modules are. `header.py` and `lines.py` say what a log
may hold, `source.py` reads it without ever holding more than a line and a chunk, `possible.py` keeps the states of the
specification that are still possible, `validator.py` goes through the lines, and `fast.py` does so where nothing is
unknown.
"""

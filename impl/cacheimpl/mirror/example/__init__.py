"""The mirror in several processes: frontends and an engine core over ZeroMQ, with msgpack, faults, and a recording.

`python -m cacheimpl.mirror.example --help`; it needs the extra `mirror`. What the processes record of themselves can be
validated afterwards: nothing here looks whether it is right.
"""

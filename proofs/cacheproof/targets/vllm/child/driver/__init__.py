"""Drives the cache classes of a released vLLM and speaks the line protocol. Imports the standard library only.

`start.py` beside this package runs it with the Python of the environment in which the release was installed.
"""

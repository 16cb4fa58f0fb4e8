"""Recorded violations made again on a release: one typed driver, one judge, and a file that needs the release only.

`case`, `judge`, `looks` and `standalone` need the standard library and the specification only: `archive` packs them.
"""

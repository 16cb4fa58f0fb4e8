"""Vectors: runs of the specification as files that an implementation in any language is held to without us.

docs/formats/vectors.md describes the files; `fill` writes them, `consume` runs them on a target.
"""

"""Every kind of node that can be followed, by its name in a graph. One that is not here is an error."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from cacheproof.prove.implementation.call import Kind
from cacheproof.prove.implementation.kinds import elementwise, indexing, lines, making, moving

KINDS: Mapping[str, Kind] = MappingProxyType(
    {**making.KINDS, **moving.KINDS, **elementwise.KINDS, **lines.KINDS, **indexing.KINDS}
)
"""The functions of the interpreter."""

IN_PLACE: Mapping[str, str] = MappingProxyType(
    {"aten.scatter_reduce_.two": "aten.scatter_reduce.two", "aten.fill_.Scalar": "aten.full_like.default"}
)
"""Kinds that write into their first argument, and the kind that makes a copy instead."""

"""Which calls a line may be of, where it does not say all of the call.

An operand that is a name (a key, a request, a block) ranges over the names of the configuration: those are all there
are. Other operands have no finite range. The call is then looked for among those that the environment of the
configuration makes in the state, as exploration does; there may be others.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from itertools import product
from math import prod
from typing import Any, NamedTuple

from cacheproof.logs.validate.header import Header
from cacheproof.logs.validate.lines import Line, agrees
from cacheproof.model.naming import names_in, single_sorts
from cachespec.kernel import Operation

MOST_NAMED = 4096
"""The most calls that are tried in one state when a line leaves out operands that are names."""


class Calls(NamedTuple):
    """The calls that a line may be of in one state, and whether these are all."""

    operations: tuple[Operation, ...]
    complete: bool


class Candidates:
    """Finds calls for the lines of one log."""

    def __init__(self, header: Header) -> None:
        self._component, self._variant, self._config = header.component, header.variant, header.config
        self._names = {sort: sorted(names) for sort, names in names_in(header.component, header.config).items()}
        self._unlogged = frozenset(header.unlogged.operations)

    def of(self, line: Line, state: Any) -> Calls:
        """The calls that this line may be of."""
        if line.operation is not None:
            return Calls((line.operation,), complete=True)
        named = self._by_names(line)
        if named is not None:
            return Calls(named, complete=True)
        offered = self._variant.alphabet(self._config, state)
        return Calls(tuple(dict.fromkeys(each for each in offered if _fits(line, each))), complete=False)

    def unlogged(self, state: Any) -> Iterable[Operation]:
        """The calls that may have happened in this state without a line."""
        offered = self._variant.alphabet(self._config, state)
        return dict.fromkeys(each for each in offered if type(each) in self._unlogged)

    def _by_names(self, line: Line) -> tuple[Operation, ...] | None:
        """All calls, where what is not known are names, and not too many; None otherwise."""
        if line.kind is None:
            return None
        sorts = single_sorts(line.kind)
        ranges: list[Any] = []
        for field in fields(line.kind):
            if field.name in line.operands:
                said = line.operands[field.name]
                if isinstance(said, tuple) and None in said:
                    return None
                ranges.append((said,))
            elif sorts.get(field.name) in self._names:
                ranges.append(self._names[sorts[field.name]])
            else:
                return None
        if prod(map(len, ranges)) > MOST_NAMED:
            return None
        calls = (line.kind(*operands) for operands in product(*ranges))
        return tuple(each for each in calls if self._component.unknown(self._config, each) is None)


def _fits(line: Line, operation: Operation) -> bool:
    if line.kind is not None and type(operation) is not line.kind:
        return False
    return all(agrees(said, getattr(operation, name)) for name, said in line.operands.items())

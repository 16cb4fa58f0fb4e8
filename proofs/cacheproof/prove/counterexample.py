"""A model of a failed obligation, as a person reads it."""

from __future__ import annotations

from typing import Any

import z3  # type: ignore[import-untyped]  # z3 ships no types

from cacheproof.prove.containers import SymbolicMap, SymbolicQueue
from cacheproof.prove.executor import SymbolicBoolean, SymbolicInteger, Term
from cacheproof.prove.fifo import Fifo
from cacheproof.prove.histories import Log, Opaque, Pool
from cacheproof.prove.records import Records
from cacheproof.prove.sequences import SymbolicSequence, Unknown
from cacheproof.prove.shapes import Shape
from cacheproof.prove.states import part_names

MOST_SHOWN = 8


def described(model: Any, shown: dict[str, Any]) -> str:
    """One line for each shown value."""
    reader = _Reader(model)
    return "\n".join(f"{name}: {reader.show(value)}" for name, value in shown.items())


class _Reader:
    """Reads values out of a model. Containers show those of their entries whose keys the model mentions."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.constants = [declared() for declared in model.decls() if declared.arity() == 0]

    def show(self, value: Any) -> str:
        if type(value) in (SymbolicInteger, SymbolicBoolean):
            return str(self._value(value.term))
        if type(value) is Opaque:
            return str(self._value(value.term)).replace("!val!", " ")
        if type(value) is Log:
            return self._log(value)
        if type(value) in (Fifo, Records):
            return self._fifo(value)
        if type(value) is Pool:
            return "(" + ", ".join(["…", *(self.show(one) for one in value.added)]) + ")"
        if type(value) is Unknown:
            return "(…)"
        if type(value) is SymbolicMap:
            entries = (f"{key}: {self._shaped(value.value, value.values[key])}" for key in self._members(value))
            return "{" + ", ".join(entries) + "}"
        if type(value) is SymbolicQueue:
            keys = sorted(self._members(value), key=lambda key: self._value(value.stamps[key]).as_long())
            return "[" + ", ".join(f"{key} ({self._value(value.weights[key])})" for key in keys) + "]"
        if type(value) is SymbolicSequence:
            return self._sequence(value)
        if hasattr(value, "shown"):
            text: str = value.shown(self._value)
            return text
        if type(value) is tuple:
            return "(" + ", ".join(self.show(item) for item in value) + ")"
        if hasattr(value, "_fields") or hasattr(value, "__dataclass_fields__"):
            parts = (f"{part}={self.show(getattr(value, part))}" for part in part_names(value))
            return f"{type(value).__name__}({', '.join(parts)})"
        return str(getattr(value, "value", value))

    def _value(self, term: Term) -> Any:
        return self.model.eval(term, model_completion=True)

    def _shaped(self, shape: Shape, term: Term) -> str:
        return self.show(shape.decode(self._value(term)))

    def _members(self, container: SymbolicMap | SymbolicQueue) -> list[Term]:
        """The members among the values that the model gives to its constants of the key's sort."""
        values = {self._value(one) for one in self.constants if one.sort() == container.key.sort}
        return sorted((key for key in values if z3.is_true(self._value(container.members[key]))), key=str)

    def _log(self, log: Log) -> str:
        first, after = (self._value(term).as_long() for term in (log.base, log.next))
        shown = range(first, min(after, first + MOST_SHOWN))
        messages = [self.show(log.at(z3.IntVal(sequence))) for sequence in shown]
        orders = [self.show(Opaque(log.orders[sequence])) for sequence in range(first, shown.stop + 1)]
        return f"Log({', '.join(messages) or 'empty'}; orders from {first}: {', '.join(orders)})"

    def _fifo(self, queue: Fifo) -> str:
        first, after = (self._value(term).as_long() for term in (queue.first, queue.next))
        shown = [self.show(queue.at(z3.IntVal(number))) for number in range(first, min(after, first + MOST_SHOWN))]
        return "(" + ", ".join([*shown, *(["…"] if after - first > MOST_SHOWN else [])]) + ")"

    def _sequence(self, sequence: SymbolicSequence) -> str:
        length = self._value(sequence.length).as_long()
        items = [self._shaped(sequence.element, sequence.items[place]) for place in range(min(length, MOST_SHOWN))]
        return "(" + ", ".join([*items, *(["…"] if length > MOST_SHOWN else [])]) + ")"

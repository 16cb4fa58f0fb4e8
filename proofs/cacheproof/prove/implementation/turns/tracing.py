"""One graph for every number of turns, and for every size of the pool.

A burst is traced with one turn, with several numbers of turns, and with a pool of other sizes. If all graphs have the
same calls, the graph of one turn stands for all of them: its tensors with an axis of turns hold one turn. A number in
the graph that is another one with more turns, or in a larger pool, is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.fx import Graph, GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx

from cacheproof.prove.executor import NotFollowedError
from cacheproof.prove.implementation.graph import results_of

MANY = (13, 17)
"""Numbers of turns, beside one, with which a burst is traced; no size of a pool is one of them."""

CONSTANT = "get_attr"
"""How a node of a constant is marked."""

FRESH = ("aten.full_like.default", "aten.full.default")
"""Kinds whose result is a tensor that nothing else holds."""

Place = tuple[str, int]
"""The name of a node, and the position of one of its arguments."""
Numbers = tuple[int, ...]
"""A number of the graph: with one turn, with each of `MANY`, and with one turn in the larger pool."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """The arguments of a burst: tensors of the pool and its configuration by name, and the operands of each turn."""

    fixed: Mapping[str, Tensor]
    """They do not depend on the number of turns."""
    turns: tuple[str, ...]
    """Names of the operands: [turns] int64 each."""

    def examples(self, turns: int) -> list[Tensor]:
        """Tensors of these shapes."""
        return [*self.fixed.values(), *(torch.zeros(turns, dtype=torch.int64) for _ in self.turns)]

    @property
    def names(self) -> list[str]:
        """Of all arguments, in their order."""
        return [*self.fixed, *self.turns]


Function = Callable[[Mapping[str, Tensor]], Mapping[str, Tensor]]
"""From arguments by name to results by name."""


@dataclass(frozen=True, slots=True)
class Traced:
    """The graph of one turn, and what is known of every other number of turns."""

    module: GraphModule
    inputs: Inputs
    results: tuple[str, ...]
    of_turns: frozenset[str]
    """The nodes that have an axis of turns."""
    numbers: Mapping[Place, Numbers]
    """Numbers that are not the same in all graphs."""
    constants: Mapping[Place, tuple[Numbers, ...]]
    """Constants of the graph: their elements."""
    widths: Mapping[str, int]
    """Of each argument with two axes, how many elements a row has; 0 if it is not as many in both pools."""

    def node_of(self, result: str) -> Node:
        """The node of a result."""
        output = next(node for node in self.module.graph.nodes if node.op == "output")
        made: Any = output.args[0]
        node: Node = made[self.results.index(result)]
        return node

    def placeholders(self) -> dict[str, Node]:
        """The node of each argument, by the name of the argument."""
        nodes = [node for node in self.module.graph.nodes if node.op == "placeholder"]
        return dict(zip(self.inputs.names, nodes, strict=True))


def traced_burst(
    function: Function, pool: Inputs, larger: Inputs, results: Sequence[str] | None = None, many: Sequence[int] = MANY
) -> Traced:
    """The burst in both pools, with one turn and with `many`; only these results.

    Raises `NotFollowedError` if the graphs have different calls.
    """
    names: list[str] = []

    def graph_of(inputs: Inputs, turns: int) -> GraphModule:
        def flat(*tensors: Tensor) -> list[Tensor]:
            made = function(dict(zip(inputs.names, tensors, strict=True)))
            names[:] = made if results is None else results
            return [made[name] for name in names]

        flat(*inputs.examples(turns))  # numbers that are made once are made now: otherwise the first graph makes them
        module = make_fx(flat)(*inputs.examples(turns))
        _without_copies(module.graph)
        module.graph.eliminate_dead_code()
        return module

    modules = [*(graph_of(pool, turns) for turns in (1, *many)), graph_of(larger, 1)]
    rows = [[node for node in module.graph.nodes if node.op != CONSTANT] for module in modules]
    calls = [_calls(row) for row in rows]
    if any(one != calls[0] for one in calls):
        raise NotFollowedError("with another number of turns, or in a larger pool, the graph has other calls")
    of_turns, numbers, constants = set[str](), dict[Place, Numbers](), dict[Place, tuple[Numbers, ...]]()
    for alike in zip(*rows, strict=True):
        first = alike[0]
        if first.op == "output":
            continue
        shapes = {results_of(node)[0].shape for node in alike[1:-1]}
        if len(shapes) > 1:
            of_turns.add(first.name)
        for place, given in enumerate(zip(*(node.args for node in alike), strict=True)):
            if _is_constant(given[0]):
                constants[first.name, place] = _elements(modules, given)
            elif type(given[0]) is int and len(set(given)) > 1:
                numbers[first.name, place] = given
    rows_of = {
        name: (like.shape[1], larger.fixed[name].shape[1]) for name, like in pool.fixed.items() if like.dim() == 2
    }
    widths = {name: width if width == its else 0 for name, (width, its) in rows_of.items()}
    return Traced(modules[0], pool, tuple(names), frozenset(of_turns), numbers, constants, widths)


def _without_copies(graph: Graph) -> None:
    """A tensor of one turn may be a view where one of several is a copy: both hold the same elements.

    Raises `NotFollowedError` if something that is not made for it is written in place.
    """
    for node in [one for one in graph.nodes if one.op == "call_function"]:
        if str(node.target) == "aten.clone.default":
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)
        elif str(node.target) == "aten._unsafe_view.default":
            node.target = torch.ops.aten.view.default
        elif _writes_in_place(node) and (str(node.args[0].target) not in FRESH or len(node.args[0].users) > 1):
            raise NotFollowedError(f"{node.name} writes in place")


def _writes_in_place(node: Node) -> bool:
    """Whether the name of the operation ends with `_`, as in `aten.scatter_reduce_.two`."""
    name = str(node.target).split(".")[1] if str(node.target).startswith("aten.") else ""
    return name.endswith("_") and not name.endswith("__")


def _is_constant(argument: Any) -> bool:
    return isinstance(argument, Node) and argument.op == CONSTANT


def _calls(nodes: Sequence[Node]) -> list[tuple[Any, ...]]:
    """Each call, with the positions of the calls whose results it takes. Two constants may be one in another graph."""
    positions = {node: number for number, node in enumerate(nodes)}

    def place(one: Node) -> int | str:
        if one.op != CONSTANT:
            return positions[one]
        return CONSTANT

    found = []
    for node in nodes:
        taken = [place(one) if isinstance(one, Node) else type(one).__name__ for one in node.args]
        inside = [place(one) for one in node.all_input_nodes if one not in node.args]
        found.append((node.op, str(node.target) if node.op == "call_function" else "", taken, inside))
        if node.op == "call_function" and CONSTANT in inside:
            raise NotFollowedError(f"{node.name} takes a constant among several tensors, or by a keyword")
    return found


def _elements(modules: Sequence[GraphModule], nodes: Sequence[Node]) -> tuple[Numbers, ...]:
    values: list[Tensor] = [getattr(module, str(node.target)) for module, node in zip(modules, nodes, strict=True)]
    if any(value.shape != values[0].shape for value in values):
        raise NotFollowedError(f"the constant {nodes[0].name} has another shape with another number of turns")
    return tuple(zip(*(map(int, value.reshape(-1).tolist()) for value in values), strict=True))

"""A tensor operation as a graph of aten calls, and the graph run on cells."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import getitem
from typing import Any

from torch import Tensor
from torch.fx import GraphModule, Node
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.node import map_arg

from cacheproof.prove.executor import NotFollowedError
from cacheproof.prove.implementation.call import Call, Duties, Result
from cacheproof.prove.implementation.kinds import IN_PLACE, KINDS
from cacheproof.prove.implementation.tensors import CellTensor, of

OWN = frozenset(("clone", "_to_copy", "full", "full_like", "zeros", "zeros_like", "ones_like", "new_full", "new_zeros"))
"""Kinds whose results nothing else refers to, so that writing into them changes nothing else."""


@dataclass(frozen=True, slots=True)
class Graph:
    """One operation at one shape."""

    module: GraphModule

    @property
    def size(self) -> int:
        """How many calls it has."""
        return sum(node.op == "call_function" for node in self.module.graph.nodes)

    def kinds(self) -> set[str]:
        """The names of the kinds that occur."""
        return {str(node.target) for node in self.module.graph.nodes if node.op == "call_function"} - {str(getitem)}

    def run(self, inputs: Sequence[CellTensor], duties: Duties) -> list[CellTensor]:
        """The results for these inputs, in the order of the traced function's results."""
        known: dict[Node, Any] = {}
        waiting = iter(inputs)
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                known[node] = next(waiting)
            elif node.op == "get_attr":
                known[node] = of(getattr(self.module, str(node.target)))
            elif node.op == "output":
                results: Any = node.args[0]
                return [known[one] for one in results]
            elif node.op == "call_function":
                known[node] = _called(node, known, duties)
            else:
                raise NotFollowedError(f"a node of the sort '{node.op}' is not followed")
        raise NotFollowedError("the graph has no output")


def traced(function: Callable[..., Sequence[Tensor]], inputs: Sequence[Tensor]) -> Graph:
    """The graph of a function of tensors, at the shapes of these."""
    return Graph(make_fx(function)(*(tensor.clone() for tensor in inputs)))


def _called(node: Node, known: dict[Node, Any], duties: Duties) -> Any:
    arguments: Any = map_arg(node.args, lambda one: known[one])
    keywords: Any = map_arg(node.kwargs, lambda one: known[one])
    if node.target is getitem:
        return arguments[0][arguments[1]]
    name = str(node.target)
    kind = KINDS.get(IN_PLACE.get(name, name))
    if kind is None:
        raise NotFollowedError(f"the kind of node {name} is not followed")
    call = Call(node.target, duties, results_of(node))  # type: ignore[arg-type]  # of a call it is a function
    made = kind(call, *arguments, **keywords)
    if name in IN_PLACE:
        written = node.args[0]
        if not isinstance(written, Node) or _base(written) not in OWN:
            raise NotFollowedError(f"{name} writes into what something else may refer to")
        known[written] = made
    return made


def _base(node: Node) -> str:
    return str(node.target).split(".")[1] if node.op == "call_function" and "." in str(node.target) else ""


def results_of(node: Node) -> tuple[Result, ...]:
    """Shape and type of each result, as torch had them."""
    value = node.meta["val"]
    many = value if isinstance(value, (tuple, list)) else (value,)
    return tuple(Result(tuple(one.shape), one.dtype) for one in many)


def flattened(groups: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """Tensors of several tuples, one after the other."""
    return [tensor for group in groups for tensor in group]

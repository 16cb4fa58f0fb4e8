"""What an engine has to give away in a round, as any numbers: tokens, embeddings, room for outputs, and places."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor
from torch.utils._pytree import tree_leaves

from cacheproof.prove.implementation import cells
from cacheproof.prove.implementation.cells import Cell
from cacheproof.prove.implementation.correspondence import number, scalar
from cacheproof.prove.implementation.finite import cell_of
from cacheproof.prove.implementation.tensors import CellTensor
from cacheproof.prove.implementation.tensors import of as known
from cacheproof.tensor_models.model import TensorModel
from cachespec.scheduler.configuration import Config

BUDGETS = ("token_budget", "encoder_compute", "encoder_capacity", "max_running")
"""Settings of which a round makes sums and comparisons only."""
ROOM = ("encoder_free", "encoder_freeable")
"""Fields that begin as the capacity of the encoder cache."""


def any_budgets(config: Config) -> Config:
    """The configuration with any number in place of each of them."""
    unknown: dict[str, Any] = {name: number(name) for name in BUDGETS}
    return config._replace(**unknown)


def without_budgets(config: Config) -> Config:
    """The configuration with 1 in place of each of them: what is made of the rest can be kept by its value."""
    ones: dict[str, Any] = dict.fromkeys(BUDGETS, 1)
    return config._replace(**ones)


def are_positive(config: Config) -> Iterator[Cell]:
    """The configuration is one of an engine."""
    return (cells.less(0, cell_of(getattr(config, name))) for name in BUDGETS)


def parameters(model: TensorModel, config: Config) -> Iterator[CellTensor]:
    """The tensors of the model's parameters, with the budgets of this configuration."""
    tables = model.parameters
    budgets = {name: scalar(getattr(config, name)) for name in BUDGETS if name != "encoder_capacity"}
    encoder = tables.encoder._replace(capacity=scalar(config.encoder_capacity))
    for leaf in tree_leaves(tables._replace(encoder=encoder, **budgets)):
        if isinstance(leaf, Tensor):
            yield known(leaf)
        elif isinstance(leaf, CellTensor):
            yield leaf


def initial(model: TensorModel, config: Config) -> Iterable[CellTensor]:
    """The initial tensors, with the capacity where it stands in them."""
    for name, tensor in zip(model.initial._fields, model.initial, strict=True):
        yield scalar(config.encoder_capacity) if name in ROOM else known(tensor)

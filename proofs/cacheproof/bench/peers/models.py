"""The models that are written by hand in Promela and TLA+, and the parameters that a scope of ours gives them.

`mirror.pml`, `mirror.tla`, `encoder_cache.pml` and `encoder_cache.tla` have no sizes of their own. Everything that a
scope fixes is written from our configuration here, so one scope means the same to all explorers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.foundation.errors import InputError
from cacheproof.model.plan import Plan
from cacheproof.model.registry import component_named
from cacheproof.model.scope import scope_named
from cachespec.encoder_cache import Config as EncoderConfig
from cachespec.mirror import Config as MirrorConfig
from cachespec.mirror.configuration import partitions

HERE = Path(__file__).parent
BYTE = 255


class Counts(NamedTuple):
    """What every explorer must agree on."""

    states: int
    transitions: int


class Given(NamedTuple):
    """The parameters of a scope, for each of the two languages."""

    header: str
    """`scope.h`, which the Promela model includes."""
    module: str
    """The TLA+ module `Scope`, which extends the model and names its sequences."""
    settings: str
    """TLC's settings file for it, without what is to be checked."""


@dataclass(frozen=True, slots=True)
class PeerScope:
    """A scope that all explorers explore: one of our scope files, with some of its settings changed."""

    component: str
    scope: str
    changes: tuple[tuple[str, Any], ...] = ()

    @property
    def config(self) -> Any:
        """Our configuration."""
        found = scope_named(component_named(self.component), self.scope).config
        return found._replace(**dict(self.changes))

    @property
    def plan(self) -> Plan:
        """Names are not exchanged, and no progress is judged: the models have neither."""
        planned = scope_named(component_named(self.component), self.scope).plan
        return replace(planned, symmetry=False, liveness=False)

    def given(self) -> Given:
        """Raises `InputError` if the scope sets what the models lack."""
        return MODELS[self.component](self.config)

    def __str__(self) -> str:
        changed = "".join(f", {name} = {value}" for name, value in self.changes)
        return f"{self.component}, scope {self.scope}{changed}"


def model_text(component: str, suffix: str) -> str:
    """The model of a component in one of the languages: `.pml` or `.tla`."""
    return (HERE / f"{component}{suffix}").read_text(encoding="utf-8")


# Text ---------------------------------------------------------------------------------------------------------------


def _refuse(component: str, config: Any, wanted: Mapping[str, Any]) -> None:
    for name, value in wanted.items():
        if getattr(config, name) != value:
            raise InputError(f"the peer models of {component} have no {name} = {getattr(config, name)}: only {value}")


def _defines(values: Mapping[str, object]) -> str:
    return "".join(f"#define {name} {value}\n" for name, value in values.items())


def _chosen(values: Sequence[int], name: str) -> str:
    """A conditional expression of Promela: the value at a position that counts from 1."""
    *others, last = values
    text = str(last)
    for position in range(len(others), 0, -1):
        text = f"({name} == {position} -> {others[position - 1]} : {text})"
    return text


def _each(name: str, values: Iterable[int], *more: str, between: str = " ") -> str:
    """A macro that repeats an operation for each of the values."""
    arguments = "".join(f", {argument}" for argument in more)
    return f"#define {name}(op{arguments}) " + between.join(f"op({value}{arguments})" for value in values) + "\n"


def _of(name: str, values: Iterable[int]) -> str:
    """A macro that repeats an operation of a sender for each of the values."""
    return f"#define {name}(op, s) " + " ".join(f"op(s, {value})" for value in values) + "\n"


def _sequence(values: Sequence[object]) -> str:
    return f"<<{', '.join(map(str, values))}>>"


def _module(extended: str, definitions: Mapping[str, str]) -> str:
    lines = [f"{name} == {value}" for name, value in definitions.items()]
    return "\n".join(["---- MODULE Scope ----", f"EXTENDS {extended}", *lines, "====", ""])


def _settings(replaced: Mapping[str, str], values: Mapping[str, object]) -> str:
    lines = [f"  {name} <- {by}" for name, by in replaced.items()] + [f"  {name} = {v}" for name, v in values.items()]
    return "\n".join(["SPECIFICATION Spec", "CONSTANTS", *lines, ""])


# The mirror ---------------------------------------------------------------------------------------------------------

MIRROR_LACKS = {
    "items": 1,
    "modalities": (),
    "rendered": 0,
    "processing": 0,
    "fan_out": 1,
    "embeddings": 0,
    "cancel": 0,
    "faults": -1,
}
FAULTS = ("reorder", "drop", "reject", "abort", "duplicate", "reset", "restart", "impatient")


def mirror(config: MirrorConfig) -> Given:
    """The normative mirror for requests of one item: any sizes, senders, partitions, channel, and unlimited faults."""
    _refuse("mirror", config, MIRROR_LACKS)
    contents = range(1, len(config.sizes) + 1)
    numbers = {
        "Capacity": config.capacity,
        "Senders": config.senders,
        "Partitions": partitions(config),
        "Outstanding": config.outstanding,
        "Channel": config.channel,
        **{name.capitalize(): getattr(config, name) for name in FAULTS},
    }
    if max(config.capacity + max(config.sizes), 4 * (config.outstanding + config.channel) + 20) > BYTE:
        raise InputError("the Promela model of mirror counts in bytes: the scope is too large")
    senders = range(config.senders)
    header = (
        _defines({"CONTENTS": len(config.sizes), "SIZE(key)": _chosen(config.sizes, "key")})
        + _defines({name.upper(): value for name, value in numbers.items()})
        + _each("EACH_SENDER", senders)
        + _each("OVER_SENDERS", senders, between=" + ")
        + _of("EACH_CONTENT", contents)
        + _of("EACH_SENT", range(config.outstanding))
        + _of("EACH_FLYING", range(config.channel))
        + _of("EACH_NEIGHBOUR", range(config.channel - 1))
    )
    module = _module("mirror", {"ScopeSizes": _sequence(config.sizes)})
    return Given(header, module, _settings({"Sizes": "ScopeSizes"}, numbers))


# The encoder cache --------------------------------------------------------------------------------------------------

ENCODER_LACKS = {"claims": (), "budgets": (), "unreported": 0, "halting": 0, "repeats": 0, "encoder_decoder": 0}


def encoder_cache(config: EncoderConfig) -> Given:
    """The normative encoder cache: any sizes and requests, with disciplined callers or without discipline."""
    _refuse("encoder_cache", config, ENCODER_LACKS)
    requests = [[content + 1 for content in contents] for contents in config.requests]
    if not all(requests):
        raise InputError("the Promela model of encoder_cache has no request without inputs")
    owners = [name for name, contents in enumerate(requests, 1) for _ in contents]
    firsts = [owners.index(name) + 1 for name in range(1, len(requests) + 1)]
    lasts = [first + len(contents) - 1 for first, contents in zip(firsts, requests, strict=True)]
    inputs, names = range(1, len(owners) + 1), range(1, len(requests) + 1)
    switches = {"DISCIPLINED": config.disciplined, "FAILURES": config.failures, "RESETS": config.resets}
    header = (
        _defines(
            {
                "CONTENTS": len(config.sizes),
                "CONTENT_SIZE(content)": _chosen(config.sizes, "(content)"),
                "CAPACITY": config.capacity,
                "COUNT": "byte" if config.capacity + sum(config.sizes) <= BYTE else "int",
                "INPUTS": len(owners),
                "CONTENT_OF(input)": _chosen([content for request in requests for content in request], "(input)"),
                "REQUEST_OF(input)": _chosen(owners, "(input)"),
                "FIRST_INPUT(request)": _chosen(firsts, "(request)"),
                "LAST_INPUT(request)": _chosen(lasts, "(request)"),
                **switches,
            }
        )
        + _each("EACH_INPUT", inputs)
        + _each("EACH_REQUEST", names)
        + _each("OVER_INPUTS", inputs, "one")
        + _each("FOR_INPUTS", inputs, "one")
    )
    if config.capacity + sum(config.sizes) >= 1 << 31:
        raise InputError("the Promela model of encoder_cache counts in 32 bits: the scope is too large")
    sequences = {"ScopeSizes": _sequence(config.sizes), "ScopeRequests": _sequence([_sequence(r) for r in requests])}
    settings = {"Capacity": config.capacity, **{name.capitalize(): value for name, value in switches.items()}}
    return Given(
        header,
        _module("encoder_cache", sequences),
        _settings({"Sizes": "ScopeSizes", "Requests": "ScopeRequests"}, settings),
    )


MODELS: Mapping[str, Callable[[Any], Given]] = {"mirror": mirror, "encoder_cache": encoder_cache}
"""By component, the function that writes a scope's parameters."""

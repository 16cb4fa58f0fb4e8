"""`ring`: the layout's fields as the specification's fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cacheproof.model.registry import component_named
from cacheproof.model.target import Failure, TargetError
from cacheproof.tensor_models import ring_environment as environment
from cacheproof.tensor_models.model import Row, TensorModel, TensorOperation, named, no_operands, table
from cachespec.kernel import FrozenMap, Operation
from cachespec.ring import operations as calls
from cachespec.ring.chunks import Ring
from cachespec.ring.configuration import Config
from cachespec.ring.state import Handle, Segment

MOST_HANDLES = 1 << 16
"""The tensor environment has a row for each handle that may be out, whichever ids they have."""


def decode(config: Config, row: Row) -> Segment:
    """A unit that no live chunk has and that holds 0 is one that was never written, or as good."""
    number, contents = row["number"], row["contents"][row["number"]]
    live = [identity for identity, address in enumerate(row["addresses"]) if address >= 0]
    nonzero = {unit for unit, value in enumerate(row["memory"]) if value}
    unanswered = {identity: sum(row["out"][number][identity]) for identity in live}
    return Segment(
        ring=Ring(
            starts=FrozenMap((identity, row["addresses"][identity]) for identity in live),
            sizes=FrozenMap((identity, row["totals"][identity]) for identity in live),
            id_start=row["id_start"],
            id_end=row["id_end"],
            start=row["start"],
            end=row["end"],
        ),
        memory=FrozenMap((unit, row["memory"][unit]) for unit in sorted(units_of(config, row, live) | nonzero)),
        unanswered=FrozenMap((identity, count) for identity, count in unanswered.items() if count > 0),
        number=number,
        contents=FrozenMap((identity, contents[identity]) for identity in live),
        handles=FrozenMap(sorted((handle, 1) for handle in handles_of(row))),
    )


def units_of(config: Config, row: Row, live: list[int]) -> set[int]:
    """The units of live chunks."""
    places = ((row["addresses"][identity] % config.capacity, row["totals"][identity]) for identity in live)
    return {unit for at, total in places for unit in range(at, min(at + total, config.capacity))}


def handles_of(row: Row) -> Iterator[Handle]:
    """The handles that may be presented."""
    for number, segment in enumerate(row["out"]):
        for identity, readers in enumerate(segment):
            for reader, out in enumerate(readers):
                if out:
                    yield (reader, row["contents"][number][identity], identity, row["places"][number][identity], number)


def every_call(config: Config) -> Iterator[Operation]:
    """The operations that some state has."""
    yield from (calls.Allocate(content) for content in range(len(config.sizes)))
    handles = [
        (reader, content, identity, place, number)
        for reader in range(config.readers)
        for content, size in enumerate(config.sizes)
        for identity in range(config.modulus)
        for place in range(config.capacity - config.header - size + 1)
        for number in range(config.restarts + 1)
    ]
    yield from (calls.Read(*handle) for handle in handles)
    if config.revocations:
        yield from (calls.Revoke(*handle) for handle in handles)
    yield from (calls.Free(want) for want in config.wants or (config.capacity,))
    if config.clears:
        yield calls.Clear()
    if config.restarts:
        yield calls.Restart()


def model(config: Config, device: str) -> TensorModel:
    """The tensor code in this configuration.

    Raises TargetError for more handles than the environment has room for: 2**31 ids would fill the memory.
    """
    component = component_named("ring")
    handles = (config.restarts + 1) * config.modulus * config.readers
    if handles > MOST_HANDLES:
        reason = (
            f"modulus = {config.modulus}: there are {handles:,} handles, and a row for each of {MOST_HANDLES:,} at most"
        )
        raise TargetError(reason, Failure.REFUSED)

    def content_of(operation: Any) -> tuple[int, ...]:
        return (named("content", operation.content, len(config.sizes)),)

    def handle_of(operation: Any) -> tuple[int, ...]:
        return (
            named("reader", operation.reader, config.readers),
            *content_of(operation),
            named("id", operation.identity, config.modulus),
            named("place", operation.place, config.capacity),
            named("segment", operation.segment, config.restarts + 1),
        )

    tables = environment.tables_of(config, device)
    return TensorModel(
        component=component,
        variant=component.normative,
        config=config,
        parameters=tables,
        initial=environment.initial(config, device),
        layout=environment.layout(config, tables),
        operations=table(
            TensorOperation(calls.Allocate, environment.allocating(config), content_of, environment.bounded(config)),
            TensorOperation(calls.Read, environment.reading(config), handle_of, environment.holds),
            TensorOperation(calls.Revoke, environment.revoke, handle_of, environment.holds),
            TensorOperation(calls.Free, environment.free, lambda operation: (operation.want,)),
            TensorOperation(calls.Clear, environment.clear, no_operands),
            TensorOperation(calls.Restart, environment.restart, no_operands, environment.restartable(config)),
        ),
        domain=lambda: every_call(config),
        decode=lambda row: decode(config, row),
    )

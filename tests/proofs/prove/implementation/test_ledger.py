"""Every function of tensors in `cacheimpl` is reached by an obligation, or named in the ledger with the reason."""

from __future__ import annotations

from pathlib import Path

from tests.proofs.prove.implementation.reaching import reached, tensor_functions

from cacheproof.prove.implementation.ledger import OPEN, OPEN_OPERATIONS, reason_of
from cacheproof.prove.implementation.prover import STATEMENTS
from cacheproof.prove.session import CORRESPONDENCES
from cacheproof.tensor_models import MODELS

PAGE = Path(__file__).parents[4] / "docs" / "proofs.md"


def test_each_function_is_either_reached_or_named() -> None:
    functions, ran = tensor_functions(), reached(CORRESPONDENCES)
    proved = {name for name, code in functions.items() if code in ran}
    open_ones = set(functions) - proved
    assert {name for name in open_ones if reason_of(name) is None} == set(), "no obligation reaches it: give the reason"
    assert {name for name in proved if reason_of(name) is not None} == set(), "an obligation reaches it by now"
    modules = {name.partition(":")[0] for name in open_ones}
    assert set(OPEN) <= modules | open_ones, "the ledger names a function that does not exist"
    assert len(proved) >= 240, "fewer functions are proved than were"


def test_each_operation_is_proved_or_named() -> None:
    assert set(CORRESPONDENCES) == set(MODELS)
    for name, shapes in CORRESPONDENCES.items():
        usual, every = (
            {place for one in shapes if nightly or not one.nightly for place in one.places()}
            for nightly in (False, True)
        )
        operations = {kind.wire_name() for kind in shapes[0].model().operations}
        assert operations - every == set(OPEN_OPERATIONS.get(name, {}))
        assert (every - usual) & operations == ({"reset_running"} if name == "scheduler" else set())


def test_the_page_has_the_number_of_obligations() -> None:
    """One for the initial state of each shape, and one for each claim about each operation."""
    usual, every = (
        sum(
            1 + len(STATEMENTS) * (len(shape.places()) - 1)
            for shapes in CORRESPONDENCES.values()
            for shape in shapes
            if nightly or not shape.nightly
        )
        for nightly in (False, True)
    )
    says = (
        f"{usual} obligations of the tensor code, of {len(CORRESPONDENCES)} components, and the set `all` has {every}."
    )
    assert says in PAGE.read_text()

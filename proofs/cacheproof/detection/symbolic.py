"""Evidence that runs the specification on symbolic numbers: induction, tensor proofs, contracts.

An error is no answer here: the check may fail to follow the changed code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from types import FunctionType, ModuleType

from cacheproof.detection.evidence import (
    Answer,
    Ask,
    Cell,
    Question,
    detected,
    error_in_words,
    first_detected,
    not_decided,
    not_detected,
)
from cacheproof.foundation.discover import module_names, modules_in
from cacheproof.model.registry import AnyComponent
from cacheproof.mutants.functions import own_functions
from cacheproof.mutants.plant import planted
from cacheproof.prove.contract import Pair
from cacheproof.prove.finding import Finding, Verdict
from cacheproof.prove.planting import runs

NOTICED = frozenset({Verdict.REFUTED, Verdict.VACUOUS, Verdict.CRASHED})
"""Verdicts that `prove` gives in the end, and that fail: a transition that raises is *crashed*."""
CONTRACTS, BESIDE = "cacheproof.prove.contracts", "cacheproof.prove.implementation.contracts"


def open_when_it_raises(ask: Ask) -> Ask:
    """The same, and an error is an open answer."""

    def asked(question: Question) -> Cell:
        try:
            return ask(question)
        except Exception as error:  # noqa: BLE001  # the check may not be able to follow the changed code
            return not_decided(error_in_words(error))

    return asked


def has_solver() -> bool:
    """Whether z3, cvc5 and CrossHair are there."""
    return all(find_spec(name) is not None for name in ("z3", "cvc5", "crosshair", "icontract"))


def _judged(findings: Iterable[Finding]) -> Iterator[Cell]:
    """Each finding as a cell, up to the first that detects the mutant."""
    for finding in findings:
        if finding.good:
            yield not_detected()
        elif finding.verdict in NOTICED:
            yield detected(f"{finding.name}: {finding.verdict.value}")
            return
        else:
            yield not_decided(f"{finding.name}: {finding.verdict.value}: {finding.detail}")


# Induction -----------------------------------------------------------------------------------------------------------


def is_proved(component: AnyComponent) -> bool:
    """Whether the specification has obligations for all sizes."""
    if not has_solver():
        return False
    from cacheproof.prove.session import PROOFS  # noqa: PLC0415  # z3 is an extra

    return component.name in PROOFS


def prepare_induction(component: AnyComponent) -> None:
    """Reachable steps of the original are the witnesses: looked for once, before anything is changed."""
    from cacheproof.prove.session import PROOFS, examples_of  # noqa: PLC0415  # z3 is an extra

    for number in range(len(PROOFS[component.name])):
        examples_of(component.name, number)


@open_when_it_raises
def by_induction(question: Question) -> Cell:
    """The obligations of the operations that call the changed function, with one solver."""
    from cacheproof.prove.prover import prove_at  # noqa: PLC0415  # z3 is an extra
    from cacheproof.prove.session import PROOFS, examples_of  # noqa: PLC0415  # z3 is an extra

    name = question.mutant.component
    places = [
        (number, proof, place)
        for number, proof in enumerate(PROOFS[name])
        for place in proof.places()
        if place in question.operations
    ]
    cells: list[Cell] = []
    with planted(question.mutant):
        for number, proof, place in places:
            cells += _judged(prove_at(proof, place, examples_of(name, number), ask_second=False))
            if cells and cells[-1].answer is Answer.DETECTED:
                break
    return first_detected(cells)


# Tensor proofs -------------------------------------------------------------------------------------------------------


def has_correspondences(component: AnyComponent) -> bool:
    """Whether the tensor code of the component is proved at some shape."""
    if not has_solver() or find_spec("torch") is None:
        return False
    from cacheproof.prove.session import CORRESPONDENCES  # noqa: PLC0415  # z3 is an extra

    return component.name in CORRESPONDENCES


def prepare_tensors(component: AnyComponent) -> None:
    """Import what the question needs."""
    from cacheproof.prove.session import CORRESPONDENCES  # noqa: PLC0415  # z3 is an extra

    for one in CORRESPONDENCES[component.name]:
        one.places()


@open_when_it_raises
def on_tensors(question: Question) -> Cell:
    """The rows `equal` of the operations that call the changed function, at the default shapes."""
    from cacheproof.prove.implementation.prover import EQUAL, prove_place  # noqa: PLC0415  # z3 is an extra
    from cacheproof.prove.session import CORRESPONDENCES  # noqa: PLC0415  # z3 is an extra

    cells: list[Cell] = []
    with planted(question.mutant):
        for one in CORRESPONDENCES[question.mutant.component]:
            for place in () if one.nightly else one.places():
                if place in question.operations:
                    cells += _judged(prove_place(one, place, only=EQUAL))
                if cells and cells[-1].answer is Answer.DETECTED:
                    return cells[-1]
    return first_detected(cells)


# Contracts -----------------------------------------------------------------------------------------------------------


def has_contracts(component: AnyComponent) -> bool:
    """Whether CrossHair confirms contracts of the component or of its implementation."""
    return has_solver() and any(component.name in module_names(package) for package in (CONTRACTS, BESIDE))


def prepare_contracts(component: AnyComponent) -> None:
    """Import what the question needs; find out which contracts run which function."""
    for package in (CONTRACTS, BESIDE):
        if component.name in module_names(package):
            import_module(f"{package}.{component.name}")
    import_module("cacheproof.prove.confirmation")
    for function in own_functions(component):
        _contracts_of(component.name, function)


@open_when_it_raises
def with_contracts(question: Question) -> Cell:
    """Every default contract that can run the changed function."""
    from cacheproof.prove.confirmation import compared, confirmed, numbers_read_alike  # noqa: PLC0415  # an extra

    chosen = _contracts_of(question.mutant.component, question.mutant.function)
    if not chosen:
        return not_detected("no contract runs the function")
    cells: list[Cell] = []
    with planted(question.mutant), numbers_read_alike():
        for module, name in chosen:
            pair = getattr(module, "PAIRS", {}).get(name)
            answer = compared(pair) if isinstance(pair, Pair) else confirmed(getattr(module, name))
            verdict = Verdict(answer.verdict)
            if verdict in NOTICED:
                return detected(f"{name}: {verdict.value}")
            good = verdict is Verdict.CONFIRMED
            cells.append(not_detected() if good else not_decided(f"{name}: {verdict.value}: {answer.detail}"))
    return first_detected(cells)


@cache
def _contracts_of(component: str, function: FunctionType) -> tuple[tuple[ModuleType, str], ...]:
    """All contracts about the specification, and those beside the implementation whose example runs the function."""
    from cacheproof.prove.confirmation import example_of  # noqa: PLC0415  # an extra

    found: list[tuple[ModuleType, str]] = []
    if component in module_names(BESIDE):
        module = import_module(f"{BESIDE}.{component}")
        ledger: Mapping[str, object] = {**module.LEDGER, **getattr(module, "PAIRS", {})}
        found += [
            (module, name)
            for name, entry in ledger.items()
            if not getattr(entry, "nightly", False) and runs(example_of(module, name), function)
        ]
    if component in module_names(CONTRACTS):
        module = modules_in(CONTRACTS)[component]
        found += [(module, name) for name in module.LEDGER]
    return tuple(found)

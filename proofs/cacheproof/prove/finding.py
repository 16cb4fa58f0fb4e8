"""The result of one obligation."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class Verdict(Enum):
    """How an obligation ended. Only the first three are good."""

    PROVED = "proved"
    """It holds for all sizes."""
    PROVED_AT_SHAPES = "proved at stated shapes"
    """It holds for any numbers, in tensors of the stated shape."""
    CONFIRMED = "confirmed"
    """Every path up to the stated bound was taken, and it holds."""
    REFUTED = "refuted"
    """There is a counterexample."""
    GAVE_UP = "gave up"
    """The solver reached the time limit of a question, at the shape that the detail names."""
    UNKNOWN = "unknown"
    """The solver gave no answer in time."""
    VACUOUS = "vacuous"
    """Nothing was checked: no reachable state satisfies the premise, or no path reaches the claim."""
    NOT_CONFIRMED = "not confirmed"
    """Not every path was taken."""
    UNSOUND = "unsound contract"
    """The contract cannot fail: no postcondition, or a precondition that nothing satisfies."""
    UNLISTED = "unlisted"
    """A function has a contract and is not in the ledger, or the other way round."""
    HANGS = "hangs"
    """The hard time limit was reached."""
    CRASHED = "crashed"
    """The check itself failed."""


GOOD = frozenset({Verdict.PROVED, Verdict.PROVED_AT_SHAPES, Verdict.CONFIRMED})
SMT, CROSSHAIR, IMPLEMENTATION = "smt", "crosshair", "implementation"
COMPOSITION = "composition"
"""The code of a component is followed, by types: it changes its parts by their own operations only."""
IMPLEMENTATION_TURNS = "implementation-turns"
"""Bursts of the tensor code are the calls one after the other, by induction over the turns."""
IMPLEMENTATION_CROSSHAIR = "implementation-crosshair"
"""Contracts that run the implementation beside the specification."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One row of the table."""

    component: str
    name: str
    """The claim and its operation: `ENC-2/allocate`."""
    statement: str
    method: str
    verdict: Verdict
    bound: str
    """For which sizes: "all sizes", or the bound of the contract."""
    seconds: float
    detail: str = ""
    """A counterexample, or why there is no verdict."""
    checks: int = 0
    """The number of questions to the solver; for a method of CrossHair, the number of paths."""
    agreed: int | None = None
    """The number of questions that the second solver answered alike; None if it was not asked."""

    @property
    def good(self) -> bool:
        """Whether the obligation is as required."""
        return self.verdict in GOOD

    def record(self) -> dict[str, Any]:
        """The row as plain values."""
        return {**asdict(self), "verdict": self.verdict.value, "seconds": round(self.seconds, 3)}

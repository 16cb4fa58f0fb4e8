"""Libraries of several forms: a changed function beside the original, in one compilation, chosen by a number."""

from __future__ import annotations

import ctypes
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.search import native
from cacheproof.search.native.build import QUICK, RefusedError, ready
from cacheproof.search.native.forms import ORIGINAL, Form, Forms
from cacheproof.search.native.glue import Glue
from cacheproof.search.native.library import INT, NUMBER, POINTER, Compiled, declare, library_name, loaded
from cacheproof.search.native.shard import NativeShard
from cacheproof.search.result import Exploration

FUNCTION = re.compile(r"^// .*? \(form (\d+)\)$|^// ")


@dataclass(frozen=True, slots=True)
class Several:
    """A library with several forms of a variant. `refused` are those that it does not have, each with the reason."""

    component: AnyComponent
    variant: AnyVariant
    made: Compiled
    refused: dict[int, str]
    numbers: frozenset[int]
    """Those of the forms that it has."""

    def explore(self, form: int, config: Any, plan: Plan) -> Exploration:
        """Explore one configuration of one form.

        The specification in Python must have the same form: it executes the counterexamples. Raises InputError.
        """
        shard = NativeShard(self.component, self.variant, config, plan, made=self.made)
        self.made.library.cp_choose(form)
        try:
            return native.explore(self.component, self.variant, config, plan, crew=native.NativeCrew(shard))
        finally:
            self.made.library.cp_choose(ORIGINAL)

    def differing(self, config: Any, plan: Plan) -> frozenset[int]:
        """The forms that differ from the original in some call of its exploration. Each other one finds the same.

        The specification in Python must be the original. A form may crash the process. Raises InputError.
        """
        library = self.made.library
        library.cp_compare(True)
        try:
            self.explore(ORIGINAL, config, plan)
        finally:
            library.cp_compare(False)
        return frozenset(number for number in self.numbers if library.cp_differs(number))

    def alike(self, form: int, config: Any, plan: Plan, most: int) -> bool | None:
        """Whether views and outcomes are those of the original, however both are driven; None over `most` pairs.

        The specification in Python must be the original, or have the same initial state. Raises InputError.
        """
        with NativeShard(self.component, self.variant, config, plan, made=self.made) as shard:
            return shard.alike(form, most, plan.depth)


def several(
    component: AnyComponent, variant: AnyVariant, forms: Sequence[Form], folder: Path, optimised: str = QUICK
) -> Several:
    """Compile the forms into one library in the folder. Raises CompileError and InputError for the variant itself.

    A form that either compiler refuses is left out.
    """
    refused: dict[int, str] = {}
    while True:
        asked = Forms([form for form in forms if form.number not in refused])
        glue = Glue(component, variant, asked)
        try:
            file = ready(glue.text, library_name(component, variant), folder, optimised)
        except RefusedError as error:
            named = forms_at(glue.text, error.lines)
            if not named:
                raise
            refused |= dict.fromkeys(named, "the C++ compiler refuses it")
            continue
        made = loaded(file, glue)
        declare(
            made.library,
            {
                "cp_choose": (None, [INT]),
                "cp_compare": (None, [ctypes.c_int]),
                "cp_differs": (ctypes.c_int, [INT]),
                "cp_alike": (ctypes.c_int, [POINTER, ctypes.c_char_p, INT, NUMBER, INT]),
            },
        )
        return Several(component, variant, made, refused | asked.refused, _numbers(glue))


def _numbers(glue: Glue) -> frozenset[int]:
    return frozenset(number for instance in glue.unit.instances.values() for number in instance.forms)


def forms_at(text: str, lines: Sequence[int]) -> set[int]:
    """The forms whose functions have these lines, counted from 1."""
    begins, numbers = [0], [ORIGINAL]
    for at, line in enumerate(text.splitlines(), start=1):
        found = FUNCTION.match(line)
        if found is not None:
            begins.append(at)
            numbers.append(int(found[1] or ORIGINAL))
    return {numbers[bisect_right(begins, line) - 1] for line in lines} - {ORIGINAL}

"""One variant of one component as a translation unit: everything that the explorer asks of it, under fixed names."""

from __future__ import annotations

from typing import Any

from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.search.native.compiler import Compiler
from cacheproof.search.native.forms import Forms
from cacheproof.search.native.shapes import Canonical, codec, operations
from cacheproof.search.native.text import unit_text
from cacheproof.search.native.types import ANY_OPERATION, BOOL, Type, opt, record_of, seq
from cacheproof.search.native.values import coerce
from cacheproof.search.shape import shape_of
from cachespec.kernel import DIVERGED, Code, Kind, Operation, Outcome


class Glue:
    """The text of the unit, and what Python has to know to use it."""

    def __init__(self, component: AnyComponent, variant: AnyVariant, forms: Forms | None = None) -> None:
        self.compiler = Compiler()
        self.unit = self.compiler.unit
        self.forms = forms or Forms(())
        self.unit.has_forms = bool(self.forms)
        for owner in component.operations:
            self.unit.tag_of(owner)
        self.component, self.variant = component, variant
        self.config, self.state = record_of(component.config), record_of(variant.state)
        self.outcome = record_of(Outcome)
        shape = shape_of(variant.state)
        self.sorts = sorted(shape.names())
        self.ranks = sorted({each.rank for each in shape.inside() if each.rank is not None})
        self.safety = variant.held_to(component.safety)
        self.steps = variant.held_to(component.steps)
        self.progress = variant.held_to(component.progress)
        self.text = self._text()
        self.operations: list[type[Operation]] = list(self.unit.operations)

    def _text(self) -> str:
        compiler, unit, config, state = self.compiler, self.unit, self.config, self.state
        step, moved = compiler.dispatch(self.variant, config, state)
        inside = [config, state]
        view = compiler.function(self.variant.view, list(inside))
        alphabet = compiler.function(self.variant.alphabet, list(inside), seq(ANY_OPERATION))
        following = compiler.function(self.variant.continuation, list(inside), opt(ANY_OPERATION))
        normal = None
        if self.variant.normal is not None:
            normal = compiler.function(self.variant.normal, list(inside), state)
        of_state, of_step = [config, view.type], [config, view.type, ANY_OPERATION, self.outcome, view.type]
        rules = [
            self._rules("safety_holds", [rule.holds for rule in self.safety], of_state),
            self._rules("safety_witness", [rule.witness for rule in self.safety], of_state),
            self._rules("step_holds", [rule.holds for rule in self.steps], of_step),
            self._rules("step_witness", [rule.witness for rule in self.steps], of_step),
            self._rules("progress_pending", [rule.pending for rule in self.progress], of_state),
        ]
        cpp, c, s = unit.cpp, unit.cpp(config), unit.cpp(state)
        names = Canonical(unit, self.sorts, self.ranks)
        shape = shape_of(self.variant.state)
        compress, scan, rename = names.compress(shape, state), names.scan(shape, state), names.rename(shape, state)
        scanned, renamed = f"{scan}(a, trail, found);" if scan else "", f"{rename}(a, to)" if rename else "a"
        canonical = f"{normal.text}" if normal is not None else "a1"
        if compress is not None:
            canonical = f"{compress}({canonical}, Ranks(0))"
        compiler.add_forms(self.forms)
        owners = list(unit.operations)
        supported = " || ".join(f"tag == {unit.operations[owner]}" for owner in self.variant.transitions) or "false"
        internal = (
            " || ".join(f"tag == {n}" for n, owner in enumerate(owners) if owner.kind is Kind.INTERNAL) or "false"
        )
        aliases = [
            ("ConfigT", config),
            ("StateT", state),
            ("ViewT", view.type),
            ("MovedT", moved),
            ("OutcomeT", self.outcome),
        ]
        diverged = compiler.constant(DIVERGED)
        begin, step_after = "turns = 0; " if self.forms else "", f"{step}(a0, a1, a2)"
        before, behind = (['#include "forms.hpp"'], ['#include "pairs.hpp"']) if self.forms else ([], [])
        first = ["#define CP_FAR_CONTEXT"] if self.forms else []
        differs = f"static bool differs[{self.forms.last() + 1}] = {{}};\n" if self.forms else ""
        glue = [
            *(f"using {name} = {cpp(kind)};" for name, kind in aliases),
            *codec(unit, [config, state, *(record_of(owner) for owner in owners)]),
            *operations(unit),
            *names.lines,
            f"static ViewT view_of(const {c}& a0, const {s}& a1) {{ return {view.text}; }}",
            f"static Seq<Op> alphabet_of(const {c}& a0, const {s}& a1) {{ return {alphabet.text}; }}",
            f"static Opt<Op> continuation_of(const {c}& a0, const {s}& a1) {{ return {following.text}; }}",
            f"static MovedT step_of(const {c}& a0, const {s}& a1, const Op& a2) {{ {begin}return {step_after}; }}",
            f"static {s} canonical_of(const {c}& a0, const {s}& a1) {{ return {canonical}; }}",
            f"static bool supported(Int tag) {{ return {supported}; }}",
            f"static bool is_internal(Int tag) {{ return {internal}; }}",
            f"static OutcomeT diverged() {{ return {diverged.text}; }}",
            f"constexpr Int TAGS = {len(owners)}, CODES = {len(Code)};",
            f"constexpr size_t SORTS = {len(self.sorts)};",
            f"constexpr size_t KEPT = {sum(each.persistent for each in unit.instances.values())};",
            f"constexpr int SAFETY = {len(self.safety)}, STEPS = {len(self.steps)}, PROGRESS = {len(self.progress)};",
            f"static void scan_root(const {s}& a, Trail& trail, Signatures& found) {{ {scanned} }}",
            f"static {s} rename_root(const {s}& a, const Names& to) {{ return {renamed}; }}",
            *rules,
        ]
        body = unit_text(compiler)
        return "\n".join(
            [
                f"// {self.component.name} ({self.variant.tag}), made from the specification",
                *first,
                '#include "bytes.hpp"',
                '#include "names.hpp"',
                *before,
                "namespace cp {",
                differs + body,
                *glue,
                "}",
                '#include "levels.hpp"',
                *behind,
                "",
            ]
        )

    def _rules(self, name: str, rules: list[Any], kinds: list[Type]) -> str:
        """Properties by their numbers, and whether all of them hold."""
        tests = []
        for rule in rules:
            found = self.compiler.function(rule, list(kinds))
            test = self.compiler.truth(found)
            tests.append(coerce(self.unit, test, BOOL))
        cases = " ".join(f"case {number}: return {test};" for number, test in enumerate(tests))
        parameters = ", ".join(f"const {self.unit.cpp(kind)}& a{place}" for place, kind in enumerate(kinds))
        return (
            f"static bool {name}(int rule, {parameters}) {{ switch (rule) {{ {cases} }} return false; }}\n"
            f"[[maybe_unused]] static bool every_{name}({parameters}) {{ return {' && '.join(tests) or 'true'}; }}"
        )

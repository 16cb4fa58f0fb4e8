"""The compiler: from functions of the specification, as they stand, to one translation unit of C++."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any, get_type_hints

from cacheproof.search.native.expressions import Expressions
from cacheproof.search.native.forms import Forms, Made
from cacheproof.search.native.function import Scope
from cacheproof.search.native.source import Source
from cacheproof.search.native.types import (
    ANY_OPERATION,
    BOTTOM,
    Closure,
    Const,
    Holder,
    Pairs,
    Record,
    Tup,
    Type,
    has_value,
    is_operation,
    of_hint,
    record_of,
)
from cacheproof.search.native.unit import CompileError, Instance, Unit
from cacheproof.search.native.values import Val, coerce, lift, lifted_record, truth
from cachespec.kernel import UNSUPPORTED, Operation, Outcome, Variant

sys.setrecursionlimit(max(sys.getrecursionlimit(), 20_000))


class Compiler:
    """Compiles functions when they are asked for, and what these call."""

    def __init__(self) -> None:
        self.unit = Unit()
        self.dispatches: dict[tuple[object, ...], tuple[str, Tup]] = {}
        self.classes: dict[type, str] = {}
        """Classes of operations that are asked for, each with a name."""
        self.made: list[Made] = []
        """The functions that were compiled, in the order in which they were finished."""

    def cannot(self, about: str) -> CompileError:
        """An error without a place."""
        return CompileError(about)

    # What annotations say ---------------------------------------------------------------------------------------------

    def hints(self, function: FunctionType) -> dict[str, Any]:
        """The annotations of a function, as far as they can be evaluated."""
        return _hints(function)

    def hints_of_syntax(self, source: Source) -> dict[str, Any]:
        """The annotations of an inner function."""
        if isinstance(source.node, ast.Lambda):
            return {}
        arguments = source.node.args
        found = {
            each.arg: self.hint(each.annotation, source)
            for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
            if each.annotation is not None
        }
        if source.node.returns is not None:
            found["return"] = self.hint(source.node.returns, source)
        return {name: hint for name, hint in found.items() if hint is not None}

    def hint(self, annotation: ast.expr, source: Source) -> Any:
        """An annotation by its syntax; None where it cannot be evaluated."""
        return _evaluated(ast.unparse(annotation), id(source.globals), _Globals(source.globals))

    # Functions --------------------------------------------------------------------------------------------------------

    def instance(
        self,
        source: Source,
        frees: dict[str, Val],
        itself: Val | None,
        given: dict[str, Val],
        returns: Any,
        key: object,
        *,
        kept: bool,
    ) -> Instance:
        """The function for these types of arguments; it is compiled when it is first asked for."""
        kinds = tuple((name, value.type) for name, value in given.items())
        known = key if isinstance(key, Closure) else id(key)
        place = (known, kinds)
        found = self.unit.instances.get(place)
        if found is not None:
            if found.under_way:
                found.asked_early = True
            return found
        self.unit.kept.append(key)
        scope = Scope()
        scope.names.update(frees)
        inner = Scope(scope)
        for name, kind in kinds:
            inner.names[name] = Val("" if isinstance(kind, Const) else f"p_{name}", kind)
        hint = of_hint(returns) if returns is not None else None
        parameters = [(f"p_{name}", kind) for name, kind in kinds if has_value(kind)]
        if itself is not None and has_value(itself.type):
            parameters.insert(0, ("self_", itself.type))
        made = Instance(
            self.unit.fresh(source.qualname), _about(source), tuple(parameters), source=source, persistent=kept
        )
        made.result = hint if hint is not None else BOTTOM
        self.unit.instances[place] = made
        while True:
            before, made.asked_early = made.result, False
            body = Expressions(self, source, made, inner, hint)
            try:
                body.emit()
            except _HintDisagreesError:
                hint = None
                made.result = BOTTOM
                continue
            if not made.asked_early or before == made.result:
                break
        made.under_way = False
        self.made.append(Made(key, source, made, inner))
        return made

    def add_forms(self, forms: Forms) -> None:
        """Compile the other forms of each function that was compiled, and what these call. Refused ones are noted."""
        done = 0
        while done < len(self.made):
            original = self.made[done]
            done += 1
            for form in forms.of(original):
                known, dispatches, made = len(self.unit.instances), len(self.dispatches), len(self.made)
                try:
                    self._add_form(original, form.number, forms.source(form, original.source))
                except Exception as error:  # noqa: BLE001  # a changed function may be nonsense, which no rule foresees
                    forms.refused[form.number] = str(error) or type(error).__name__
                    for place in list(self.unit.instances)[known:]:
                        del self.unit.instances[place]
                    for key in list(self.dispatches)[dispatches:]:
                        del self.dispatches[key]
                    del self.made[made:]
                forms.only |= {id(one.instance): form.number for one in self.made[made:]}

    def _add_form(self, original: Made, number: int, source: Source) -> None:
        """Another body with the parameters and the type of result of the original."""
        before = original.instance
        if before.persistent or not has_value(before.result):
            raise CompileError(f"{source.qualname}: its result is kept, or is known when the code is compiled")
        name = self.unit.fresh(f"{source.qualname}_form")
        form = Instance(name, f"{before.about} (form {number})", before.parameters, before.result, source=source)
        self.unit.instances["form", number, name] = form
        Expressions(self, source, form, original.scope, before.result).emit()
        form.under_way = False
        before.forms[number] = name

    def check_hint(self, kind: Type, hint: Type) -> None:
        """Raise where a function gives back a record of another class than it is annotated with."""
        if not agrees(kind, hint):
            raise _HintDisagreesError

    def agree(self, kind: Type, hint: Type) -> bool:
        """Whether a value of a type can be one of another, as far as records go."""
        return agrees(kind, hint)

    def result_of(self, state: Type) -> Tup:
        """What a transition gives."""
        return Tup((state, record_of(Outcome)))

    def unsupported(self) -> Val:
        """The outcome of an operation that a variant lacks."""
        return lifted_record(self.unit, UNSUPPORTED)

    def dispatch(self, variant: Variant[Any, Any, Any], config: Type, state: Type) -> tuple[str, Tup]:
        """The function that steps a variant by an operation of any class."""
        key = (id(variant), config, state)
        if key in self.dispatches:
            return self.dispatches[key]
        self.unit.kept.append(variant)
        result = self.result_of(state)
        name = self.unit.fresh(f"step_{variant.tag}")
        self.dispatches[key] = name, result
        parameters = (("p_config", config), ("p_state", state), ("p_op", ANY_OPERATION))
        made = Instance(name, f"the variant {variant.tag}, by the class of the operation", parameters, result)
        place: tuple[Any, ...] = ("dispatch", *key)
        self.unit.instances[place] = made
        node = ast.parse("f(config, state, op)", mode="eval").body
        assert isinstance(node, ast.Call)
        source = Source(_LAMBDA, "<dispatch>", {}, name)
        body = Expressions(self, source, made, Scope(), None)
        cases: list[str] = []
        for owner, function in variant.transitions.items():
            tag = self.unit.tag_of(owner)
            operation = Val(f"op_as_{tag}(p_op)", record_of(owner))
            after = body.called(
                node, Val("", Const(function)), [Val("p_config", config), Val("p_state", state), operation], {}
            )
            cases.append(f"case {tag}: return {coerce(self.unit, after, result)};")
        outcome = self.unsupported().text
        cases.append(f"default: return {self.unit.cpp(result)}{{p_state, {outcome}}};")
        made.body = "switch (p_op.tag) {\n" + "\n".join(cases) + "\n}"
        made.under_way = False
        return self.dispatches[key]

    def function(self, function: Callable[..., Any], kinds: list[Type], returns: Type | None = None) -> Val:
        """A call of a function with arguments `a0`, `a1`, ... of these types, for the explorer."""
        source = Source(_LAMBDA, "<explorer>", {}, "explorer")
        body = Expressions(self, source, Instance("explorer", ""), Scope(), None)
        node = ast.parse("f()", mode="eval").body
        given = [Val(f"a{place}", kind) for place, kind in enumerate(kinds)]
        found = body.called(node, Val("", Const(function)), given, {})
        if returns is not None:
            found = Val(coerce(self.unit, found, returns), returns)
        if body.out:
            raise CompileError("a call that needs statements")
        return found

    def constant(self, value: Any) -> Val:
        """A value of Python's as one of C++."""
        return lift(self.unit, value)

    def truth(self, value: Val) -> Val:
        """Whether a value is true."""
        return truth(self.unit, value)

    # Operations -------------------------------------------------------------------------------------------------------

    def ask_class(self, owner: type) -> None:
        """Operations are asked whether they are of this class."""
        self.class_name(owner)
        if issubclass(owner, Operation) and not owner.__subclasses__():
            self.unit.tag_of(owner)

    def class_name(self, owner: type) -> str:
        """The name under which operations are asked for a class."""
        if owner not in self.classes:
            self.classes[owner] = self.unit.fresh(f"class_{owner.__name__}")
        return self.classes[owner]


class _HintDisagreesError(Exception):
    """A function gives back a record of another class than it is annotated with."""


_LAMBDA = ast.Lambda(ast.arguments([], [], None, [], [], None, []), ast.Constant(None))


def agrees(kind: Type, hint: Type) -> bool:
    """Whether two types have records of the same classes wherever both have records."""
    if kind == hint:
        return True
    if isinstance(kind, Record) and isinstance(hint, Record):
        if is_operation(kind) or is_operation(hint):
            return True
        several = zip(kind.fields, hint.fields, strict=False)
        return kind.owner is hint.owner and all(agrees(a, b) for (_, a), (_, b) in several)
    if isinstance(kind, Tup) and isinstance(hint, Tup) and len(kind.parts) == len(hint.parts):
        return all(agrees(a, b) for a, b in zip(kind.parts, hint.parts, strict=True))
    if isinstance(kind, Holder) and isinstance(hint, Holder):
        return agrees(kind.element, hint.element)
    if isinstance(hint, Holder) and hint.form == "Opt":
        return agrees(kind, hint.element)
    if isinstance(kind, Pairs) and isinstance(hint, Pairs):
        return agrees(kind.key, hint.key) and agrees(kind.value, hint.value)
    return True


class _Globals(dict[str, Any]):
    """The names of a module, which are told apart by which module it is."""

    def __hash__(self) -> int:  # type: ignore[override]  # only its identity matters, and that is another argument
        return 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Globals)


@cache
def _evaluated(text: str, identity: int, names: _Globals) -> Any:
    try:
        return eval(text, dict(names))  # noqa: S307  # an annotation of the specification
    except NameError:
        return None


@cache
def _hints(function: FunctionType) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError:
        found = {}
        for name, text in function.__annotations__.items():
            hint = _evaluated(text, id(function.__globals__), _Globals(function.__globals__))
            if hint is not None:
                found[name] = hint
        return found


def _about(source: Source) -> str:
    node = source.node
    return f"{source.filename.rpartition('cachespec/')[2]}:{node.lineno} {source.qualname}"

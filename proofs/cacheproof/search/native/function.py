"""One function for arguments of certain types: its names, its statements, and its result."""

from __future__ import annotations

import ast
import builtins
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

from cacheproof.search.native.services import Services
from cacheproof.search.native.source import Source, names_in
from cacheproof.search.native.types import (
    BOTTOM,
    Closure,
    Const,
    Holder,
    NoJoinError,
    Record,
    Tup,
    Type,
    has_value,
    join,
    seq,
)
from cacheproof.search.native.unit import CompileError, Instance, Unit, member_name, where
from cacheproof.search.native.values import (
    FieldItem,
    Parts,
    Val,
    can_lift,
    coerce,
    const,
    const_of,
    is_const,
    plain,
    sequence,
    truth,
    tuple_of,
)


class Scope:
    """Names, and behind them those around."""

    def __init__(self, around: Scope | None = None) -> None:
        self.around = around
        self.names: dict[str, Val] = {}

    def find(self, name: str) -> Val | None:
        """What a name is here."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.around
        return None

    def all(self) -> dict[str, Val]:
        """All names that are known here."""
        return {**(self.around.all() if self.around else {}), **self.names}


class Body(ABC):
    """The statements of one function. They are emitted again and again until the types of its variables are found."""

    def __init__(self, compiler: Services, source: Source, instance: Instance, scope: Scope, hint: Type | None) -> None:
        self.compiler, self.source, self.instance = compiler, source, instance
        self.unit: Unit = compiler.unit
        self.outer, self.hint = scope, hint
        self.types: dict[str, Type] = {}
        self.generates = isinstance(source.node, ast.FunctionDef) and _yields(source.node)
        self.changed = True
        self.out: list[str] = []
        self.scope = scope
        self.count = 0
        self.own: dict[str, str] = {}
        self.unrolled = 0
        self.conditional = 0

    def emit(self) -> None:
        """Fill the instance with the body and the type of the result."""
        while self.changed:
            self.changed, self.out, self.count = False, [], 0
            self.scope, self.own = Scope(self.outer), {}
            self.statements()
        lines = [f"{self.unit.cpp(kind)} {name}{{}};" for name, kind in self.declared()]
        self.instance.body = "\n".join([*lines, *self.out])
        self.instance.result = self.result()

    def declared(self) -> Iterator[tuple[str, Type]]:
        """The variables that are declared at the top."""
        for name in sorted(set(self.own.values())):
            if has_value(self.types[name]):
                yield name, self.types[name]
        if self.generates:
            yield "made", Holder("Builder", self.types.get("<yield>", BOTTOM))

    def result(self) -> Type:
        """The type of what is given back."""
        if self.generates:
            return self.hint if self.hint is not None else seq(self.types.get("<yield>", BOTTOM))
        return self.hint if self.hint is not None else self.types.get("<return>", BOTTOM)

    def statements(self) -> None:
        """All statements, and where the function ends without a return, None."""
        node = self.source.node
        if isinstance(node, ast.Lambda):
            self.give_back(self.expression(node.body))
            return
        self.take_over(node)
        self.block(node.body)
        if self.generates:
            made = Val("made.seq()", seq(self.types.get("<yield>", BOTTOM)))
            self.out.append(f"return {coerce(self.unit, made, self.result())};")
        else:
            self.out.append("unreachable();")

    def take_over(self, node: ast.FunctionDef) -> None:
        """Parameters that are assigned to are variables from the beginning."""
        stored = {each.id for each in names_in(node) if isinstance(each.ctx, ast.Store)}
        arguments = node.args
        for each in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            if each.arg in stored:
                target = ast.copy_location(ast.Name(each.arg, ast.Store()), node)
                given = self.outer.names[each.arg]
                if not is_const(given) or can_lift(const_of(given)):
                    self.assign_name(target, plain(self.unit, given))

    def error(self, node: ast.AST, about: str) -> CompileError:
        """An error at a construct."""
        text = ast.unparse(node) if isinstance(node, (ast.expr, ast.stmt)) else type(node).__name__
        return CompileError(f"{where(node, self.source.filename)}: {about}: {text[:160]}")

    def fresh(self, stem: str) -> str:
        """A C++ name that nothing else in this function has."""
        self.count += 1
        return f"{stem}_{self.count}"

    def widen(self, name: str, kind: Type, node: ast.AST) -> Type:
        """A variable holds a value of this type, too."""
        before = self.types.get(name, BOTTOM)
        try:
            after = join(before, kind)
        except NoJoinError:
            raise self.error(node, f"{name} would have two types, {before} and {kind}") from None
        if after != before or name not in self.types:
            self.types[name] = after
            self.changed = True
        return after

    # Statements -----------------------------------------------------------------------------------------------------

    def block(self, statements: list[ast.stmt]) -> bool:
        """Emit statements; whether control can come behind them."""
        for statement in statements:
            handle = getattr(self, f"s_{type(statement).__name__.lower()}", None)
            if handle is None:
                raise self.error(statement, "a statement that is not known")
            if handle(statement) is False:
                return False
        return True

    @contextmanager
    def nested(self) -> Iterator[list[str]]:
        """Statements that stand by themselves, such as inside an expression."""
        before, self.out = self.out, []
        try:
            yield self.out
        finally:
            self.out = before

    def give_back(self, value: Val) -> None:
        """Return a value."""
        node = self.source.node
        if self.hint is None:
            keep = is_const(value) and not can_lift(const_of(value))
            kind = value.type if keep else plain(self.unit, value).type
            kind = self.widen("<return>", kind, node)
        else:
            kind = self.hint
            self.compiler.check_hint(value.type, kind)
        if not has_value(kind):
            self.out.append("return Unit{};")
            return
        try:
            self.out.append(f"return {coerce(self.unit, value, kind)};")
        except CompileError as error:
            raise self.error(node, str(error)) from None

    def assign(self, target: ast.expr, value: Val) -> None:
        """Bind a name, the names of a tuple, or change an entry of a dictionary."""
        if isinstance(target, ast.Starred):
            self.assign(target.value, value)
        elif isinstance(target, ast.Name):
            if target.id != "_":
                self.assign_name(target, value)
        elif isinstance(target, ast.Tuple):
            for part, inner in zip(target.elts, self.taken_apart(target, value), strict=True):
                self.assign(part, inner)
        elif isinstance(target, ast.Subscript):
            self.assign_entry(target, value)
        else:
            raise self.error(target, "this cannot be assigned to")

    def assign_name(self, target: ast.Name, value: Val) -> None:
        """Bind a variable of the function."""
        always = self.unrolled and not self.conditional and not self.may_have_left()
        if is_const(value) and (always or not can_lift(const_of(value)) or self.is_fixed(target, value)):
            known = self.scope.names.get(target.id)
            if known is not None and known.type != value.type and not self.unrolled:
                raise self.error(target, "a name for two functions")
            self.scope.names[target.id] = value
        else:
            self.assign_variable(target, value)

    def assign_variable(self, target: ast.Name, value: Val) -> None:
        """Bind a variable that is there when the code runs."""
        value = plain(self.unit, value)
        name = f"v_{target.id}"
        kind = self.widen(name, value.type, target)
        self.own[target.id] = name
        self.scope.names[target.id] = Val(name, kind)
        if has_value(kind):
            self.out.append(f"{name} = {coerce(self.unit, value, kind)};")

    def is_fixed(self, target: ast.Name, value: Val) -> bool:
        """Whether a truth is assigned to a name that is assigned nowhere else: it decides which branches there are."""
        if not isinstance(const_of(value), bool):
            return False
        named = (each for each in names_in(self.source.node) if each.id == target.id)
        return sum(isinstance(each.ctx, ast.Store) for each in named) == 1

    def taken_apart(self, node: ast.expr, value: Val) -> list[Val]:
        """The parts of a tuple or a record, each as a value that can be read several times."""
        count = len(node.elts) if isinstance(node, (ast.Tuple, ast.List)) else 0
        if is_const(value):
            if isinstance(const_of(value), (FieldItem, Parts)):
                return list(const_of(value))
            return [const(part) for part in const_of(value)]
        name = self.fresh("t")
        kind = value.type
        if isinstance(kind, Holder) and kind.form == "Opt":
            value, kind = Val(f"{value.text}.get()", kind.element), kind.element
        self.out.append(f"const {self.unit.cpp(kind)}& {name} = {value.text};")
        return self.parts(node, Val(name, kind), count)

    def parts(self, node: ast.expr, value: Val, count: int) -> list[Val]:
        """The parts of a value that has a name."""
        kind = value.type
        targets = node.elts if isinstance(node, (ast.Tuple, ast.List)) else []
        starred = next((place for place, each in enumerate(targets) if isinstance(each, ast.Starred)), None)
        if isinstance(kind, (Tup, Record)):
            parts = self.members(value)
            if starred is not None:
                behind = len(targets) - starred - 1
                middle = parts[starred : len(parts) - behind]
                parts = [*parts[:starred], tuple_of(self.unit, middle), *parts[len(parts) - behind :]]
            return parts
        found = sequence(self.unit, value)
        if found is None or not isinstance(found.type, Holder):
            raise self.error(node, f"{kind} cannot be taken apart")
        element = found.type.element
        if starred is None:
            return [Val(f"{found.text}.at({place})", element) for place in range(count)]
        behind = count - starred - 1
        rest = f"{found.text}.slice({starred}, {f'-{behind}' if behind else 'END'})"
        return [
            *(Val(f"{found.text}.at({place})", element) for place in range(starred)),
            Val(rest, found.type),
            *(Val(f"{found.text}.at(-{place})", element) for place in range(behind, 0, -1)),
        ]

    def members(self, value: Val) -> list[Val]:
        """The parts of a tuple or a record."""
        kind = value.type
        if isinstance(kind, Tup):
            return [self.part(f"{value.text}.f{place}", part) for place, part in enumerate(kind.parts)]
        assert isinstance(kind, Record)
        return [self.part(f"{value.text}.{member_name(name)}", part) for name, part in kind.fields]

    def part(self, text: str, kind: Type) -> Val:
        """A member; of a function nothing is there at run time."""
        return Val("", kind) if isinstance(kind, Const) else Val(text, kind)

    # What the classes on top of this one add --------------------------------------------------------------------

    @abstractmethod
    def may_have_left(self) -> bool:
        """Whether control may have left this turn of the innermost loop."""

    @abstractmethod
    def assign_entry(self, target: ast.Subscript, value: Val) -> None:
        """`d[k] = v` and `l[i] = v`."""

    @abstractmethod
    def expression(self, node: ast.expr) -> Val:
        """The value of an expression."""

    @abstractmethod
    def loop(self, node: ast.expr, body: Callable[[Val], None], target: ast.expr | None = None) -> None:
        """Emit a loop over what an expression gives. The body binds each element to the target, if there is one."""

    @abstractmethod
    def bind(self, target: ast.expr, value: Val) -> None:
        """Names that are bound once: they are constants of C++."""

    @abstractmethod
    def clauses(self, generators: list[ast.comprehension], innermost: Callable[[], None]) -> None:
        """The loops and conditions of a comprehension, around what stands innermost."""

    @abstractmethod
    def gathered(self, nodes: list[ast.expr]) -> Val:
        """A tuple of expressions; with a starred one of another length than its parts, a sequence."""

    @abstractmethod
    def as_set(self, found: Val) -> Val:
        """A set of what can be iterated over."""

    @abstractmethod
    def called(self, node: ast.AST, function: Val, positional: list[Val], named: dict[str, Val]) -> Val:
        """The result of a call."""

    @abstractmethod
    def bound(self, function: Val, arguments: list[Val]) -> Val:
        """A function with its first arguments given."""

    @abstractmethod
    def attribute(self, node: ast.AST, owner: Val, name: str) -> Val:
        """A field, a property, or a method as a function of one argument less."""

    @abstractmethod
    def is_instance(self, node: ast.AST, value: Val, classes: Val) -> Val:
        """Whether a value is of a class, or of one of several."""

    def condition(self, node: ast.expr) -> Val:
        """Whether an expression is true."""
        return truth(self.unit, self.expression(node))

    def closure(self, node: ast.FunctionDef | ast.Lambda) -> Val:
        """A function that is made while running."""
        taken = {name: val for name, val in self.scope.all().items() if name in _reads(node)}
        names = tuple(sorted(taken))
        source = Source(node, self.source.filename, self.source.globals, f"{self.source.qualname}.<inner>")
        kind = Closure(source, names, tuple(taken[name].type for name in names))
        inside = ", ".join(taken[name].text for name in names if has_value(taken[name].type))
        return Val(f"{self.unit.cpp(kind)}{{{inside}}}", kind)

    def named(self, node: ast.Name) -> Val:
        """What a name means: a variable, a free variable, a global of the module, or a builtin."""
        found = self.scope.find(node.id)
        if found is not None:
            return found
        if node.id in self.source.globals:
            return const(self.source.globals[node.id])
        if hasattr(builtins, node.id):
            return const(getattr(builtins, node.id))
        raise self.error(node, "a name that is not known here")


@cache
def _yields(node: ast.FunctionDef) -> bool:
    todo: list[ast.AST] = list(node.body)
    while todo:
        each = todo.pop()
        if isinstance(each, (ast.Yield, ast.YieldFrom)):
            return True
        if not isinstance(each, (ast.FunctionDef, ast.Lambda)):
            todo.extend(ast.iter_child_nodes(each))
    return False


def _reads(node: ast.AST) -> set[str]:
    return {each.id for each in names_in(node) if isinstance(each.ctx, ast.Load)}

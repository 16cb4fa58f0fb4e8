"""Builtins of Python that take what can be iterated over, or numbers."""

from __future__ import annotations

import ast
from collections.abc import Callable

from cacheproof.search.native.loops import Loops
from cacheproof.search.native.types import (
    BOOL,
    BOTTOM,
    INT,
    Holder,
    Pairs,
    Record,
    Tup,
    Type,
    is_form,
    join,
    seq,
)
from cacheproof.search.native.unit import member_name
from cacheproof.search.native.values import (
    Val,
    can_lift,
    coerce,
    const,
    const_of,
    is_const,
    plain,
    sequence,
    there,
    truth,
    tuple_of,
)

Methods = Callable[..., Val]


class Builtins(Loops):
    """Builtins (`b_...`)."""

    def search(self, node: ast.Call, *, wanted: bool) -> Val:
        """`any` and `all`: they end at the first that decides."""
        found, stop = self.fresh("r"), self.fresh("stop")

        def body(element: Val) -> None:
            test = truth(self.unit, element)
            if is_const(test):
                if const_of(test) == wanted:
                    self.out.append(f"{found} = {str(wanted).lower()}; goto {stop};")
                return
            self.out.append(
                f"if ({'' if wanted else '!'}({test.text})) {{ {found} = {str(wanted).lower()}; goto {stop}; }}"
            )

        with self.nested() as lines:
            argument = node.args[0]
            if isinstance(argument, ast.GeneratorExp):
                element = argument.elt
                self.clauses(argument.generators, lambda: body(self.condition(element)))
            else:
                self.loop(argument, body)
        label = f"{stop}:;" if any(f"goto {stop};" in line for line in lines) else ""
        text = f"({{ bool {found} = {str(not wanted).lower()}; {{ {' '.join(lines)} }} {label} {found}; }})"
        return Val(text, BOOL)

    def b_any(self, node: ast.Call) -> Val:
        return self.search(node, wanted=True)

    def b_all(self, node: ast.Call) -> Val:
        return self.search(node, wanted=False)

    def b_sum(self, node: ast.Call) -> Val:
        name = self.fresh("sum")

        def body(element: Val) -> None:
            self.out.append(f"{name} = plus({name}, {coerce(self.unit, there(self.unit, element), INT)});")

        with self.nested() as lines:
            self.loop(node.args[0], body)
        return Val(f"({{ Int {name} = 0; {{ {' '.join(lines)} }} {name}; }})", INT)

    def b_next(self, node: ast.Call) -> Val:
        name, stop = self.fresh("r"), self.fresh("stop")
        key = f"<{name}>"

        def body(element: Val) -> None:
            kind = self.widen(key, plain(self.unit, element).type, node)
            self.out.append(f"{name} = {coerce(self.unit, element, kind)}; goto {stop};")

        default = self.expression(node.args[1]) if len(node.args) > 1 else None
        if default is not None:
            self.widen(key, plain(self.unit, default).type, node)
        with self.nested() as lines:
            self.loop(node.args[0], body)
        kind = self.types.get(key, BOTTOM)
        first = f" = {coerce(self.unit, default, kind)}" if default is not None else "{}"
        label = f"{stop}:;" if any(f"goto {stop};" in line for line in lines) else ""
        return Val(f"({{ {self.unit.cpp(kind)} {name}{first}; {{ {' '.join(lines)} }} {label} {name}; }})", kind)

    def values_of(self, node: ast.expr) -> Val:
        """What can be iterated over, as a sequence."""
        value = self.expression(node)
        if is_const(value):
            value = plain(self.unit, value if can_lift(const_of(value)) else const(tuple(const_of(value))))
        found = sequence(self.unit, value)
        if found is None:
            raise self.error(node, f"{value.type} cannot be iterated over")
        return found

    def b_len(self, node: ast.Call) -> Val:
        value = self.expression(node.args[0])
        if is_const(value):
            return const(len(const_of(value)))
        value = there(self.unit, value)
        if isinstance(value.type, Tup):
            return const(len(value.type.parts))
        return Val(f"{value.text}.size()", INT)

    def b_bool(self, node: ast.Call) -> Val:
        return self.condition(node.args[0])

    def b_int(self, node: ast.Call) -> Val:
        return Val(coerce(self.unit, there(self.unit, self.expression(node.args[0])), INT), INT)

    def b_abs(self, node: ast.Call) -> Val:
        return Val(f"absolute({coerce(self.unit, there(self.unit, self.expression(node.args[0])), INT)})", INT)

    def b_tuple(self, node: ast.Call) -> Val:
        if not node.args:
            return const(())
        value = self.expression(node.args[0])
        if is_const(value):
            return const(tuple(const_of(value)))
        value = there(self.unit, value)
        if isinstance(value.type, (Tup,)):
            return value
        found = sequence(self.unit, value)
        if found is None:
            raise self.error(node, f"{value.type} cannot be iterated over")
        return found

    def b_list(self, node: ast.Call) -> Val:
        found = self.values_of(node.args[0])
        assert isinstance(found.type, Holder)
        element = found.type.element
        return Val(f"List<{self.unit.cpp(element)}>::of({found.text})", Holder("List", element))

    def b_set(self, node: ast.Call) -> Val:
        if not node.args:
            return Val("Set<Bottom>{}", Holder("Set", BOTTOM))
        return self.as_set(self.values_of(node.args[0]))

    b_frozenset = b_set

    def b_dict(self, node: ast.Call) -> Val:
        if not node.args:
            return Val("Dict<Bottom, Bottom>::make()", Pairs("Dict", BOTTOM, BOTTOM))
        value = self.expression(node.args[0])
        if is_const(value):
            return const(dict(const_of(value)))
        if is_form(value.type, "Dict"):
            return Val(f"{value.text}.copy()", value.type)
        found = sequence(self.unit, value)
        assert found is not None
        assert isinstance(found.type, Holder)
        pair = found.type.element
        if pair == BOTTOM:
            return Val("Dict<Bottom, Bottom>::make()", Pairs("Dict", BOTTOM, BOTTOM))
        first, second = self.pair(node, pair)
        kind = Pairs("Dict", first[1], second[1])
        text = f"dict_of<{self.unit.cpp(first[1])}, {self.unit.cpp(second[1])}>({found.text}, "
        element = self.unit.cpp(pair)
        get_key, get_value = (f"[&](const {element}& x) {{ return x.{name}; }}" for name, _ in (first, second))
        return Val(f"{text}{get_key}, {get_value})", kind)

    def pair(self, node: ast.AST, kind: Type) -> list[tuple[str, Type]]:
        """The two members of a pair."""
        if isinstance(kind, Tup) and len(kind.parts) == 2:
            return [("f0", kind.parts[0]), ("f1", kind.parts[1])]
        if isinstance(kind, Record) and len(kind.fields) == 2:
            return [(member_name(name), own) for name, own in kind.fields]
        raise self.error(node, f"{kind} is no pair")

    def b_range(self, node: ast.Call) -> Val:
        values = [self.expression(each) for each in node.args]
        if all(is_const(value) for value in values):
            return const(range(*(const_of(value) for value in values)))
        bounds = ", ".join(coerce(self.unit, there(self.unit, value), INT) for value in values)
        return Val(f"range({bounds})", seq(INT))

    def made(self, node: ast.expr) -> Val:
        """A sequence of what a loop over the expression gives."""
        name = self.fresh("b")
        key = f"<{name}>"

        def body(element: Val) -> None:
            kind = self.widen(key, plain(self.unit, element).type, node)
            self.out.append(f"{name}.add({coerce(self.unit, element, kind)});")

        with self.nested() as lines:
            self.loop(node, body)
        kind = self.types.get(key, BOTTOM)
        text = f"({{ Builder<{self.unit.cpp(kind)}> {name}; {{ {' '.join(lines)} }} {name}.seq(); }})"
        return Val(text, seq(kind))

    def b_enumerate(self, node: ast.Call) -> Val:
        return self.made(node)

    b_zip = b_enumerate

    def b_reversed(self, node: ast.Call) -> Val:
        found = self.values_of(node.args[0])
        return Val(f"reversed({found.text})", found.type)

    def b_map(self, node: ast.Call) -> Val:
        function = self.expression(node.args[0])
        name = self.fresh("b")
        key = f"<{name}>"

        def body(element: Val) -> None:
            result = plain(self.unit, self.called(node, function, [element], {}))
            kind = self.widen(key, result.type, node)
            self.out.append(f"{name}.add({coerce(self.unit, result, kind)});")

        with self.nested() as lines:
            self.loop(node.args[1], body)
        kind = self.types.get(key, BOTTOM)
        text = f"({{ Builder<{self.unit.cpp(kind)}> {name}; {{ {' '.join(lines)} }} {name}.seq(); }})"
        return Val(text, seq(kind))

    def with_key(self, node: ast.Call, element: Type) -> tuple[str, str] | None:
        """The C++ function of `key=...`, and the type of the keys."""
        keyword = next((each for each in node.keywords if each.arg == "key"), None)
        if keyword is None:
            return None
        function = self.expression(keyword.value)
        with self.nested() as lines:
            key = plain(self.unit, self.called(node, function, [Val("x", element)], {}))
        cpp = self.unit.cpp(key.type)
        return f"[&](const {self.unit.cpp(element)}& x) -> {cpp} {{ {' '.join(lines)} return {key.text}; }}", cpp

    def b_sorted(self, node: ast.Call) -> Val:
        found = self.values_of(node.args[0])
        assert isinstance(found.type, Holder)
        element = found.type.element
        if element == BOTTOM:
            return Val("List<Bottom>::make()", Holder("List", BOTTOM))
        backwards = any(each.arg == "reverse" and const_of(self.expression(each.value)) for each in node.keywords)
        keyed = self.with_key(node, element)
        call = f"sorted({found.text})" if keyed is None else f"sorted_by<{keyed[1]}>({found.text}, {keyed[0]})"
        if backwards:
            call = f"sorted_backwards({found.text})"
        return Val(f"List<{self.unit.cpp(element)}>::of({call})", Holder("List", element))

    def extreme(self, node: ast.Call, name: str) -> Val:
        """`min` and `max`, of arguments or of what can be iterated over."""
        if len(node.args) > 1 and not any(isinstance(each, ast.Starred) for each in node.args):
            values = [there(self.unit, self.expression(each)) for each in node.args]
            kind: Type = BOTTOM
            for value in values:
                kind = join(kind, value.type)
            text = coerce(self.unit, values[0], kind)
            for value in values[1:]:
                text = f"{name}_of<{self.unit.cpp(kind)}>({text}, {coerce(self.unit, value, kind)})"
            return Val(text, kind)
        found = self.values_of(
            node.args[0]
            if len(node.args) == 1 and not isinstance(node.args[0], ast.Starred)
            else ast.copy_location(ast.Tuple(node.args, ast.Load()), node)
        )
        assert isinstance(found.type, Holder)
        element = found.type.element
        keyword = next((each for each in node.keywords if each.arg == "default"), None)
        default = None if keyword is None else self.expression(keyword.value)
        if element == BOTTOM:
            if default is None:
                return Val("bottom<Bottom>()", BOTTOM)
            return plain(self.unit, default)
        kind = element if default is None else join(element, plain(self.unit, default).type)
        keyed = self.with_key(node, element)
        each = self.unit.cpp(element)
        text = f"{name}_in({found.text})" if keyed is None else f"{name}_by<{keyed[1]}>({found.text}, {keyed[0]})"
        if default is None:
            return Val(text, kind)
        name_ = self.fresh("s")
        inner = coerce(self.unit, Val(text.replace(found.text, name_, 1), element), kind)
        other = coerce(self.unit, default, kind)
        return Val(f"({{ const Seq<{each}> {name_} = {found.text}; {name_}.n ? {inner} : {other}; }})", kind)

    def b_min(self, node: ast.Call) -> Val:
        return self.extreme(node, "min")

    def b_max(self, node: ast.Call) -> Val:
        return self.extreme(node, "max")

    def b_divmod(self, node: ast.Call) -> Val:
        first, second = (coerce(self.unit, there(self.unit, self.expression(each)), INT) for each in node.args)
        a, b = self.fresh("a"), self.fresh("b")
        made = tuple_of(self.unit, [Val(f"floor_div({a}, {b})", INT), Val(f"floor_mod({a}, {b})", INT)])
        return Val(f"({{ const Int {a} = {first}; const Int {b} = {second}; {made.text}; }})", made.type)

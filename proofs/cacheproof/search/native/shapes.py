"""Functions of a state that the explorer needs beside the transitions: encodings, and the canonical form.

The functions follow the declared shape of the state, as `search.canonical`, `search.ranks` and `search.signature` do.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from cacheproof.search.native.types import INT, Holder, Pairs, Record, Scalar, Tup, Type, is_operation, record_of
from cacheproof.search.native.unit import CompileError, Unit, member_name
from cacheproof.search.shape import Form, Shape


def members_of(kind: Type) -> list[tuple[str, Type]]:
    """The members of a struct."""
    if isinstance(kind, Tup):
        return [(f"f{place}", part) for place, part in enumerate(kind.parts)]
    assert isinstance(kind, Record)
    return [(member_name(name), own) for name, own in kind.fields]


def inside(kind: Type, found: dict[Type, None]) -> None:
    """The type, and all types inside it, the innermost first."""
    if kind in found:
        return
    if isinstance(kind, Holder):
        inside(kind.element, found)
    elif isinstance(kind, Pairs):
        inside(kind.key, found)
        inside(kind.value, found)
    elif isinstance(kind, (Tup, Record)):
        for _, part in members_of(kind):
            inside(part, found)
    found[kind] = None


def codec(unit: Unit, kinds: list[Type]) -> Iterator[str]:
    """How values become bytes and come back, and how they are written as JSON."""
    found: dict[Type, None] = {}
    for kind in kinds:
        inside(kind, found)
    for kind in found:
        if not isinstance(kind, (Tup, Record)):
            continue
        name, members = unit.cpp(kind), members_of(kind)
        bounds = " + ".join(["size_t(0)", *(f"bound(a.{member})" for member, _ in members)])
        writes = " ".join(f"to = write(to, a.{member});" for member, _ in members)
        takes = ", ".join(f"take<{unit.cpp(part)}>(in)" for _, part in members)
        texts = " out += ','; ".join(f"json(out, a.{member});" for member, _ in members)
        yield f"[[maybe_unused]] static size_t bound(const {name}& a) {{ return {bounds}; }}"
        yield f"[[maybe_unused]] static uint8_t* write(uint8_t* to, const {name}& a) {{ {writes} return to; }}"
        yield f"template <> {name} take<{name}>(const uint8_t*& in) {{ return {name}{{{takes}}}; }}"
        if not is_operation(kind):
            head = f"[[maybe_unused]] static void json(Written& out, const {name}& a)"
            yield f"{head} {{ out += '['; {texts} out += ']'; }}"


def operations(unit: Unit) -> Iterator[str]:
    """Operations as JSON: the tag, and the fields."""
    cases = []
    for owner, tag in unit.operations.items():
        fields = "".join(f" out += ','; json(out, a.m{tag}.{member});" for member, _ in members_of(record_of(owner)))
        cases.append(f'case {tag}: out += "{tag}";{fields} break;')
    yield (
        "[[maybe_unused]] static void json(Written& out, const Op& a)"
        f" {{ out += '['; switch (a.tag) {{ {' '.join(cases)} }} out += ']'; }}"
    )


class Canonical:
    """The functions by which states that differ in exchangeable names or in the size of ranks become one."""

    def __init__(self, unit: Unit, sorts: list[str], ranks: list[str]) -> None:
        self.unit, self.sorts, self.ranks = unit, sorts, ranks
        self.lines: list[str] = []
        self.numbers, self.places = count(), count()

    def add(self, name: str, head: str, body: str) -> str:
        """A function."""
        self.lines.append(f"{head} {{ {body} }}")
        return name

    def struct(self, shape: Shape, kind: Type) -> list[tuple[str, Shape, Type]]:
        """The parts of a record or a tuple: member, shape and type."""
        return [(m, part, own) for (m, own), part in zip(members_of(kind), shape.parts, strict=True)]

    # Ranks ------------------------------------------------------------------------------------------------------------

    def collect(self, shape: Shape, kind: Type, *, root: bool = False) -> str | None:
        """Gathers the ranks of a scope: it stops where an inner scope begins."""
        if (shape.scope and not root) or not shape.has_ranks():
            return None
        name = f"collect_{next(self.numbers)}"
        head = f"static void {name}(const {self.unit.cpp(kind)}& a, Ranks& ranks)"
        if shape.rank is not None:
            return self.add(name, head, f"if (a >= 0) ranks.add({self.ranks.index(shape.rank)}, a);")
        if shape.form in (Form.RECORD, Form.FIXED):
            parts = [(m, self.collect(part, own)) for m, part, own in self.struct(shape, kind)]
            if not any(made for _, made in parts):
                return None
            return self.add(name, head, " ".join(f"{made}(a.{m}, ranks);" for m, made in parts if made))
        if isinstance(kind, Pairs):
            key, value = self.collect(shape.parts[0], kind.key), self.collect(shape.parts[1], kind.value)
            inner = f"{key}(a.p[i].key, ranks); " if key else ""
            inner += f"{value}(a.p[i].value, ranks);" if value else ""
            return self.add(name, head, f"for (Int i = 0; i < a.n; ++i) {{ {inner} }}") if inner else None
        assert isinstance(kind, Holder)
        element = self.collect(shape.parts[0], kind.element)
        if element is None:
            return None
        if kind.form == "Opt":
            return self.add(name, head, f"if (a.has) {element}(a.value, ranks);")
        item = "a.p[i].key" if kind.form == "Queue" else "a.p[i]"
        return self.add(name, head, f"for (Int i = 0; i < a.n; ++i) {element}({item}, ranks);")

    def rewrite(self, shape: Shape, kind: Type, *, root: bool = False) -> str | None:
        """Replaces ranks by their numbers; a scope inside is compressed by itself."""
        if not shape.has_ranks():
            return None
        cpp = self.unit.cpp(kind)
        if shape.scope and not root:
            return self.compress(shape, kind)
        name = f"rewrite_{next(self.numbers)}"
        head = f"static {cpp} {name}(const {cpp}& a, const Ranks& ranks)"
        if shape.rank is not None:
            return self.add(name, head, f"return a >= 0 ? ranks.number({self.ranks.index(shape.rank)}, a) : a;")
        if shape.form in (Form.RECORD, Form.FIXED):
            parts = [(m, self.rewrite(part, own)) for m, part, own in self.struct(shape, kind)]
            body = " ".join(f"made.{m} = {made}(a.{m}, ranks);" for m, made in parts if made)
            return self.add(name, head, f"{cpp} made = a; {body} return made;") if body else None
        return self.mapped(name, head, shape, kind, "rewrite", "ranks")

    def mapped(self, name: str, head: str, shape: Shape, kind: Type, what: str, more: str) -> str | None:
        """A container with every element changed."""
        cpp = self.unit.cpp(kind)
        change = getattr(self, what)
        if isinstance(kind, Pairs):
            key, value = change(shape.parts[0], kind.key), change(shape.parts[1], kind.value)
            if not key and not value:
                return None
            k = f"{key}(a.p[i].key, {more})" if key else "a.p[i].key"
            v = f"{value}(a.p[i].value, {more})" if value else "a.p[i].value"
            pair = f"Pair<{self.unit.cpp(kind.key)}, {self.unit.cpp(kind.value)}>"
            body = (
                f"auto* made = room<{pair}>(a.n); for (Int i = 0; i < a.n; ++i) made[i] = {pair}{{{k}, {v}}};"
                f" order_stably(made, made + a.n, Before<{pair}>{{}}); return {cpp}{{made, a.n}};"
            )
            return self.add(name, head, body)
        assert isinstance(kind, Holder)
        element = change(shape.parts[0], kind.element)
        if element is None:
            return None
        inner = self.unit.cpp(kind.element)
        if kind.form == "Opt":
            return self.add(name, head, f"return a.has ? {cpp}{{true, {element}(a.value, {more})}} : a;")
        if kind.form == "Queue":
            body = f"made[i] = Waiting<{inner}>{{{element}(a.p[i].key, {more}), a.p[i].weight}};"
            inner = f"Waiting<{inner}>"
        else:
            body = f"made[i] = {element}(a.p[i], {more});"
        return self.add(
            name,
            head,
            f"auto* made = room<{inner}>(a.n); for (Int i = 0; i < a.n; ++i) {body} return {cpp}{{made, a.n}};",
        )

    def compress(self, shape: Shape, kind: Type) -> str | None:
        """Ranks of a whole scope."""
        collect, rewrite = self.collect(shape, kind, root=True), self.rewrite(shape, kind, root=True)
        if rewrite is None:
            return None
        name, cpp = f"compress_{next(self.numbers)}", self.unit.cpp(kind)
        gather = f"{collect}(a, own);" if collect else ""
        return self.add(
            name,
            f"static {cpp} {name}(const {cpp}& a, const Ranks&)",
            f"Ranks own({len(self.ranks)}); {gather} own.settle(); return {rewrite}(a, own);",
        )

    # Names ------------------------------------------------------------------------------------------------------------

    def rename(self, shape: Shape, kind: Type) -> str | None:
        """Gives names other names."""
        if not shape.names():
            return None
        cpp, name = self.unit.cpp(kind), f"rename_{next(self.numbers)}"
        head = f"static {cpp} {name}(const {cpp}& a, const Names& to)"
        if shape.form is Form.LEAF:
            assert shape.name is not None
            return self.add(name, head, f"return to.of({self.sorts.index(shape.name)}, a);")
        if shape.form in (Form.RECORD, Form.FIXED):
            parts = [(m, self.rename(part, own)) for m, part, own in self.struct(shape, kind)]
            body = " ".join(f"made.{m} = {made}(a.{m}, to);" for m, made in parts if made)
            return self.add(name, head, f"{cpp} made = a; {body} return made;")
        if shape.indexed is not None:
            assert isinstance(kind, Holder)
            inner = self.rename(shape.parts[0], kind.element)
            item = f"{inner}(a.p[i], to)" if inner else "a.p[i]"
            sort, element = self.sorts.index(shape.indexed), self.unit.cpp(kind.element)
            return self.add(
                name,
                head,
                f"auto* made = room<{element}>(a.n); for (Int i = 0; i < a.n; ++i)"
                f" made[to.place({sort}, i)] = {item}; return {cpp}{{made, a.n}};",
            )
        return self.mapped(name, head, shape, kind, "rename", "to")

    def scan(self, shape: Shape, kind: Type) -> str | None:
        """Notes where names occur, said without any name."""
        if not shape.names():
            return None
        name = f"scan_{next(self.numbers)}"
        head = f"static void {name}(const {self.unit.cpp(kind)}& a, Trail& trail, Signatures& found)"
        if shape.form is Form.LEAF:
            assert shape.name is not None
            return self.add(name, head, f"found.note({self.sorts.index(shape.name)}, a, {next(self.places)}, trail);")
        if shape.form in (Form.RECORD, Form.FIXED):
            parts = [(m, self.scan(part, own)) for m, part, own in self.struct(shape, kind)]
            return self.add(name, head, " ".join(f"{made}(a.{m}, trail, found);" for m, made in parts if made))
        if isinstance(kind, Pairs):
            return self.scan_map(name, head, shape, kind)
        assert isinstance(kind, Holder)
        if shape.indexed is not None:
            return self.scan_indexed(name, head, shape, kind)
        element = self.scan(shape.parts[0], kind.element)
        if kind.form == "Opt":
            return self.add(name, head, f"if (a.has) {element}(a.value, trail, found);")
        if kind.form == "Queue":
            way, item = "trail.leaf(i); trail.leaf(a.p[i].weight);", "a.p[i].key"
        else:
            way, item = "trail.leaf(i);", "a.p[i]"
        return self.add(name, head, _each(f"{way} {element}({item}, trail, found); trail.back(mark);"))

    def scan_map(self, name: str, head: str, shape: Shape, kind: Pairs) -> str:
        """Of a key its value says something, and the other way round."""
        key, value = shape.parts
        scan_key, scan_value = self.scan(key, kind.key), self.scan(value, kind.value)
        body = ""
        if scan_key:
            erase = self.erase(value, kind.value)
            body += f"{erase}(a.p[i].value, found.colours, trail); {scan_key}(a.p[i].key, trail, found); "
            body += "trail.back(mark); "
        if scan_value:
            erase = self.erase(key, kind.key)
            body += f"{erase}(a.p[i].key, found.colours, trail); {scan_value}(a.p[i].value, trail, found); "
            body += "trail.back(mark);"
        return self.add(name, head, _each(body))

    def scan_indexed(self, name: str, head: str, shape: Shape, kind: Holder) -> str:
        """The position is a name; what is inside may only see its colour."""
        assert shape.indexed is not None
        sort, place = self.sorts.index(shape.indexed), next(self.places)
        erase, inner = self.erase(shape.parts[0], kind.element), self.scan(shape.parts[0], kind.element)
        named = f"{erase}(a.p[i], found.colours, trail); found.note({sort}, i, {place}, trail); trail.back(mark);"
        body = f"if (active) {{ {named} }}"
        if inner:
            body += f" trail.leaf(active ? found.colours.of({sort}, i) : i); {inner}(a.p[i], trail, found);"
            body += " trail.back(mark);"
        return self.add(name, head, f"const bool active = found.colours.active({sort}); {_each(body)}")

    def erase(self, shape: Shape, kind: Type) -> str:
        """A value in which names are replaced by their colours, at the end of a trail."""
        name = f"erase_{next(self.numbers)}"
        head = f"static void {name}(const {self.unit.cpp(kind)}& a, const Colours& colours, Trail& trail)"
        if shape.form is Form.LEAF:
            if shape.name is not None:
                return self.add(name, head, f"colours.erase({self.sorts.index(shape.name)}, a, trail);")
            if kind in (INT, Scalar("bool")):
                return self.add(name, head, "trail.leaf(a);")
            raise CompileError(f"a state has a part of which the declarations do not say the shape: {kind}")
        if shape.form in (Form.RECORD, Form.FIXED):
            parts = (f"{self.erase(part, own)}(a.{m}, colours, trail);" for m, part, own in self.struct(shape, kind))
            return self.add(name, head, f"{' '.join(parts)} trail.close();")
        if isinstance(kind, Pairs):
            key, value = self.erase(shape.parts[0], kind.key), self.erase(shape.parts[1], kind.value)
            pair = f"{key}(a.p[i].key, colours, trail); {value}(a.p[i].value, colours, trail); trail.close();"
            return self.add(name, head, f"{_sorted(pair)} trail.close();")
        assert isinstance(kind, Holder)
        element = self.erase(shape.parts[0], kind.element)
        if kind.form == "Opt":
            return self.add(name, head, f"if (a.has) {element}(a.value, colours, trail); trail.close();")
        if kind.form == "Queue":
            item = f"{element}(a.p[i].key, colours, trail); trail.leaf(a.p[i].weight); trail.close();"
        else:
            item = f"{element}(a.p[i], colours, trail);"
        plain = _each(item)
        if shape.indexed is None or kind.form == "Queue":
            return self.add(name, head, f"{plain} trail.close();")
        sort = self.sorts.index(shape.indexed)
        coloured = _sorted(f"trail.leaf(colours.of({sort}, i)); {item} trail.close();")
        return self.add(name, head, f"if (colours.active({sort})) {{ {coloured} }} else {{ {plain} }} trail.close();")


def _each(body: str) -> str:
    """For each element; the trail has a mark to come back to."""
    mark = "const Int mark = trail.mark(); " if "mark" in body else ""
    return f"{mark}for (Int i = 0; i < a.n; ++i) {{ {body} }}"


def _sorted(body: str) -> str:
    """What each element adds to the trail, in order."""
    return (
        "const Int from = trail.mark(); Builder<Int> marks; for (Int i = 0; i < a.n; ++i)"
        f" {{ marks.add(trail.mark()); {body} }} trail.sort(from, marks);"
    )

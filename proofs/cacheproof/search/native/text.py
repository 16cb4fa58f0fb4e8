"""The text of a translation unit: structs, operations, functions, each with a comment that says what it is."""

from __future__ import annotations

from collections.abc import Iterator

from cacheproof.search.native.compiler import Compiler
from cacheproof.search.native.types import (
    INT,
    AnyOperation,
    Closure,
    Const,
    EnumType,
    Holder,
    Pairs,
    Record,
    Scalar,
    Tup,
    Type,
    has_value,
    record_of,
)
from cacheproof.search.native.unit import Instance, Struct, Unit, member_name
from cacheproof.search.native.values import Val, coerce


def unit_text(compiler: Compiler) -> str:
    """All of it, but for what the explorer adds."""
    unit = compiler.unit
    behind = [*_classes(compiler), *_functions(unit)]
    return "\n".join([*_structs(unit), *(_hashes(unit) if unit.bounded else []), *behind])


def _structs(unit: Unit) -> Iterator[str]:
    """Structs in the order in which each finds those that it holds; first those that operations hold."""
    first: dict[Type, Struct] = {}
    for owner in unit.operations:
        _gather(unit, record_of(owner), first)
    for struct in first.values():
        yield _struct(struct, unit)
    yield _operation(unit)
    for kind, struct in unit.structs.items():
        if kind not in first:
            yield _struct(struct, unit)


def _gather(unit: Unit, kind: Type, found: dict[Type, Struct]) -> None:
    if isinstance(kind, Holder):
        _gather(unit, kind.element, found)
    elif isinstance(kind, Pairs):
        _gather(unit, kind.key, found)
        _gather(unit, kind.value, found)
    elif kind in unit.structs and kind not in found:
        for _, member in unit.structs[kind].members:
            _gather(unit, member, found)
        found[kind] = unit.structs[kind]


def _struct(struct: Struct, unit: Unit) -> str:
    name, members = struct.name, struct.members
    fields = " ".join(f"{unit.cpp(kind)} {member}{{}};" for member, kind in members)
    same = " && ".join(f"eq(a.{member}, b.{member})" for member, _ in members) or "true"
    order = " ".join(
        f"if (less(a.{m}, b.{m})) return true; if (less(b.{m}, a.{m})) return false;"
        for m, kind in members
        if _ordered(kind)
    )
    parts = ", ".join(f"copy(a.{member})" for member, _ in members)
    return (
        f"// {struct.about}\n"
        f"struct {name} {{ {fields} }};\n"
        f"[[maybe_unused]] static bool eq(const {name}& a, const {name}& b) {{ return {same}; }}\n"
        f"[[maybe_unused]] static bool less(const {name}& a, const {name}& b) {{ {order} return false; }}\n"
        f"[[maybe_unused]] static {name} copy(const {name}& a) {{ return {{{parts}}}; }}"
    )


def _hashes(unit: Unit) -> Iterator[str]:
    """Hashes of structs, which large maps need of their keys."""
    for kind, struct in unit.structs.items():
        if all(map(_hashable, (member for _, member in struct.members))) and not isinstance(kind, Closure):
            parts = " ".join(f"made = hash_mixed(hash_of(a.{member}), made);" for member, _ in struct.members)
            head = f"[[maybe_unused]] static uint64_t hash_of(const {struct.name}& a)"
            yield f"{head} {{ uint64_t made = {len(struct.members)}; {parts} return made; }}"


def _hashable(kind: Type) -> bool:
    if isinstance(kind, (Tup, Record)):
        parts = kind.parts if isinstance(kind, Tup) else [part for _, part in kind.fields]
        return all(map(_hashable, filter(has_value, parts)))
    if isinstance(kind, Holder):
        return kind.form in ("Seq", "Opt", "Set") and _hashable(kind.element)
    return isinstance(kind, (Scalar, EnumType))


def _ordered(kind: Type) -> bool:
    if isinstance(kind, Pairs) and kind.form == "Dict":
        return False
    return not isinstance(kind, (AnyOperation, Const))


def _operation(unit: Unit) -> str:
    names = {tag: unit.structs[record_of(owner)].name for owner, tag in unit.operations.items()}
    members = " ".join(f"{name} m{tag};" for tag, name in names.items())
    lines = [
        "// Any operation",
        f"struct Op {{ Int tag = -1; union {{ Int none; {members} }}; CP_DEVICE Op() : none(0) {{}} }};",
    ]
    for tag, name in names.items():
        lines.append(
            f"[[maybe_unused]] static Op op_of_{tag}(const {name}& a) {{ Op made; clear_bytes(made); "
            f"made.tag = {tag}; made.m{tag} = a; return made; }}"
        )
        lines.append(f"[[maybe_unused]] static const {name}& op_as_{tag}(const Op& a) {{ return a.m{tag}; }}")
    same = " ".join(f"case {tag}: return eq(a.m{tag}, b.m{tag});" for tag in names)
    order = " ".join(f"case {tag}: return less(a.m{tag}, b.m{tag});" for tag in names)
    kept = " ".join(f"case {tag}: return op_of_{tag}(copy(a.m{tag}));" for tag in names)
    lines.append(
        f"[[maybe_unused]] static bool eq(const Op& a, const Op& b)"
        f" {{ if (a.tag != b.tag) return false; switch (a.tag) {{ {same} }} return true; }}"
    )
    lines.append(
        f"[[maybe_unused]] static bool less(const Op& a, const Op& b)"
        f" {{ if (a.tag != b.tag) return a.tag < b.tag; switch (a.tag) {{ {order} }} return false; }}"
    )
    lines.append(f"[[maybe_unused]] static Op copy(const Op& a) {{ switch (a.tag) {{ {kept} }} return a; }}")
    return "\n".join(lines)


def _classes(compiler: Compiler) -> Iterator[str]:
    """What operations of any class are asked: of which class they are, and for a field."""
    unit = compiler.unit
    for owner, name in compiler.classes.items():
        tests = " || ".join(f"a.tag == {tag}" for tag in unit.tags_below(owner)) or "false"
        yield f"[[maybe_unused]] static bool op_is_{name}(const Op& a) {{ return {tests}; }}"
    for name, kind in unit.accessors.items():
        cases, tags = [], []
        for owner, tag in unit.operations.items():
            own = record_of(owner).field(name)
            if own is not None:
                text = coerce(unit, Val(f"a.m{tag}.{member_name(name)}", own), kind)
                cases.append(f"case {tag}: return {text};")
                tags.append(f"a.tag == {tag}")
        yield (
            f"[[maybe_unused]] static {unit.cpp(kind)} op_get_{name}(const Op& a)"
            f' {{ switch (a.tag) {{ {" ".join(cases)} }} fail("an operation without {name}"); }}'
        )
        yield f"[[maybe_unused]] static bool op_has_{name}(const Op& a) {{ return {' || '.join(tags)}; }}"


def _functions(unit: Unit) -> Iterator[str]:
    made = [each for each in unit.instances.values() if has_value(each.result)]
    for instance in made:
        yield f"{_head(unit, instance)};"
    for instance in made:
        yield function_text(unit, instance)


def function_text(unit: Unit, instance: Instance) -> str:
    """One function."""
    return _kept(unit, instance) if instance.persistent else _plain(unit, instance)


def _head(unit: Unit, instance: Instance) -> str:
    parameters = ", ".join(f"const {unit.cpp(kind)}& {name}" for name, kind in instance.parameters)
    result = unit.cpp(instance.result)
    if instance.persistent:
        result = f"const {result}&"
    return f"static {result} {instance.name}({parameters})"


def _plain(unit: Unit, instance: Instance) -> str:
    if instance.forms:
        return _with_forms(unit, instance)
    deep = "deep();\n" if unit.bounded and instance.asked_early else ""
    return f"// {instance.about}\n{_head(unit, instance)} {{\n{deep}{instance.body}\n}}"


def _with_forms(unit: Unit, instance: Instance) -> str:
    """A function that calls the form that is chosen, or compares all forms with the original."""
    parameters = ", ".join(f"const {unit.cpp(kind)}& {name}" for name, kind in instance.parameters)
    given = ", ".join(name for name, _ in instance.parameters)
    result, own = unit.cpp(instance.result), unit.fresh(f"{instance.name}_original")
    cases = " ".join(f"case {number}: return {name}({given});" for number, name in instance.forms.items())
    numbers = ", ".join(map(str, instance.forms))
    if any(_changes_in_place(kind) for _, kind in instance.parameters):
        compared = f"for (const Int each : {{{numbers}}}) differs[each] = true;"
    else:
        compared = f"compare(made, {{{numbers}}}, differs, give);"
    return (
        f"static {result} {own}({parameters}) {{\n{instance.body}\n}}\n"
        f"// {instance.about}\n"
        f"{_head(unit, instance)} {{\n"
        f"    const auto give = [&](Int form) {{ switch (form) {{ {cases} }} return {own}({given}); }};\n"
        f"    if (!comparing) return give(form_now);\n"
        f"    const {result} made = {own}({given});\n"
        f"    {compared}\n"
        f"    return made;\n"
        f"}}"
    )


def _changes_in_place(kind: Type) -> bool:
    """Whether a value holds a list or a dictionary, which a call may change."""
    if isinstance(kind, Holder):
        return kind.form in ("List", "Builder") or _changes_in_place(kind.element)
    if isinstance(kind, Pairs):
        return kind.form == "Dict" or _changes_in_place(kind.key) or _changes_in_place(kind.value)
    if isinstance(kind, Record):
        return any(_changes_in_place(part) for _, part in kind.fields)
    if isinstance(kind, Tup):
        return any(map(_changes_in_place, kind.parts))
    return isinstance(kind, Closure) and any(map(_changes_in_place, kind.kinds))


def _kept(unit: Unit, instance: Instance) -> str:
    """A function that remembers what it gave, for as long as a search lasts.

    Most are asked with the configuration of the search, which is known by its place. Numbers are compared before it.
    """
    parameters = ", ".join(f"const {unit.cpp(kind)}& {name}" for name, kind in instance.parameters)
    fields = " ".join(f"{unit.cpp(kind)} {name};" for name, kind in instance.parameters)
    result, number = unit.cpp(instance.result), unit.kept_number(instance)
    roots = [name for name, kind in instance.parameters if isinstance(kind, Record)]
    numbers = [f"eq(each->{name}, {name})" for name, kind in instance.parameters if not isinstance(kind, Record)]
    form, noted_form = "", ""
    if unit.has_forms:  # each form remembers by itself
        form, noted_form = "Int form;", "made->form = form_now;"
        numbers.append("each->form == form_now")
    integers = [name for name, kind in instance.parameters if kind == INT]
    lists = f"KNOWN_LISTS, list_of({', '.join(integers)})" if integers else "1, 0"
    records = [f"(is_root(&{name}) ? each->root_{name} : eq(each->{name}, {name}))" for name in roots]
    marks = " ".join(f"bool root_{name};" for name in roots)
    noted = " ".join(f"made->root_{name} = is_root(&{name});" for name in roots)
    copies = " ".join(
        f"made->{name} = {f'is_root(&{name}) ? {name} : ' if name in roots else ''}copy({name});"
        for name, _ in instance.parameters
    )
    given = ", ".join(f"made->{name}" for name, _ in instance.parameters)
    return (
        f"static {result} {instance.name}_made({parameters}) {{\n{instance.body}\n}}\n"
        f"// {instance.about}\n"
        f"{_head(unit, instance)} {{\n"
        f"    struct Known {{ {fields} {form} {marks} {result} result; const Known* next; }};\n"
        f"    CP_KNOWN({number}, {lists})\n"
        f"    for (const Known* each = known; each; each = each->next)"
        f" if ({' && '.join([*numbers, *records]) or 'true'}) return each->result;\n"
        f"    const Lasting lasting_;\n"
        f"    Known* made = new (room<Known>(1)) Known();\n"
        f"    {noted} {noted_form} {copies}\n"
        f"    made->result = {instance.name}_made({given});\n"
        f"    CP_KEEP({number});\n"
        f"    return made->result;\n"
        f"}}"
    )

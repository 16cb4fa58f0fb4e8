"""Methods of containers: of the specification's `Map` and `Queue`, and of lists, sets and dictionaries."""

from __future__ import annotations

import ast
from collections.abc import Callable

from cacheproof.search.native.standard import Standard
from cacheproof.search.native.types import (
    BOOL,
    BOTTOM,
    INT,
    UNIT,
    Holder,
    Pairs,
    Tup,
    Type,
    is_form,
    join,
    opt,
    seq,
)
from cacheproof.search.native.values import (
    Val,
    coerce,
    const,
    plain,
    sequence,
    there,
)

Methods = Callable[..., Val]


class Containers(Standard):
    """Methods, `m_FORM_NAME` each."""

    def m_list_append(self, node: ast.Call, owner: Val, kind: Holder, given: list[Val]) -> Val:
        assert isinstance(node.func, ast.Attribute)
        value = plain(self.unit, given[0])
        self.grow(node.func.value, value.type)
        owner = self.expression(node.func.value)
        assert isinstance(owner.type, Holder)
        return Val(f"{owner.text}.add({coerce(self.unit, value, owner.type.element)})", UNIT)

    def m_list_extend(self, node: ast.Call, owner: Val, kind: Holder, given: list[Val]) -> Val:
        assert isinstance(node.func, ast.Attribute)
        found = sequence(self.unit, plain(self.unit, given[0]))
        assert found is not None
        assert isinstance(found.type, Holder)
        self.grow(node.func.value, found.type.element)
        owner = self.expression(node.func.value)
        assert isinstance(owner.type, Holder)
        return Val(f"{owner.text}.add_all({coerce(self.unit, found, seq(owner.type.element))})", UNIT)

    def m_set_add(self, node: ast.Call, owner: Val, kind: Holder, given: list[Val]) -> Val:
        assert isinstance(node.func, ast.Attribute)
        value = plain(self.unit, given[0])
        self.grow(node.func.value, value.type)
        owner = self.expression(node.func.value)
        assert isinstance(owner.type, Holder)
        return Val(f"({owner.text} = {owner.text}.with({coerce(self.unit, value, owner.type.element)}))", UNIT)

    def m_any_index(self, node: ast.Call, owner: Val, kind: Type, given: list[Val]) -> Val:
        found = sequence(self.unit, owner)
        assert found is not None
        assert isinstance(found.type, Holder)
        return Val(f"{found.text}.index({coerce(self.unit, given[0], found.type.element)})", INT)

    def m_any_count(self, node: ast.Call, owner: Val, kind: Type, given: list[Val]) -> Val:
        found = sequence(self.unit, owner)
        assert found is not None
        assert isinstance(found.type, Holder)
        return Val(f"{found.text}.count({coerce(self.unit, given[0], found.type.element)})", INT)

    def m_dict_get(self, node: ast.Call, owner: Val, kind: Pairs, given: list[Val]) -> Val:
        default = plain(self.unit, given[1]) if len(given) > 1 else Val("Unit{}", UNIT)
        if kind.key == BOTTOM:
            return default
        if len(given) == 1:
            result = opt(kind.value)
            text = f"{owner.text}.find({coerce(self.unit, given[0], kind.key)})"
            if isinstance(kind.value, Holder) and kind.value.form == "Opt":
                return Val(f"{text}.value", kind.value)
            return Val(text, result)
        result = join(kind.value, default.type)
        key = coerce(self.unit, given[0], kind.key)
        if result == kind.value:
            return Val(f"{owner.text}.get({key}, {coerce(self.unit, default, result)})", result)
        name = self.fresh("o")
        found = coerce(self.unit, Val(f"{name}.value", kind.value), result)
        other = coerce(self.unit, default, result)
        return Val(f"({{ const auto {name} = {owner.text}.find({key}); {name}.has ? {found} : {other}; }})", result)

    def m_dict_values(self, node: ast.Call, owner: Val, kind: Pairs, given: list[Val]) -> Val:
        return Val(f"{owner.text}.values()", seq(kind.value))

    def m_dict_keys(self, node: ast.Call, owner: Val, kind: Pairs, given: list[Val]) -> Val:
        return Val(f"{owner.text}.keys()", seq(kind.key))

    def m_dict_pop(self, node: ast.Call, owner: Val, kind: Pairs, given: list[Val]) -> Val:
        return Val(f"{owner.text}.drop({coerce(self.unit, given[0], kind.key)})", UNIT)

    def m_dict_setdefault(self, node: ast.Call, owner: Val, kind: Pairs, given: list[Val]) -> Val:
        assert isinstance(node.func, ast.Attribute)
        key, value = (plain(self.unit, each) for each in given)
        self.grow(node.func.value, key.type, value.type)
        owner = self.expression(node.func.value)
        wider = owner.type
        assert isinstance(wider, Pairs)
        text = f"{owner.text}.set_default({coerce(self.unit, key, wider.key)}, {coerce(self.unit, value, wider.value)})"
        return Val(text, wider.value)

    def m_queue_has(self, node: ast.Call, owner: Val, kind: Holder, given: list[Val]) -> Val:
        return Val(f"{owner.text}.has({coerce(self.unit, given[0], kind.element)})", BOOL)

    def m_queue_weight(self, node: ast.Call, owner: Val, kind: Holder, given: list[Val]) -> Val:
        default = coerce(self.unit, given[1], INT)
        return Val(f"{owner.text}.weight({coerce(self.unit, given[0], kind.element)}, {default})", INT)

    def pushed(self, owner: Val, kind: Holder, given: list[Val], name: str) -> Val:
        """A queue with one more."""
        key = plain(self.unit, given[0])
        wider = Holder("Queue", join(kind.element, key.type))
        text = coerce(self.unit, owner, wider)
        weight = coerce(self.unit, there(self.unit, given[1]), INT)
        return Val(f"{text}.{name}({coerce(self.unit, key, wider.element)}, {weight})", wider)

    def m_queue_push(self, node: ast.Call, owner: Val, kind: Holder, given: list[Val]) -> Val:
        return self.pushed(owner, kind, given, "push")

    def m_queue_push_front(self, node: ast.Call, owner: Val, kind: Holder, given: list[Val]) -> Val:
        return self.pushed(owner, kind, given, "push_front")

    def m_queue_remove(self, node: ast.Call, owner: Val, kind: Holder, given: list[Val]) -> Val:
        return Val(f"{owner.text}.remove({coerce(self.unit, given[0], kind.element)})", kind)

    def m_queue_oldest(self, node: ast.Call, owner: Val, kind: Holder, given: list[Val]) -> Val:
        return Val(f"{owner.text}.oldest({coerce(self.unit, given[0], kind.element)})", kind.element)

    def m_queue_oldest_outside(self, node: ast.Call, owner: Val, kind: Holder, given: list[Val]) -> Val:
        default = coerce(self.unit, given[1], kind.element)
        return Val(f"{owner.text}.oldest_outside({given[0].text}, {default})", kind.element)

    def widened(self, node: ast.Call, owner: Val, key: Type, value: Type) -> tuple[Val, Pairs]:
        """A map or a dictionary of which keys and values may be of these types, too."""
        kind = owner.type
        assert isinstance(kind, Pairs)
        wider = Pairs(kind.form, join(kind.key, key), join(kind.value, value))
        if wider == kind:
            return owner, kind
        return Val(coerce(self.unit, owner, wider), wider), wider

    def m_map_has(self, node: ast.Call, owner: Val, kind: Pairs, given: list[Val]) -> Val:
        if kind.key == BOTTOM:
            return const(False)
        return Val(f"{owner.text}.has({coerce(self.unit, given[0], kind.key)})", BOOL)

    def m_map_get(self, node: ast.Call, owner: Val, kind: Pairs, given: list[Val]) -> Val:
        key, default = given
        if kind.key == BOTTOM:
            return plain(self.unit, default)
        result = join(kind.value, plain(self.unit, default).type)
        if result != kind.value:
            owner, kind = self.widened(node, owner, kind.key, result)
        text = f"{owner.text}.get({coerce(self.unit, key, kind.key)}, {coerce(self.unit, default, kind.value)})"
        return Val(text, kind.value)

    def m_map_set(self, node: ast.Call, owner: Val, kind: Pairs, given: list[Val]) -> Val:
        key, value = (plain(self.unit, each) for each in given)
        owner, kind = self.widened(node, owner, key.type, value.type)
        text = f"{owner.text}.set({coerce(self.unit, key, kind.key)}, {coerce(self.unit, value, kind.value)})"
        return Val(text, kind)

    def m_map_remove(self, node: ast.Call, owner: Val, kind: Pairs, given: list[Val]) -> Val:
        if kind.key == BOTTOM:
            return owner
        return Val(f"{owner.text}.remove({coerce(self.unit, given[0], kind.key)})", kind)

    def m_any_items(self, node: ast.Call, owner: Val, kind: Type, given: list[Val]) -> Val:
        if isinstance(kind, Pairs):
            pair = Tup((kind.key, kind.value))
            return Val(f"items_of<{self.unit.cpp(pair)}>({owner.text})", seq(pair))
        found = sequence(self.unit, owner)
        if found is None or not is_form(kind, "Queue"):
            raise self.error(node, "nothing that has items")
        assert isinstance(kind, Holder)
        pair = Tup((kind.element, INT))
        return Val(f"items_of<{self.unit.cpp(pair)}>({owner.text})", seq(pair))

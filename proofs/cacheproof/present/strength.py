"""The evidence for each property of the normative variants, and the reason why it is not stronger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cacheproof.model.registry import AnyComponent
from cacheproof.model.scope import scopes_of

PROVED, CONFIRMED, EXPLORED = STRENGTHS = "proved for all sizes", "confirmed to a bound", "explored"

SHOWN = 3
"""The number of scopes that a property names; the others are counted."""


class Known(NamedTuple):
    """A property and its strongest evidence."""

    component: str
    name: str
    strength: str
    how: str
    """The part or the scopes of the evidence, what is by hand, or the reason why the property is only explored."""


def known_of(component: AnyComponent) -> Iterator[Known]:
    """Each property of the component, in the order in which they are declared."""
    proved, of_parts, confirmed = proved_names(component), proved_of_parts(component), confirmed_in(component)
    for rule in component.properties():
        if rule.name in proved:
            yield Known(component.name, rule.name, PROVED, by_hand(component.name, rule.name))
        elif rule.name in of_parts:
            part = of_parts[rule.name]
            how = (f"of its part `{part}`", by_hand(part, rule.name))
            yield Known(component.name, rule.name, PROVED, "; ".join(filter(None, how)))
        elif rule.name in confirmed:
            yield Known(component.name, rule.name, CONFIRMED, listed(confirmed[rule.name]))
        else:
            yield Known(component.name, rule.name, EXPLORED, _reason(component, rule.name))


def proved_names(component: AnyComponent) -> set[str]:
    """The claims of the obligations of this component; some of them have the names of properties."""
    from cacheproof.prove.session import PROOFS  # noqa: PLC0415  # z3 comes with an extra

    proofs = PROOFS.get(component.name, ())
    invariants = {claim.name for proof in proofs for claim in proof.invariants}
    return invariants | {claim.name for proof in proofs for claim in proof.laws}


def by_hand(component: str, name: str) -> str:
    """The step that leads by hand from the claim to the property of its name; empty if there is none."""
    from cacheproof.prove.session import PROOFS  # noqa: PLC0415  # z3 comes with an extra

    steps = [proof.by_hand[name] for proof in PROOFS.get(component, ()) if name in proof.by_hand]
    return f"one step by hand: {steps[0]}" if steps else ""


def proved_of_parts(component: AnyComponent) -> dict[str, str]:
    """The properties that are proved of a part of this component, each with the part."""
    from cacheproof.prove.composition import promises  # noqa: PLC0415  # z3 comes with an extra
    from cacheproof.prove.session import all_proofs  # noqa: PLC0415  # likewise

    return promises(component, all_proofs())


def confirmed_in(component: AnyComponent) -> dict[str, list[str]]:
    """For each property that is confirmed for any numbers, the scopes; their counts are checked by `regions`."""
    states = [rule.name for rule in component.normative.held_to(component.safety)]
    steps = [rule.name for rule in component.normative.held_to(component.steps)]
    found: dict[str, list[str]] = {}
    for scope in scopes_of(component):
        if scope.numbers is not None and scope.numbers.regions is not None:
            for name in (*states, *steps):
                if name not in scope.numbers.unreached:
                    found.setdefault(name, []).append(f"`{scope.name}` ({', '.join(map(any_of, scope.numbers.any))})")
    return found


def any_of(text: str) -> str:
    """What the scope file says, in words."""
    field, _, bounds = text.partition("=")
    low, _, high = bounds.partition("..")
    return f"{field} from {low} to {high}" if high else f"any {field}" + (f" from {low}" if low else "")


def listed(scopes: Sequence[str]) -> str:
    """The first scopes, and how many others there are."""
    further = len(scopes) - SHOWN
    return "; ".join(scopes[:SHOWN]) + (f"; and {further} more" if further > 0 else "")


def _reason(component: AnyComponent, name: str) -> str:
    if name in {rule.name for rule in component.progress}:
        return "progress needs every cycle of the states"
    if all(scope.numbers is None for scope in scopes_of(component)):
        return "no scope of this component has unknown numbers"
    return "no scope with unknown numbers reaches its witness"

"""`cacheproof fit`: the rules that an implementation follows."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer

from cacheproof.command.options import AnswerOption, NewSeedOption, WithoutOption
from cacheproof.foundation.console import Report, announce, progress
from cacheproof.foundation.errors import ExitStatus, InputError
from cacheproof.foundation.seeds import new_seed
from cacheproof.lockstep.fitting import MOST_RULES, Fitting, Search, broke_down
from cacheproof.lockstep.plan import PROFILES, left_out_from, not_there
from cacheproof.lockstep.showing import rules_message
from cacheproof.model.finding_json import finding_to_message
from cacheproof.model.mixture import base_of
from cacheproof.model.registry import AnyComponent, AnyVariant, component_named, variant_named
from cacheproof.model.scope import DEFAULT, Scope, scope_named, scopes_of
from cacheproof.model.store import name_of, save
from cacheproof.model.wording import count
from cacheproof.present.show.formats import FORMATS
from cacheproof.targets.child import SECONDS_TO_ANSWER
from cacheproof.targets.factory import FORMS, open_target
from cachespec.kernel import NORMATIVE

PANEL = "Your implementation"


def command(
    component: Annotated[str, typer.Argument(metavar="COMPONENT", help="The component that the target implements.")],
    *,
    target: Annotated[str, typer.Option(help=f"The implementation: {FORMS}.")],
    variant: Annotated[
        str, typer.Option(help="The variant to begin with. An implementation of an early manager may need an era.")
    ] = NORMATIVE,
    scope: Annotated[
        list[str] | None,
        typer.Option(help="Only this scope. May be repeated.", show_default="all default scopes of the variant"),
    ] = None,
    steps: Annotated[int, typer.Option(min=1, help="Calls in each scope.")] = PROFILES["ci"].steps,
    seconds: Annotated[
        float | None, typer.Option(min=0.001, help="Begin no further mixture after this time.", show_default="none")
    ] = None,
    seed: NewSeedOption = None,
    rules: Annotated[int, typer.Option(min=1, help="Maximum number of rules in a mixture.")] = MOST_RULES,
    without: WithoutOption = None,
    answer: AnswerOption = SECONDS_TO_ANSWER,
) -> Report:
    """Find the mixture of rules that an implementation follows.

    Compares the target with the variant, and adds rules that explain the first difference, until no difference is left
    in any scope. Exits with 1 if no mixture fits, and shows the closest one with the difference that is left. The rules
    are those of `cacheproof list --rules COMPONENT`.
    """
    of = component_named(component)
    base = variant_named(of, variant)
    if base.mixed:
        raise InputError(f"--variant {variant}: begin with a variant without rules; fit finds the rules")
    chosen = _scopes(of, base, scope or [])
    left_out = left_out_from(of, without or [])
    number = new_seed() if seed is None else seed
    announce(f"seed {number} (the same run again: --seed {number})")
    opened = open_target(target, of, base, answer)
    try:
        with progress() as show:
            search = Search(
                of,
                base,
                chosen,
                opened,
                target,
                steps,
                number,
                left_out | not_there(of, opened),
                rules,
                seconds,
                show,
            )
            found = search.run()
    finally:
        opened.close()
    data = _data(of, found, target, steps, [one.name for one in chosen])
    save("fit", data["run"], data)
    return Report(data, _rendered(of, found, target), _status(found), interrupted=found.interrupted)


def _scopes(component: AnyComponent, base: AnyVariant, names: list[str]) -> list[Scope]:
    if names:
        return [scope_named(component, name) for name in names]
    found = [one for one in scopes_of(component) if base.tag in one.variants and one.set == DEFAULT]
    if not found:
        raise InputError(f"{component.name} has no default scope for {base.tag}: choose one with --scope")
    return found


def _status(found: Fitting) -> ExitStatus:
    if found.fits:
        return ExitStatus.AS_EXPECTED
    inconclusive = broke_down(found) or found.interrupted or found.out_of_time
    return ExitStatus.INCONCLUSIVE if inconclusive else ExitStatus.FELL_SHORT


def _data(component: AnyComponent, found: Fitting, target: str, steps: int, scopes: list[str]) -> dict[str, Any]:
    left = found.left
    return {
        "run": name_of(component.name, "fit", target),
        "component": component.name,
        "target": target,
        "fits": found.fits,
        "variant": found.variant.tag,
        "rules": rules_message(found.variant, found.shown),
        "seed": found.seed,
        "scopes": scopes,
        "steps": {"each": steps, "compared": found.steps},
        "tried": ["+".join(names) for names in found.tried],
        "left": None if left is None else {"scope": left.scope.name, "finding": finding_to_message(left.finding)},
        "out_of_time": found.out_of_time,
        "seconds": round(found.seconds, 3),
    }


def _rendered(component: AnyComponent, found: Fitting, target: str) -> list[Any]:
    variant = found.variant
    base = base_of(variant.tag)
    amount = f"{count(found.steps, 'call')} in {count(found.scopes, 'scope')} without a difference, seed {found.seed}"
    tried = f"{count(len(found.tried), 'mixture')} tried"
    rules = [f"  {rule.name}: {rule.statement}" for rule in variant.mixed]
    follows = f"{component.name} ({base})" + (
        f" with {count(len(rules), 'rule')}" if rules else " without further rules"
    )
    again = f"compare with it: cacheproof fuzz {component.name} --target {shlex.quote(target)} --variant {variant.tag}"
    if found.left is None:
        state = "follows" if found.fits else "is not known to differ from"
        return [f"{target} {state} {follows}", *rules, f"{amount}; {tried}", again]
    left = found.left
    return [
        f"{target} follows no mixture of rules that is known; the closest is {follows}",
        *rules,
        f"{tried}; what is left differs in the scope {left.scope.name}:",
        "",
        FORMATS["table"](left.finding),
        again,
    ]

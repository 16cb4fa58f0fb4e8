"""The two sides of a comparison: how each is opened, and which components both can be driven as."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named, scope_file, variant_named
from cacheproof.model.scope import scopes_of
from cacheproof.model.target import Target
from cacheproof.releases import nearest
from cacheproof.releases.against.parts import Line, Listed
from cacheproof.releases.conformance import SECONDS_TO_ANSWER
from cacheproof.releases.nearest import Undriven
from cacheproof.targets.factory import open_target
from cacheproof.targets.vllm.driven_files import different_files, driven_files
from cacheproof.targets.vllm.eras import Era, table
from cacheproof.targets.vllm.opening import open_target as open_release
from cacheproof.targets.vllm.origins import PREFIX
from cacheproof.targets.vllm.release import Installed, Release, needed
from cachespec.kernel import NORMATIVE

SCHEDULER = "scheduler"
WINDOW = 3
"""Tokens that the layers of a scheduler look back where both sides have a window."""
FIRST_WITH_WINDOWS = (0, 11)
"""Releases before it have other schedulers."""


@dataclass(frozen=True, slots=True)
class Side:
    """An implementation. `opening` can be sent to another process: it takes a component, a variant and a window."""

    name: str
    """As in reports."""
    opening: Callable[[str, str, int], Target]
    release: Release | None = None
    """Where it is one of vLLM's, for its eras."""


def side_of(text: str) -> Side:
    """The side that a target's text means."""
    release = Release.parsed(text) if text.startswith(("vllm==", PREFIX)) else None
    name = text if release is None else release.name
    return Side(name, partial(opened, name), release)


def opened(text: str, component: str, variant: str, window: int) -> Target:
    """The target of this text; raises InputError for one that means nothing. A window is for releases."""
    known = component_named(component)
    if window:
        return open_release(text, known, variant_named(known, variant), SECONDS_TO_ANSWER, window)
    return open_target(text, known, variant_named(known, variant), SECONDS_TO_ANSWER)


def lines_of(
    target: Side, base: Side, component: str | None, changed: frozenset[str] | None = None
) -> tuple[list[Listed], list[Undriven]]:
    """What to compare, and the components that one side cannot be driven as. Raises InputError if there is nothing.

    `changed`: the files that differ between two releases, if the caller knows them.
    """
    if target.release is None and base.release is None:
        if component is None:
            raise InputError("--component says as what these targets are compared: see cacheproof list")
        return [_plain(component)], []
    of_target, left_out = _eras(target, component)
    of_base, more = _eras(base, component)
    left_out = list(dict.fromkeys((*left_out, *more)))
    if target.release is None or base.release is None:
        if component is None:
            raise InputError("--component says as what these targets are compared: one of them is no release")
        of_target, of_base = of_target or of_base, of_base or of_target
    pairs = [(_fitting(one, of_target), one) for one in of_base]
    lines = [_line(of_one, of_other) for of_one, of_other in pairs if of_one is not None]
    if target.release is not None and base.release is not None:
        lines += [replace(one, line=replace(one.line, window=WINDOW)) for one in lines if _has_windows(one)]
        both = needed(target.release), needed(base.release)
        lines = [_with_changes(one, both, different_files(*both) if changed is None else changed) for one in lines]
    return lines, left_out


def _with_changes(one: Listed, both: tuple[Installed, Installed], changed: frozenset[str]) -> Listed:
    """The line with the changed files that its driver reads on either side."""
    reads = frozenset(file for there in both for file in driven_files(there, one.line.component))
    return replace(one, changed=changed & reads)


def changed_files(lines: Iterable[Listed]) -> dict[str, list[str]] | None:
    """The files that differ between two releases, each with the components whose drivers read it; else None."""
    known = [(one.line.component, one.changed) for one in lines if one.changed is not None]
    every = sorted({file for _, changed in known for file in changed})
    readers = {file: [component for component, changed in known if file in changed] for file in every}
    return {file: list(dict.fromkeys(names)) for file, names in readers.items()} if known else None


def divided(lines: Iterable[Listed]) -> tuple[list[Listed], list[Listed]]:
    """Those of which a file differs that a driver reads, or may differ; and those of which none does."""
    every = list(lines)
    same = [one for one in every if one.changed == frozenset()]
    return [one for one in every if one not in same], same


def _has_windows(one: Listed) -> bool:
    """Whether its drivers take a window: schedulers from the first release with the later classes on."""
    return one.line.component == SCHEDULER and all(era.release.parts >= FIRST_WITH_WINDOWS for era in one.eras)


def _eras(side: Side, component: str | None) -> tuple[list[Era], list[Undriven]]:
    """The eras that describe a release best: its own, or those of one neighbour; none for other sides."""
    if side.release is None:
        return [], []
    there = needed(side.release)
    eras, undriven = nearest.lines_for(table(), side.release, component, there.obstacle)
    like = {era.component: era.like for era in reversed(eras)}
    return [era for era in eras if era.like == like[era.component]], undriven


def _fitting(base: Era, eras: Iterable[Era]) -> Era | None:
    """The era of the target to compare with this one of the base: the same, or the first of the component.

    A component's later eras are other classes or another version of a dependency: these have to be the same.
    """
    of_component = [era for era in eras if era.component == base.component]
    same = next((era for era in of_component if (era.variant, era.first) == (base.variant, base.first)), None)
    first = next((era for era in table().of(base.release, base.component)), base)
    return same or (of_component[0] if of_component and (base == first or base.like is not None) else None)


def _line(target: Era, base: Era) -> Listed:
    line = Line(base.component, base.variant, target.variant, base.variant)
    return Listed(line, table().configurations[base.component], (target, base))


def _plain(component: str) -> Listed:
    """For sides without an era: the configurations of the table, or those of the component's scopes."""
    known = component_named(component)
    configurations = table().configurations.get(component, ())
    if not configurations and scope_file(known).is_file():
        configurations = tuple(dict.fromkeys(one.config for one in scopes_of(known) if NORMATIVE in one.variants))
    return Listed(Line(component, NORMATIVE, NORMATIVE, NORMATIVE), configurations)

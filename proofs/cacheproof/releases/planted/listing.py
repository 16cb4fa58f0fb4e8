"""Which bugs there are, and which of them a release can have."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache

from cacheproof.foundation.discover import modules_in
from cacheproof.foundation.errors import InputError
from cacheproof.releases.planted.child import bugs
from cacheproof.releases.planted.child.bugs.declaring import Bug
from cacheproof.targets.vllm.eras import Era, table
from cacheproof.targets.vllm.release import Release

NOT_COMPONENTS = ("declaring", "patterns", "planting")
HISTORIC, HARMLESS = "historic_", "harmless_"
"""The names of modules with historic bugs, and with refactorings, begin so; the component follows."""
PUT_BACK_INTO = Release("0.33.0")
"""The release into which historic bugs are put back."""
DRIVEN_BY = {
    "lru": ("mirror",),
    "encoder_cache": ("scheduler",),
    "kv_blocks": ("scheduler",),
    "block_hash": ("kv_blocks", "scheduler"),
}
"""The other components whose drivers use the patched classes of a component."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A release with one bug in it, or none, and the era that it is compared with."""

    era: Era
    bug: Bug | None

    @property
    def component(self) -> str:
        """Whose classes are driven."""
        return self.era.component

    @property
    def name(self) -> str:
        """As in `lru/touch-does-nothing`; empty where nothing is planted."""
        if self.bug is None:
            return ""
        return f"{self.bug.broken.__module__.rpartition('.')[2]}/{self.bug.name}"


@cache
def bugs_of() -> dict[str, tuple[Bug, ...]]:
    """All bugs, by component, in the order in which they are written."""
    return {
        name: tuple(value for value in vars(module).values() if isinstance(value, Bug))
        for name, module in modules_in(bugs.__name__).items()
        if name not in NOT_COMPONENTS
    }


def historic_in(release: Release) -> list[Planted]:
    """Every historic bug that can be put back into the release, in the order of the components in the table of eras."""
    return _changes_in(release, HISTORIC)


def harmless_in(release: Release) -> list[Planted]:
    """Every refactoring of the release that changes nothing, in the same order."""
    return _changes_in(release, HARMLESS)


def _changes_in(release: Release, prefix: str) -> list[Planted]:
    names = dict.fromkeys(era.component for era in table().of(release)) if release == PUT_BACK_INTO else {}
    return [
        Planted(compared_with(release, name, bug.place.variant), bug)
        for name in names
        for bug in bugs_of().get(prefix + name, ())
    ]


def reached_by(planted: Planted) -> list[Planted]:
    """The bug in each component whose driver uses the patched class, its own component first."""
    eras = [compared_with(planted.era.release, name) for name in DRIVEN_BY.get(planted.component, ())]
    return [planted, *(replace(planted, era=era) for era in eras)]


def planted_in(release: Release, component: str | None = None) -> list[Planted]:
    """Every bug that the release can have, in the order of the components in the table of eras."""
    return [
        Planted(compared_with(release, name, bug.place.variant), bug)
        for name in dict.fromkeys(era.component for era in table().of(release, component))
        for bug in bugs_of().get(name, ())
        if bug.is_in(release.version)
    ]


def compared_with(release: Release, component: str, variant: str = "") -> Era:
    """The era of this variant; without one, the first that the table has of the release."""
    eras = table().of(release, component)
    return next(era for era in eras if variant in ("", era.variant))


def as_released(planted: Iterable[Planted]) -> list[Planted]:
    """The same eras with nothing planted, each once: where one of these differs, a bug that is found says nothing."""
    return [Planted(era, None) for era in dict.fromkeys(one.era for one in planted)]


def selected(every: Sequence[Planted], only: Sequence[str]) -> list[Planted]:
    """Those of these names, or all where there are none; raises InputError for a name that is nobody's."""
    known = {one.name for one in every}
    for name in only:
        if name not in known:
            raise InputError(f"there is no bug '{name}' for this release: see --list")
    return [one for one in every if not only or one.name in only]

"""`vllm==X` and `vllm@PATH`: the package's own cache classes, driven in a child process."""

from __future__ import annotations

from typing import Any

from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.target import Failure, TargetError
from cacheproof.targets.child import ChildTarget
from cacheproof.targets.vllm.eras import Era, dependency_of, table
from cacheproof.targets.vllm.release import Release, needed, needed_environment

READERS_APART = ":readers-apart"
"""Behind a release: each reader of a shared memory is a process of its own."""
SHARED = ("ring", "object_store")
"""The components that have such readers."""


class ReleasedTarget(ChildTarget):
    """A release in a child. It refuses configurations in which the release is not compared with its eras."""

    def __init__(
        self, command: str, component: AnyComponent, variant: AnyVariant, eras: list[Era], seconds: float
    ) -> None:
        super().__init__(command, component, variant, seconds=seconds)
        self._eras = [era for era in eras if era.variant == variant.tag] or eras

    def reset(self, config: Any) -> None:
        """As in the base class. Raises `TargetError` for what no era of the release has."""
        refusals = [era.refusal(config) for era in self._eras]
        if refusals and all(refusals):
            raise TargetError(str(refusals[0]), Failure.REFUSED)
        super().reset(config)


def open_target(
    name: str, component: AnyComponent, variant: AnyVariant, seconds: float, window: int = 0
) -> ChildTarget:
    """The release as a target of the component; raises InputError where it is not installed.

    `variant` is what it will be compared with: some stand for a release with another version of a dependency. Behind
    the name may come `:readers-apart`. `window`: the tokens that a layer of the scheduler looks back.
    """
    apart = name.endswith(READERS_APART)
    if apart and component.name not in SHARED:
        raise InputError(
            f"{READERS_APART[1:]} is for {' and '.join(SHARED)}: nobody reads the memory of {component.name}"
        )
    release = Release.parsed(name.removesuffix(READERS_APART))
    there, home = needed(release), needed_environment()
    obstacle = there.obstacle(component.name)
    if obstacle:
        raise InputError(f"{release.name} cannot be driven as {component.name}: {obstacle}")
    other = dependency_of(component.name, variant.tag, release)
    command = there.command(home.python, home.overlay(other) if other else None, readers_apart=apart, window=window)
    return ReleasedTarget(command, component, variant, table().of(release, component.name), seconds)

"""What a component has no rules for. A configuration that asks for it is refused by its name."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Config = TypeVar("Config")


@dataclass(frozen=True, slots=True)
class Unspecified(Generic[Config]):
    """Settings, or values of them, that are refused together.

    `holds` says whether a well-formed configuration has them. `settings` are two settings that are never on together;
    empty for any other condition.
    """

    what: str
    holds: Callable[[Config], bool]
    settings: tuple[str, ...] = ()

    @property
    def refusal(self) -> str:
        """What the error says."""
        return f"{self.what} is not specified"


def is_on(config: Any, setting: str) -> bool:
    """Whether a switch is on, a number is not 0, or a request has a value other than 0."""
    given = getattr(config, setting)
    return any(given) if isinstance(given, tuple) else bool(given)


def not_together(setting: str, *others: str) -> tuple[Unspecified[Any], ...]:
    """A setting that is refused together with each of the others."""

    def beside(other: str) -> Unspecified[Any]:
        what = f"{other} together with {setting}"
        return Unspecified(what, lambda config: is_on(config, setting) and is_on(config, other), (setting, other))

    return tuple(map(beside, others))


def refused_with(setting: str, unspecified: Iterable[Unspecified[Any]]) -> tuple[str, ...]:
    """The settings that are refused together with this one."""
    named = (each.settings for each in unspecified if setting in each.settings)
    return tuple(other for settings in named for other in settings if other != setting)

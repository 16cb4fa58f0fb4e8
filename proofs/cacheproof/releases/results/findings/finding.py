"""A finding as its file has it: its calls, the property that they break, and how its script ends on which release."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from cacheproof.catalogue.register import entry_named
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named
from cacheproof.model.wire import config_from_message, operation_from_message
from cacheproof.releases.reproduce.judge import Ending
from cacheproof.releases.results.record import Message
from cacheproof.targets.vllm.release import Release

SOURCES = Path(__file__).parent


class ScriptEnding(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the script ends on a release; `cacheproof reproduce` ends with the same status."""

    status: int
    prints: str


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One finding. `docs/findings/NAME.py` is its script, written by hand."""

    name: str
    """Of its file, and of its script."""
    heading: str
    """Of its part of the page."""
    target: str
    """The release that it is about."""
    component: str
    catalogue: str
    """The entry that it belongs to."""
    rule: str = msgspec.field(name="property")
    """What the calls break; empty if they end in a failed assertion that the model does not have."""
    config: Message
    """Fields with a default may be left out."""
    operations: list[Message]
    ends: dict[str, ScriptEnding]
    """By release; on one that is not named it cannot be run."""

    @property
    def known_as(self) -> str:
        """The entry of the catalogue and its public threads; InputError where there is no such entry."""
        entry = entry_named(self.catalogue)
        if entry is None:
            raise InputError(f"the catalogue has no {self.catalogue}")
        return ", ".join((entry.id, *entry.threads))


def findings(folder: Path = SOURCES) -> list[Finding]:
    """All of them, by name."""
    return [read(path) for path in sorted(folder.glob("*.toml"))]


def read(path: Path) -> Finding:
    """The finding in a file; InputError says what is wrong with it."""
    try:
        finding = msgspec.convert({"name": path.stem, **tomllib.loads(path.read_text(encoding="utf-8"))}, Finding)
        _check(finding)
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError, InputError) as error:
        raise InputError(f"{path}: {' '.join(str(error).split())}") from None
    return finding


def _check(finding: Finding) -> None:
    """Raises InputError if it cannot be reproduced, or its endings are none."""
    finding.known_as  # noqa: B018  # raises
    component = component_named(finding.component)
    config_from_message(component, finding.config)
    for message in finding.operations:
        operation_from_message(component.operations, message)
    if finding.rule and finding.rule not in {each.name for each in component.properties()}:
        raise InputError(f"{finding.component} has no property {finding.rule}")
    for target, ending in finding.ends.items():
        Release.parsed(target)
        if ending.status not in (Ending.VIOLATED, Ending.NOT_SHOWN):
            raise InputError(f"a script ends with 1 or 0 on {target}, not with {ending.status}")
    if finding.target not in finding.ends or finding.ends[finding.target].status != Ending.VIOLATED:
        raise InputError(f"it is about {finding.target}, so there it has to be seen")

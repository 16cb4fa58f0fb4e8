"""A finding as a file has it, and its script: what is its own, with the head that all scripts of its release have."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec

from cacheproof.catalogue.register import entry_named
from cacheproof.foundation.errors import InputError
from cacheproof.model.registry import component_named
from cacheproof.model.wire import config_from_message, config_to_message
from cacheproof.releases.results.record import Message
from cacheproof.releases.results.scripts.case import Setting
from cacheproof.releases.results.scripts.composing import composed, docstring_of
from cacheproof.releases.results.scripts.performing import NOT_SHOWN, VIOLATED
from cacheproof.releases.results.scripts.writer import writer_of
from cacheproof.targets.vllm.release import Release

SOURCES = Path(__file__).parent


class Ending(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How a script has to end on a release: its exit status, and its last line."""

    status: int
    prints: str


class Finding(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One finding. `reproduce` is Python: calls of the engine of this configuration, and what they show."""

    name: str
    """Of its file, and of its script."""
    heading: str
    """Of its part of the page."""
    title: str
    what: str
    target: str
    """The release that it is about."""
    component: str
    catalogue: str
    """The entry that it belongs to."""
    config: Message
    """Fields with a default may be left out."""
    reproduce: str
    ends: dict[str, Ending]
    """By release; on one that is not named the script does not run."""

    @property
    def known_as(self) -> str:
        """The entry of the catalogue and its public threads; InputError where there is no such entry."""
        entry = entry_named(self.catalogue)
        if entry is None:
            raise InputError(f"the catalogue has no {self.catalogue}")
        return ", ".join((entry.id, *entry.threads))

    @property
    def setting(self) -> Setting:
        """Its release in its configuration; InputError where that is none."""
        config = config_from_message(component_named(self.component), self.config)
        return Setting(self.target, "", dict(config_to_message(config)))

    @property
    def script(self) -> str:
        """The text of its script."""
        writer = writer_of(self.component)
        if writer is None:
            raise InputError(f"nobody has said how a script makes the calls of {self.component}")
        told = [
            ("Release", self.target),
            ("Code", writer.subject),
            ("What happens", self.what),
            ("Known as", self.known_as),
        ]
        docstring = docstring_of(f"{self.target}: {self.title}", told, needs=self.target)
        body = [*writer.setup(self.setting), "", *self.reproduce.strip().splitlines()]
        return composed(writer, self.setting, docstring, body)


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
    except SyntaxError as error:
        raise InputError(f"{path}: what reproduces it is not Python: {error.msg}: {error.text}") from None
    return finding


def _check(finding: Finding) -> None:
    """Whether a script can be made, and it is said how it ends; raises InputError or SyntaxError."""
    for target, ending in finding.ends.items():
        Release.parsed(target)
        if ending.status not in (VIOLATED, NOT_SHOWN):
            raise InputError(f"a script ends with {VIOLATED} or {NOT_SHOWN} on {target}, not with {ending.status}")
    if finding.target not in finding.ends or finding.ends[finding.target].status != VIOLATED:
        raise InputError(f"it is about {finding.target}, so there it has to be seen")
    compile(finding.script, f"{finding.name}.py", "exec")

"""How far a long exploration is, kept on disk level by level, so that it can go on after whatever ended it.

Each level is one file for each owner, written whole or not at all; then a manifest names them and says what was seen
by then. What the manifest does not name is not there. A checkpoint belongs to one run of one specification and is
refused by any other; by how many processes it was written does not matter.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.files import json_of, replace_file
from cacheproof.model.fingerprint import explorer_digest, specification_digest
from cacheproof.model.plan import Plan
from cacheproof.model.registry import AnyComponent, AnyVariant
from cacheproof.model.wire import config_to_message
from cacheproof.search.coverage import added
from cacheproof.search.crew import Crew
from cacheproof.search.shard import Shard

FORMAT, VERSION = "cacheproof-checkpoint", "0.2"
MANIFEST = "checkpoint.json"
LEFTOVERS = ("level-*", ".*.tmp", MANIFEST)


class Position(NamedTuple):
    """Where a search is between two levels.

    `level` is how many states the next one has, `whole` how many states were expanded; `seconds` is the time so far.
    """

    depth: int
    level: int
    whole: int
    seconds: float


@dataclass(slots=True)
class Checkpoint:
    """The folder of one exploration; `identity` is all that its counts depend on.

    Without `resume`, what lies there of an earlier run is removed at the beginning.
    """

    folder: Path
    identity: Mapping[str, Any]
    resume: bool = False
    files: list[dict[str, str]] = field(default_factory=list)
    """For each level, the digests of its files by name."""

    def keep(self, crew: Crew, position: Position) -> None:
        """Write the level that was just numbered, then the manifest."""

        def write(paths: list[str]) -> list[str]:
            return crew.ask_each(Shard.write_level, [(path,) for path in paths])

        self.add_level(crew.owners, write, lambda: {**position._asdict(), **_together(crew)})

    def add_level(
        self, parts: int, write: Callable[[list[str]], list[str]], seen: Callable[[], Mapping[str, Any]]
    ) -> None:
        """Write a level in so many files, of which `write` gives the digests, then what was seen by now."""
        names = [f"level-{len(self.files):05}.{place}" for place in range(parts)]
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            digests = write([str(self.folder / name) for name in names])
            self.files.append(dict(zip(names, digests, strict=True)))
            head = {"format": FORMAT, "version": VERSION, "identity": dict(self.identity)}
            manifest = {**head, **seen(), "files": self.files}
            manifest["checksum"] = _checksum(manifest)
            replace_file(self.folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
        except OSError as error:
            raise InputError(f"{self.folder}: a checkpoint cannot be written: {error.strerror}") from None

    def load(self, crew: Crew) -> Position | None:
        """Hand to the crew what was kept, if anything was."""
        if (manifest := self.kept()) is None:
            return None
        for paths in self.levels():
            crew.ask(Shard.read_level, paths)
        crew.ask(Shard.knows, manifest["witnessed"])
        seen = manifest["transitions"], manifest["broken"], manifest["coverage"]
        crew.ask_each(Shard.carry, [seen if place == 0 else (0, {}, {}) for place in range(crew.owners)])
        self.check_states(manifest, sum(crew.ask(Shard.states)))
        return Position(manifest["depth"], manifest["level"], manifest["whole"], manifest["seconds"])

    def kept(self) -> dict[str, Any] | None:
        """What was seen by the end of the last level that was kept; without one, or not to resume, nothing is left."""
        if not self.resume or not (self.folder / MANIFEST).is_file():
            self.remove()
            return None
        manifest = self._manifest()
        self.files = manifest["files"]
        return manifest

    def levels(self) -> Iterator[list[str]]:
        """The files of each level that was kept, each found to be as it was written."""
        for files in self.files:
            self._check(files)
            yield [str(self.folder / name) for name in files]

    def check_states(self, manifest: Mapping[str, Any], states: int) -> None:
        """Whether the levels have as many states as they had."""
        if states != manifest["states"]:
            raise InputError(f"{self.folder}: the levels do not have the {manifest['states']} states that were kept")

    def remove(self) -> None:
        """Leave nothing of ours behind."""
        for pattern in LEFTOVERS:
            for path in self.folder.glob(pattern):
                path.unlink(missing_ok=True)
        self.files = []
        with suppress(OSError):
            self.folder.rmdir()

    def _manifest(self) -> dict[str, Any]:
        path = self.folder / MANIFEST
        try:
            manifest = json_of(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: not a checkpoint ({error}): remove it, or leave out --resume") from None
        if not isinstance(manifest, dict) or (manifest.get("format"), manifest.get("version")) != (FORMAT, VERSION):
            raise InputError(f"{path}: not of format {FORMAT} {VERSION}: remove it, or leave out --resume")
        kept = manifest.get("identity")
        kept = kept if isinstance(kept, dict) else {}
        for key, value in self.identity.items():
            if kept.get(key) != value:
                raise InputError(
                    f"{path}: a checkpoint of another run: its {key} is {kept.get(key)!r}, now it is {value!r}; "
                    "leave out --resume to begin anew"
                )
        if manifest.pop("checksum", None) != _checksum(manifest):
            raise InputError(f"{path}: the checkpoint was changed: leave out --resume to begin anew")
        return manifest

    def _check(self, files: Mapping[str, str]) -> None:
        for name, digest in files.items():
            path = self.folder / name
            try:
                found = sha256(path.read_bytes()).hexdigest()
            except OSError as error:
                raise InputError(f"{path}: a level of the checkpoint cannot be read: {error.strerror}") from None
            if found != digest:
                raise InputError(f"{path}: a level of the checkpoint was changed: leave out --resume to begin anew")


def identity_of(component: AnyComponent, variant: AnyVariant, config: Any, plan: Plan) -> dict[str, Any]:
    """All that the counts of an exploration depend on, as plain data. Limits are not part of it."""
    asked = {name: value for name, value in asdict(plan).items() if not name.startswith("limit_")}
    plain = {**asked, "granularity": plan.granularity.value, "until": sorted(plan.until)}
    return {
        "component": component.name,
        "variant": variant.tag,
        "configuration": config_to_message(config),
        "plan": plain,
        "specification": specification_digest(),
        "explorer": explorer_digest(),
    }


def _checksum(manifest: Mapping[str, Any]) -> str:
    """Of all else in the manifest: whatever is read from it is as it was written."""
    return sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _together(crew: Crew) -> dict[str, Any]:
    """What all owners have seen."""
    accounts = crew.ask(Shard.account)
    broken: dict[str, int] = {}
    for account in accounts:
        for name, at in account.broken.items():
            broken[name] = min(at, broken.get(name, at))
    return {
        "states": sum(account.states for account in accounts),
        "transitions": sum(account.transitions for account in accounts),
        "broken": broken,
        "witnessed": sorted(frozenset[str]().union(*(account.witnessed for account in accounts))),
        "coverage": added(account.coverage for account in accounts),
    }

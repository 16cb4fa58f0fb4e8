"""Bugs planted in a whole engine: does the verdict on what was recorded blame each, on the right step?

The right step is known without the verdict: the same load is run and recorded with the release as it is, and the
first step whose record differs is the first in which the bug can be seen. A verdict on an earlier step would be a
false alarm; one on a later step counts only if the list of bugs says why nothing before it was wrong.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InputError
from cacheproof.logs.judge.verdict import Verdict, judged
from cacheproof.model.fingerprint import digest_of, specification_digest
from cacheproof.model.store import home, load_all, save
from cacheproof.releases.engine.child.trial import MENDS
from cacheproof.releases.engine.departing import departure
from cacheproof.releases.engine.installing import Engine
from cacheproof.releases.engine.trials import SETTINGS, Laboratory, Trial, laboratory
from cacheproof.releases.planted.listing import bugs_of

LIST = Path(__file__).with_name("planted.toml")
PACKAGE = Path(__file__).parents[2]
KIND, CLEAN_KIND = "engine-planted", "engine-clean"
REQUESTS = 60


class Listed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bug that is planted in the engine, and the setting that reaches it."""

    name: str
    setting: str
    later: str = ""
    """Why nothing is wrong before the blamed step, if that is not the first one that differs."""
    seed: int | None = None
    """Of the load that reaches the bug; None for any."""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of one bug."""

    name: str
    where: str
    says: str
    fixed: str
    setting: str
    seed: int
    steps: int
    departs: int | None
    """The first step that differs from the release as it is; None if there is none."""
    blamed: int | None
    judge: str = ""
    rule: str = ""
    decided: str = ""
    """What the judge says."""
    line: str = ""
    """What was recorded."""
    later: str = ""
    ended: str = ""
    """The error that ended the engine, if one did."""
    seconds: float = 0.0

    @property
    def right(self) -> bool:
        """Whether the bug is blamed, and on the right step."""
        if self.blamed is None or self.departs is None:
            return False
        return self.blamed == self.departs or (self.blamed > self.departs and bool(self.later))

    @property
    def outcome(self) -> str:
        """In words."""
        if self.departs is None:
            return "never acted"
        if self.blamed is None:
            return f"acts in step {self.departs:,}, and is not blamed"
        if self.blamed == self.departs:
            return f"step {self.blamed:,}"
        return f"acts in step {self.departs:,}, blamed in step {self.blamed:,}"


class Clean(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One load in the release as it is."""

    setting: str
    seed: int
    steps: int
    alarm: str = ""
    """What the verdict found wrong; empty if all steps were right."""
    known: str = ""
    """The entry of the catalogue whose fault the verdict found; the steps from there on are not counted."""
    found: str = ""
    """What the verdict found then."""
    left_out: tuple[str, ...] = ()
    written: int = 0
    """Slots of KV."""
    read: int = 0
    computed: int = 0
    """Encoder outputs."""
    preemptions: int = 0
    seconds: float = 0.0


def listed() -> list[Listed]:
    """The bugs, in the order of the list."""
    return msgspec.convert(tomllib.loads(LIST.read_text(encoding="utf-8"))["bug"], list[Listed])


def chosen(only: Sequence[str]) -> list[Listed]:
    """The bugs of these names, or all. Raises InputError for a name that no bug has."""
    every = listed()
    for name in only:
        if name not in {one.name for one in every}:
            raise InputError(f"there is no bug '{name}' in {LIST.name}: see --list")
    return [one for one in every if not only or one.name in only]


def about(name: str) -> tuple[str, str, str]:
    """Where the bug is, how it is broken, and the public number of its fix."""
    component, _, own = name.partition("/")
    for bug in bugs_of().get(component, ()):
        if bug.name == own:
            return bug.where, bug.says, bug.fixed
    raise InputError(f"nothing is declared as '{name}'")


def blame(
    engine: Engine, bugs: Sequence[Listed], seed: int, known: Mapping[str, Row], show: Show
) -> Iterator[Row | Clean]:
    """A row for each bug, setting by setting, and one for each load without a bug. `known` are not run again."""
    for setting in dict.fromkeys(one.setting for one in bugs):
        todo = [one for one in bugs if one.setting == setting]
        yield from (known[one.name] for one in todo if one.name in known)
        todo = [one for one in todo if one.name not in known]
        if not todo:
            continue
        show(f"{setting}: the engine starts")
        with laboratory(engine, setting) as there, tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for used in dict.fromkeys(seed if one.seed is None else one.seed for one in todo):
                yield _clean(there, setting, used, folder / "clean")
                for one in todo:
                    if (seed if one.seed is None else one.seed) == used:
                        show(f"{setting}: {one.name}")
                        yield _row(there, one, used, folder)


def _row(there: Laboratory, bug: Listed, seed: int, folder: Path) -> Row:
    began = time.monotonic()
    answer = there.perform(Trial(bug.name, seed, REQUESTS), folder / "planted")
    parted = departure(folder / "clean", folder / "planted")
    verdict = judged(folder / "planted")
    where, says, fixed = about(bug.name)
    row = Row(
        name=bug.name,
        where=where,
        says=says,
        fixed=fixed,
        setting=bug.setting,
        seed=seed,
        steps=verdict.steps,
        departs=None if parted is None else parted.step,
        blamed=None,
        ended=str(answer.get("error") or ("no answer" if "hangs" in answer else "")),
        seconds=round(time.monotonic() - began, 1),
    )
    wrong = verdict.wrong
    if wrong is None:
        return row
    return msgspec.structs.replace(
        row,
        blamed=wrong.step,
        judge=wrong.judge,
        rule=wrong.rule,
        decided=wrong.says,
        line=wrong.line,
        later=_reason(bug, row.departs, wrong.step),
    )


def clean(engine: Engine, settings: Sequence[str], steps: int, seed: int, known: Any, show: Show) -> Iterator[Clean]:
    """Loads in the release as it is, until so many steps were judged. `known` are the results of earlier runs."""
    done, first = 0, seed
    while done < steps:
        for setting in settings:
            seeds = range(first, first + LOADS_IN_TURN)
            there = [known[setting, one] for one in seeds if (setting, one) in known]
            missing = [one for one in seeds if (setting, one) not in known]
            done += sum(one.steps for one in there)
            yield from there
            if not missing or done >= steps:
                continue
            show(f"{done:,} of {steps:,} steps; {setting}: the engine starts")
            with laboratory(engine, setting) as lab, tempfile.TemporaryDirectory() as name:
                for one in missing:
                    row = _clean(lab, setting, one, Path(name, "clean"))
                    done += row.steps
                    show(f"{done:,} of {steps:,} steps; {setting}")
                    yield row
                    if done >= steps:
                        break
        first += LOADS_IN_TURN


LOADS_IN_TURN = 8
"""Loads in one engine, before the next setting has its turn."""


def _clean(there: Laboratory, setting: str, seed: int, folder: Path) -> Clean:
    began = time.monotonic()
    answer = there.perform(Trial("", seed, REQUESTS), folder)
    verdict = judged(folder)
    alarm, known, found, steps = _alarm(verdict, answer), "", "", verdict.steps
    if alarm and (known := _known(there, setting, seed, folder.with_name("mended"))):
        alarm, found = "", alarm
        steps = verdict.steps if verdict.wrong is None else min(verdict.steps, verdict.wrong.step - 1)
    if alarm:
        kept = home() / "recorded" / f"{setting}-{seed}"
        shutil.rmtree(kept, ignore_errors=True)
        shutil.copytree(folder, kept)
    return Clean(
        setting=setting,
        seed=seed,
        steps=steps,
        alarm=alarm,
        known=known,
        found=found,
        left_out=tuple(verdict.left_out),
        written=verdict.counts.get("written", 0),
        read=verdict.counts.get("read", 0),
        computed=verdict.counts.get("computed", 0),
        preemptions=answer["counts"]["preemptions"] if "counts" in answer else 0,
        seconds=round(time.monotonic() - began, 1),
    )


def _known(there: Laboratory, setting: str, seed: int, folder: Path) -> str:
    """The entry without whose fault all steps of the load are right; empty if there is none."""
    for entry in MENDS:
        answer = there.perform(Trial("", seed, REQUESTS, entry), folder)
        if not _alarm(judged(folder), answer):
            return entry
    return ""


def _alarm(verdict: Verdict, answer: Mapping[str, Any]) -> str:
    if verdict.wrong is not None:
        return f"step {verdict.wrong.step}: {verdict.wrong.judge}, {verdict.wrong.rule}: {verdict.wrong.says}"
    return str(answer.get("error") or ("the load did not end" if "hangs" in answer else ""))


# What is kept --------------------------------------------------------------------------------------------------------


def keep(engine: Engine, row: Row | Clean, seed: int) -> None:
    """Keep a result, so that a later run goes on from it."""
    kind, name = (KIND, row.name.replace("/", ".")) if isinstance(row, Row) else (CLEAN_KIND, row.setting)
    used = seed if isinstance(row, Row) else row.seed
    record = {"stamp": _stamp(kind), "engine": engine.built_from, "row": msgspec.to_builtins(row)}
    save(kind, f"vllm=={engine.version}.{name}.seed-{used}", record)


def kept_rows(engine: Engine, seed: int) -> dict[str, Row]:
    """What earlier runs with this seed, and with the same sources, found of each bug."""
    there = {one.name: one for one in listed()}
    found = {}
    for one in _same(KIND, engine):
        row = msgspec.convert(one["row"], Row)
        bug = there.get(row.name)
        if bug is not None and (bug.setting, seed if bug.seed is None else bug.seed) == (row.setting, row.seed):
            found[row.name] = msgspec.structs.replace(row, later=_reason(bug, row.departs, row.blamed))
    return found


def _reason(bug: Listed, departs: int | None, blamed: int | None) -> str:
    """Why nothing is wrong before the blamed step, if that comes later than the first one that differs."""
    return bug.later if departs is not None and blamed is not None and blamed > departs else ""


def kept_clean(engine: Engine) -> dict[tuple[str, int], Clean]:
    """What earlier runs with the same sources found without a bug, by setting and seed."""
    rows = [msgspec.convert(one["row"], Clean) for one in _same(CLEAN_KIND, engine)]
    return {(one.setting, one.seed): one for one in rows}


def _same(kind: str, engine: Engine) -> Iterator[Mapping[str, Any]]:
    wanted = (_stamp(kind), engine.built_from)
    return (one for one in load_all(kind) if (one.get("stamp"), one.get("engine")) == wanted)


@cache
def _stamp(kind: str) -> str:
    """Of all that decides: the specification, the judges, the recorder, the engine's scripts; and the bugs, if any."""
    folders = [PACKAGE / "logs", PACKAGE / "releases" / "engine"]
    if kind == KIND:
        folders.append(PACKAGE / "releases" / "planted" / "child")
    digest = sha256(f"{digest_of(folders)}\0{specification_digest()}\0".encode())
    return digest.hexdigest()[:16]


def judged_settings() -> list[str]:
    """The settings in which the release has no bug that is known: clean steps are counted in these."""
    return [name for name, setting in SETTINGS.items() if not setting.mode.priority]

"""Files of vectors: found, read and checked, and written under names that have the digest of what is in them."""

from __future__ import annotations

import gzip
import hashlib
import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from cacheproof.foundation.errors import InputError, shortened
from cacheproof.foundation.files import replace_file
from cacheproof.model.features import checked
from cacheproof.model.naming import names_in, wrong_operation
from cacheproof.model.protocol import Fault, RefusedError, decode_object
from cacheproof.model.registry import component_named, variant_named
from cacheproof.model.wire import (
    config_from_message,
    config_to_message,
    object_from,
    observations_from_message,
    operation_from_message,
    outcome_from_message,
    text_from,
)
from cacheproof.vectors.vector import (
    DIGEST,
    DIGITS,
    FORMAT,
    VERSION,
    CallStep,
    Case,
    RefusedStep,
    Reply,
    Shown,
    Step,
    VectorSet,
    content_of,
    name_of,
)
from cachespec import SPECIFICATION_VERSION

Read = TypeVar("Read")

RELEASED = Path(__file__).parent / "released"
"""The sets that come with the package."""
NAME = re.compile(r"(?P<stem>[A-Za-z0-9_.-]+)\.(?P<digest>[0-9a-f]{16})\.ndjson(\.gz)?")
LARGEST_FILE_BYTES = 64 << 20
"""Unpacked. What is larger is no set of vectors."""
ORIGINS = ("exploration", "fuzzing", "refusals")


def found(places: Iterable[str]) -> list[Path]:
    """The files that are meant: files, those in folders, and those released for a component that is named.

    Raises InputError where there is none.
    """
    paths: list[Path] = []
    for place in places:
        path = Path(place)
        if path.is_file():
            paths.append(path)
        elif path.is_dir():
            there = inside(path)
            if not there:
                raise InputError(f"{place}: no file of vectors is in it: their names end with .ndjson")
            paths += there
        else:
            paths += released(place)
    return paths


def inside(folder: Path) -> list[Path]:
    """The files of a folder that are named as files of vectors are, sorted."""
    return sorted(path for path in folder.iterdir() if NAME.fullmatch(path.name))


def released(name: str) -> list[Path]:
    """The files that come with the package for a component."""
    if "/" in name or name.endswith((".ndjson", ".gz")):
        raise InputError(f"{name}: there is no such file or folder")
    of_it = [path for path in inside(RELEASED) if path.name.startswith(f"{component_named(name).name}.")]
    if not of_it:
        raise InputError(f"{name}: no vectors were released for it: cacheproof fill {name} --output FOLDER makes some")
    return of_it


def read(path: Path) -> VectorSet:
    """The set in a file, every part checked. InputError says what is wrong with it and in which line."""
    content = _content(path)
    named = NAME.fullmatch(path.name)
    if named is None:
        raise InputError(f"{path}: a file of vectors is named STEM.DIGEST.ndjson or STEM.DIGEST.ndjson.gz")
    if hashlib.sha256(content).hexdigest()[:DIGITS] != named["digest"]:
        raise InputError(f"{path}: its content is not what its name says: it was changed or cut off; fetch it again")
    if not content.endswith(b"\n"):
        raise InputError(f"{path}: the last line has no end: the file was cut off")
    header, *lines = content.split(b"\n")[:-1]
    first = _in_line(path, 1, lambda: decode_object(header))
    empty = _in_line(path, 1, lambda: _header(first))
    cases = [
        _in_line(path, number + 1, lambda line=line, number=number: _case(empty, number, decode_object(line)))  # type: ignore[misc]  # the defaults bind this turn's values
        for number, line in enumerate(lines, 1)
    ]
    if first.get("cases") != len(cases):
        said = shortened(repr(first.get("cases")))
        raise InputError(f"{path}, line 1: cases is {said}, and there are {len(cases)}: the file was cut off")
    return replace(empty, cases=tuple(cases))


def _in_line(path: Path, number: int, work: Callable[[], Read]) -> Read:
    try:
        return work()
    except (InputError, RefusedError) as error:
        raise InputError(f"{path}, line {number}: {error}") from None


def write(folder: Path, sets: Iterable[VectorSet]) -> list[Path]:
    """Write each set into the folder, in the place of those with the same stem; the paths."""
    paths = []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for one in sets:
            content = content_of(one, config_to_message(one.config))
            path = folder / name_of(one.stem, content)
            replace_file(path, content.decode("ascii"))
            for other in _of_stem(folder, one.stem):
                if other != path:
                    other.unlink()
            paths.append(path)
    except OSError as error:
        raise InputError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    return paths


def missing(folder: Path, sets: Iterable[VectorSet]) -> list[str]:
    """The names of those sets that the folder does not have as they are, to the byte, packed or not."""
    names = []
    for one in sets:
        content = content_of(one, config_to_message(one.config))
        name = name_of(one.stem, content)
        if not any(_holds(folder / (name + ending), content) for ending in ("", ".gz")):
            names.append(name)
    return names


def _holds(path: Path, content: bytes) -> bool:
    """Whether the file is there and has this content: a name is only what it should have."""
    try:
        return path.is_file() and _content(path) == content
    except InputError:
        return False


def _of_stem(folder: Path, stem: str) -> list[Path]:
    return [path for path in inside(folder) if (named := NAME.fullmatch(path.name)) and named["stem"] == stem]


def _content(path: Path) -> bytes:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
            content = file.read(LARGEST_FILE_BYTES + 1)
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{path}: cannot be read: {reason}") from None
    if len(content) > LARGEST_FILE_BYTES:
        raise InputError(f"{path}: larger than {LARGEST_FILE_BYTES} bytes: no file of vectors is")
    return bytes(content)


def _header(given: Mapping[str, Any]) -> VectorSet:
    if given.get("format") != FORMAT:
        raise InputError(f"not a file of vectors: its format is {shortened(repr(given.get('format')))}, not {FORMAT!r}")
    version = given.get("version")
    if not isinstance(version, str) or version.partition(".")[0] != VERSION.partition(".")[0]:
        raise InputError(f"version {shortened(repr(version))} of {FORMAT}: this reads {VERSION}")
    if not speaks_of(text_from(given, "spec")):
        spec = shortened(repr(given["spec"]))
        raise InputError(f"the answers are those of specification {spec}, and this is {SPECIFICATION_VERSION}")
    component = component_named(text_from(given, "component"))
    initial = _shown(given.get("initial"))
    if text_from(given, "origin") not in ORIGINS:
        raise InputError(f"origin must be one of {', '.join(ORIGINS)}")
    features = given.get("features")
    if not isinstance(features, list) or not all(isinstance(feature, str) for feature in features):
        raise InputError("features must be an array of strings")
    checked(component, features)
    return VectorSet(
        spec=text_from(given, "spec"),
        component=component,
        variant=variant_named(component, text_from(given, "variant")).tag,
        origin=text_from(given, "origin"),
        scope=text_from(given, "scope"),
        about=text_from(given, "about"),
        config=config_from_message(component, object_from("config", given.get("config"))),
        initial=initial,
        cases=(),
        deviations={
            number: tuple({**initial, **_shown(other)} for other in others)
            for number, others in _deviations(given).items()
        },
    )


def speaks_of(spec: str, ours: str = SPECIFICATION_VERSION) -> bool:
    """Whether answers of one version of the specification are those of another: the rule of its versions."""
    if ours.partition(".")[0] == "0":
        return spec == ours
    return spec.partition(".")[0] == ours.partition(".")[0]


def _case(empty: VectorSet, number: int, given: Mapping[str, Any]) -> Case:
    if given.get("case") != number:
        raise InputError(f"case must be {number}, not {shortened(repr(given.get('case')))}")
    steps = given.get("steps")
    if not isinstance(steps, list) or not steps:
        raise InputError("steps must be an array of objects, at least one")
    names = names_in(empty.component, empty.config)
    before, read_steps = empty.initial, []
    for step in steps:
        one = _step(empty, names, before, object_from("a step", step))
        read_steps.append(one)
        before = one.reply.observations if isinstance(one, CallStep) else before
    return tuple(read_steps)


def _step(
    empty: VectorSet, names: Mapping[str, frozenset[int]], before: Mapping[str, Shown], given: Mapping[str, Any]
) -> Step:
    if "refused" in given:
        error = given.get("error")
        if error not in {fault.value for fault in Fault}:
            raise InputError(f"error must be one of {', '.join(fault.value for fault in Fault)}")
        return RefusedStep(object_from("refused", given["refused"]), str(error))
    component = empty.component
    operation = operation_from_message(component.operations, object_from("call", given.get("call")))
    wrong = wrong_operation(component, empty.config, operation, names)
    if wrong is not None:
        raise InputError(wrong)
    reply = _reply(before, given)
    deviations = {
        number: tuple(_reply(reply.observations, object_from("an answer", other)) for other in others)
        for number, others in _deviations(given).items()
    }
    return CallStep(operation, reply, deviations)


def _deviations(given: Mapping[str, Any]) -> Mapping[str, list[Any]]:
    found = object_from("deviations", given.get("deviations", {}))
    for number, others in found.items():
        if not isinstance(others, list):
            raise InputError(f"deviations: {shortened(number)} must be an array of answers")
    return found


def _reply(before: Mapping[str, Shown], given: Mapping[str, Any]) -> Reply:
    outcome = outcome_from_message(object_from("outcome", given.get("outcome")))
    return Reply(outcome, {**before, **_shown(given.get("changed", {}))})


def _shown(given: Any) -> dict[str, Shown]:
    values = object_from("observables", given)
    texts = {name: value for name, value in values.items() if isinstance(value, str)}
    wrong = [name for name, text in texts.items() if re.fullmatch(f"{DIGEST}[0-9a-f]{{{DIGITS}}}", text) is None]
    if wrong:
        raise InputError(f"{wrong[0]} must be an integer, an array of integers, or {DIGEST} and {DIGITS} digits")
    others = observations_from_message({name: value for name, value in values.items() if name not in texts})
    return {name: texts[name] if name in texts else others[name] for name in values}

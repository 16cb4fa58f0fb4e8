"""The line protocol, spoken for a release: one JSON object in, one out. See docs/formats/protocol.md."""

from __future__ import annotations

import gc
import importlib
import json
import re
import sys
from argparse import ArgumentParser
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TextIO

from . import stand_ins
from .calls import UNSUPPORTED, Calls, DriverError, Reply, unfit
from .reading import READ, configuration_files

PROTOCOL = "0.1"

COMPONENTS = {
    "lru": ("driver.lru", "LruDriver"),
    "encoder_cache": ("driver.encoder_cache", "EncoderCacheDriver"),
    "mirror": ("driver.mirror", "MirrorDriver"),
    "encoder_budget": ("driver.encoder_budget", "EncoderBudgetDriver"),
    "configuration": ("driver.configuration", "ConfigurationDriver"),
    "block_hash": ("driver.block_hash", "BlockHashDriver"),
    "ring": ("driver.ring", "RingDriver"),
    "object_store": ("driver.object_store", "ObjectStoreDriver"),
    "kv_blocks": ("driver.kv_blocks", "KvBlocksDriver"),
    "kv_events": ("driver.kv_events", "KvEventsDriver"),
    "layer_groups": ("driver.layer_groups", "LayerGroupsDriver"),
    "partial_hits": ("driver.partial_hits", "PartialHitsDriver"),
    "scheduler": ("driver.scheduler", "SchedulerDriver"),
    "engine": ("driver.engine", "EngineDriver"),
}
"""Where the driver of each component is."""


class Driver(Protocol):
    """Drives the classes of one component."""

    operations: dict[str, Callable[[Mapping[str, Any]], Reply]]

    def reset(self, config: Mapping[str, Any]) -> None:
        """Begin again with new objects of this configuration."""
        ...

    def observe(self) -> dict[str, Any]:
        """What the objects show: integers and arrays of integers by name."""
        ...


def driver_of(component: str, calls: Calls) -> Driver:
    """The driver of a component; imports the release's classes."""
    if component not in COMPONENTS:
        raise DriverError(f"no driver for {component!r}: there are {', '.join(COMPONENTS)}")
    try:
        return _made(component, calls)
    except Exception:  # noqa: BLE001  # whatever keeps a module from being imported
        with stand_ins.tolerating():
            return _made(component, calls)


def _made(component: str, calls: Calls) -> Driver:
    module, name = COMPONENTS[component]
    driver: Driver = getattr(importlib.import_module(module), name)(calls)
    return driver


class Conversation:
    """One peer, one component at a time."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._drivers: dict[str, Driver] = {}
        self._driver: Driver | None = None
        self._config: Mapping[str, Any] = {}
        self._diverged = False

    def answer(self, message: Mapping[str, Any]) -> dict[str, Any]:
        """The answer to one message; whatever goes wrong here is an error, never an outcome."""
        try:
            return self._answered(message)
        except Exception as error:  # noqa: BLE001  # every failure of the driver must be told as one
            text = str(error) if isinstance(error, DriverError) else unfit(error)
            return {"answer": "error", "error": "driver_failed", "text": text}

    def _answered(self, message: Mapping[str, Any]) -> dict[str, Any]:
        match message.get("do"):
            case "hello":
                return {"answer": "hello", "protocol": PROTOCOL, **self._features(str(message.get("component")))}
            case "init":
                self._begin(str(message.get("component")))
                self._config = {key: value for key, value in message.items() if key not in ("do", "component")}
                return self._restarted()
            case "reset":
                return self._restarted()
            case "apply":
                return self._applied(message)
            case unknown:
                raise DriverError(f"unknown request {unknown!r}")

    def _features(self, component: str) -> dict[str, Any]:
        """The operations that the release has; nothing if it cannot be driven, which `init` will say."""
        try:
            self._begin(component)
        except Exception:  # noqa: BLE001  # whatever a release does when it is imported
            return {}
        return {"features": [f"{component}/operation/{name}" for name in self._current().operations]}

    def _begin(self, component: str) -> None:
        if component not in self._drivers:
            self._drivers[component] = driver_of(component, self._calls)
            gc.freeze()  # what imports have made is not looked through again, least of all during a timed call
        self._driver = self._drivers[component]

    def _restarted(self) -> dict[str, Any]:
        driver = self._current()
        driver.reset(self._config)
        self._diverged = False
        return {"answer": "state", **driver.observe()}

    def _applied(self, message: Mapping[str, Any]) -> dict[str, Any]:
        driver = self._current()
        if self._diverged:
            raise DriverError("the previous call did not return: reset comes first")
        operation = driver.operations.get(str(message.get("op")), _unsupported)
        reply = operation(message)
        self._diverged = reply.code == "diverged"
        values: dict[str, Any] = {"values": list(reply.values)} if reply.values else {}
        values |= {"remark": reply.remark} if reply.remark else {}
        shown = {} if self._diverged else driver.observe()
        return {"answer": "outcome", "code": reply.code, **values, **shown}

    def _current(self) -> Driver:
        if self._driver is None:
            raise DriverError("init comes first")
        return self._driver


def _unsupported(message: Mapping[str, Any]) -> Reply:
    """No release has this operation: a newer word of the component, or a fault that no transport of theirs shows."""
    return UNSUPPORTED


def probe(finder: stand_ins.Finder, calls: Calls) -> dict[str, Any]:
    """Import everything that can be driven, and say what that touched, and why a component cannot be driven."""
    components = {component: _obstacle(component, calls) for component in COMPONENTS}
    for answered in stand_ins.ANSWERS:
        importlib.import_module(str(stand_ins.listed(answered)))  # only a call would import it
    source = Path(calls.source)
    files = {Path(file) for module in list(sys.modules.values()) if (file := getattr(module, "__file__", None))}
    files |= finder.read | set(configuration_files(source))
    return {
        "components": components,
        "files": sorted(str(file.relative_to(source)) for file in files if file.is_relative_to(source)),
        "stand_ins": sorted(finder.used),
        "read": list(READ),
    }


def _obstacle(component: str, calls: Calls) -> str:
    """Why the component cannot be driven; empty if it can."""
    try:
        driver_of(component, calls)
    except Exception as error:  # noqa: BLE001  # whatever a release does when it is imported
        return unfit(error)
    return ""


def converse(conversation: Conversation, lines: TextIO, answers: TextIO) -> None:
    """Answer line after line, until the input ends or the peer says goodbye."""
    for line in lines:
        message = json.loads(line)
        if message.get("do") == "bye":
            return
        answers.write(json.dumps(conversation.answer(message)) + "\n")
        answers.flush()


def main(arguments: Sequence[str]) -> int:
    """`SOURCE` is the folder that has the release's package; `--first` one that comes before the installed packages."""
    parser = ArgumentParser(prog="start.py")
    parser.add_argument("source", type=Path)
    parser.add_argument("version")
    parser.add_argument("--first", type=Path)
    parser.add_argument("--probe", action="store_true")
    parser.add_argument("--readers-apart", action="store_true")
    parser.add_argument("--window", type=int, default=0)
    given = parser.parse_args(arguments)
    if given.first is not None:
        sys.path.insert(0, str(given.first))
    answers, sys.stdout = sys.stdout, sys.stderr
    version = tuple(int(part) for part in re.findall("[0-9]+", given.version))
    finder = stand_ins.install(given.source, version)
    calls = Calls(given.source, version, readers_apart=given.readers_apart, window=given.window)
    if given.probe:
        answers.write(json.dumps(probe(finder, calls)) + "\n")
    else:
        converse(Conversation(calls), sys.stdin, answers)
    return 0

"""Every bad value in the place of every good one: what is raised, what it says, and whether anything has changed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from tests.impl.interfaces.bad_input.snapshots import differences, snapshot
from tests.impl.interfaces.bad_input.sorts import Call, Face

from cacheimpl.errors import CacheError


def wrong(face: Face, method: str) -> list[str]:
    """What a method does that it must not, for all bad values of all its parameters."""
    call, found = face.calls[method], list[str]()
    made = face.make()
    try:
        for what, error, asked in attempts(face, method, call):
            before = snapshot(face.look(made))
            found += [f"{method}, {what}: {one}" for one in judged(lambda: asked(made), error, call, what)]  # noqa: B023  # called here
            changed = differences(before, snapshot(face.look(made)))
            if changed:
                found += [f"{method}, {what}: changed {one}" for one in changed]
                face.close(made)
                made = face.make()
        if call.works:
            invoke(face, made, method, call.good(made))
    finally:
        face.close(made)
    return found


def attempts(face: Face, method: str, call: Call) -> Iterator[tuple[str, type[Exception], Callable[[Any], Any]]]:
    """What is wrong, what has to be raised, and the call of a face."""

    def asked_with(made: Any, parameter: str, bad: Callable[[Any], Any]) -> Any:
        good = call.good(made)
        return invoke(face, made, method, {**good, parameter: bad(good.get(parameter))})

    for parameter, sort in call.bad.items():
        for what, bad in sort.items():
            yield f"{parameter} is {what}", face.error, partial(asked_with, parameter=parameter, bad=bad)
    for what, (error, asked) in call.misuse.items():
        yield f"misuse: {what}", error, asked


def invoke(face: Face, made: Any, method: str, arguments: dict[str, Any]) -> Any:
    """The method, the constructor, or the function itself."""
    if method == "__init__":
        result = face.kind(**arguments)
        if hasattr(result, "close"):
            result.close()
        return result
    asked = made if method == "__call__" else getattr(made, method)
    if any(name.startswith("*") for name in arguments):  # the last of them; those before it go by position too
        groups = [value if name.startswith("*") else (value,) for name, value in arguments.items()]
        result = asked(*(one for group in groups for one in group))
    else:
        result = asked(**arguments)
    if hasattr(result, "__enter__") and not isinstance(result, torch.Tensor):  # what is opened is looked at
        with result as inside:
            return inside
    return result


def judged(asked: Callable[[], Any], error: type[Exception], call: Call, what: str) -> list[str]:
    """What is wrong with how a bad call ended."""
    try:
        asked()
    except Exception as raised:  # noqa: BLE001  # whatever is raised is judged
        if not isinstance(raised, error) or not isinstance(raised, CacheError):
            return [f"{type(raised).__name__}: {raised}"]
        said, (parameter, *rest) = str(raised), what.split(" is ", maxsplit=1)
        attribute = rest[0].split(":")[0].removeprefix("without ") if rest else parameter
        names = {parameter, parameter.replace("_", " "), parameter.rstrip("s"), attribute, *call.says}
        if len(said) < 15 or not (what.startswith("misuse") or any(name in said for name in names)):
            return [f"the message does not say what was wrong: {said}"]
        return []
    return ["nothing was raised"]


# Whether the table is complete --------------------------------------------------------------------------------------


def undeclared(face: Face) -> list[str]:
    """Public methods and parameters of which the table says nothing, and rows of it for what there is not."""
    methods = public(face.kind)
    found = [f"{name} is neither called nor open" for name in methods if name not in {*face.calls, *face.open}]
    found += [f"there is no {name}" for name in {*face.calls, *face.open} if name not in methods]
    for name, call in face.calls.items():
        if name not in methods:
            continue
        there = [one for one in inspect.signature(methods[name]).parameters if one != "self"]
        said = {one.lstrip("*") for one in (*call.bad, *call.free)}
        found += [f"{name}: nothing is said of {one}" for one in there if one not in said]
        found += [f"{name} has no parameter {one}" for one in said if one not in there]
    for name in face.open:
        if name in methods and not is_open(methods[name]):
            found.append(f"{name} takes arguments: it is not open")
    return found


def is_open(method: Callable[..., Any]) -> bool:
    """Whether it takes nothing, or says why in words: flags only."""
    return all(
        one.name == "self" or one.annotation in ("bool", bool) for one in inspect.signature(method).parameters.values()
    )


def public(kind: Any) -> dict[str, Callable[..., Any]]:
    """The constructor and the public methods of a class, those of its bases among them; or a function."""
    if not isinstance(kind, type):
        return {"__call__": kind}
    found: dict[str, Callable[..., Any]] = {}
    for base in reversed(kind.__mro__):
        if not base.__module__.startswith(("cacheimpl", "tests")):
            continue
        for name, member in vars(base).items():
            method = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if inspect.isfunction(method) and (not name.startswith("_") or name == "__init__"):
                found[name] = method
    return found

"""How a request comes to be: its prompt is written, it is submitted, and it goes on with its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.block_hash.configuration import Adapter, Content, RequestName, Salt, Token
from cachespec.kernel import Operation

USER, ENGINE, WORKER = "user", "engine", "worker"


@dataclass(frozen=True, slots=True)
class Adapt(Operation):
    """The request uses this LoRA adapter."""

    lane: ClassVar[tuple[str, str]] = (USER, ENGINE)
    request: RequestName
    adapter: Adapter


@dataclass(frozen=True, slots=True)
class Season(Operation):
    """The request uses this cache salt; it shares blocks only with requests of the same salt."""

    lane: ClassVar[tuple[str, str]] = (USER, ENGINE)
    request: RequestName
    salt: Salt


@dataclass(frozen=True, slots=True)
class Write(Operation):
    """Appends a token to the prompt."""

    lane: ClassVar[tuple[str, str]] = (USER, ENGINE)
    request: RequestName
    token: Token


@dataclass(frozen=True, slots=True)
class Place(Operation):
    """Appends an item to the prompt, one token for each of its placeholders."""

    lane: ClassVar[tuple[str, str]] = (USER, ENGINE)
    request: RequestName
    content: Content


@dataclass(frozen=True, slots=True)
class Submit(Operation):
    """The prompt is complete: its full blocks get their keys."""

    lane: ClassVar[tuple[str, str]] = (USER, ENGINE)
    request: RequestName


@dataclass(frozen=True, slots=True)
class Append(Operation):
    """Appends a generated token; a block that it fills gets its key."""

    lane: ClassVar[tuple[str, str]] = (WORKER, ENGINE)
    request: RequestName
    token: Token


OPERATIONS: tuple[type[Operation], ...] = (
    Adapt,
    Season,
    Write,
    Place,
    Submit,
    Append,
)

"""How a request comes to be: its prompt is written, it is submitted, and it goes on with its output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from cachespec.block_hash.configuration import Adapter, Content, RequestName, Salt, Token
from cachespec.kernel import Operation

USER, ENGINE, WORKER = "user", "engine", "worker"


@dataclass(frozen=True, slots=True)
class Adapt(Operation):
    """The request is for this LoRA adapter."""

    lane: ClassVar[tuple[str, str]] = (USER, ENGINE)
    request: RequestName
    adapter: Adapter


@dataclass(frozen=True, slots=True)
class Season(Operation):
    """The request has this cache salt: it shares with nobody who has another."""

    lane: ClassVar[tuple[str, str]] = (USER, ENGINE)
    request: RequestName
    salt: Salt


@dataclass(frozen=True, slots=True)
class Write(Operation):
    """The prompt goes on with a token."""

    lane: ClassVar[tuple[str, str]] = (USER, ENGINE)
    request: RequestName
    token: Token


@dataclass(frozen=True, slots=True)
class Place(Operation):
    """The prompt goes on with an item: as many placeholders as it has."""

    lane: ClassVar[tuple[str, str]] = (USER, ENGINE)
    request: RequestName
    content: Content


@dataclass(frozen=True, slots=True)
class Submit(Operation):
    """The prompt is whole: its full blocks get their keys, all at once."""

    lane: ClassVar[tuple[str, str]] = (USER, ENGINE)
    request: RequestName


@dataclass(frozen=True, slots=True)
class Append(Operation):
    """A token was generated; if it fills a block, that block gets its key."""

    lane: ClassVar[tuple[str, str]] = (WORKER, ENGINE)
    request: RequestName
    token: Token

"""Entries of a ledger about the implementation: contracts beside the specification, and pairs of functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Beside:
    """A contract that runs `function` of the implementation beside the specification."""

    bound: str
    """For which states and operands."""
    function: Callable[..., Any]
    """It must run, and the contract must fail if it does nothing."""
    example: Mapping[str, Any]
    """Arguments that satisfy the precondition, and for which the contract fails if the function does nothing."""
    paths: int = 2
    """CrossHair must take at least this number of paths: fewer would mean that values were fixed too early."""
    nightly: bool = field(default=False, kw_only=True)
    """Whether it takes too long for the default set."""


@dataclass(frozen=True)
class Pair:
    """Two functions of the same parameters: CrossHair looks for arguments for which their behaviour differs."""

    statement: str
    specification: Callable[..., Any]
    """Calls the specification."""
    implementation: Callable[..., Any]
    """Calls `function`."""
    function: Callable[..., Any]
    """Of the implementation; it must run, and there must be a difference if it does nothing."""
    example: Mapping[str, Any]
    bound: str = "every integer"

"""Requests whose prompts are given by the names of their blocks: how they become arrivals of a workload of tokens.

A trace of this kind says how long a prompt is, how many tokens were generated, and which prompts begin alike, in steps
of a block. What a cache makes of that depends on what is taken into account, and each is an option: the block at the
end that is not full, the token that is always computed, the blocks that the output fills.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.replay.options import Option, choice, flag, integer, number
from cacheproof.replay.workload import Arrival, Workload
from cachespec.kernel import Tokens

NONE, UNIQUE, NEXT_PROMPT = "none", "unique", "next-prompt"


class Prompt(NamedTuple):
    """One recorded request."""

    blocks: tuple[int, ...]
    """The content of each full block."""
    length: int
    """Tokens."""
    output: int
    """Tokens that were generated."""
    seconds: float
    """Since the start."""
    path: Path
    line: int
    lasted: float | None = None
    """Seconds until its answer was there, where they were recorded."""
    following: tuple[int, ...] = ()
    """The content of each full block of the request that came after it, if that one extends this prompt."""


COUNTING: tuple[Option, ...] = (
    flag("as-table", "only full blocks, one token behind them, no output: as a plain LRU cache of blocks counts"),
    choice("partial", ("yes", "no"), "a prompt has the block at its end that is not full"),
    integer("window", 0, "tokens of a sliding window in a second group of layers, from 2 on; 0: full attention only"),
    choice("last-token", ("yes", "no"), "no: a prompt of full blocks has one token more, so that all may be found"),
)

TIMING: tuple[Option, ...] = (
    number("prefill", 10_000, "tokens of a prompt that are computed in a second; assumed"),
    number("token-seconds", 0.03, "seconds for each token that is generated; assumed"),
)


class Counting(NamedTuple):
    """What is taken into account."""

    partial: bool
    last_token: bool
    decode: str

    @property
    def spare(self) -> int:
        """Each prompt has one token behind its full blocks, and nothing else: its block is not counted."""
        return 0 if self.partial or self.last_token else 1

    def prompt(self, given: Prompt, block: int) -> int:
        """The prompt's tokens."""
        tokens = given.length if self.partial else len(given.blocks) * block
        return tokens if (self.last_token and tokens > 0) or tokens % block else tokens + 1

    def kept(self, given: Prompt, block: int) -> int:
        """The tokens that get KV: the last one that is generated is never computed."""
        return self.prompt(given, block) + (0 if self.decode == NONE else max(0, given.output - 1))

    def title(self) -> str:
        """In words."""
        parts = {
            "partial blocks": self.partial,
            "last-token rule": self.last_token,
            "decode blocks": self.decode != NONE,
        }
        said = [name for name, counts in parts.items() if counts]
        unique = f" ({self.decode})" if self.decode != NONE else ""
        return "full blocks" + "".join(f", {name}" for name in said) + unique


def counting(options: Mapping[str, Any]) -> Counting:
    """What the options take into account; `as-table` is none of it."""
    if options["as-table"]:
        return Counting(False, False, NONE)
    return Counting(options["partial"] == "yes", options["last-token"] == "yes", options["decode"])


def workload(title: str, block: int, prompts: Iterable[Prompt], contents: int, options: Mapping[str, Any]) -> Workload:
    """The workload of prompts whose contents are numbered below `contents`."""
    counted, window = counting(options), options["window"]
    arrivals = tuple(_arrivals(block, prompts, contents, counted, options))
    appended = (content for arrival in arrivals if arrival.tokens for content in arrival.tokens.appended)
    contents = max((contents - 1, *appended)) + 1
    return Workload(
        title=f"{title}: {counted.title()}" + (f", a window of {window:,} tokens" if window else ""),
        unit="blocks",
        sizes=(1,) * contents,
        arrivals=arrivals,
        block_size=block,
        beside=2 * len(arrivals),
        spare=counted.spare * (2 if window else 1),
        window=window,
    )


def _arrivals(
    block: int, prompts: Iterable[Prompt], unnamed: int, counted: Counting, options: Mapping[str, Any]
) -> Iterator[Arrival]:
    """Contents that the trace does not name are numbered from `unnamed` on."""
    for given in prompts:
        prompt, kept = counted.prompt(given, block), counted.kept(given, block)
        known = given.following if counted.decode == NEXT_PROMPT else ()
        appended = known[len(given.blocks) : kept // block]
        missing = kept // block - len(given.blocks) - len(appended)
        appended = (*appended, *range(unnamed, unnamed + missing))
        unnamed += missing
        computing, duration = _times(given, options)
        yield Arrival(
            contents=given.blocks,
            path=given.path,
            line=given.line,
            seconds=given.seconds,
            tokens=Tokens(prompt, kept, given.output, appended),
            computing=computing,
            duration=duration,
        )


def _times(given: Prompt, options: Mapping[str, Any]) -> tuple[float, float]:
    """Seconds until the prompt is computed, and until the request finishes: as recorded, or else as assumed."""
    prefill = given.length / options["prefill"] if options["prefill"] > 0 else 0.0
    lasted = given.lasted if given.lasted is not None else prefill + given.output * options["token-seconds"]
    return min(prefill, lasted), max(lasted, 1e-9)

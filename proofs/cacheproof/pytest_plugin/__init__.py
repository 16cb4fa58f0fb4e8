"""The plugin for pytest: options, and suites turned into tests.

Nothing else of the package is imported before a file with a `Suite` is collected, so that a project that has none pays
for these few lines only. The rest is in `collecting` (which tests there are) and `reporting` (what they say).
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import pytest

from cacheproof.foundation.seeds import LARGEST_SEED, new_seed
from cacheproof.pytest_plugin.seed import RULE, SEED, SHOWN
from cacheproof.suite import Suite, tests_for

KEY_OF_WORKERS = "cacheproof_seed"
"""Under which pytest-xdist hands the seed to its workers."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of a run."""
    group = parser.getgroup("cacheproof", "implementations held to the specification")
    add = group.addoption
    add("--cacheproof-seed", type=_integer(0), metavar="N", help="repeats a run; by default, a new one for each run")
    add("--cacheproof-steps", type=_integer(1), metavar="N", help="calls that each test makes")
    add("--cacheproof-seconds", type=_seconds, metavar="S", help="how long each test looks for a difference")
    add("--cacheproof-scope", action="append", default=[], metavar="NAME", help="only this scope; may be repeated")
    add(
        "--cacheproof-profile",
        choices=("ci", "nightly"),
        default="ci",
        help="how much where nothing is said: ci (the default), or nightly, which takes the larger scopes too",
    )
    add("--cacheproof-write", metavar="DIR", help="write what is found, in every format")


def pytest_configure(config: pytest.Config) -> None:
    """One seed for the whole run, the same in every worker: ours, that of Hypothesis, or a new one."""
    given = config.getoption("--cacheproof-seed")
    theirs = str(config.getoption("--hypothesis-seed", None))
    of_hypothesis = int(theirs) if theirs.isdecimal() else None
    handed = getattr(config, "workerinput", {}).get(KEY_OF_WORKERS)
    known = (one for one in (handed, given, of_hypothesis) if one is not None)
    config.stash[SEED] = next(known, new_seed())


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """pytest-xdist is about to start a worker."""
    node.workerinput[KEY_OF_WORKERS] = node.config.stash[SEED]


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makeitem(
    collector: pytest.Collector, name: str, obj: object
) -> pytest.Collector | list[pytest.Item] | None:
    """A suite, under whatever name it stands; and not `tests_for` itself, whose name begins as a test's does."""
    if obj is tests_for:
        return []
    if not isinstance(obj, Suite):
        return None
    from cacheproof.pytest_plugin.collecting import SuiteCollector  # noqa: PLC0415  # only where there is a suite

    made: SuiteCollector = SuiteCollector.from_parent(collector, name=name, suite=obj)
    return made


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How much was done, and how to do it again."""
    suites: dict[str, list[dict[str, Any]]] = {}
    for report in (report for reports in terminalreporter.stats.values() for report in reports):
        properties = dict(getattr(report, "user_properties", ()))
        if getattr(report, "when", "") == "call" and "cacheproof_steps" in properties:
            suites.setdefault(report.nodeid.rpartition("::")[0], []).append(properties)
    done = [properties for tests in suites.values() for properties in tests]
    if done:
        from cacheproof.pytest_plugin.noticed import summary  # noqa: PLC0415  # only where there is a suite

        steps = sum(int(properties["cacheproof_steps"]) for properties in done)
        seed = config.stash[SEED]
        terminalreporter.write_line(
            f"cacheproof: {len(done)} tests, {steps:,} calls in lockstep, seed {seed} "
            f"(the same again: --cacheproof-seed {seed})"
        )
        for rule in never_shown(done):
            terminalreporter.write_line(f"cacheproof: {rule} is declared and never showed: leave it out")
        for left_out in sorted({properties.get("cacheproof_left_out", "") for properties in done} - {""}):
            terminalreporter.write_line(f"cacheproof: {left_out}: the implementation does not have them")
        for name, tests in suites.items():
            for line in summary(name, tests):
                terminalreporter.write_line(f"cacheproof: {line}")


def never_shown(done: list[dict[str, object]]) -> list[str]:
    """The suites' rules that no test has shown."""
    seen: dict[str, set[object]] = {}
    for properties in done:
        for name, value in properties.items():
            if name.startswith(RULE):
                seen.setdefault(name.removeprefix(RULE), set()).add(value)
    return sorted(name for name, values in seen.items() if SHOWN[True] not in values)


def _integer(least: int) -> Callable[[str], int]:
    """A type for an option: an integer that is not smaller, nor larger than a seed may be."""

    def parsed(text: str) -> int:
        if not text.isascii() or not text.isdigit() or not least <= int(text) <= LARGEST_SEED:
            raise argparse.ArgumentTypeError(f"'{text}' is not an integer from {least} to {LARGEST_SEED}")
        return int(text)

    return parsed


def _seconds(text: str) -> float:
    """A type for an option: a positive number."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"'{text}' is not a positive number of seconds")
    return seconds

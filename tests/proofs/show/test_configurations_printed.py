"""A configuration that is printed reproduces the finding: read back, it is the configuration that was printed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest
from rich.console import Console

from cacheproof.model.configurations import GENERATORS, configurations
from cacheproof.model.finding import Finding
from cacheproof.model.registry import AnyComponent, component_named, components
from cacheproof.model.scope import scopes_of
from cacheproof.model.trace import Violation, record
from cacheproof.model.wire import config_from_message, config_to_message
from cacheproof.model.wording import settings
from cacheproof.present.show.formats import FORMATS
from cacheproof.releases.reproduce.case import Case
from cacheproof.releases.reproduce.judge import head

DRAWN = 8
SETTING = re.compile(r"(\w+) (-?\d+|\[[^a-z]*\])(?:, |$)")
"""A name and its value, as `settings` prints it."""


def configs() -> Iterator[Any]:
    for name in components():
        component = component_named(name)
        every = {scope.config for scope in scopes_of(component)}
        if name in GENERATORS:
            every |= set(islice(configurations(component, 1), DRAWN))
        yield pytest.param(component, sorted(every), id=name)


def read(component: AnyComponent, text: str) -> Any:
    """The configuration that a text prints; what it leaves out is as by default."""
    given = SETTING.findall(text)
    assert ", ".join(f"{name} {value}" for name, value in given) == text, "nothing else is there"
    return config_from_message(component, {name: json.loads(value) for name, value in given})


def finding(component: AnyComponent, config: Any) -> Finding:
    rule = component.properties()[0]
    return Violation(rule.name, rule.statement, record(component, component.normative, config, [], whole_calls=True))


EVERY = list(configs())


@pytest.mark.parametrize(("component", "every"), EVERY)
def test_the_settings_of_a_finding(component: AnyComponent, every: list[Any]) -> None:
    for config in every:
        text = settings(component.config, config_to_message(config))
        assert read(component, "" if text == "all values are defaults" else text) == config


@pytest.mark.parametrize(("component", "every"), EVERY)
def test_a_table(component: AnyComponent, every: list[Any]) -> None:
    for config in every:
        console = Console(width=10_000)
        with console.capture() as printed:
            console.print(FORMATS["table"](finding(component, config)))
        (line,) = (line for line in printed.get().splitlines() if line.startswith("configuration: "))
        text = line.removeprefix("configuration: ").rstrip()
        assert read(component, "" if text == "all values are defaults" else text) == config


@pytest.mark.parametrize(("component", "every"), EVERY)
def test_json_and_a_pytest_file(component: AnyComponent, every: list[Any]) -> None:
    for config in every:
        found = finding(component, config)
        told = json.loads(str(FORMATS["json"](found)))
        assert config_from_message(component, told["config"]) == config
        written: dict[str, Any] = {}
        source = str(FORMATS["pytest"](found))
        exec(source[source.index("CONFIG") : source.index("OPERATIONS")], written)  # a literal of ours
        assert config_from_message(component, written["CONFIG"]) == config


@pytest.mark.parametrize(("component", "every"), EVERY)
def test_what_reproduce_says_first(component: AnyComponent, every: list[Any]) -> None:
    for config in every:
        rule = component.properties()[0]
        case = Case("id", "vllm==0.33.0", component.name, "normative", rule.name, "", config_to_message(config), [])
        (line,) = (line for line in head(case) if line.startswith("configuration: "))
        text = line.removeprefix("configuration: ").removesuffix("; everything else as by default")
        assert read(component, "" if text == "all values are defaults" else text) == config


def test_a_value_of_zero_that_is_left_out_would_be_seen() -> None:
    """The planted bug: `chunked_prefill 0` is dropped as if it were the default."""
    component = component_named("scheduler")
    config = scopes_of(component)[0].config._replace(chunked_prefill=0)
    without_zeros = {name: value for name, value in config_to_message(config).items() if value != 0}
    assert read(component, settings(component.config, without_zeros)) != config

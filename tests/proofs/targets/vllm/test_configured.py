"""Configuration objects of a release: its own classes and defaults, made without its constructors."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from cacheproof.targets.vllm.child.driver.adapters import applies, has_trait
from cacheproof.targets.vllm.release import START

CONFIGS: dict[str, str] = {
    "vllm/config/__init__.py": "raise RuntimeError('the whole engine would be imported')",
    "vllm/config/utils.py": "from pydantic.dataclasses import dataclass\ndef config(cls): return dataclass(cls)\n",
    "vllm/config/scheduler.py": """
        from pydantic import Field, field_validator
        from vllm.config.utils import config
        from vllm.heavy import checked

        @config
        class SchedulerConfig:
            max_model_len: int
            tokens: int = Field(default=2048, ge=1)
            names: list[str] = Field(default_factory=list)
            needs: int = checked.at_once if False else 7

            @property
            def doubled(self) -> int:
                return 2 * self.tokens

            def __post_init__(self):
                raise RuntimeError('it is not run')
    """,
    "vllm/config/model.py": """
        from functools import cached_property
        from vllm.config.scheduler import SchedulerConfig
        from vllm.config.utils import config
        from vllm.heavy import rope

        class ModelConfig(rope.Base, metaclass=rope.Meta):
            scheduler: SchedulerConfig | None = None

            @property
            def uses_rope(self) -> bool:
                return rope(self.hf_config)
            @cached_property
            def head(self) -> "int | None":
                return self.hf_config.head
            @property
            def kind(self) -> rope.Kind:
                return rope.kind(self)
    """,
}
CONFIGS["vllm/sampling_params.py"] = """
    import msgspec

    class SamplingParams(msgspec.Struct, omit_defaults=True):
        tokens: int = 16
        stop: str | None = None
"""
SHOWN = """
    import sys, json
    sys.path.insert(0, {child!r})
    from pathlib import Path
    from driver.calls import unfit
    from driver.configured import released
    from driver import stand_ins
    sys.path.insert(0, {dependencies!r})
    stand_ins.install(Path({source!r}))
    def failure(read):
        try:
            return read()
        except Exception as error:
            return unfit(error)
    made = released()
    scheduler = made("SchedulerConfig", tokens=3)
    print(json.dumps([{expressions}]))
"""


@pytest.fixture
def shown(made_up: Callable[[Mapping[str, str]], Path], source: Path) -> Callable[..., list[Any]]:
    """The values of expressions in a process that drives a release with these configuration classes."""
    folder = made_up(CONFIGS)

    def values(*expressions: str) -> list[Any]:
        named = {"child": str(START.parent), "dependencies": str(source / "dependencies"), "source": str(folder)}
        text = textwrap.dedent(SHOWN).format(**named, expressions=", ".join(expressions))
        (folder / "reads.py").write_text(text, encoding="utf-8")
        command = [sys.executable, "-I", str(folder / "reads.py")]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        told: list[Any] = json.loads(ended.stdout)
        return told

    return values


def test_what_the_driver_gives_and_the_defaults_of_the_class(shown: Callable[..., list[Any]]) -> None:
    assert shown("scheduler.tokens", "scheduler.needs", "scheduler.names", "scheduler.doubled") == [3, 7, [], 6]
    assert shown("type(scheduler).__mro__[1].__module__", "made('SchedulerConfig').tokens") == [
        "vllm.config.scheduler",
        2048,
    ]
    assert shown("scheduler.names is scheduler.names", "scheduler.names is made('SchedulerConfig').names") == [
        True,
        False,
    ]
    assert shown("made('SchedulerConfig', doubled=1).doubled", "made('NoSuchConfig', given=5).given") == [1, 5]


def test_a_structure_has_its_fields(shown: Callable[..., list[Any]]) -> None:
    made = "made('SamplingParams', 'vllm.sampling_params', given=2)"
    assert shown(f"{made}.tokens", f"{made}.stop", f"{made}.given") == [16, None, 2]


def test_a_property_that_asks_for_a_loaded_model_has_the_answer_of_a_plain_one(shown: Callable[..., list[Any]]) -> None:
    assert shown("made('ModelConfig').uses_rope", "made('ModelConfig').head", "sorted(made.assumed)") == [
        False,
        None,
        ["ModelConfig.head = None", "ModelConfig.uses_rope = False"],
    ]


def test_an_attribute_without_a_value_is_named_with_its_class(shown: Callable[..., list[Any]]) -> None:
    missing, kind, absent = shown(
        "failure(lambda: scheduler.max_model_len)",
        "failure(lambda: made('ModelConfig').kind)",
        "getattr(scheduler, 'no_field', 'its default')",
    )
    assert missing.startswith(
        "the driver does not fit: SchedulerConfig has no max_model_len, which is read at reads.py:"
    )
    assert kind.startswith("the driver does not fit: ModelConfig has no kind, which is read at reads.py:")
    assert "adapters.toml" in missing
    assert absent == "its default", "the release may ask whether there is one"


def test_ranges_of_releases() -> None:
    line = {"from": "0.20.0", "before": "0.33"}
    assert [applies(line, version) for version in ((0, 19, 1), (0, 20, 0), (0, 32, 9), (0, 33), ())] == [
        False,
        True,
        True,
        False,
        False,
    ]
    assert applies({}, ())
    assert has_trait("whole_items", (0, 8))
    assert not has_trait("whole_items", (0, 7, 3))
    with pytest.raises(KeyError):
        has_trait("misspelt", (0, 8))

"""The script that runs cases against a released package: `released.py DRIVER SOURCE VERSION CASES`.

It stands alone: the Python of a release's environment runs it. One JSON object comes out, from each case to "passed",
to "absent" where the release has no such thing, or to the exception.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any


class AbsentError(Exception):
    """The release has nothing of this name."""


def absent(*_: Any, **__: Any) -> Any:
    """In the place of what a release lacks."""
    raise AbsentError


def loaded(path: Path) -> ModuleType:
    """The module in this file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def outcome(case: Callable[[Any], None], api: Any) -> str:
    """How a case ends."""
    try:
        case(api)
    except AbsentError:
        return "absent"
    except Exception as error:  # noqa: BLE001  # whatever a release raises is told
        return f"{type(error).__name__}: {error}"
    return "passed"


def outcomes(cases: ModuleType, api: Any) -> dict[str, str]:
    """Of all cases of a module, by name."""
    named = {name.removeprefix("case_"): one for name, one in vars(cases).items() if name.startswith("case_")}
    return {name: outcome(one, api) for name, one in named.items()}


# What releases have -------------------------------------------------------------------------------------------------


def encoder_budget(version: tuple[int, ...]) -> Any:
    """Functions of the release, called as it wants them."""
    module: Any = importlib.import_module("vllm.v1.core.encoder_cache_manager")

    def of_model(multimodal: bool, config: Any, sizes: Mapping[str, int]) -> Any:  # a question
        registry = SimpleNamespace(
            get_max_tokens_per_item_by_nonzero_modality=lambda model_config: sizes,
            supports_multimodal_inputs=lambda model_config: multimodal,
        )
        module.MULTIMODAL_REGISTRY = registry
        asked = getattr(module, "compute_encoder_budget", absent)
        model_config = SimpleNamespace(is_multimodal_model=multimodal)
        return asked(model_config, config, *((registry,) if version >= (0, 8) else ()))

    def of_sizes(config: Any, sizes: Mapping[str, int]) -> Any:
        asked = getattr(module, "compute_mm_encoder_budget", None)
        return of_model(True, config, sizes) if asked is None else asked(config, sizes)

    return SimpleNamespace(of_model=of_model, of_sizes=of_sizes)


APIS: Mapping[str, Callable[[tuple[int, ...]], Any]] = {"encoder_budget": encoder_budget}


def main(driver: str, source: str, version: str, cases: str) -> None:
    """Print what came of the cases."""
    sys.path.insert(0, driver)
    answers, sys.stdout = sys.stdout, sys.stderr
    importlib.import_module("driver.stand_ins").install(Path(source))
    path = Path(cases)
    api = APIS[path.stem](tuple(int(part) for part in re.findall("[0-9]+", version)))
    answers.write(json.dumps(outcomes(loaded(path), api)) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])

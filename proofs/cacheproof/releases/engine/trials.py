"""Many short loads in one engine, each in a copy of its process: with a bug planted or without, and recorded."""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from cacheproof.foundation.errors import InconclusiveError
from cacheproof.logs.record import child as recorder
from cacheproof.releases.engine.campaign import BLOCKS, LINES_KEPT, MODES, Mode, surroundings
from cacheproof.releases.engine.installing import CHILD, Engine
from cacheproof.releases.planted import child as planted

SECONDS_TO_START = 300.0
SECONDS_FOR_TRIAL = 120.0
SCARCE = {
    "max_num_encoder_input_tokens": 6,
    **{f"encoder_cache_manager.{name}": 15 for name in ("cache_size", "num_free_slots", "num_freeable_slots")},
}
"""An encoder that computes one image a step, and a cache with room for almost four."""
LIMITED = {"long_prefill_token_threshold": 24, "watermark": 0.1, "max_num_seqs": 4}
"""Long prompts do not take whole steps, admissions leave blocks free, and four requests may run."""


class Setting(NamedTuple):
    """A mode with further options of the engine."""

    mode: Mode
    options: Mapping[str, Any] = {}
    budgets: Mapping[str, int] = {}
    """Attributes of the scheduler that are set before the first request; an engine's options have no word for them."""


SETTINGS: Mapping[str, Setting] = {
    **{name: Setting(mode) for name, mode in MODES.items() if not mode.priority},
    "text-limited": Setting(MODES["text"], LIMITED),
    "text-priority": Setting(MODES["text-priority"]),
    "images-scarce": Setting(MODES["images"], {}, SCARCE),
    "images-scarce-async": Setting(MODES["images-async"], {}, SCARCE),
    "images-whole": Setting(MODES["images"], {"disable_chunked_mm_input": True, "long_prefill_token_threshold": 24}),
}
"""In `text-priority` the release itself is wrong now and then (C-KV-6)."""


class Trial(NamedTuple):
    """One load. `bug` is empty for the release as it is."""

    bug: str
    seed: int
    requests: int
    mend: str = ""
    """The entry of the catalogue whose fault is taken out of the release; empty for none."""


class Laboratory:
    """An engine that waits for trials."""

    def __init__(self, process: subprocess.Popen[str], log: Any) -> None:
        self._process, self._log = process, log

    def perform(self, trial: Trial, folder: Path) -> dict[str, Any]:
        """Run the trial, recorded into the folder; what its process answers. Raises InconclusiveError."""
        folder.mkdir(parents=True, exist_ok=True)
        for file in folder.iterdir():
            file.unlink()
        asked = {**trial._asdict(), "folder": str(folder), "seconds": SECONDS_FOR_TRIAL}
        return self._answer(json.dumps(asked), SECONDS_FOR_TRIAL + SECONDS_TO_START)

    def _answer(self, asked: str, seconds: float) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        limit = threading.Timer(seconds, self._process.kill)
        limit.start()
        try:
            if asked:
                self._process.stdin.write(asked + "\n")
                self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        finally:
            limit.cancel()
        answer: dict[str, Any] = json.loads(line) if line else {"broken": self._last_words()}
        if "broken" in answer:
            raise InconclusiveError(f"the engine ended: {answer['broken']}")
        return answer

    def started(self) -> float:
        """Wait until the engine is there; the seconds that it took."""
        return float(self._answer("", SECONDS_TO_START)["ready"])

    def _last_words(self) -> str:
        self._log.seek(0)
        return " / ".join(self._log.read().strip().splitlines()[-LINES_KEPT:]) or "without a word"


@contextmanager
def laboratory(engine: Engine, name: str) -> Iterator[Laboratory]:
    """An engine with the setting of this name, until the block ends. Raises InconclusiveError if it does not start."""
    setting = SETTINGS[name]
    settings = {
        **setting.mode.settings(),
        "model": str(engine.model("images" if setting.mode.images else "text")),
        "blocks": BLOCKS,
        "options": setting.options,
        "budgets": setting.budgets,
        "path": [str(Path(module.__path__[0])) for module in (recorder, planted)],
    }
    command = [str(engine.python), str(CHILD / "trial.py"), json.dumps(settings)]
    with tempfile.TemporaryFile(mode="w+", encoding="utf-8", errors="replace") as log:
        process = subprocess.Popen(  # noqa: S603  # our own script
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env={**surroundings(engine), "PYTHONHASHSEED": "0"},
        )
        try:
            made = Laboratory(process, log)
            made.started()
            yield made
        finally:
            with suppress(OSError):
                if process.stdin is not None:
                    process.stdin.close()
            with suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.kill()
            process.wait()

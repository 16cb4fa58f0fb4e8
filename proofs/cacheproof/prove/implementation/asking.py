"""One question to z3, within a limit of processor time: a busy machine does not decide what is proved."""

from __future__ import annotations

import threading
import time
from typing import Any

LIMIT_SECONDS = 30.0
"""Processor time for one question; then it has no answer."""
LOOK_SECONDS = 0.25
"""How often the processor time is looked at while a solver is at work"""


def answer_of(solver: Any) -> Any:
    """What `check` of this solver says: `z3.unknown` if the time was over."""
    answered = threading.Event()

    def end_late() -> None:
        begun = time.process_time()
        while not answered.wait(LOOK_SECONDS):
            if time.process_time() - begun > LIMIT_SECONDS:
                solver.interrupt()
                return

    watch = threading.Thread(target=end_late, daemon=True)
    watch.start()
    try:
        return solver.check()
    finally:
        answered.set()
        watch.join()


def no_answer() -> str:
    """That the time was over, in words."""
    return f"no answer within {LIMIT_SECONDS:.0f} s of processor time"

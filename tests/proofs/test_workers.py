"""Worker processes: what they return, and what comes of Ctrl-C, of a stuck worker and of a dead one."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Generator
from contextlib import closing
from functools import partial
from typing import Any

import pytest

from cacheproof.foundation.errors import InconclusiveError
from cacheproof.foundation.workers import shared_out, stopped, tell

_begun: list[str] = []


def _begin(word: str) -> None:
    _begun.append(word)


def _square(number: int) -> tuple[int, list[str]]:
    tell(f"{number} squared")
    return number * number, _begun


def _until_stopped(number: int) -> str:
    tell(f"{number} begins")
    while not stopped():
        time.sleep(0.01)
    return f"{number} was stopped"


def _for_ever(number: int) -> str:
    tell(f"{number} begins")
    while True:
        time.sleep(1)


def _die(number: int) -> int:
    os._exit(number)


def test_every_task_has_its_result_and_each_worker_begins_once() -> None:
    shown = list[str]()
    results = list(shared_out(_square, range(20), 2, show=shown.append, begin=partial(_begin, "word")))
    assert sorted(square for square, _ in results) == [number * number for number in range(20)]
    assert all(begun == ["word"] for _, begun in results)
    assert set(shown) <= {f"{number} squared" for number in range(20)}
    assert not stopped(), "this process is no worker"


def _interrupted(results: Generator[Any, None, None], shown: list[str], least: int = 2) -> list[Any]:
    """The results, where Ctrl-C comes a moment after `least` lines were shown."""

    def press() -> None:
        while len(shown) < least:
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    known = list[Any]()
    with closing(results), pytest.raises(KeyboardInterrupt):
        known.extend(results)  # a list keeps what came before the exception
    return known


def test_ctrl_c_gives_what_the_tasks_in_progress_say_and_begins_no_other() -> None:
    shown = list[str]()
    known = _interrupted(shared_out(_until_stopped, range(9), 2, show=shown.append), shown)
    assert sorted(known) == ["0 was stopped", "1 was stopped"]


def test_ctrl_c_while_the_workers_start_begins_no_task() -> None:
    assert _interrupted(shared_out(_square, range(9), 2, begin=partial(time.sleep, 2)), [], least=0) == []


def _interrupts_and_dies(number: int) -> None:
    os.kill(os.getppid(), signal.SIGINT)
    time.sleep(0.5)
    os._exit(9)


def test_a_worker_that_the_signal_ends_too_has_no_result() -> None:
    """SIGTERM reaches the whole group, and a worker that is still starting ends at once."""
    with pytest.raises(KeyboardInterrupt):
        list(shared_out(_interrupts_and_dies, [1], 1))


def test_a_worker_that_does_not_end_is_killed() -> None:
    before, shown = set(multiprocessing.active_children()), list[str]()
    assert _interrupted(shared_out(_for_ever, range(9), 2, show=shown.append, patience=0.1), shown) == []
    assert set(multiprocessing.active_children()) == before


def test_a_worker_that_dies_is_no_result() -> None:
    with pytest.raises(InconclusiveError, match="a worker process has ended"):
        list(shared_out(_die, [7], 2))

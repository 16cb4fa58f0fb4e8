"""Tasks that are shared out to worker processes. The parent alone hears Ctrl-C and SIGTERM, and tells its workers."""

from __future__ import annotations

import multiprocessing
import multiprocessing.queues
import multiprocessing.synchronize
import os
import queue
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import NamedTuple, TypeVar

from cacheproof.foundation.console import Show
from cacheproof.foundation.errors import InconclusiveError
from cacheproof.foundation.interruption import deaf, leave_to_parent

MOST_PROCESSES = 256
BETWEEN_LOOKS = 0.2

Task = TypeVar("Task")
Result = TypeVar("Result")


def cores() -> int:
    """How many worker processes there are unless the user says so."""
    return os.cpu_count() or 1


def shared_out(
    call: Callable[[Task], Result],
    tasks: Iterable[Task],
    workers: int,
    *,
    show: Show = lambda _: None,
    begin: Callable[[], object] | None = None,
    patience: float | None = None,
) -> Generator[Result, None, None]:
    """What `call` returns for each task, as it ends. `call`, `begin` and the tasks cross the process boundary.

    A worker calls `begin` first. `show` gets the lines that tasks `tell`. Ctrl-C: no other task begins, the results of
    those in progress are given, then it raises; a worker that the signal ended has none. Tasks ask `stopped` to end
    soon. `patience`: seconds after which a worker that does not end is killed, and its result is lost; None: no limit.
    Raises `InconclusiveError` if one dies.
    """
    context = multiprocessing.get_context("spawn")
    parent = _Parent(context.Queue(), context.Event())
    others = set(multiprocessing.active_children())
    remaining, waiting = iter(tasks), set[Future[tuple[Result, ...]]]()
    pool = ProcessPoolExecutor(workers, context, _begin_worker, (parent, begin))
    try:
        while True:
            while len(waiting) < workers and (task := next(remaining, None)) is not None:
                with deaf():
                    waiting.add(pool.submit(_performed, call, task))
            if not waiting:
                return
            ended, waiting = wait(waiting, BETWEEN_LOOKS, return_when=FIRST_COMPLETED)
            _show_all(parent.lines, show)
            yield from (result for future in ended for result in future.result())
    except KeyboardInterrupt:
        parent.stop.set()
        ended, waiting = wait(waiting, patience)
        whole = [future for future in ended if not isinstance(future.exception(), BrokenProcessPool)]
        yield from (result for future in whole for result in future.result())
        raise
    except BrokenProcessPool:
        raise InconclusiveError("a worker process has ended: its task has no result") from None
    finally:
        parent.stop.set()
        if patience is not None and wait(waiting, patience).not_done:
            for child in set(multiprocessing.active_children()) - others:
                child.kill()
        pool.shutdown(cancel_futures=True)


def _show_all(lines: multiprocessing.queues.Queue[str], show: Show) -> None:
    with suppress(queue.Empty):
        while True:
            show(lines.get_nowait())


# In worker processes -------------------------------------------------------------------------------------------------


class _Parent(NamedTuple):
    """What a worker knows of its parent."""

    lines: multiprocessing.queues.Queue[str]
    stop: multiprocessing.synchronize.Event


_parent: _Parent | None = None


def stopped() -> bool:
    """Whether the user has ended the run, as far as a worker has been told. In no worker it is false."""
    return _parent is not None and _parent.stop.is_set()


def raise_if_stopped() -> None:
    """Raises KeyboardInterrupt in a worker whose user has ended the run: the task has no result then."""
    if stopped():
        raise KeyboardInterrupt


def tell(line: str) -> None:
    """Progress, which the parent shows."""
    if _parent is not None:
        _parent.lines.put(line)


def _begin_worker(parent: _Parent, begin: Callable[[], object] | None) -> None:
    global _parent  # noqa: PLW0603  # a worker process is told once, and a task cannot carry it
    _parent = parent
    leave_to_parent()
    if begin is not None:
        begin()


def _performed(call: Callable[[Task], Result], task: Task) -> tuple[Result, ...]:
    """Nothing where the user ended the run before the task had a result, such as while the worker was starting."""
    try:
        return () if stopped() else (call(task),)
    except KeyboardInterrupt:
        if stopped():
            return ()
        raise

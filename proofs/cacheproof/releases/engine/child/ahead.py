"""Steps ahead of their output in an engine on a CPU, where the release switches them off.

The scheduler, its queue of plans and the worker's code for such steps are the release's own. Streams and events of
CUDA, which that code orders its copies by, do nothing here: on a CPU each copy is over when its call returns.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
from collections.abc import Iterator
from typing import Any


class Event:
    """An event that has happened."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def record(self, *_: Any) -> None:
        """There is nothing to wait for."""

    def synchronize(self) -> None:
        """It has happened."""


class Stream:
    """A stream on which nothing is pending."""

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def wait_stream(self, *_: Any) -> None:
        """There is nothing to wait for."""


@contextlib.contextmanager
def on(_stream: Any) -> Iterator[None]:
    """What is done on a stream is done at once."""
    yield


def switch_on() -> None:
    """Before an engine is made: it schedules steps ahead if its options say so."""
    platform: Any = importlib.import_module("vllm.platforms.cpu").CpuPlatform
    released = platform.check_and_update_config.__func__

    @functools.wraps(released)
    def checked(cls: Any, vllm_config: Any) -> Any:
        wanted = vllm_config.scheduler_config.async_scheduling
        made = released(cls, vllm_config)
        vllm_config.scheduler_config.async_scheduling = wanted
        return made

    platform.check_and_update_config = classmethod(checked)
    cuda: Any = importlib.import_module("torch").cuda
    cuda.Event, cuda.Stream, cuda.stream = Event, Stream, on
    cuda.current_stream = cuda.default_stream = Stream

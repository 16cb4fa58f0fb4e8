"""A cluster of Ray: one that is started on this machine and ended again, or one that is joined and left as it was."""

from __future__ import annotations

import os
import signal
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from typing import Annotated, Any, NamedTuple, TypeVar

import typer

from cacheproof.foundation.errors import InconclusiveError, InputError, MissingExtraError, shortened
from cacheproof.foundation.interruption import deaf
from cacheproof.foundation.workers import cores

LOCAL, JOINED = "ray", "ray://"
BETWEEN_LOOKS = 0.2
MOST_RETRIES = 3
"""How often a task begins again whose worker was lost."""

Task = TypeVar("Task")
Result = TypeVar("Result")

OnOption = Annotated[
    str,
    typer.Option(
        "--on",
        metavar="CLUSTER",
        help="Share the work between workers of a Ray cluster: ray starts one here, ray://HOST:PORT joins one.",
        show_default="this machine, without a cluster",
    ),
]


class Cluster(NamedTuple):
    """What is used of it: the module `ray`, and how many workers share the work."""

    ray: Any
    workers: int

    def shared_out(self, call: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """What `call` returns for each task, as it ends. A task whose worker is lost begins again.

        Ctrl-C: the tasks in progress are given up, and it raises. Raises what `call` raises, and InconclusiveError.
        """
        remote = self.ray.remote(num_cpus=1, max_retries=MOST_RETRIES)(call)
        waiting = [remote.remote(task) for task in tasks]
        try:
            while waiting:
                ended, waiting = self.ray.wait(waiting, timeout=BETWEEN_LOOKS)
                for one in ended:
                    yield self._result(one)
        finally:
            for one in waiting:
                self.ray.cancel(one, force=True)

    def _result(self, ended: Any) -> Any:
        try:
            return self.ray.get(ended)
        except self.ray.exceptions.RayTaskError as error:
            raise error.cause from None
        except self.ray.exceptions.RayError as error:
            raise InconclusiveError(f"a worker was lost: {shortened(str(error))}") from None


@contextmanager
def cluster_on(on: str, workers: int) -> Iterator[Cluster | None]:
    """The cluster that `--on` names; None if it is empty. `workers` is their number, or 0: one for each core.

    Nothing is written to standard output in the block. Raises InputError if Ray is missing, or if the cluster cannot be
    reached or is too small.
    """
    if not on:
        yield None
        return
    if on != LOCAL and not on.startswith(JOINED):
        raise InputError(f"--on: '{on}' is neither {LOCAL} nor {JOINED}HOST:PORT")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        import ray  # noqa: PLC0415  # an extra
    except ImportError:
        raise MissingExtraError("ray", f"--on {on}") from None
    with redirect_stdout(StringIO()):  # where Ray writes of workers that it lost
        try:
            yield _begun(ray, on, workers)
        finally:
            with deaf():
                ray.shutdown()


def _begun(ray: Any, on: str, workers: int) -> Cluster:
    """Ray's own handler of SIGTERM would end this process without a report."""
    quiet = {"logging_level": "ERROR", "log_to_driver": False}
    handler = signal.getsignal(signal.SIGTERM)
    try:
        with deaf(), warnings.catch_warnings(action="ignore"):
            if on == LOCAL:
                workers = workers or cores()
                ray.init(address="local", num_cpus=workers, include_dashboard=False, **quiet)
            else:
                ray.init(address=on, **quiet)
    except (OSError, RuntimeError, ValueError, ImportError, ray.exceptions.RayError) as error:
        raise InputError(f"--on {on}: no cluster: {shortened(str(error))}") from None
    finally:
        signal.signal(signal.SIGTERM, handler)
    there = int(ray.cluster_resources().get("CPU", 0))
    if workers > there:
        raise InputError(f"--on {on}: the cluster has {there} cores, and {workers} workers were asked for")
    return Cluster(ray, workers or there)

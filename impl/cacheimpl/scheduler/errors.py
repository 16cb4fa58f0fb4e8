"""Misuse of the scheduler. A call that raises changes nothing."""

from __future__ import annotations

from cacheimpl.errors import CacheError
from cacheimpl.scheduler.unsupported import Unsupported


class SchedulerError(CacheError):
    """Base of all errors of the scheduler."""


class InvalidSettingError(SchedulerError, ValueError):
    """A setting is not an integer, or out of range."""


class InvalidAcceptedError(SchedulerError, ValueError):
    """Counts of accepted drafts are negative, no integers, or of another dtype, shape or device than the rows."""


class InvalidStopError(SchedulerError, ValueError):
    """A stop token is not among the output tokens that the oldest plan has sampled for the request."""


class UnknownRequestError(SchedulerError, KeyError):
    """The request neither waits nor runs."""


class UnsupportedError(SchedulerError, NotImplementedError):
    """A request or a setting asks for an unsupported feature."""

    def __init__(self, what: Unsupported, text: str) -> None:
        super().__init__(what, text)
        self.what = what

    def __str__(self) -> str:
        """The text: which request, and which attribute or setting."""
        return str(self.args[1])


class DuplicateRequestError(SchedulerError, ValueError):
    """A request with this id waits or runs already."""


class NeverServedError(SchedulerError, ValueError):
    """The request would wait forever: the engine has too few tokens, blocks or encoder slots for it."""


class InvalidRequestError(SchedulerError, ValueError):
    """A request lacks its id or tokens, has tokens that are no integers, overlapping items, or too many items."""


class TooManyRequestsError(SchedulerError, RuntimeError):
    """As many requests are known as the settings allow."""


class NoPlanError(SchedulerError, RuntimeError):
    """`update_from_output` without a plan in flight."""


class TooManyPlansError(SchedulerError, RuntimeError):
    """As many plans are in flight as the settings allow."""

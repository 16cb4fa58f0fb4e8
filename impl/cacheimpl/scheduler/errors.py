"""What a caller of the scheduler did wrong. Whatever is raised, the state is as it was."""

from __future__ import annotations

from cacheimpl.errors import CacheError


class SchedulerError(CacheError):
    """Any misuse."""


class InvalidSettingError(SchedulerError, ValueError):
    """A setting is not an integer, or not one that can be."""


class InvalidAcceptedError(SchedulerError, ValueError):
    """Counts of drafts that were right are no counts, or of another type, shape or device than the rows."""


class UnknownRequestError(SchedulerError, KeyError):
    """The request neither waits nor runs."""


class UnsupportedError(SchedulerError, NotImplementedError):
    """A request asks for what there is no rule for here."""


class DuplicateRequestError(SchedulerError, ValueError):
    """A request id that waits or runs is added again."""


class NeverServedError(SchedulerError, ValueError):
    """The request would wait for ever: for tokens, blocks or encoder slots that the engine does not have."""


class InvalidRequestError(SchedulerError, ValueError):
    """A request that lacks its id or tokens, has what is no integer, overlapping items, or more of them than places."""


class TooManyRequestsError(SchedulerError, RuntimeError):
    """There is no row for one more request."""


class NoPlanError(SchedulerError, RuntimeError):
    """An output for which no plan is in flight."""


class TooManyPlansError(SchedulerError, RuntimeError):
    """As many plans are in flight as may be."""

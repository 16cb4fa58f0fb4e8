"""Which requests there are, what they show, and what their callers may do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, NamedTuple

from cachespec.kernel import Name

Content = Annotated[int, Name("content")]
"""An encoder input by what it is (its hash): inputs of equal content share one entry."""

Request = Annotated[int, Name("request")]

Input = int
"""The position of an encoder input within its request."""

NOTHING = -1


class Config(NamedTuple):
    """Requests and their contents, sizes, and the environment of a scope."""

    capacity: int
    """Slots, in encoder embeddings."""
    sizes: tuple[int, ...]
    """Embeddings of each content; its position is the content."""
    requests: tuple[tuple[int, ...], ...]
    """The content of each input of each request. A content may occur in several, and several times in one."""
    claims: tuple[tuple[int, ...], ...] = ()
    """Embeddings that each request claims for each of its inputs; empty where every claim is the content's size."""
    budgets: tuple[int, ...] = ()
    """Encoder compute budgets, in embeddings, that a caller may have left; empty for one that covers everything."""
    disciplined: int = 0
    """1: callers keep the order of the engine's own scheduler (see `environment`). 0: any call at any time."""
    failures: int = 0
    """1: an admission attempt may fail for another reason than this cache, and is abandoned."""
    resets: int = 0
    """1: the cache may be reset."""
    unreported: int = 0
    """If positive: no caller asks for room while this many evictions await their report. It bounds the variants that
    repeat themselves in the list."""
    halting: int = 0
    """1: callers stop once a count has left its range, which happens in variants only."""
    repeats: int = 0
    """1: a content that a request shows several times is asked for each time, as schedulers did before #23544."""
    encoder_decoder: int = 0
    """1: the model is an encoder-decoder, for which a release may have another manager. Only schedulers set it: here
    that manager is a variant."""


def malformed(config: Config) -> str | None:
    """What is wrong with the configuration, or None."""
    if config.capacity <= 0:
        return f"capacity must be positive, not {config.capacity}"
    if not config.sizes or min(config.sizes) < 0:
        return "sizes must be given, none of them negative"
    if not config.requests:
        return "there must be a request"
    used = {content for contents in config.requests for content in contents}
    if not used <= set(range(len(config.sizes))):
        return f"requests name contents {sorted(used)}, and there are sizes for 0 to {len(config.sizes) - 1}"
    if config.encoder_decoder:
        return "encoder_decoder is a setting of the scheduler; explore the variant ED for such models"
    return _invalid_claims(config) or _invalid_environment(config)


def _invalid_claims(config: Config) -> str | None:
    if not config.claims:
        return None
    if [len(claims) for claims in config.claims] != [len(contents) for contents in config.requests]:
        return "claims must have one size for each input of each request"
    if min((claim for claims in config.claims for claim in claims), default=0) < 0:
        return "claims must not be negative"
    return None


def _invalid_environment(config: Config) -> str | None:
    if min((*config.budgets, config.unreported)) < 0:
        return "budgets and unreported must not be negative"
    for name in ("disciplined", "failures", "resets", "halting", "repeats"):
        if getattr(config, name) not in (0, 1):
            return f"{name} must be 0 or 1, not {getattr(config, name)}"
    return None


def content_of(config: Config, request: Request, position: Input) -> Content:
    """What the input at this position of the request shows."""
    return config.requests[request][position]


def size_of(config: Config, request: Request, position: Input) -> int:
    """The embeddings that the request claims for the input at this position."""
    if config.claims:
        return config.claims[request][position]
    return config.sizes[config.requests[request][position]]


def positions(config: Config, request: Request) -> range:
    """The positions of the request's inputs."""
    return range(len(config.requests[request]))


def interchangeable(config: Config) -> Mapping[str, tuple[tuple[int, ...], ...]]:
    """Requests that show, and claim, the same.

    A content is where the requests have it, so two contents can be exchanged only together with requests: no content
    is interchangeable on its own.
    """
    classes: dict[tuple[tuple[int, ...], tuple[int, ...]], list[int]] = {}
    for request, contents in enumerate(config.requests):
        claims = tuple(size_of(config, request, position) for position in positions(config, request))
        classes.setdefault((contents, claims), []).append(request)
    return {"request": tuple(tuple(members) for members in classes.values())}

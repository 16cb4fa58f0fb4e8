"""What every class reads of a request; each names what it reads beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Request(Protocol):
    """A request of an engine: any object with an id."""

    @property
    def request_id(self) -> str:
        """Unique among the requests that are not finished."""


class PromptRequest(Request, Protocol):
    """A request with the tokens of its prompt, as it arrives."""

    @property
    def prompt_token_ids(self) -> Sequence[int]:
        """The tokens of the prompt."""


class TokenRequest(Request, Protocol):
    """A request with the tokens that it has up to now. Items, adapter and salt are read if it has them."""

    @property
    def all_token_ids(self) -> Sequence[int]:
        """Prompt and output tokens."""


class ComputedRequest(TokenRequest, Protocol):
    """A request that gets slots. `block_hashes`, keys that the engine has computed itself, are read if it has them."""

    @property
    def num_computed_tokens(self) -> int:
        """Leading tokens whose keys and values are written."""

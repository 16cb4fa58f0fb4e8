"""Prefixes that end within a block: their exact contents, and under which keys they are found."""

from __future__ import annotations

from cacheimpl.kv_cache_manager.chains import Chains
from cacheimpl.kv_cache_manager.contents import Content, Link, Links, Piece, check_tokens, packed
from cacheimpl.request import TokenRequest


def link_of(chains: Chains, request: TokenRequest, links: Links, tokens: int) -> Link | None:
    """The content and the hash of the request's first `tokens` tokens; `links` are those of their full blocks.

    None if there is none: the request has fewer tokens, or brings its hashes and not this one.
    """
    position, rest = divmod(tokens, chains.block_size)
    if not rest and 0 < position <= len(links):
        return Link(links.contents[position - 1], links.hashes[position - 1])
    if not rest or position > len(links) or tokens + chains.lookahead > len(request.all_token_ids):
        return None
    start, parent = tokens - rest, None
    if position:
        parent = Link(links.contents[position - 1], links.hashes[position - 1])
    content = Content(
        None if parent is None else parent.content,
        _piece(request, start, tokens),
        chains.extra_keys(request, start, tokens),
    )
    given = getattr(request, "block_hashes", None) or ()
    if not given:
        return Link(content, chains.hashed(parent, content))
    number = tokens // chains.hash_size
    return Link(content, given[number - 1]) if number <= len(given) else None


def brought(chains: Chains, request: TokenRequest, tokens: int) -> bool:
    """Whether a block may be found by this prefix: False if the request brings the hash, and no block has the key."""
    given = getattr(request, "block_hashes", None) or ()
    if not given:
        return True
    number = tokens // chains.hash_size
    return number <= len(given) and chains.keys((given[number - 1],))[0] in chains.registered.first


def begins_with(longer: Content, shorter: Content) -> bool:
    """Whether the tokens of one block begin with those of the other; what is before them is not compared."""
    if isinstance(longer.piece, bytes) and isinstance(shorter.piece, bytes):
        return longer.piece.startswith(shorter.piece)
    return longer.token_ids[: len(shorter.token_ids)] == shorter.token_ids


def _piece(request: TokenRequest, start: int, end: int) -> Piece:
    tokens = list(request.all_token_ids[start:end])
    data = packed(tokens)
    if data is not None:
        return data
    check_tokens(request, tokens)
    return tuple(tokens)

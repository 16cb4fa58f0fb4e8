"""The normative variant."""

from __future__ import annotations

from cachespec.block_hash.configuration import Config
from cachespec.block_hash.environment import alphabet
from cachespec.block_hash.operations import Adapt, Append, Place, Season, Submit, Write
from cachespec.block_hash.state import Hashing, View, initial, view
from cachespec.block_hash.transitions import adapt, append, place, season, submit, write
from cachespec.kernel import NORMATIVE, Variant

NORMATIVE_BLOCK_HASH: Variant[Config, Hashing, View] = Variant(
    tag=NORMATIVE,
    title="normative",
    state=Hashing,
    initial=initial,
    transitions={Adapt: adapt, Season: season, Write: write, Place: place, Submit: submit, Append: append},
    view=view,
    alphabet=alphabet,
)

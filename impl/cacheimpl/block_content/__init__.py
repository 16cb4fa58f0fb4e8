"""What blocks of prompts hold, as rows: blocks with the same content have the same row, and no others.

A content is the content before it, the tokens of its block, and what else its bytes depend on. `intern` finds or makes
the rows of a whole burst of prompts, or of the blocks that a decode step has filled; it compares contents, so equal
hashes cost time and never give one request the blocks of another. It is `look` and then `settle`, for whoever wants to
know in between how much there is to compare. `keep` of `BlockContents` gives rows back.
"""

from cacheimpl.block_content.bursts import Burst, Looked
from cacheimpl.block_content.extras import NOTHING, ExtraKeys, Item, extras_of
from cacheimpl.block_content.hashing import packed
from cacheimpl.block_content.operations import Interned, Lanes, again, burst_of, intern, look, settle
from cacheimpl.block_content.release import Placed, cleared, grown, held_in, place, with_ancestors
from cacheimpl.block_content.state import NONE, Config, Contents, drawn, empty
from cacheimpl.block_content.table import BlockContents

__all__ = [
    "NONE",
    "NOTHING",
    "BlockContents",
    "Burst",
    "Config",
    "Contents",
    "ExtraKeys",
    "Interned",
    "Item",
    "Lanes",
    "Looked",
    "Placed",
    "again",
    "burst_of",
    "cleared",
    "drawn",
    "empty",
    "extras_of",
    "grown",
    "held_in",
    "intern",
    "look",
    "packed",
    "place",
    "settle",
    "with_ancestors",
]

"""What the scheduler tells workers about pages. The field's names and attributes; blocks are named by their numbers."""

from __future__ import annotations

from dataclasses import dataclass

ACTIVE_TAIL_PAGES = 2
"""The last pages of a request whose copies on the device stay: steps in flight may still write into them."""


@dataclass(frozen=True)
class SparseKVPageTransfer:
    """One page is copied from the device to the host; back to the device if `restore` is set."""

    transfer_id: int
    """Workers report the transfer by this number."""
    host_block_id: int
    resident_block_ids: tuple[int, ...]
    """The block of the page in each group of pages on the device."""
    after_forward: bool
    """The copy is made behind the step that carries the transfer; otherwise before it."""
    restore: bool = False


@dataclass(frozen=True)
class SparseKVRowMirror:
    """Consecutive rows (one for each token) that a step writes on the device, and the host gets too."""

    source_starts: tuple[int, ...]
    """The first row in each group of pages on the device: block number times rows of a block, plus the row."""
    destination_start: int
    """The first row in the host's memory, counted in the same way."""
    num_rows: int


@dataclass(frozen=True)
class SparseKVResidencyUpdate:
    """From which blocks of the device a request's pages are read from now on."""

    pages: list[int]
    block_ids: tuple[list[int], ...]
    """For each group of pages on the device a block for each of the pages; the null block: the host is read."""


@dataclass
class SparseKVOffloadCommand:
    """The transfers that begin with a step."""

    page_transfers: list[SparseKVPageTransfer]


@dataclass(frozen=True)
class KVCacheBlockCopy:
    """One block is copied to another one of the same pool."""

    src_block_id: int
    dst_block_id: int

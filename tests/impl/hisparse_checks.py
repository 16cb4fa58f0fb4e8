"""What always holds of HiSparse: references add up, nothing is owned twice, what is found was computed and is there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

from tests.impl.hisparse_worker import Worker, row_of

from cacheimpl.hisparse import HiSparseCoordinator
from cacheimpl.hisparse.state import Publication
from cacheimpl.kv_cache_manager.blocks import KVCacheBlock


def problems(manager: Any, workers: Sequence[Worker]) -> list[str]:
    """What does not hold now; nothing if all does."""
    coordinator: HiSparseCoordinator = manager.hisparse
    found = [problem for worker in workers for problem in worker.problems]
    found += _references(coordinator.host_pool, _host_holders(coordinator), "host block")
    found += _references(coordinator.gpu_pool, _device_holders(coordinator), "block")
    found += _owners(coordinator)
    found += _pages(coordinator)
    found += _contents(coordinator, workers)
    return found


def leaks(manager: Any) -> list[str]:
    """What is left when no request and no transfer is there."""
    coordinator: HiSparseCoordinator = manager.hisparse
    left = [f"{pool.num_held_blocks} blocks are held" for pool in _pools(coordinator) if pool.num_held_blocks]
    tables: dict[str, Collection[Any]] = {
        "requests": coordinator.request_states,
        "transfers": coordinator.pending_spills,
        "loads": coordinator._imports,  # nothing may be left in it
        "readers": coordinator._readers,  # the same
        **{f"tables of group {n}": its.req_to_blocks for n, its in enumerate(coordinator.managers)},
        **{f"changes of group {n}": its.residency_changes for n, its in enumerate(coordinator.resident_managers)},
        **{f"regions of group {n}": its.hot_required for n, its in enumerate(coordinator.hot_managers)},
    }
    return left + [f"{what} are left: {sorted(its, key=str)}" for what, its in tables.items() if its]


def _pools(coordinator: HiSparseCoordinator) -> list[Any]:
    return [coordinator.gpu_pool, coordinator.host_pool]


def _host_holders(coordinator: HiSparseCoordinator) -> Counter[int]:
    """How many references each host block should have."""
    holders = Counter[int]()
    for table in coordinator.host_manager.req_to_blocks.values():
        holders.update(block.block_id for block in table)
    detached = dict[int, Publication]()
    for pending in coordinator.pending_spills.values():
        holders[pending.host_block.block_id] += 1
        publication = pending.pages.publication
        if publication is not None and publication.detached is not None:
            detached[id(publication)] = publication
    for publication in detached.values():
        assert publication.detached is not None
        holders.update(block.block_id for block in publication.detached.blocks[: publication.pages])
    return holders


def _device_holders(coordinator: HiSparseCoordinator) -> Counter[int]:
    holders = Counter[int]()
    residents = coordinator.resident_managers
    for its in coordinator.managers:
        if its is coordinator.host_manager or its in residents:
            continue
        for table in its.req_to_blocks.values():
            holders.update(block.block_id for block in table)
    for its in residents:
        for name in its.req_to_blocks:
            pages = coordinator.request_states.get(name)
            for page, block in enumerate(its.get_residency_row(name)):
                if not block.is_null and (pages is None or page not in pages.unpinned_pages):
                    holders[block.block_id] += 1
    for pending in coordinator.pending_spills.values():
        holders.update(block.block_id for block in pending.device_blocks)
    return holders


def _references(pool: Any, holders: Counter[int], what: str) -> list[str]:
    wrong = [
        f"{what} {block.block_id} has {block.ref_cnt} references, and {holders[block.block_id]} holders"
        for block in pool.blocks
        if not block.is_null and block.ref_cnt != holders[block.block_id]
    ]
    free = pool.free_block_queue.get_all_free_blocks()
    listed = {block.block_id for block in free}
    unused = {block.block_id for block in pool.blocks if not block.is_null and block.ref_cnt == 0}
    if listed != unused or len(free) != len(listed) or len(free) != pool.get_num_free_blocks():
        wrong.append(f"free {what}s are {sorted(listed)}, and those without references {sorted(unused)}")
    return wrong


def _owners(coordinator: HiSparseCoordinator) -> list[str]:
    """A block is of one group, and of one request unless its pages have the same content."""
    owners: dict[int, set[Any]] = {}
    for number, its in enumerate(coordinator.managers):
        if its is coordinator.host_manager:
            continue
        for name, table in its.req_to_blocks.items():
            row = its.get_residency_row(name) if its in coordinator.resident_managers else table
            for page, block in enumerate(row):
                if not block.is_null:
                    owners.setdefault(block.block_id, set()).add(_owner(coordinator, number, name, page, block))
    return [f"block {number} has owners {sorted(map(str, its))}" for number, its in owners.items() if len(its) > 1]


def _owner(coordinator: HiSparseCoordinator, group: int, name: str, page: int, block: KVCacheBlock) -> Any:
    """What a block stands for: a page of these tokens if it is shared, otherwise a page of this request."""
    its = coordinator.managers[group]
    if its in coordinator.hot_managers:
        return group, name
    holding = coordinator.host_manager.holdings[name]
    tokens = holding.request.all_token_ids[: (page + 1) * coordinator.page_size]
    return group, page, tuple(tokens)


def _pages(coordinator: HiSparseCoordinator) -> list[str]:
    """Each page is read from somewhere."""
    wrong = list[str]()
    for name, pages in coordinator.request_states.items():
        for page in pages.unpinned_pages:
            if page not in pages.valid_pages or coordinator.resident_blocks(name, page) is None:
                wrong.append(f"page {page} of {name!r} is unpinned, and the host does not have it")
        if set(range(pages.ready_prefix_pages)) - pages.valid_pages:
            wrong.append(f"{pages.ready_prefix_pages} leading pages of {name!r} are said to be on the host")
    return wrong


def _contents(coordinator: HiSparseCoordinator, workers: Sequence[Worker]) -> list[str]:
    """What can be found on the host is there on all workers, and so are the copies of it on the device."""
    wrong = list[str]()
    for block in coordinator.host_pool.blocks:
        if block.block_hash is None:
            continue
        rows = _rows(block.content, coordinator.page_size)
        copies = coordinator.device_copies.find(block)
        for number, worker in enumerate(workers):
            if [worker.host.get((block.block_id, n)) for n in range(len(rows))] != rows:
                wrong.append(f"host block {block.block_id} can be found, and worker {number} has not written it")
            for copy in copies:
                if [worker.device.get((copy.block_id, n)) for n in range(len(rows))] != rows:
                    wrong.append(f"block {copy.block_id} is a copy of host block {block.block_id}, and differs")
    return wrong


def _rows(content: Any, page_size: int) -> list[int]:
    """The rows of a block with this content."""
    tokens = list[int]()
    while content is not None:
        tokens = [*content.token_ids, *tokens]
        content = content.parent
    return [row_of(tokens, position) for position in range(len(tokens) - page_size, len(tokens))]

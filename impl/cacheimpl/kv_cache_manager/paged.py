"""Groups of layers whose pages the host has: which groups have which role, and the sizes of both pools.

`cacheimpl.hisparse` has the classes of these groups. It builds on this package, and gives them to `provide`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from cacheimpl.kv_cache_manager.errors import InvalidCountError, InvalidSettingError, UnsupportedError
from cacheimpl.kv_cache_manager.kinds import ROLES, role_of
from cacheimpl.kv_cache_manager.reach import Kind, Reach
from cacheimpl.kv_cache_manager.sizes import at_least
from cacheimpl.kv_cache_manager.unsupported import Unsupported

if TYPE_CHECKING:
    from cacheimpl.kv_cache_manager.pool import BlockPool
    from cacheimpl.kv_cache_manager.tables import Tables


class HostTier(NamedTuple):
    """The classes of groups whose pages the host has."""

    source: type[Tables]
    """Tables of the host's blocks."""
    kinds: Mapping[Kind, type[Tables]]
    """Tables on the device, by kind."""
    pool: Callable[[int, BlockPool], BlockPool]
    """Makes a pool of so many blocks in the host's memory, beside the device's pool."""
    coordinator: Callable[..., Any]
    """Makes what moves pages between both pools."""


_provided: list[HostTier] = []


def provide(tier: HostTier) -> None:
    """Managers that are made from now on have these classes."""
    _provided[:] = [tier]


class PagedLayout(NamedTuple):
    """The groups of layers of a manager that keeps pages in the host's memory; none as default."""

    sources: frozenset[int] = frozenset()
    """The group with the host's blocks."""
    kinds: Mapping[int, Kind] = {}
    """The groups with pages and hot regions on the device."""
    host_blocks: int = 0
    """Blocks of the host's pool, the null block included."""

    @property
    def tables(self) -> Mapping[int, type[Tables]]:
        """The class of tables of each of these groups."""
        if not self.sources:
            return {}
        (tier,) = _provided
        kinds = {number: tier.kinds[kind] for number, kind in self.kinds.items()}
        return {**kinds, **dict.fromkeys(self.sources, tier.source)}

    def host_pool(self, device: BlockPool) -> BlockPool | None:
        """The host's pool beside the device's; None if there is none."""
        return _provided[0].pool(self.host_blocks, device) if self.sources else None

    def coordinator(self, manager: Any, reprefillable: int) -> Any:
        """What moves pages between both pools. The last `reprefillable` tokens of a request are computed again."""
        return _provided[0].coordinator(
            manager.kv_cache_config,
            manager.coordinator.single_type_managers,
            manager.max_model_len,
            num_reprefillable_tokens=reprefillable,
        )


def paged_layout_of(
    config: Any, reaches: Sequence[Reach], sizes: Sequence[int], hash_block_size: int
) -> PagedLayout | None:
    """The groups with pages; None if there are none.

    Raises `InvalidSettingError` for groups that do not belong together, `InvalidCountError` for a pool without blocks,
    `UnsupportedError` for hits within a block.
    """
    kinds = {n: reach.kind for n, reach in enumerate(reaches) if reach.kind in (Kind.RESIDENT, Kind.HOT)}
    roles = [role_of(group) for group in config.kv_cache_groups]
    sources = [number for number, role in enumerate(roles) if ROLES[role]]
    if not kinds and not sources:
        return None
    residents = [number for number, kind in kinds.items() if kind is Kind.RESIDENT]
    if len(sources) != 1 or not residents:
        raise InvalidSettingError(
            "HiSparse needs one group with the role hisparse_source and at least one with a HiSparseResidentSpec, and"
            f" kv_cache_groups has {len(sources)} and {len(residents)}"
        )
    (source,) = sources
    if source > min(residents) or {sizes[number] for number in residents} != {sizes[source]}:
        raise InvalidSettingError(
            "the group of the host must be before its pages on the device, with equal block sizes"
        )
    if sizes[source] != hash_block_size:
        raise UnsupportedError(
            Unsupported.HISPARSE_HASH_BLOCKS,
            f"hash_block_size must be {sizes[source]} with HiSparse: hits end with a block",
        )
    for number, kind in kinds.items():
        if kind is Kind.HOT:
            spec = config.kv_cache_groups[number].kv_cache_spec
            at_least("blocks_per_request", getattr(spec, "blocks_per_request", None), 1)
    blocks = getattr(config, "hisparse_host_num_blocks", None)
    if blocks is None:
        raise InvalidCountError("hisparse_host_num_blocks must be the number of blocks of the host's pool, not None")
    return PagedLayout(frozenset(sources), kinds, at_least("hisparse_host_num_blocks", blocks, 2))

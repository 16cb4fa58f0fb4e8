"""The coordinator of pages in the host's memory."""

from __future__ import annotations

from typing import Any

from tests.impl.hisparse_engine import Request, config_of
from tests.impl.interfaces.bad_input.sorts import Call, Face, Sort, count, one_of

from cacheimpl.errors import CacheError
from cacheimpl.hisparse import HiSparseCoordinator, get_hisparse_coordinator
from cacheimpl.kv_cache_manager import LaterKVCacheManager

ENDS: Sort = one_of(None, 3, "a", [None], ["a"], [("a",)], [("a", -1)], [("a", 1.5)], [(3, 1)], [("a", 1, 1)])
PARTS: Sort = one_of(None, 3, "a", [None], [("a", 1)], [("a", -1, 1)], [("a", 1, None)], [(3, 1, 1)])
REPORTS: Sort = one_of(None, 3, [1], {"a": 1}, {0: -1}, {0: None}, {0: 1.5})


def coordinator() -> Any:
    """One request with two pages of which one is on its way."""
    manager = LaterKVCacheManager(config_of(24, 20), 64, scheduler_block_size=4)
    request: Any = Request("a", list(range(9)), 1, prompt=9)
    manager.allocate_slots(request, 9)
    made = get_hisparse_coordinator(manager)
    made.advance_scheduled([("a", 9)])
    return made


def number(made: Any) -> dict[str, Any]:
    return {"request_id": "a", "num_computed_tokens": 8}


def free(why: str, **good: Any) -> Call:
    """A call whose arguments are all taken, and why."""
    return Call(lambda made: good, {}, dict.fromkeys(good, why))


def of_page(made: Any) -> dict[str, Any]:
    return {"request_id": "a", "pages": made.request_states["a"], "page": 0}


def of_request(made: Any) -> dict[str, Any]:
    return {"request_id": "a", "pages": made.request_states["a"]}


UNKNOWN = "an unknown request has no effect"
BY_TABLES = "called by the tables of the manager, which have looked at it"
OF_PAGE = dict.fromkeys(("request_id", "pages", "page"), BY_TABLES)

FACES = {
    "HiSparseCoordinator": Face(
        HiSparseCoordinator,
        coordinator,
        CacheError,
        {
            "__init__": Call(
                lambda made: {
                    "kv_cache_config": config_of(24, 20),
                    "managers": made.managers,
                    "max_model_len": 64,
                },
                {"managers": one_of([])},
                {
                    "kv_cache_config": "the manager has looked at it",
                    "max_model_len": "likewise",
                    "num_reprefillable_tokens": "likewise",
                },
                works=False,
            ),
            "advance_scheduled": Call(lambda made: {"requests": [("a", 9)]}, {"requests": ENDS}, says=("request",)),
            "build_row_mirrors": Call(lambda made: {"requests": [("a", 8, 1)]}, {"requests": PARTS}, says=("request",)),
            "all_context_pages_resident": Call(
                lambda made: {"requests": [("a", 8, 1)]}, {"requests": PARTS}, says=("request",)
            ),
            "take_residency_updates": Call(
                lambda made: {"request_ids": ["a"]},
                {"request_ids": one_of(None, 3, "a", [None], [3])},
                says=("request",),
            ),
            "update_spills": Call(
                lambda made: {"enqueued_counts": {0: 1}, "completed_counts": {0: 1}},
                {"enqueued_counts": REPORTS, "completed_counts": REPORTS},
            ),
            "plan_prefix_materialization": Call(number, {"num_computed_tokens": count(0)}, {"request_id": UNKNOWN}),
            "complete_host_import": Call(number, {"num_computed_tokens": count(0)}, {"request_id": "any request"}),
            "record_pending_host_import": Call(
                lambda made: {"request_id": "a", "num_tokens": 8},
                {"num_tokens": count(0)},
                {"request_id": "any request"},
            ),
            "release_completed_host_copies": free("there are no copies", dst_block_ids=[1]),
            "finish_host_import": free(UNKNOWN, request_id="a", failed=True),
            "update_residency": free(UNKNOWN, request_id="a"),
            "can_read_from_host": free(UNKNOWN, request_id="a"),
            "free": free(UNKNOWN, request_id="a"),
            "host_blocks": free(UNKNOWN, request_id="a"),
            "resident_blocks": free(UNKNOWN, request_id="a", page=0),
            "pages_of": free(BY_TABLES, request_id="a"),
            "commit_computed_blocks": free(BY_TABLES, request_id="a", num_host_pages=0),
            "publish_when_ready": Call(
                lambda made: {"request": Request("a", list(range(9)), 1, prompt=9), "tokens": 0, "pages": 0},
                {},
                dict.fromkeys(("request", "tokens", "pages"), BY_TABLES),
            ),
            "page_is_back": free(BY_TABLES, request_id="a", page=0, reads_rows=False),
            "page_became_clean": Call(of_page, {}, OF_PAGE),
            "unpin_page": Call(of_page, {}, OF_PAGE),
            "leave_copies": Call(of_request, {}, dict.fromkeys(("request_id", "pages"), BY_TABLES)),
            "goes_back": free(BY_TABLES, request_id="a", computed=9),
            "pages_gone": free(BY_TABLES, request_id="a", computed=9, end=3),
            "compute_again": free(BY_TABLES, request_id="a", computed=9),
        },
        {
            "build_offload_command": "takes nothing",
            "take_host_block_copies": "takes nothing",
            "has_pending_reclamation": "takes nothing",
            "has_pending_work": "takes nothing",
            "get_host_block_pool": "takes nothing",
            "as_coordinator": "takes nothing",
        },
    )
}

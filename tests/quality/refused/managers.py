"""Wrong calls of the encoder cache manager and the scheduler: mypy refuses each line that is marked, and no other."""

from __future__ import annotations

from cacheimpl import EncoderCacheManager, Scheduler
from cacheimpl.encoder_cache.early import EarlyEncoderCacheManager
from cacheimpl.request import PromptRequest


def right_calls(manager: EncoderCacheManager, scheduler: Scheduler, request: PromptRequest) -> bool:
    scheduler.add_request(request)
    scheduler.finish_requests([request.request_id])
    scheduler.update_from_output(2)
    return manager.check_and_update_cache(request, 0) or manager.can_allocate(request, 0, 4)


def wrong_calls(
    manager: EncoderCacheManager, early: EarlyEncoderCacheManager, scheduler: Scheduler, request: PromptRequest
) -> None:
    manager.check_and_update_cache("0", 0)  # refused: arg-type
    manager.check_and_update_cache(request, "0")  # refused: arg-type
    manager.can_allocate(request, 0, budget=4)  # refused: call-arg
    manager.allocate(0, request)  # refused: arg-type
    manager.free(request.request_id)  # refused: arg-type
    early.has_cache(0, request)  # refused: arg-type
    early.free("0")  # refused: arg-type
    scheduler.add_request("0")  # refused: arg-type
    scheduler.add_request([1, 2, 3])  # refused: arg-type
    scheduler.finish_requests(request)  # refused: arg-type
    scheduler.update_from_output([0, 1])  # refused: arg-type

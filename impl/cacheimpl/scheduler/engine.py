"""`Scheduler`: vLLM's calls on top of the tensor functions, with KV and encoder outputs from other processes."""

from __future__ import annotations

from typing import Any

import torch

from cacheimpl.answer import Code
from cacheimpl.constants import constant
from cacheimpl.counts import whole
from cacheimpl.recency import length
from cacheimpl.scheduler import transfers
from cacheimpl.scheduler.connector import EXPECTED, NOT_REMOTE, STORED, with_phase
from cacheimpl.scheduler.core import SchedulerCore
from cacheimpl.scheduler.errors import InvalidRequestError, NoPlanError, UnknownRequestError, UnsupportedError
from cacheimpl.scheduler.settings import LARGEST
from cacheimpl.scheduler.transferring import IN_STEP, LOADING, NO_TRANSFER
from cacheimpl.scheduler.unsupported import Unsupported
from cacheimpl.writing import COPYING


class Scheduler(SchedulerCore):
    """Requests, both caches, the plans in flight and the transfers of one engine: see `SchedulerCore` for the requests.

    A connector says how loads and sendings end. A call that raises changes nothing.
    """

    @property
    def transfers(self) -> dict[str, tuple[int, int]]:
        """By request id, the phase of its transfer (see `transferring`), and the tokens that have KV afterwards."""
        state, names = self.state, self._arrivals.names
        phases, tokens = state.transfer.tolist(), state.brought.tolist()
        return {names[row]: (phase, tokens[row]) for row, phase in enumerate(phases) if phase}

    def finish_load(self, request_id: str) -> bool:
        """The external KV of a waiting request is loaded. Returns False if none is loaded for it."""
        return self._transferred(transfers.finish_load, request_id)

    def fail_load(self, request_id: str, blocks: int) -> bool:
        """Only the first `blocks` of what was loaded for a waiting request are whole.

        Returns False if nothing is loaded for it.
        """
        ends = self.settings.failed_loads_end and self._phase_of(request_id) == LOADING
        done = self._transferred(transfers.fail_load, request_id, blocks)
        if ends:
            self._ended_by_failure(request_id)
        return done

    def finish_send(self, request_id: str) -> bool:
        """The blocks of a finished request are sent. Returns False if none are sent."""
        return self._transferred(transfers.finish_send, request_id)

    def expect_output(self, identifier: str, arrived: bool = False) -> None:  # noqa: FBT001, FBT002  # a flag of the call
        """The encoder connector expects the encoder output of an item, or has it already (`arrived`).

        Requests that show an expected output wait until `bring_output` or `lose_output`. An output that is there is
        loaded (`fetched_encoder_mm_hashes` of a plan) and not encoded. Raises `UnsupportedError` if the setting
        `encoder_connector` is off; `InvalidRequestError` if a request that waits or runs shows the item.
        """
        if not self.settings.encoder_connector:
            raise UnsupportedError(
                Unsupported.ENCODER_CONNECTOR,
                "encoder outputs come from elsewhere only if the setting encoder_connector is on",
            )
        if self._arrivals.shows(self._identifier(identifier)):
            raise InvalidRequestError(f"a request that waits or runs shows {identifier!r} already")
        self._set_output(identifier, STORED if arrived else EXPECTED)

    def bring_output(self, identifier: str) -> bool:
        """An expected encoder output has arrived. Returns False if it is not expected, or arrived before."""
        if self._arrivals.outputs.get(self._identifier(identifier)) != EXPECTED:
            return False
        self._set_output(identifier, STORED)
        return True

    def lose_output(self, identifier: str) -> bool:
        """The encoder connector does not have the output any more, or never gets it: it is encoded here.

        Returns False if the connector neither had nor expected it.
        """
        if self._identifier(identifier) not in self._arrivals.outputs:
            return False
        self._set_output(identifier, NOT_REMOTE)
        return True

    @staticmethod
    def _identifier(identifier: object) -> str:
        if not isinstance(identifier, str):
            raise InvalidRequestError(f"an item has an identifier, which is a text, not {identifier!r}")
        return identifier

    @torch.inference_mode()
    def _set_output(self, identifier: str, phase: int) -> None:
        """What the encoder connector says of an output. An item that no request has shown has no row yet."""
        if phase == NOT_REMOTE:
            del self._arrivals.outputs[identifier]
        else:
            self._arrivals.outputs[identifier] = phase
        row = self._arrivals.items.rows.get(identifier)
        if row is not None:
            state, device = self.state, self._config.rows.device
            self._state = with_phase(state, constant(row, device), phase)

    @torch.inference_mode()
    def fail_step(self, request_id: str, blocks: int) -> list[str]:
        """`update_from_output` of a plan that has loaded only the first `blocks` of a request: no drafts are accepted.

        What the request has computed behind them is void. Returns the ids of the requests that are finished, or ended
        by the failure. Raises `NoPlanError`; `InvalidRequestError` if the oldest plan loads nothing for the request.
        """
        if self._plans == 0:
            raise NoPlanError("no plan is in flight")
        count, row = self._blocks(blocks), self._row_of_transfer(request_id)
        if self._phase_of(request_id) != IN_STEP or not self._is_in_oldest(row):
            raise InvalidRequestError(f"the oldest plan loads nothing for request {request_id!r}")
        state, device = self.state, self._config.rows.device
        turns = dict(enumerate(state.turns[0].tolist()))
        operands = (constant(row, device), constant(count, device))
        self._state, _, ends = transfers.failed_step(self._config, state, *operands, write=COPYING)
        self._void, self._items = True, self.settings.max_items > 0
        ended = {request_id: turns[row]} if bool(ends) else {}
        if ended:
            self._ended_by_failure(request_id)
        of_name = {name: turns[known] for known, name in self._arrivals.names.items()}
        ended.update({name: of_name[name] for name in self._update_on_tensors(0, {})})
        return sorted(ended, key=ended.__getitem__)

    @torch.inference_mode()
    def _transferred(self, function: Any, request_id: str, *blocks: int) -> bool:
        """One of the calls about a transfer."""
        operands = [self._blocks(count) for count in blocks]
        if self._phase_of(request_id) == NO_TRANSFER:
            return False
        state, device = self.state, self._config.rows.device
        tensors = [constant(number, device) for number in (self._row_of_transfer(request_id), *operands)]
        self._state, answer = function(self._config, state, *tensors, write=COPYING)
        return int(answer.code) == Code.DONE

    @staticmethod
    def _blocks(blocks: object) -> int:
        return whole("blocks", blocks, InvalidRequestError, least=0, most=LARGEST - 1)

    def _row_of_transfer(self, request_id: object) -> int:
        """The row of a request, which may be over. Raises `UnknownRequestError`."""
        row = self._arrivals.last_row_of(request_id) if isinstance(request_id, str) else None
        if row is None:
            raise UnknownRequestError(f"request_id {request_id!r} is not known (any more)")
        return row

    def _phase_of(self, request_id: object) -> int:
        """The phase of its transfer. Arrivals and foreseen steps change none, so they need not be written before."""
        return int(self._state.transfer[self._row_of_transfer(request_id)])

    def _is_in_oldest(self, row: int) -> bool:
        """Whether the oldest plan has a part of this request that counts. No foreseen step loads anything."""
        return int(self._state.turns[0, row]) >= 0 and not bool(self._state.void[0, row])

    def _ended_by_failure(self, request_id: str) -> None:
        """The host knows that it waits and runs no more."""
        self._arrivals.end([self._arrivals.row_of(request_id)])
        self._leaving = True
        self._waiting = int(length(self._state.waiting))

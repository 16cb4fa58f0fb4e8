"""Wrong questions to a crew of shards: mypy refuses each line that is marked, and no other."""

from __future__ import annotations

from cacheproof.search.crew import Alone, Crew
from cacheproof.search.processes import Processes
from cacheproof.search.shard import Account, Shard


def counted(crew: Crew, alone: Alone, processes: Processes) -> None:
    counts: list[int] = crew.ask(Shard.states)
    alone.ask(Shard.lookup, 3)
    processes.ask_each(Shard.settle, [([0, 1],)])
    crew.ask(Shard.stats)  # refused: attr-defined
    alone.ask(Shard.expnd, 8, 0.5)  # refused: attr-defined
    crew.begn()  # refused: attr-defined
    processes.expnd()  # refused: attr-defined
    crew.ask("states")  # refused: arg-type
    crew.ask(Shard.lookup)  # refused: arg-type
    alone.ask(Shard.lookup, "3")  # refused: arg-type
    processes.ask(Shard.expand, 8)  # refused: arg-type
    crew.ask_each(Shard.settle, [(0,)])  # refused: arg-type
    accounts: list[Account] = crew.ask(Shard.states)  # refused: arg-type
    print(counts, accounts)


def shared(alone: Alone, processes: Processes) -> list[Crew]:
    return [alone, processes, Shard]  # refused: list-item

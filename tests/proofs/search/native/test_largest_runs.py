"""The largest runs are explored alone, so that their memory does not add up."""

from __future__ import annotations

import pytest

from cacheproof.foundation.errors import ExitStatus
from cacheproof.search import campaign
from cacheproof.search.campaign import Effort, Run, perform_all
from cacheproof.search.native.build import compiler_of_this_machine
from cacheproof.search.tasks import Task

pytestmark = pytest.mark.skipif(compiler_of_this_machine() is None, reason="there is no C++ compiler")

LARGE, ALSO_LARGE = Task("ring", "normative", "two-readers", "native"), Task("ring", "normative", "faults", "native")
SMALL = [Task("lru", "normative", scope, "native") for scope in ("pins", "turns")]


def performed_here(monkeypatch: pytest.MonkeyPatch, tasks: list[Task], jobs: int) -> tuple[list[Task], list[Run]]:
    """The tasks that this process performs while others perform theirs or are done, and all runs as they end."""
    here: list[tuple[Task, int]] = []
    perform = campaign.perform

    def kept(task: Task, watch: object, effort: Effort, shared_by: int) -> Run:
        here.append((task, shared_by))
        return perform(task, None, effort, shared_by)

    monkeypatch.setattr(campaign, "perform", kept)
    monkeypatch.setattr(campaign, "ALONE_FROM", 1_400)
    runs = list(perform_all(tasks, Effort(jobs=jobs), lambda text: None))
    assert all(shared_by == jobs for _, shared_by in here)
    return [task for task, _ in here], runs


def test_the_largest_come_last_one_after_another_and_share_all_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    here, runs = performed_here(monkeypatch, [LARGE, SMALL[0], ALSO_LARGE, SMALL[1]], 2)

    assert here == [LARGE, ALSO_LARGE]
    assert [run.task for run in runs[2:]] == here
    assert {run.task for run in runs[:2]} == set(SMALL)
    assert all(run.judgement.status is ExitStatus.AS_EXPECTED for run in runs)


def test_there_may_be_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    here, runs = performed_here(monkeypatch, [LARGE, ALSO_LARGE], 2)

    assert here == [run.task for run in runs] == [LARGE, ALSO_LARGE]

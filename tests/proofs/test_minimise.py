"""The minimiser: what it leaves out, what it keeps, and how it ends."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cacheproof.foundation.minimise import Minimiser, descended

Numbers = tuple[int, ...]


def least(
    start: Numbers, shows: Callable[[Numbers], bool], seconds: float = 60.0, pairs: int = 0
) -> tuple[Minimiser[int, Numbers], bool]:
    """Numbers that stand for themselves are left out as long as the rest shows the finding."""
    minimiser = Minimiser[int, Numbers](
        start,
        lambda numbers: numbers,
        lambda numbers: numbers if shows(numbers) else None,
        lambda one, other: True,
        seconds=seconds,
        noun="numbers",
    )
    return minimiser, minimiser.minimise(lambda: minimiser.leave_out(pairs))


def test_only_what_is_needed_stays() -> None:
    minimiser, came_again = least(tuple(range(30)), lambda numbers: {3, 17, 29} <= set(numbers))
    assert (minimiser.best, came_again, minimiser.is_least) == ((3, 17, 29), True, True)


def test_two_that_need_one_another_are_left_out_together() -> None:
    def shows(numbers: Numbers) -> bool:
        return 5 in numbers and (2 in numbers) == (7 in numbers)

    assert least(tuple(range(9)), shows)[0].best == (2, 5, 7)
    assert least(tuple(range(9)), shows, pairs=40)[0].best == (5,)


def test_a_finding_that_does_not_come_again_is_kept_as_it_is() -> None:
    minimiser, came_again = least((1, 2), lambda numbers: False)
    assert (minimiser.best, came_again, minimiser.is_least) == ((1, 2), False, False)


def test_the_time_limit_and_an_interruption_end_it_with_what_is_known() -> None:
    minimiser, came_again = least((1, 2, 3), lambda numbers: True, seconds=-1.0)
    assert (minimiser.best, came_again, minimiser.is_least) == ((1, 2, 3), True, False)

    def interrupted(numbers: Numbers) -> bool:
        if len(numbers) < 3:
            raise KeyboardInterrupt
        return True

    minimiser, came_again = least((1, 2, 3), interrupted)
    assert (minimiser.best, came_again, minimiser.is_least) == ((1, 2, 3), True, False)


@pytest.mark.parametrize(("start", "end"), [(40, 5), (12, 1), (7, 7)])
def test_descent_starts_again_whenever_a_candidate_is_accepted(start: int, end: int) -> None:
    halved_or_third = descended(
        start, lambda number: (2, 3), lambda number, factor: None if number % factor else number // factor
    )
    assert halved_or_third == end

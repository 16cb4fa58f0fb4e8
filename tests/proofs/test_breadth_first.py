"""The breadth-first search: order, ways, and the limit of what is reached."""

from __future__ import annotations

from cacheproof.foundation.breadth_first import BreadthFirst

DOUBLED_OR_NEXT = {number: (2 * number, number + 1) for number in range(1, 100)}


def test_what_is_nearest_comes_first_with_a_shortest_way() -> None:
    search, order = BreadthFirst(1, "1"), []
    for number, _ in search:
        order.append(number)
        if number == 10:
            assert search.way() == ["1", "2", "4", "5", "10"]
            break
        for other in DOUBLED_OR_NEXT[number]:
            search.reach(other, str(other))
    assert order == [1, 2, 4, 3, 8, 5, 6, 16, 9, 10]


def test_each_key_is_reached_once_and_no_more_than_asked_for() -> None:
    search = BreadthFirst(1, None, most=3)
    assert [search.reach(key, None) for key in (1, 2, 2, 3, 4)] == [False, True, False, True, False]
    assert (len(search), [key for key, _ in search]) == (3, [1, 2, 3])

"""Maps and queues of large states: every version that is kept reads as plain containers do, in any order."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest

from cacheproof.search.native import build
from cacheproof.search.native.unit import FOLLOWING_HEADERS

pytestmark = pytest.mark.skipif(build.compiler_of_this_machine() is None, reason="there is no C++ compiler")

DRIVER = Path(__file__).with_name("versions.cpp").read_text("utf-8")
SIZES = ((400, 10, 3), (1500, 60, 5), (1500, 200, 12), (1500, 200, 2))
"""Steps, names, and versions that are kept: fewer elements than a sequence keeps, about as many, and more."""

FAULTS = (
    ("for (size_t j = (i + 1) & mask; marks[j]; j = (j + 1) & mask) {", "for (size_t j = i; false;) {"),
    ("if (((j - home) & mask) < ((j - i) & mask)) continue;", ""),
    ("if (marks[i] == mark && eq(slots[i].key, key)) return i;", "if (marks[i] == mark) return i;"),
    ("for (Int i = way.n; i-- > 0;) own->apply(way.p[i]->back);", ""),
    ("owner->back = moved->apply(next->back);", "moved->apply(next->back);"),
    ("owner->nearer = next;", ""),
    ("made->total = total + weight - Body::weight_in(undo);", "made->total = total + weight;"),
    ("return {nullptr, n + (undo.there ? 0 : 1), made};", "return {nullptr, n + 1, made};"),
    ("nodes[nodes[own].newer].older = nodes[own].older;", ""),
    ("undo.weight = node.weight;", ""),
    ("undo.in_front = node.older == 0;", ""),
    ("if (newest && eq(own.nodes[newest].key, key)) newest = own.nodes[newest].older;", ""),
    ("nodes[own].newer = unused;\n        unused = own;", "unused = own;"),
    ("if (newest) change.behind = own.nodes[newest].key;", ""),
    ("if (!excluded.has(own.nodes[i].key))", "if (excluded.has(own.nodes[i].key))"),
    ("if (many) order_freely(", "if (false) order_freely("),
    ("made.nodes = room<Node>(most);\n        copy_bytes(made.nodes, nodes, used);", ""),
    ("HashTable made;\n        made.make(mask + 1);", "HashTable made = *this;"),
)  # fmt: skip


def library(name: str) -> ctypes.CDLL:
    return ctypes.CDLL(str(build.ready(DRIVER, name, headers=FOLLOWING_HEADERS)))


def agrees(name: str) -> bool:
    driver = library(name)
    return all(driver.agree(seed, *size) for size in SIZES for seed in range(3))


@pytest.mark.usefixtures("alone")
def test_every_version_reads_as_plain_containers_do() -> None:
    assert agrees("right")


@pytest.mark.parametrize(("before", "after"), FAULTS)
def test_a_planted_fault_is_noticed(alone: Path, before: str, after: str) -> None:
    header = alone / "versions.hpp"
    text = header.read_text("utf-8")
    assert before in text
    header.write_text(text.replace(before, after, 1), "utf-8")
    code = f"""
import ctypes, sys
driver = ctypes.CDLL(sys.argv[1])
sys.exit(not all(driver.agree(seed, *size) for size in {SIZES} for seed in range(3)))
"""
    assert ended(code, str(build.ready(DRIVER, "planted", headers=FOLLOWING_HEADERS)))


def ended(code: str, *arguments: str) -> bool:
    """Whether a process ends in any way but well: a planted fault may crash, or never return."""
    try:
        return subprocess.run([sys.executable, "-c", code, *arguments], check=False, timeout=20).returncode != 0
    except subprocess.TimeoutExpired:
        return True


@pytest.mark.usefixtures("alone")
def test_growing_tuples_keep_what_they_had() -> None:
    driver = library("growing")
    assert all(driver.grow(seed, 300) for seed in range(10))


def test_room_that_is_taken_twice_is_noticed(alone: Path) -> None:
    header = alone / "runtime.hpp"
    text = header.read_text("utf-8")
    before = "room = most;\n        p = nullptr;"
    assert before in text
    header.write_text(text.replace(before, "room = most;"), "utf-8")
    driver = library("twice")
    assert not all(driver.grow(seed, 300) for seed in range(10))

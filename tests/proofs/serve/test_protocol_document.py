"""The conversations in the document are those that the oracle has."""

import json
import re
from pathlib import Path

import pytest

from cacheproof.model.protocol import DEEPEST, LONGEST_LINE_BYTES, VERSION, Fault
from cacheproof.model.registry import components
from cacheproof.model.serve import Oracle
from cacheproof.model.target import Failure

DOCUMENT = Path(__file__).parents[3] / "docs" / "formats" / "protocol.md"
TEXT = DOCUMENT.read_text(encoding="utf-8")
CONVERSATIONS = re.findall(r"```conversation\n(.*?)```", TEXT, flags=re.DOTALL)


def test_there_are_conversations() -> None:
    assert len(CONVERSATIONS) == 3


@pytest.mark.parametrize("conversation", CONVERSATIONS)
def test_conversation(conversation: str) -> None:
    oracle, answer = Oracle(), None
    for line in conversation.splitlines():
        if line.startswith("> "):
            answer = oracle.answer(line[2:].encode())
        else:
            expected = json.loads(line[2:])
            if "components" in expected:
                expected["components"] = sorted(components())
            assert answer == expected


def test_figures_and_codes_of_the_document_are_those_of_the_code() -> None:
    assert f"version {VERSION}" in TEXT
    assert LONGEST_LINE_BYTES == 1 << 20
    assert f"at most {DEEPEST} deep" in TEXT
    failures = TEXT.partition("## A child process")[2].partition("## Codes")[0]
    assert re.findall(r"^\| `(\w+)` \|", failures, re.MULTILINE)[1:] == [failure.value for failure in Failure]
    refused = TEXT.partition("## Refused messages")[2].partition("```")[0]
    assert re.findall(r"^\| `(\w+)` \|", refused, re.MULTILINE)[1:] == [fault.value for fault in Fault]

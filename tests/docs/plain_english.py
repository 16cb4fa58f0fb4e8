"""The texts that a user reads, cut into sentences, and the patterns that make a sentence hard to read.

The rules are in CONTRIBUTING.md: subject first, an active verb, one claim a sentence, nouns of the field.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, get_type_hints

from cacheproof.command.frame import FUNCTION, described, verbs
from cacheproof.model.registry import components

ROOT = Path(__file__).parents[2]
LONGEST_SENTENCE_WORDS = 45

PATTERNS = {
    "a person for a program": r"\b(?:nobody|somebody|anybody|everybody|whoever|whosoever|whom)\b",
    "who": r"^who\b|\b(?!(?:people|users?|readers?|authors?|maintainers?|newcomers?) who)\w+,? who\b",
    "a clause as subject": (
        r"^(?:(?:and|but|so|then),? )?what(?:ever)? "
        r"(?:is|are|was|were|has|had|can|cannot|must|may|does|did|goes|comes|holds|it|a|an|the|no|each)\b[^?]*$"
    ),
    "a clause for a noun": r"\b(?:is|are|was|were|as|than|of|with|from|for|like) what\b",
    "where for if": (
        r"\bwhere (?:there (?:is|are|was|were)|nothing|none|no|one|it (?:has|can|does)|that (?:is|was))\b"
    ),
    "a number behind its noun": r"\bso many\b|\bas many as (?:may|can)\b|\bat the (?:most|least)\b",
    "an idiom": (
        r"\b(?:fall|falls|fell|falling) short\b|\b(?:came|comes|coming|come) to (?:be|know|see|that|this|it|the era)\b"
        r"|\bcome to[.,;:]|\bthe other way round\b|\bto be had\b|\ball there is\b|\bwhat there is\b|\bwhich is to say\b"
        r"|\bnot there yet\b|\bfor want of\b|\bgone wrong\b|\bby way of\b"
    ),
    "a word of speech": r"\b(?:is|are|was|were) (?:told|said|spoken) (?:of|by|how|where|what|to be)\b",
    "a thing": r"\bthings?\b",
}


LISTED = re.compile(r"code in code \(\d+\)")
"""A scope and the length of a trace in it, of which a table lists many."""


class Text(NamedTuple):
    """A sentence, heading or cell of a table, and where it stands."""

    where: str
    sentence: str


def unclear(sentence: str) -> list[str]:
    """The patterns that a sentence shows, by name; its length is one of them."""
    shown = [name for name, pattern in PATTERNS.items() if re.search(pattern, sentence, re.IGNORECASE)]
    counted = LISTED.sub("", sentence)
    long = len(re.findall(r"(?!code\b)\w[\w'/.-]*", counted)) > LONGEST_SENTENCE_WORDS
    return [*shown, "more than 45 words"] if long else shown


# Pages --------------------------------------------------------------------------------------------------------------

FENCE = re.compile(r"^(?P<fence>`{3,}).*?^(?P=fence)$", re.MULTILINE | re.DOTALL)
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
QUOTATION = re.compile(r"\"[^\"\n]*\"|“[^”]*”")
LINK = re.compile(r"!?\[(?P<shown>[^\]]*)\]\([^)]*\)")
TRACE = re.compile(r"C-\w+-\d+ in code, .* scope code ")
"""The line above a diagram: mostly the configuration, and a statement that is looked at by itself."""
HEADER_ENDS = re.compile(r"\|[ :|-]+$")
ITEM = re.compile(r"^\s*(?:[-*]|\d+\.) ")


def prose(markdown: str) -> Iterator[str]:
    """The paragraphs, headings, items and cells of a page, without code, comments, quotations and links."""
    text = COMMENT.sub("", FENCE.sub("", markdown))
    paragraph: list[str] = []
    lines = [*text.splitlines(), ""]
    for line, below in zip(lines, [*lines[1:], ""], strict=True):
        ends = not line.strip() or line.startswith(("#", "|", ">", "    ", "!", "<")) or ITEM.match(line)
        if ends and paragraph:
            yield " ".join(paragraph)
            paragraph = []
        if line.startswith("|") and not HEADER_ENDS.match(below):
            yield from (cell.strip() for cell in line.strip("|").split("|"))
        elif line.startswith("#"):
            yield line.lstrip("# ")
        elif not line.startswith(("|", ">", "    ", "!", "<")) and line.strip():
            paragraph.append(ITEM.sub("", line).strip())


def sentences(paragraph: str) -> Iterator[str]:
    """Sentences end with a full stop, a question or exclamation mark, or a semicolon or a colon between two clauses."""
    plain = LINK.sub(lambda link: link["shown"], paragraph)
    plain = QUOTATION.sub("quotation", re.sub(r"`+[^`]*`+", "code", plain)).replace("*", "")
    yield from (part for part in re.split(r"(?<=[.!?:;])\s+(?=[A-Z(\d]|code\b)", plain) if not TRACE.match(part))


def of_page(page: Path) -> Iterator[Text]:
    """The sentences of one page."""
    for paragraph in prose(page.read_text(encoding="utf-8")):
        yield from (Text(str(page.relative_to(ROOT)), sentence) for sentence in sentences(paragraph))


# Help and statements ------------------------------------------------------------------------------------------------


def of_verb(verb: str) -> Iterator[Text]:
    """The help of a verb and of its options."""
    module = verbs()[verb]
    function = getattr(importlib.import_module(module), FUNCTION)
    texts = {verb: described(module).summary}
    for parameter, hint in get_type_hints(function, include_extras=True).items():
        for note in getattr(hint, "__metadata__", ()):
            if getattr(note, "help", None):
                texts[f"{verb} --{parameter}"] = inspect.cleandoc(note.help)
    for where, text in texts.items():
        yield from (Text(where, sentence) for part in prose(text) for sentence in sentences(part))


def of_component(name: str) -> Iterator[Text]:
    """The statements of a component's properties."""
    for prop in components()[name].properties():
        yield from (Text(prop.name, sentence) for sentence in sentences(prop.statement))

"""The text of a script: what a maintainer wants to know first, a prelude, the calls, and what they show."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

from cacheproof.releases.results.record import Violation
from cacheproof.releases.results.scripts.case import Case, Setting
from cacheproof.releases.results.scripts.writer import Lines, NotWrittenError, Observation, Writer, prelude, writer_of
from cacheproof.releases.results.wording import BROKEN, explanation, known_as, reach_with_faults

WIDTH = 110
INDENT = "    "
ENDED_OTHERWISE = {"failed": "an error", "diverged": "does not return"}
"""What the answer of a call that returned nothing is recorded as."""


def named(violations: Sequence[Violation]) -> None:
    """Give each the name of its script within the folder of its release: no two have the same."""
    taken: set[str] = set()
    for violation in violations:
        parts = [violation.component, violation.variant, violation.property.replace("/", "-").replace("@", "-")]
        known = "-".join((*parts, *violation.catalogue[:1]))
        names = (f"{known}.py", *(f"{known}-{number}.py" for number in range(2, 1000)))
        violation.script = next(name for name in names if name not in taken)
        taken.add(violation.script)


def script_of(violation: Violation) -> str:
    """The whole text. Raises NotWrittenError where none can be written."""
    writer = writer_of(violation.component)
    if writer is None:
        raise NotWrittenError(f"nobody has said how a script makes the calls of {violation.component}")
    case = Case.of(violation)
    return composed(
        writer,
        case,
        _docstring(writer, violation),
        [*writer.setup(case), "", *_calls(writer, case)],
        constants=[f"STATEMENT = {violation.statement!r}"],
    )


def composed(writer: Writer, setting: Setting, docstring: Lines, body: Lines, *, constants: Sequence[str] = ()) -> str:
    """A script for a release; `body` is that of `reproduce`, and `constants` stand before it.

    The body makes its calls by `call`, which prints them, and returns whether it was seen, and in a line what was seen.
    """
    before = [prelude("common"), *map(prelude, writer.preludes(setting)), *constants]
    return "\n".join(
        [
            *docstring,
            "",
            "import signal",
            "import sys",
            "import traceback",
            "",
            "try:",
            *_indented(writer.imports(setting)),
            "except ImportError as error:",
            f'{INDENT}print(f"CANNOT RUN: {{error}}")',
            f"{INDENT}sys.exit(2)",
            "",
            "\n\n\n".join(before),
            "",
            "",
            "def reproduce():",
            *_indented(body),
            "",
            "",
            prelude("ending"),
            "",
        ]
    )


def _calls(writer: Writer, case: Case) -> Iterator[str]:
    seen = writer.observations.get(case.violation.property)
    observation = (seen(case) if seen is not None else None) or _as_recorded(writer, case)
    for place, message in enumerate(case.violation.operations):
        if place == len(case.violation.operations) - 1:
            yield from observation.before
        yield from writer.lines(case, message)
    if not case.violation.operations:
        yield from observation.before
    yield ""
    yield from observation.after


def _as_recorded(writer: Writer, case: Case) -> Observation:
    """Where nobody has said how to see the property on the release's objects: the release does what was recorded."""
    answers: list[str | None] = []
    for message, outcome in case.calls:
        if any("call(" in line for line in writer.lines(case, message)):
            failed = outcome["code"] in ENDED_OTHERWISE
            answers.append(ENDED_OTHERWISE[outcome["code"]] if failed else writer.answer(case, message, outcome))
    expression, shown = writer.state(case)
    return Observation(
        [
            "# what breaks the property is the whole of what the calls answer and leave; None: it does not matter",
            f"recorded = {answers!r}",
            "same = all(is_as(known, answer) for known, answer in zip(recorded, ANSWERS, strict=True))",
            f"left = {expression}",
            f"same = same and left == {shown!r}",
            *_round_again(writer, case, expression),
            'what = f"{ANSWERS[-1:]} at the end, after which {left}; this has to hold: " + STATEMENT',
            "return same, what",
        ]
    )


def _round_again(writer: Writer, case: Case, expression: str) -> Iterator[str]:
    """The steps that come round for ever, twice: they leave everything as it was."""
    if not case.violation.cycle:
        return
    yield ""
    yield "# the same steps come round, and leave what they found"
    yield "for _ in range(2):"
    for message in case.violation.cycle:
        yield from _indented(writer.lines(case, message))
    yield f"    same = same and {expression} == left"


def _docstring(writer: Writer, violation: Violation) -> Lines:
    entry = explanation(violation)
    title = entry.title if entry is not None else f"{violation.property} is broken: {violation.statement}"
    release = violation.target + (f" with {violation.first}" if violation.first else "")
    told = [
        ("Release", release),
        ("Code", writer.subject),
        ("Property", f"{violation.property}: {violation.statement}; {BROKEN}"),
        *([("What happens", entry.what)] if entry is not None else []),
        ("Reach", reach_with_faults(violation)),
        ("Known as", known_as(violation)),
    ]
    return docstring_of(f"{violation.target}: {title}", told, needs=release)


def docstring_of(title: str, told: Sequence[tuple[str, str]], *, needs: str) -> Lines:
    """What a maintainer asks first, and at the end what every script of this release tells of itself."""
    ending = [
        ("Needs", f"Python with {needs} and what that imports, no accelerator; nothing else is imported"),
        ("Ends with", "1 where the violation is seen, 0 where it is not, 2 where the script cannot run"),
    ]
    lines = [f'"""{_plain(title)}.'.replace("..", "."), ""]
    for name, text in (*told, *ending):
        lines += textwrap.wrap(f"{name}: {_plain(text)}", WIDTH, subsequent_indent="  ", break_long_words=False)
    return [*lines, '"""']


def _plain(text: str) -> str:
    """As it can stand in a docstring."""
    return " ".join(text.split()).replace("\\", "/").replace('"""', "'''").rstrip()


def _indented(lines: Sequence[str]) -> Lines:
    return [f"{INDENT}{line}" if line else "" for line in lines]

"""Whatever bytes a log is made of: a verdict, or one line that says what is wrong with it."""

from __future__ import annotations

import gzip
import io
import json
import random
import tracemalloc
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from tests.proofs.validate.logs import Message, header_for, log_of, validated, walked

from cacheproof.foundation.errors import InputError
from cacheproof.logs.validate import source
from cacheproof.logs.validate.header import Header
from cacheproof.logs.validate.run import Validation
from cacheproof.logs.validate.source import LONGEST_LINE_BYTES, Source, TruncatedError, open_source
from cacheproof.logs.validate.verdict import Sort
from cacheproof.logs.validate.writing import log_written
from cacheproof.model.wire import operation_from_message, outcome_from_message

LRU = {"capacity": 2, "sizes": [1, 1, 1]}
GET = b'{"operation": {"op": "get", "key": 0}, "outcome": {"code": "miss"}}\n'


def header_line(**changes: Any) -> bytes:
    message = {**header_for("lru", config=LRU).as_message(), **changes}
    return json.dumps({key: value for key, value in message.items() if value is not None}).encode() + b"\n"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"\n", "not JSON"),
        (b"7\n", "a message is an object, not 7"),
        (b"\xff\xfe\n", "not UTF-8 at byte 0"),
        (b"[" * 100_000 + b"\n", "nested too deep"),
        (b'{"operation": ' * 100_000 + b"\n", "nested too deep"),
        (GET.replace(b"0", b"0.0"), "numbers are integers, not 0.0"),
        (GET.replace(b"0", b"NaN"), "numbers are integers, not NaN"),
        (GET.replace(b"0", b"9" * 500), "integers have 64 bits"),
        (GET.replace(b"0", b"true"), "key must be an integer, not True"),
        (GET.replace(b"0", b"[0]"), r"key must be an integer, not \[0\]"),
        (GET.replace(b"0", b"-1"), "key must not be negative, as -1 is"),
        (GET.replace(b"0", b"3"), "key names key 3, which the configuration does not have"),
        (GET.replace(b'"key": 0', b'"key": 0, "key": 1'), "the key 'key' occurs twice"),
        (GET.replace(b'"key"', b'"kye"'), "get has no 'kye': it takes key"),
        (GET.replace(b"get", b"fetch"), "unknown operation 'fetch': there are"),
        (GET.replace(b'"get"', b"[]"), "unknown operation"),
        (GET.replace(b'"miss"', b"[]"), "unknown code"),
        (GET.replace(b"miss", b"missed"), "unknown code 'missed': there are done, hit"),
        (GET.replace(b'"outcome"', b'"outcame"'), "a line has no 'outcame'"),
        (GET.replace(b'"code": "miss"', b'"kode": 1'), "an outcome has 'code' and 'values', and no 'kode'"),
        (GET.replace(b'"code": "miss"', b'"values": 1'), "values must be an array of integers, not 1"),
        (b'{"outcome": {"code": "miss"}}\n', "an 'outcome' needs the 'operation'"),
        (b'{"operation": {"key": 1}}\n', "an operation of which 'op' is not known has no operands"),
        (b'{"observations": {"odrer": []}}\n', "lru has no observable 'odrer': there are order"),
        (b'{"observations": {"order": {}}}\n', "order must be an integer or an array of integers"),
        (b'{"observations": []}\n', "observations must be an object"),
        (b'{"source": 1}\n', "'source' must be a string"),
        (b'{"end": {"lines": 5}}\n', "the end record counts 5 lines, and there are 1"),
        (b'{"end": {"lines": true}}\n', "must be an integer, not True"),
        (b'{"end": {}, "operation": null}\n', "the end record has 'end' alone"),
        (b'{"end": {}}\n' + GET, "line 4: there is a line after the end record"),
    ],
)
def test_a_bad_line_is_named(line: bytes, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        validated(header_line() + GET + line)
    assert str(raised.value).startswith(("log, line 3: ", "log, line 4: "))
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 500


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"format": "cacheproof-trace"}, "must be the header of a log"),
        ({"version": "0.2"}, "cacheproof-log 0.1, not"),
        ({"component": None}, "the header needs 'component'"),
        ({"component": "lur"}, "unknown component 'lur'"),
        ({"variant": "M9"}, "lru has no variant 'M9'"),
        ({"config": None}, "needs 'config', an object"),
        ({"config": {"capacity": 0, "sizes": [1]}}, "capacity must be positive"),
        ({"updates": ["odrer"]}, "lru has no observable 'odrer'"),
        ({"updates": "order"}, "'updates' must be an array of strings"),
        ({"initial": {"odrer": 1}}, "lru has no observable 'odrer'"),
        ({"unlogged": {"operations": ["fetch"]}}, "'unlogged' names the operation 'fetch'"),
        ({"unlogged": {"operations": ["get"], "most": 99}}, "must be an integer from 1 to 16, not 99"),
        ({"unlogged": ["get"]}, "'unlogged' must be an object"),
        ({"end": ["md5"]}, "'end' promises 'md5'"),
        ({"more": 1}, "the header has no 'more'"),
        ({"unlogged": {"operations": ["[" * 9999]}}, r"operation '\[{100,300}\.\.\.: there are"),
        ({"unlogged": {"operations": ["get"], "most": [0] * 9999}}, r"from 1 to 16, not \[0[ ,0]{100,300}\.\.\."),
        ({"end": ["m" * 9999]}, "'end' promises 'm{100,300}[.]{3}: an end"),
    ],
)
def test_a_bad_header_is_named(changes: Message, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        validated(header_line(**changes) + GET)
    assert str(raised.value).startswith("log, line 1: ")


def test_what_the_command_line_says_comes_first() -> None:
    assert validated(header_line(component=None) + GET, component="lru").sort is Sort.POSSIBLE
    with pytest.raises(InputError, match="this is a log of lru, not of mirror"):
        validated(header_line() + GET, component="mirror")
    held = validated(header_line() + GET, variant="M2").header
    assert held is not None
    assert held.variant.tag == "M2"


def test_a_log_that_breaks_off_is_refused() -> None:
    whole = header_line(end=["lines"]) + GET + GET
    with pytest.raises(TruncatedError, match="truncated after line 3: the end record that the header promises"):
        validated(whole)
    with pytest.raises(TruncatedError, match="truncated after line 3: the last line does not end with a newline"):
        validated(whole + b'{"end": {"lines": 2}}')
    assert validated(whole + b'{"end": {"lines": 2}}\n').sort is Sort.POSSIBLE
    for cut in range(1, len(whole)):
        with pytest.raises(TruncatedError):
            validated(whole[:-cut])
    taken = validated(whole[:-3], unfinished=True)
    assert (taken.sort, taken.consumed) == (Sort.POSSIBLE, 1)
    with pytest.raises(TruncatedError, match="there is no whole line"):
        validated(b"", unfinished=True)


def test_an_end_record_says_what_was_promised() -> None:
    lines = header_line(end=["lines", "sha256"]) + GET
    digest = sha256(lines).hexdigest()
    right = b'{"end": {"lines": 1, "sha256": "%s"}}\n' % digest.encode()
    for chunk in (1, 7, 64, 4096):
        assert validated(lines + right, chunk).sort is Sort.POSSIBLE
    with pytest.raises(InputError, match="not those of which it has the digest"):
        validated(lines.replace(b'": 0}', b'": 1}') + right)
    with pytest.raises(InputError, match="promises 'sha256' in the end record, and it is not there"):
        validated(lines + b'{"end": {"lines": 1}}\n')


def test_a_compressed_log(tmp_path: Path) -> None:
    header = header_for("lru", config=LRU, promises=("lines", "sha256"))
    path = tmp_path / "run.ndjson.gz"
    with log_written(path, header) as log:
        for line in walked(header, 50, 3, observed=False):
            log.line(
                operation_from_message(header.component.operations, line["operation"]),
                outcome_from_message(line["outcome"]),
            )
    validation = Validation(open_source(path))
    validation.run()
    assert (validation.sort, validation.consumed) == (Sort.POSSIBLE, 50)
    packed = path.read_bytes()
    assert gzip.decompress(packed).startswith(b'{"format"')
    for cut in (1, 8, 20, len(packed) // 2):
        with pytest.raises(InputError):
            validated(packed[:-cut])
    with pytest.raises(InputError, match="truncated"):
        validated(packed[:-12] + b"\0" * 12)
    assert 0 < validated(packed[:-12], 64, unfinished=True).consumed <= 50


def test_a_line_that_is_too_long_is_refused_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "LONGEST_LINE_BYTES", 5_000)

    class Endless(io.RawIOBase):
        """Never ends, and counts what was taken."""

        taken = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            self.taken += len(buffer)
            buffer[:] = b" " * len(buffer)
            return len(buffer)

    endless = Endless()
    with pytest.raises(InputError, match="a line has at most 5,000 bytes"):
        Validation(Source("log", endless, None, 1_000).decompress()).run()  # type: ignore[arg-type]  # it reads bytes
    assert endless.taken < 20_000
    assert LONGEST_LINE_BYTES == 16 << 20
    with pytest.raises(InputError, match="at most 5,000 bytes"):
        validated(header_line() + b" " * 6_000 + b"\n", 20_000)


def noisy(raw: bytes, chosen: random.Random) -> bytes:
    """The log with some bytes changed, taken away, doubled, or put in; or a digit, which may leave it a log."""
    changed = bytearray(raw)
    if chosen.random() < 0.3:
        digits = [place for place, byte in enumerate(changed) if chr(byte).isdigit()]
        changed[chosen.choice(digits)] = chosen.choice(b"0123456789")
        return bytes(changed)
    for _ in range(chosen.randint(1, 4)):
        place = chosen.randrange(len(changed))
        sort = chosen.randrange(4)
        if sort == 0:
            changed[place] = chosen.randrange(256)
        elif sort == 1:
            del changed[place : place + chosen.randint(1, 30)]
        elif sort == 2:
            changed[place:place] = changed[place : place + chosen.randint(1, 30)]
        else:
            changed[place:place] = chosen.choice([b"null", b"[", b'{"', b"NaN", b"-", b"1e9", b"\n", b'"op":'])
    return bytes(changed)


@pytest.mark.parametrize("name", ["lru", "kv_blocks", "mirror"])
def test_random_changes_of_bytes_give_a_verdict_or_one_line(name: str) -> None:
    header = header_for(name)
    first, *lines = log_of(header, walked(header, 12, 1)).splitlines(keepends=True)
    outcomes = set()
    for seed in range(250):
        chosen = random.Random(seed)
        raw = first + noisy(b"".join(lines), chosen)
        try:
            outcomes.add(validated(raw, chosen.choice([5, 100, 4096])).sort.value)
        except InputError as error:
            outcomes.add("refused" if "\n" not in str(error) else "said on several lines")
    assert "said on several lines" not in outcomes
    assert outcomes >= {"impossible", "refused"}


def test_random_bytes_are_no_log() -> None:
    for seed in range(200):
        with pytest.raises(InputError):
            validated(random.Random(seed).randbytes(200) + b"\n")


def memory_for(header: Header, lines: list[Message], times: int) -> int:
    """The most bytes that were held at once."""
    raw = log_of(header, lines * times)
    tracemalloc.start()
    try:
        assert validated(raw, 16_384).sort is Sort.POSSIBLE
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_log() -> None:
    """The same calls again and again, at speed and with observables."""
    header = header_for("lru", config=LRU)
    calls: list[Message] = [{"operation": {"op": "put", "key": 0, "size": 1}, "outcome": {"code": "done"}}]
    memory_for(header, calls, 500)  # what is made once
    assert memory_for(header, calls, 8_000) < 1.2 * memory_for(header, calls, 2_000) + 50_000
    shown = [*calls, {"observations": {"order": [0]}}]
    assert memory_for(header, shown, 2_000) < 1.2 * memory_for(header, shown, 500) + 50_000

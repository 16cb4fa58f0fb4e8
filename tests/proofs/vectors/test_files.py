"""Files of vectors are what their names say, or are refused with a line that says what is wrong."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.model.wire import config_to_message
from cacheproof.vectors.files import RELEASED, found, read, speaks_of, write
from cacheproof.vectors.vector import MOST_INTEGERS, all_shown, content_of, digest_of, is_shown, name_of

SMALL = next(RELEASED.glob("shared_prefix.two-items.exploration.*"))
LINES = SMALL.read_bytes().splitlines()


def named(folder: Path, content: bytes, ending: str = "") -> Path:
    """A file with this content and the name that belongs to it."""
    path = folder / (name_of("shared_prefix.x.exploration", content) + ending)
    path.write_bytes(gzip.compress(content) if ending else content)
    return path


def changed(change: Callable[[dict[str, Any]], Any], line: int = 0) -> bytes:
    """The file with one line changed."""
    lines = [json.loads(one) for one in LINES]
    change(lines[line])
    return "".join(json.dumps(one) + "\n" for one in lines).encode()


def test_what_is_written_is_read(tmp_path: Path) -> None:
    for path in RELEASED.glob("*.refusals.*"):
        one = read(path)
        assert name_of(one.stem, content_of(one, config_to_message(one.config))) == path.name
    again = write(tmp_path, [read(SMALL)])
    assert [path.name for path in again] == [SMALL.name]
    assert again[0].read_bytes() == SMALL.read_bytes()


def test_packed_files_are_read(tmp_path: Path) -> None:
    packed = named(tmp_path, SMALL.read_bytes(), ".gz")
    assert read(packed) == read(SMALL)
    assert found([str(tmp_path)]) == [packed]
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(InputError, match="cannot be read"):
        read(packed)


def test_a_set_that_is_filled_anew_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    old = tmp_path / f"{read(SMALL).stem}.0123456789abcdef.ndjson"
    other = tmp_path / "shared_prefix.two-items.fuzzing.0123456789abcdef.ndjson"
    old.touch()
    other.touch()
    write(tmp_path, [read(SMALL)])
    assert {path.name for path in tmp_path.iterdir()} == {SMALL.name, other.name}


@pytest.mark.parametrize(
    ("change", "line", "said"),
    [
        (lambda header: header.update(format="x"), 0, "line 1: not a file of vectors"),
        (lambda header: header.update(version="2.0"), 0, "line 1: version '2.0'"),
        (lambda header: header.update(version=None), 0, "line 1: version None"),
        (lambda header: header.update(spec="9.0"), 0, "line 1: the answers are those of specification '9.0'"),
        (lambda header: header.update(component="no-such"), 0, "line 1: unknown component"),
        (lambda header: header.update(component=[]), 0, "line 1: component must be a string"),
        (lambda header: header.update(variant="K9"), 0, "line 1: shared_prefix has no variant"),
        (lambda header: header.update(origin="luck"), 0, "line 1: origin must be one of"),
        (lambda header: header.update(features=["shared_prefix/operation/fly"]), 0, "has no operation 'fly'"),
        (lambda header: header.update(features=3), 0, "line 1: features must be an array of strings"),
        (lambda header: header.update(config={"depth": 1}), 0, "line 1: the configuration of shared_prefix"),
        (lambda header: header.update(config=[]), 0, "line 1: config must be an object"),
        (lambda header: header.update(initial={"free": "five"}), 0, "line 1: free must be"),
        (lambda header: header.update(deviations={"C-X-1": {}}), 0, "line 1: deviations: C-X-1 must be an array"),
        (lambda header: header.update(deviations={"C-X-1": [{"free": "x"}]}), 0, "line 1: free must be"),
        (lambda header: header.update(cases=3), 0, "line 1: cases is 3, and there are"),
        (lambda case: case.update(case=7), 2, "line 3: case must be 2, not 7"),
        (lambda case: case.update(steps=[]), 2, "line 3: steps must be"),
        (lambda case: case.update(steps=[3]), 2, "line 3: a step must be an object"),
        (lambda case: case["steps"][0].update(call={"op": "fly"}), 2, "line 3: unknown operation 'fly'"),
        (lambda case: case["steps"][0].update(outcome={"code": "fine"}), 2, "line 3: unknown code 'fine'"),
        (lambda case: case["steps"][0].pop("outcome"), 2, "line 3: outcome must be an object"),
        (lambda case: case["steps"][0].update(changed={"free": None}), 2, "line 3: observation: free must be"),
        (lambda case: case["steps"][0].update(deviations={"C-X-1": {}}), 2, "C-X-1 must be an array"),
        (lambda case: case["steps"][0].update(refused={}, error="bad"), 2, "line 3: error must be one of"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(
    tmp_path: Path, change: Callable[[dict[str, Any]], Any], line: int, said: str
) -> None:
    with pytest.raises(InputError) as error:
        read(named(tmp_path, changed(change, line)))
    assert said in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b"[]\n", b"\xff\n", LINES[0] + b"\n" + b"{" * 90_000 + b"\n"])
def test_rubbish_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(InputError):
        read(named(tmp_path, content))


def test_a_file_that_was_changed_or_cut_off_is_refused(tmp_path: Path) -> None:
    for content in (SMALL.read_bytes()[:-9], SMALL.read_bytes().replace(b"done", b"miss", 1)):
        path = tmp_path / SMALL.name
        path.write_bytes(content)
        with pytest.raises(InputError, match="its content is not what its name says"):
            read(path)
    with pytest.raises(InputError, match="the last line has no end"):
        read(named(tmp_path, SMALL.read_bytes()[:-1]))
    with pytest.raises(InputError, match="the file was cut off"):
        read(named(tmp_path, b"".join(line + b"\n" for line in LINES[:-1])))
    other = tmp_path / "vectors.txt"
    other.write_bytes(SMALL.read_bytes())
    with pytest.raises(InputError, match="a file of vectors is named"):
        read(other)


def test_places(tmp_path: Path) -> None:
    assert found(["shared_prefix"]) == sorted(RELEASED.glob("shared_prefix.*"))
    assert found([str(SMALL)]) == [SMALL]
    with pytest.raises(InputError, match="unknown component 'no-such'"):
        found(["no-such"])
    with pytest.raises(InputError, match="no file of vectors is in it"):
        found([str(tmp_path)])
    with pytest.raises(InputError, match="there is no such file or folder"):
        found([str(tmp_path / "gone.ndjson")])


def test_long_observables_are_there_as_digests() -> None:
    long = tuple(range(MOST_INTEGERS + 1))
    digest = "sha256:" + hashlib.sha256(",".join(str(number) for number in long).encode()).hexdigest()[:16]
    assert all_shown({"long": long, "short": long[1:], "number": 3}) == {"long": digest, "short": long[1:], "number": 3}
    assert digest_of(long) == digest
    assert is_shown(digest, long)
    assert not is_shown(digest, long[::-1])
    assert not is_shown(digest, 3)
    assert is_shown(3, 3)
    assert not is_shown((3,), 3)


@pytest.mark.parametrize(
    ("spec", "ours", "fits"),
    [("0.1", "0.1", True), ("0.1", "0.2", False), ("1.0", "1.4", True), ("1.4", "1.0", True), ("2.0", "1.0", False)],
)
def test_which_versions_of_the_specification_have_the_same_answers(spec: str, ours: str, fits: bool) -> None:
    assert speaks_of(spec, ours) is fits

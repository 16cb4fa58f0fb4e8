"""Reading traces: the orders of POPE, which reader takes a file, and what is said of a file that is wrong."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.replay.options import Option, number, pairs, read_options
from cacheproof.replay.readers import read, reader_for, readers
from cacheproof.replay.shipped import DATA

POPE = DATA / "pope_coco_slice.jsonl.gz"
OTHER_POPE = DATA / "pope_aokvqa_slice.jsonl.gz"
SERVEGEN = DATA / "servegen_clients_slice.jsonl.gz"

QUESTION = {"split": "random", "question_id": 1, "image": "a.jpg", "text": "?", "label": "yes"}
CLIENT = {
    "client": 7,
    "windows": ["0,0.5,1.0,Gamma,1.0,2.0\r", "600,0,0,,0,0"],
    "dataset": {"0": {"image_count": "{1: 0.5, 2: 0.5}", "image_tokens": "{10: 1.0}"}},
}


def written(folder: Path, *rows: Any, name: str = "trace.jsonl") -> Path:
    """A file of these rows; a text is a row as it is."""
    path = folder / name
    path.write_text("".join((row if isinstance(row, str) else json.dumps(row)) + "\n" for row in rows))
    return path


def complaint(path: Path, **options: str) -> str:
    """What is said of the file, in one line that names it."""
    with pytest.raises(InputError) as error:
        read([path], options)
    said = str(error.value)
    assert said.startswith(str(path))
    assert "\n" not in said
    return said.removeprefix(str(path))


# POPE ---------------------------------------------------------------------------------------------------------------


def rows(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt") as file:
        return [json.loads(line) for line in file]


def images(path: Path, **options: str) -> list[str]:
    """The images in the order of the workload, by way of the lines where they were read."""
    recorded = rows(path)
    return [recorded[arrival.line - 1]["image"] for arrival in read([path], options).arrivals]


def test_file_order_is_the_order_of_the_lines() -> None:
    assert [arrival.line for arrival in read([POPE], {}).arrivals] == list(range(1, 541))


def test_round_robin_takes_one_question_of_each_split_in_turn() -> None:
    recorded = rows(POPE)
    lines = [arrival.line for arrival in read([POPE], {"order": "round-robin"}).arrivals]
    assert sorted(lines) == list(range(1, 541))
    assert [recorded[line - 1]["split"] for line in lines[:6]] == ["random", "popular", "adversarial"] * 2
    assert [recorded[line - 1]["question_id"] for line in lines[:6]] == [1, 1, 1, 2, 2, 2]


def test_shuffled_is_the_shuffle_of_the_standard_library() -> None:
    expected = [row["image"] for row in rows(POPE)]
    random.Random(0).shuffle(expected)
    assert images(POPE, order="shuffled") == expected
    assert images(POPE, order="shuffled", seed="1") != expected


def test_a_seed_is_named_only_where_something_was_drawn() -> None:
    assert read([POPE], {}).seed is None
    assert read([POPE], {"order": "shuffled", "seed": "5"}).seed == 5


def test_an_image_is_one_content_of_one_slot_wherever_it_occurs() -> None:
    workload = read([POPE], {})
    assert workload.sizes == (1,) * 30
    assert [arrival.contents for arrival in workload.arrivals[:7]] == [(0,)] * 6 + [(1,)]
    assert workload.references == 540


def test_sets_follow_one_another_and_share_the_images_that_they_have_in_common(tmp_path: Path) -> None:
    first = written(tmp_path, QUESTION, {**QUESTION, "image": "b.jpg"}, name="one.jsonl")
    second = written(tmp_path, {**QUESTION, "image": "c.jpg"}, QUESTION, name="two.jsonl")
    workload = read([first, second], {})
    assert [arrival.contents for arrival in workload.arrivals] == [(0,), (1,), (2,), (0,)]
    assert [(arrival.path, arrival.line) for arrival in workload.arrivals[1:3]] == [(first, 2), (second, 1)]


def test_each_set_is_shuffled_by_itself() -> None:
    both = read([POPE, OTHER_POPE], {"order": "shuffled"}).arrivals
    assert {arrival.path for arrival in both[:540]} == {POPE}
    assert [arrival.line for arrival in both[540:]] == [
        arrival.line for arrival in read([OTHER_POPE], {"order": "shuffled"}).arrivals
    ]


# Which reader, which options ----------------------------------------------------------------------------------------


def test_readers_are_found_by_scanning() -> None:
    assert {"pope", "servegen"} <= set(readers())


def test_a_file_is_recognised_by_its_content(tmp_path: Path) -> None:
    assert reader_for(written(tmp_path, QUESTION, name="anything.txt")).name == "pope"
    assert reader_for(written(tmp_path, CLIENT, name="pope.jsonl")).name == "servegen"


def test_a_file_that_is_no_trace_is_refused(tmp_path: Path) -> None:
    said = complaint(written(tmp_path, {"something": "else"}))
    assert said.startswith(", line 1: not a known sort of trace")
    assert "pope" in said
    assert "servegen" in said


def test_traces_of_two_sorts_are_not_mixed() -> None:
    with pytest.raises(InputError, match="replay one sort at a time"):
        read([POPE, SERVEGEN], {})


def test_an_unknown_option_names_those_that_there_are() -> None:
    with pytest.raises(InputError, match="a pope trace has no option 'colour': there are order, seed"):
        read([POPE], {"colour": "red"})


@pytest.mark.parametrize(
    ("path", "option", "value"),
    [
        (POPE, "order", "backwards"),
        (POPE, "seed", "x"),
        (POPE, "seed", "-1"),
        (SERVEGEN, "reuse", "often"),
        (SERVEGEN, "pool", "0"),
        (SERVEGEN, "turns", "1.5"),
        (SERVEGEN, "exponent", "nan"),
        (SERVEGEN, "exponent", "-1"),
        (SERVEGEN, "requests", ""),
    ],
)
def test_a_value_that_an_option_does_not_take_is_refused(path: Path, option: str, value: str) -> None:
    with pytest.raises(InputError, match=rf"the option {option} takes .*, not '{value}'"):
        read([path], {option: value})


def test_defaults_are_values_that_the_options_take() -> None:
    for reader in readers().values():
        assert set(read_options(reader.name, reader.options, {})) == {option.name for option in reader.options}


def test_options_are_written_key_and_value() -> None:
    assert pairs(["order=file", "name=a=b"]) == {"order": "file", "name": "a=b"}
    assert pairs(["as-table"]) == {"as-table": "yes"}
    for wrong in ("", "=file"):
        with pytest.raises(InputError, match="KEY=VALUE"):
            pairs([wrong])


def test_a_number_is_read_as_written() -> None:
    option: Option = number("exponent", 0.5, "")
    assert option.read(option.default) == 0.5


# Files that are wrong -----------------------------------------------------------------------------------------------


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 8] = bytes(255 - byte for byte in data[middle : middle + 8])
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(("damage", "said"), [(cut, "ends too early"), (flipped, "is damaged|not UTF-8|not JSON")])
@pytest.mark.parametrize("source", [POPE, SERVEGEN])
def test_a_damaged_compressed_file(tmp_path: Path, source: Path, damage: Callable[[Path], None], said: str) -> None:
    path = tmp_path / source.name
    path.write_bytes(source.read_bytes())
    damage(path)
    with pytest.raises(InputError, match=rf"{source.name}, line \d+: .*({said})"):
        read([path], {})


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ('{"split": "random", "question_id": 3, "ima', "this is not JSON"),
        ("[1, 2]", "this is not a JSON object"),
        ("[" * 100_000, "this JSON is nested too deeply|this is not JSON"),
        ({**QUESTION, "image": 5}, "the field 'image' must be a string, not 5"),
        ({**QUESTION, "split": None}, "the field 'split' must be a string, not null"),
        ({**QUESTION, "question_id": "1"}, "the field 'question_id' must be an integer, not \"1\""),
        ({**QUESTION, "question_id": True}, "the field 'question_id' must be an integer, not true"),
        ({"split": "random", "question_id": 1}, "the field 'image' is missing"),
        ({"image": "a", "question_id": 1}, "the field 'split' is missing"),
        ({"image": "a", "split": "random"}, "the field 'question_id' is missing"),
        ({**QUESTION, "image": ["x" * 100]}, r"the field 'image' must be a string, not \[\"x+\.\.\."),
    ],
)
def test_a_malformed_question_is_named_by_its_line(tmp_path: Path, row: Any, said: str) -> None:
    path = written(tmp_path, QUESTION, QUESTION, row, QUESTION)
    with pytest.raises(InputError, match=rf"^{path}, line 3: ({said})"):
        read([path], {})


def changed(**fields: Any) -> dict[str, Any]:
    return {**CLIENT, **fields}


def dataset(**fields: Any) -> dict[str, Any]:
    return changed(dataset={"0": {"image_count": "{1: 1.0}", "image_tokens": "{10: 1.0}", **fields}})


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (changed(client="seven"), "the field 'client' must be an integer"),
        (changed(windows={}), "the field 'windows' must be an array"),
        (changed(dataset=[]), "the field 'dataset' must be an object"),
        (changed(windows=[3]), "client 7: 3 is not a text"),
        (changed(windows=["0,1,1"]), "client 7: '0,1,1' is not a window"),
        (changed(windows=["0,fast,1,Gamma,1,1"]), "something other than numbers"),
        (changed(windows=["0,-1,1,Gamma,1,1"]), "-1 requests a second"),
        (changed(windows=["0,nan,1,Gamma,1,1"]), "nan requests a second"),
        (changed(windows=["0,1,1,Pareto,1,1"]), "the arrivals 'Pareto,1,1'"),
        (changed(windows=["0,1,1,Gamma,0,1"]), "the arrivals 'Gamma,0,1'"),
        (changed(windows=["0,1,1,Weibull,0,1"]), "the arrivals 'Weibull,0,1'"),
        (changed(windows=["0,1,1,Weibull,0.0001,1"]), "the arrivals 'Weibull,0.0001,1'"),
        (changed(dataset={}), "nothing says what is in them"),
        (changed(dataset={"0": {}}), "nothing says what is in them"),
        (changed(dataset={"600": CLIENT["dataset"]["0"]}), "nothing says what is in them"),  # type: ignore[index]  # a nested object
        (changed(dataset={"noon": {}}), "'noon', which is not seconds"),
        (changed(dataset={"0": {"image_count": "{1: 1.0}"}}), "lacks image_count or image_tokens"),
        (dataset(image_count="{1: 0.5"), "is not a distribution"),
        (dataset(image_count="17"), "is not a distribution"),
        (dataset(image_count="print(1)"), "is not a distribution"),
        (dataset(image_count=17), "17 is not a text"),
        (dataset(image_count="{1: 0.5}"), "the probabilities add up to 0.5"),
        (dataset(image_count="{1: 2, 2: -1}"), "2 is not a probability"),
        (dataset(image_count="{-1: 1.0}"), "the value -1 is not an integer from 0 up"),
        (dataset(image_tokens="{1.5: 1.0}"), "the value 1.5 is not an integer from 0 up"),
        (dataset(image_tokens="{'a': 1.0}"), "the value 'a' is not an integer from 0 up"),
        (dataset(image_tokens="{1: 'b'}"), "'b' is not a probability"),
    ],
)
def test_a_malformed_client_is_named_by_its_line(tmp_path: Path, row: Any, said: str) -> None:
    path = written(tmp_path, CLIENT, row)
    with pytest.raises(InputError, match=rf"^{path}, line 2: .*{said}"):
        read([path], {})


def test_a_first_line_that_is_wrong_is_told_by_the_name_of_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, '{"split": "random"', name="pope_small.jsonl")
    assert complaint(path).startswith(", line 1: this is not JSON")


def test_a_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_bytes(json.dumps(QUESTION).encode() + b"\n\xff\xfe\n")
    assert complaint(path) == ", line 2: this is not UTF-8 text"


def test_paths_that_cannot_be_read(tmp_path: Path) -> None:
    assert complaint(tmp_path / "nowhere.jsonl") == ": there is no such file"
    assert complaint(tmp_path).startswith(": cannot be read: ")
    assert complaint(written(tmp_path)) == ": the file is empty"


def test_blank_lines_are_passed_over_and_counted(tmp_path: Path) -> None:
    path = written(tmp_path, "", QUESTION, "", {**QUESTION, "image": 1})
    assert complaint(path) == ", line 4: the field 'image' must be a string, not 1"


def test_a_trace_without_requests_is_refused(tmp_path: Path) -> None:
    quiet = written(tmp_path, changed(windows=["0,0,0,,0,0"], dataset={}))
    assert complaint(quiet) == ": there is no request in it under these options"

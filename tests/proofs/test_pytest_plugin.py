"""The plugin for pytest: a project that has a cache gets tests by one line, also on several workers."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import pytest

from cacheproof import command
from cacheproof.model.registry import components
from cacheproof.pytest_plugin import pytest_addoption

pytest_plugins = ["pytester"]

components()
"""Once, and not in every run inside this process, which forgets what it has imported."""

ROOT = Path(__file__).parents[2]
SAMPLE = ROOT / "tests" / "examples" / "sample_project"
NAMES = ("_hypothesis_pytestplugin", "xdist.plugin", "cacheproof.pytest_plugin")
PLUGIN = ("--disable-plugin-autoload", *(word for name in NAMES for word in ("-p", name)))
"""Named, so that these tests do not depend on how the package is installed, and no other module of it is rewritten."""

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "project", ignore=shutil.ignore_patterns("__pycache__", ".*")))


def run(folder: Path, *options: str, plugin: tuple[str, ...] = PLUGIN, **more: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *plugin, *options],
        cwd=folder,
        env={**kept, "PYTHONDONTWRITEBYTECODE": "1", **more},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def write(folder: Path, suite: str) -> Path:
    """A project of one test file."""
    folder.mkdir(exist_ok=True)
    (folder / "pytest.ini").write_text("[pytest]\n")
    text = (
        "import cacheproof\n"
        "from cacheproof.model.registry import component_named\n"
        "from cacheproof.targets.specification import SpecificationTarget\n"
        "LRU = component_named('lru')\n"
        f"{suite}\n"
    )
    (folder / "test_it.py").write_text(text)
    return folder


def inside(pytester: pytest.Pytester, suite: str, *options: str) -> subprocess.CompletedProcess[str]:
    """The same in this process, which has everything imported."""
    write(pytester.path, suite)
    ended = pytester.runpytest_inprocess("-q", *PLUGIN, "-p", "no:cacheprovider", *options)
    return subprocess.CompletedProcess([], int(ended.ret), ended.stdout.str(), ended.stderr.str())


ERA = "test_it = cacheproof.tests_for('lru', lambda config: SpecificationTarget(LRU, LRU.variants['{}']))"


def test_the_sample_project_passes_on_two_workers_that_share_a_seed(project: Path) -> None:
    scopes = ("--cacheproof-scope", "three-keys", "--cacheproof-scope", "turns")
    ended = run(project, "-n", "2", "--cacheproof-steps", "300", *scopes, "--junitxml", "found.xml")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    cases = {case.get("name", ""): case for case in ET.parse(project / "found.xml").iter("testcase")}
    assert {"test_by_hand", "scope[three-keys]", "scope[turns]"} <= set(cases)
    assert any(name.startswith("trace[C-MIR-10-M2-") for name in cases)
    found = [(one.get("name"), one.get("value")) for one in cases["scope[three-keys]"].iter("property")]
    assert ("cacheproof_steps", "300") in found
    said = re.search(r"seed (\d+) \(the same again: --cacheproof-seed \1\)", ended.stdout)
    assert said is not None
    seeds = {
        one.get("value") for case in cases.values() for one in case.iter("property") if "seed" in one.get("name", "")
    }
    assert seeds == {said[1]}
    assert "lru without lookup, get, pin, stat: the implementation does not have them" in ended.stdout
    (line,) = [line for line in ended.stdout.splitlines() if "never called" in line]
    assert line.startswith(
        "cacheproof: tests/test_sample_cache.py::test_sample_cache: never called: lookup, get, pin, stat"
    )
    assert "never read" not in ended.stdout


RULED = (
    "test_it = cacheproof.tests_for('lru', lambda config: SpecificationTarget(LRU, "
    "variant_named(LRU, 'normative+contains-refreshes')), deviations={}, scopes=['three-keys'])\n"
    "from cacheproof.model.registry import variant_named"
)


def test_a_declared_rule_is_no_failure_and_one_that_never_shows_is_told(pytester: pytest.Pytester) -> None:
    steps = ("--cacheproof-steps", "400", "--cacheproof-seed", "1")
    plain = inside(pytester, RULED.format([]), *steps)
    assert plain.returncode == 1
    declared = inside(pytester, RULED.format(["contains-refreshes", "C-LRU-2"]), *steps)
    assert declared.returncode == 0, declared.stdout
    assert "test_it: C-LRU-2 is declared and never showed: leave it out" in declared.stdout
    assert "contains-refreshes is declared and never showed" not in declared.stdout


def test_a_deviation_that_is_no_rule_is_an_error_of_collecting(pytester: pytest.Pytester) -> None:
    refused = inside(pytester, RULED.format(["no-such"]))
    assert refused.returncode != 0
    assert "lru has no rule 'no-such'" in refused.stdout


def test_a_target_that_has_every_call_is_not_said_to_lack_any(pytester: pytest.Pytester) -> None:
    """What `init` writes has no method for steps inside of calls, and needs none."""
    with pytest.raises(SystemExit):
        command.main(["init", str(pytester.path / "mine"), "--component", "lru"])
    pytester.syspathinsert("mine")
    options = ("--cacheproof-scope", "three-keys", "--cacheproof-steps", "20", "-p", "no:cacheprovider")
    ended = pytester.runpytest_inprocess("-q", *PLUGIN, *options, "mine/test_lru.py")
    assert int(ended.ret) == 0, ended.stdout.str()
    assert "calls in lockstep" in ended.stdout.str()
    assert "does not have them" not in ended.stdout.str()


def test_a_bug_is_shown_with_its_shortest_calls_and_comes_again(project: Path) -> None:
    only = ("--cacheproof-scope", "three-keys", "-k", "scope", "--cacheproof-write", "found")
    first = run(project, *only, "--cacheproof-seed", "4", SAMPLE_BUG="1")  # other seeds shrink for three times as long
    assert first.returncode == 1
    for part in (
        "differ after 3 calls (seed ",
        "│ caller │ cache │ done",
        "┃ specification ┃ yours",
        "breaks LRU-7/recency: a used key becomes the most recent",
    ):
        assert part in first.stdout
    assert "Traceback" not in first.stdout
    again = re.search(r"the same again: pytest '(.+)' --cacheproof-seed (\d+)", first.stdout)
    assert again is not None
    second = run(project, again[1], "--cacheproof-seed", again[2], SAMPLE_BUG="1")
    assert "differ after 3 calls" in second.stdout
    written = next((project / "found").rglob("*.py"))
    reproduced = run(written.parent, str(written), PYTHONPATH=f"{project}{os.pathsep}{project}/tests", SAMPLE_BUG="1")
    assert reproduced.returncode == 1
    assert "after call 3: order: the specification has [" in reproduced.stdout
    assert run(written.parent, str(written), PYTHONPATH=f"{project}{os.pathsep}{project}/tests").returncode == 0


def test_the_traces_of_the_catalogue_find_what_they_are_about(pytester: pytest.Pytester) -> None:
    """Without any random call: the era that had the ghost fails the traces of C-MIR-10."""
    ended = inside(pytester, ERA.format("M2"), "-k", "trace")
    assert ended.returncode == 1
    assert "the calls are those that show C-MIR-10 in M2: " in ended.stdout
    assert inside(pytester, ERA.format("normative"), "-k", "trace").returncode == 0


def test_the_seed_and_the_database_are_those_of_hypothesis(tmp_path: Path) -> None:
    """A failing example is kept in the project's database; not with a seed, as Hypothesis has it."""
    suite = ERA.format("M2").replace("M2'])", "M2']), scopes=['pins'], traces=False")
    write(tmp_path, f"{suite}\nfrom hypothesis import settings\nsettings.load_profile('default')")
    seeded = run(tmp_path, "--hypothesis-seed", "5")
    assert seeded.returncode == 1
    assert "--cacheproof-seed 5" in seeded.stdout
    examples = tmp_path / ".hypothesis" / "examples"
    assert not [path for path in examples.rglob("*") if path.is_file()]
    assert run(tmp_path).returncode == 1
    assert [path for path in examples.rglob("*") if path.is_file()]


def test_a_profile_of_hypothesis_says_how_much(pytester: pytest.Pytester) -> None:
    suite = (
        ERA.format("normative").replace("ive'])", "ive']), scopes=['pins'], traces=False")
        + "\nfrom hypothesis import settings\n"
        + "settings.register_profile('few', max_examples=3, stateful_step_count=11, database=None)\n"
        + "settings.load_profile('few')\n"
    )
    ended = inside(pytester, suite, "--cacheproof-seed", "1")
    assert ended.returncode == 0, ended.stdout
    said = re.search(r"(\d+) calls in lockstep", ended.stdout)
    assert said is not None
    assert 10 <= int(said[1]) <= 30
    limited = inside(pytester, suite, "--cacheproof-seed", "1", "--cacheproof-steps", "40")
    assert "40 calls in lockstep" in limited.stdout


def test_an_era_can_be_what_is_compared_with(pytester: pytest.Pytester) -> None:
    suite = ERA.format("M2").replace("'lru', lambda", "'lru', variant='M2', traces=False, factory=lambda")
    ended = inside(pytester, suite, "--cacheproof-steps", "100")
    assert ended.returncode == 0, ended.stdout


def test_the_decorator_is_the_same_and_tests_for_is_no_test(pytester: pytest.Pytester) -> None:
    suite = (
        "from cacheproof import implements, tests_for\n"
        "@implements('lru', scopes=['pins'])\n"
        "def any_name(config):\n"
        "    return SpecificationTarget(LRU, LRU.normative)\n"
        "def test_it_is_still_the_factory():\n"
        "    assert any_name(None).observe\n"
    )
    ended = inside(pytester, suite, "--collect-only")
    names = [line for line in ended.stdout.splitlines() if "::" in line]
    assert names[-1] == "test_it.py::test_it_is_still_the_factory"
    assert names[0] == "test_it.py::any_name::scope[pins]"
    assert all("pins" in name for name in names[:-1])


def test_the_larger_scopes_belong_to_the_nightly_profile(pytester: pytest.Pytester) -> None:
    here = ("--collect-only", "-k", "five-keys")
    suite = ERA.format("normative")
    assert "scope[five-keys]" in inside(pytester, suite, *here, "--cacheproof-profile", "nightly").stdout
    assert "scope[five-keys]" not in inside(pytester, suite, *here).stdout


def test_what_a_suite_names_wrong_is_one_line_each(pytester: pytest.Pytester) -> None:
    suites = (
        "test_1 = cacheproof.tests_for('lrv', object)",
        "test_2 = cacheproof.tests_for('lru', object, variant='M9')",
        "test_3 = cacheproof.tests_for('lru', object, scopes=['pin'])",
        "test_4 = cacheproof.tests_for('lru', object, without=['push'])",
    )
    ended = inside(pytester, "\n".join(suites))
    assert ended.returncode == 2
    for said in (
        "cacheproof: unknown component 'lrv': there are",
        "cacheproof: lru has no variant 'M9'",
        "cacheproof: lru has no scope 'pin'",
        "cacheproof: lru has no operation 'push'",
    ):
        assert said in ended.stdout
    assert "Traceback" not in ended.stdout


@pytest.mark.parametrize(
    ("option", "given", "said"),
    [
        ("steps", "0", "'0' is not an integer from 1"),
        ("seed", "-1", "'-1' is not an integer from 0"),
        ("seed", "²", "'²' is not an integer from 0"),
        ("seconds", "nan", "'nan' is not a positive number"),
        ("seconds", "soon", "'soon' is not a positive number"),
    ],
)
def test_a_wrong_option_is_wrong_usage(option: str, given: str, said: str) -> None:
    parser = pytest.Parser(_ispytest=True)
    pytest_addoption(parser)
    with pytest.raises(pytest.UsageError, match=said):
        parser.parse([f"--cacheproof-{option}={given}"])


def test_a_scope_that_nobody_has_is_said(pytester: pytest.Pytester) -> None:
    ended = inside(pytester, ERA.format("normative"), "--cacheproof-scope", "three-kings")
    assert ended.returncode == 2
    assert "no component has a scope 'three-kings'" in ended.stdout


def test_an_implementation_that_fails_is_told_with_its_line(pytester: pytest.Pytester) -> None:
    suite = (
        "class Broken:\n"
        "    def apply(self, operation):\n"
        "        raise KeyError(operation.key)\n"
        "    def observe(self):\n"
        "        return {}\n"
        "test_it = cacheproof.tests_for('lru', lambda config: Broken(), scopes=['pins'])\n"
    )
    ended = inside(pytester, suite)
    assert ended.returncode == 1
    assert "the implementation crashed after 1 call" in ended.stdout
    assert "KeyError; 0 (test_it.py, line 7)" in ended.stdout


@pytest.mark.nightly
def test_ctrl_c_in_a_call_ends_the_run(tmp_path: Path) -> None:
    suite = (
        "class Impatient:\n"
        "    def apply(self, operation):\n"
        "        raise KeyboardInterrupt\n"
        "    def observe(self):\n"
        "        return {}\n"
        "test_it = cacheproof.tests_for('lru', lambda config: Impatient(), scopes=['pins'])\n"
    )
    assert run(write(tmp_path, suite)).returncode == 2


LOADED = """
import json, sys
def test_what_is_loaded():
    names = {name.partition(".")[0] for name in sys.modules} & {"cachespec", "rich", "typer", "msgspec", "hypothesis"}
    names |= {name for name in sys.modules if name.startswith("cacheproof")}
    with open("loaded.json", "w") as file:
        json.dump(sorted(names), file)
"""


def test_a_project_without_a_suite_loads_next_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "test_other.py").write_text(LOADED)
    ended = run(tmp_path, "-p", "no:_hypothesis_pytestplugin")
    assert ended.returncode == 0
    assert "cacheproof" not in ended.stdout
    loaded = json.loads((tmp_path / "loaded.json").read_text())
    seeds = ("foundation", "foundation.seeds", "pytest_plugin", "pytest_plugin.seed")
    assert loaded == ["cacheproof", *(f"cacheproof.{name}" for name in seeds), "cacheproof.suite"]


COUNTING = """
class Counting:
    def __init__(self, config):
        self._cache = SpecificationTarget(LRU, LRU.normative)
        self._cache.reset(config._replace(sizes=(1,) * len(config.sizes)))

    def put(self, key, size):
        return self._cache.apply(Put(key, 1))

    def contains(self, key):
        return self._cache.apply(Contains(key))

    def observe(self):
        return {"order": self._cache.observe()["order"]}
"""


def test_an_implementation_that_counts_entries_says_so_once(pytester: pytest.Pytester) -> None:
    suite = f"from cachespec.lru import Contains, Put\n{COUNTING}\nSCOPES = ['three-keys', 'growth']\n"
    steps = ("--cacheproof-steps", "100", "-k", "scope")
    ended = inside(
        pytester, suite + "test_it = cacheproof.tests_for('lru', Counting, scopes=SCOPES, unit='entries')", *steps
    )
    assert ended.returncode == 0, ended.stdout
    assert " passed" in ended.stdout
    assert "never answered: put refused" in ended.stdout, "something was evicted, and nothing too large was put"
    ended = inside(pytester, suite + "test_it = cacheproof.tests_for('lru', Counting, scopes=SCOPES)", *steps)
    assert ended.returncode == 1, "in bytes it differs"
    wrong = inside(pytester, "test_it = cacheproof.tests_for('ring', lambda config: None, unit='entrys')")
    assert "cacheproof: in the scope laps: unknown unit 'entrys': did you mean 'entries'?" in wrong.stdout


def test_values_of_the_configuration_are_replaced_in_every_scope(pytester: pytest.Pytester) -> None:
    suite = (
        "test_it = cacheproof.implements('lru', config={%s})(lambda config: SpecificationTarget(LRU, LRU.normative))"
    )
    listed = inside(pytester, suite % "'capacity': 7", "--collect-only")
    assert "scope[three-keys]" in listed.stdout
    assert "trace[" not in listed.stdout, "its calls are for another configuration"
    wrong = inside(pytester, suite % "'capacty': 7")
    assert "lru has no capacty: did you mean 'capacity'?" in wrong.stdout
    wrong = inside(pytester, suite % "'grown': [1, 1]")
    assert "in the scope three-keys: the configuration of lru: grown has 2 sizes for 3 keys" in wrong.stdout


def test_a_scope_in_which_nothing_changed_is_skipped_and_not_green(pytester: pytest.Pytester) -> None:
    suite = "class Counting:\n    def __init__(self, config): ...\n    def stat(self):\n        return 'done', (0, 0)\n"
    made = suite + "test_it = cacheproof.tests_for('lru', Counting, scopes=['three-keys', 'counters'])"
    ended = inside(pytester, made, "--cacheproof-steps", "40", "-rs")
    assert "2 skipped" in ended.stdout
    assert "passed" not in ended.stdout
    assert "no answer: no call changed what is observed, and these were never called: clear, contains" in ended.stdout

"""A child process that misbehaves is named, ended and reaped; we never hang."""

import os
import sys
import time
from pathlib import Path

import pytest

from cacheproof.foundation.errors import InputError
from cacheproof.lockstep.campaign import lockstep
from cacheproof.model.registry import AnyComponent, component_named, components, scope_file
from cacheproof.model.scope import scopes_of
from cacheproof.model.target import TargetError
from cacheproof.targets.child import ChildTarget
from cachespec.kernel import FAILED, HIT, Outcome
from cachespec.lru import Config, Get, Put, Touch

LRU = component_named("lru")
CONFIG = Config(capacity=2, sizes=(1, 1, 1))
SCOPED = [component for component in components().values() if scope_file(component).is_file()]
EXAMPLE = Path(__file__).parents[2] / "examples" / "lru_child.py"

POLITE = """
import json, os, signal, sys, time
def say(**answer): print(json.dumps(answer), flush=True)
for line in sys.stdin:
    asked = json.loads(line)
    if asked["do"] == "hello": say(answer="hello", protocol="0.1")
    elif asked["do"] == "bye": break
    elif asked["do"] != "apply": say(answer="state", used=0)
    else:
        {on_apply}
"""


def target(tmp_path: Path, text: str, seconds: float = 5.0, to_start: float = 10.0) -> ChildTarget:
    path = tmp_path / "child.py"
    path.write_text(text, encoding="utf-8")
    return ChildTarget(f"{sys.executable} {path}", LRU, LRU.normative, seconds=seconds, seconds_to_start=to_start)


def is_gone(process_id: int) -> bool:
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return True
    return False


def failure(tmp_path: Path, on_apply: str, seconds: float = 5.0) -> str:
    """What is said of a child that does this when a call is asked of it; it is gone afterwards."""
    child = target(tmp_path, POLITE.format(on_apply=on_apply), seconds)
    child.reset(CONFIG)
    assert child._child is not None
    process_id = child._child.process_id
    with pytest.raises(TargetError) as error:
        child.apply(Touch(0))
    assert is_gone(process_id)
    with pytest.raises(TargetError, match="not running"):
        child.apply(Touch(0))
    child.close()
    return str(error.value)


def failure_at_start(tmp_path: Path, text: str, seconds: float = 5.0) -> str:
    child = target(tmp_path, text, seconds, seconds)
    with pytest.raises(TargetError) as error:
        child.reset(CONFIG)
    child.close()
    return str(error.value)


def test_the_example_answers() -> None:
    child = ChildTarget(f"{sys.executable} {EXAMPLE}", LRU, LRU.normative)
    child.reset(CONFIG)
    assert child.observe() == {"order": (), "sizes": (), "used": 0}
    assert child.apply(Put(1, 1)).code.value == "done"
    assert child.apply(Get(1)) == HIT
    assert child.observe() == {"order": (1,), "sizes": (1,), "used": 1}
    child.reset(CONFIG)
    assert child.observe()["used"] == 0
    child.reset(CONFIG._replace(capacity=7))
    assert child.apply(Put(1, 6)).code.value == "done"
    child.close()


def test_the_example_is_short() -> None:
    assert len(EXAMPLE.read_text(encoding="utf-8").splitlines()) < 80
    assert "import cacheproof" not in EXAMPLE.read_text(encoding="utf-8")


def test_silent(tmp_path: Path) -> None:
    assert failure(tmp_path, "time.sleep(1000)", 0.3) == (
        "asked to apply touch: the child did not answer within 0.3 seconds"
    )


def test_silent_although_told_to_end(tmp_path: Path) -> None:
    said = failure(tmp_path, "signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)", 0.3)
    assert "did not answer within 0.3 seconds" in said


def test_dead(tmp_path: Path) -> None:
    assert failure(tmp_path, "sys.exit(7)") == "asked to apply touch: the child ended with exit status 7"


def test_dead_by_an_exception_that_is_quoted(tmp_path: Path) -> None:
    said = failure(tmp_path, "raise ValueError('no such key')")
    assert said.endswith("exit status 1; its standard error: ValueError: no such key")


def test_dead_by_a_signal(tmp_path: Path) -> None:
    assert "was ended by SIGKILL" in failure(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)")


def test_output_closed(tmp_path: Path) -> None:
    assert "closed its standard output" in failure(tmp_path, "os.close(1); time.sleep(1000)")


def test_truncated_line(tmp_path: Path) -> None:
    said = failure(tmp_path, 'os.write(1, b\'{"answer": "outc\'); os._exit(0)')
    assert "ended with exit status 0" in said


def test_half_a_line_and_silence(tmp_path: Path) -> None:
    assert "did not answer" in failure(tmp_path, "os.write(1, b'{'); time.sleep(1000)", 0.3)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("rubbish", "not JSON"),
        ("\\xff\\xfe", "not UTF-8"),
        ("[]", "a message is an object"),
        ("{}", "the child's answer is None, not 'outcome'"),
        ('{"answer": "state"}', "the child's answer is 'state', not 'outcome'"),
        ('{"answer": "outcome"}', "unknown code None"),
        ('{"answer": "outcome", "code": "splendid"}', "unknown code 'splendid'"),
        ('{"answer": "outcome", "code": "done", "values": [0.5]}', "numbers are integers"),
        ('{"answer": "outcome", "code": "done", "values": 3}', "must be an array of integers"),
        ('{"answer": "outcome", "code": "done", "used": "many"}', "used must be an integer"),
        ('{"answer": "outcome", "code": "done", "used": 1, "used": 2}', "occurs twice"),
        ('{"answer": "error", "error": "wrong_field", "text": "what?"}', "refused; wrong_field: what?"),
        ('{"answer": "outcome", "code": "done"}\\n{"answer"', "answered more than was asked"),
    ],
)
def test_wrong_answer(tmp_path: Path, answer: str, said: str) -> None:
    assert said in failure(tmp_path, f"os.write(1, b'{answer}\\n')")


def test_flood_of_one_line(tmp_path: Path) -> None:
    assert "longer than 1048576 bytes" in failure(tmp_path, "while True: os.write(1, b'x' * 65536)")


def test_flood_of_lines(tmp_path: Path) -> None:
    assert "answered more than was asked" in failure(tmp_path, "while True: os.write(1, b'{}\\n' * 9999)")


def test_flood_of_standard_error_is_no_hindrance(tmp_path: Path) -> None:
    child = target(
        tmp_path, POLITE.format(on_apply="sys.stderr.write('x' * 3000000); say(answer='outcome', code='failed')")
    )
    child.reset(CONFIG)
    assert child.apply(Touch(0)) == FAILED
    assert child.apply(Touch(0)) == FAILED
    child.close()


def test_unasked(tmp_path: Path) -> None:
    child = target(tmp_path, POLITE.format(on_apply="pass").replace('say(answer="state"', "say(answer='state'"))
    child.reset(CONFIG)
    child.close()
    text = 'import time, sys; sys.stdin.readline()\nprint(\'{"answer":"hello","protocol":"0.1"}\', flush=True)\n'
    text += "time.sleep(0.1); print('more', flush=True); time.sleep(1000)"
    chatty = target(tmp_path, text, 1.0)
    chatty._start()
    time.sleep(0.5)
    with pytest.raises(TargetError, match="spoke without being asked"):
        chatty.reset(CONFIG)


def test_never_reads(tmp_path: Path) -> None:
    said = failure_at_start(tmp_path, "import time; time.sleep(1000)", 0.3)
    assert said == "asked to hello: the child did not answer within 0.3 seconds"


def test_wrong_version(tmp_path: Path) -> None:
    text = 'import sys; sys.stdin.readline(); print(\'{"answer": "hello", "protocol": "7.0"}\', flush=True)'
    assert failure_at_start(tmp_path, text) == "the child speaks protocol '7.0', not '1.0'"


def test_it_starts_again_after_a_failure(tmp_path: Path) -> None:
    child = target(tmp_path, POLITE.format(on_apply="sys.exit(3)"))
    for _ in range(2):
        child.reset(CONFIG)
        with pytest.raises(TargetError, match="exit status 3"):
            child.apply(Touch(0))
    child.close()


@pytest.mark.parametrize("apart", [False, True], ids=["in the group", "in a session of its own"])
def test_grandchildren_are_ended_too(tmp_path: Path, apart: bool) -> None:
    noted = tmp_path / "pid"
    spawn = (
        f"import subprocess; p = subprocess.Popen(['sleep', '1000'], start_new_session={apart}); "
        f"open({str(noted)!r}, 'w').write(str(p.pid)); time.sleep(1000)"
    )
    failure(tmp_path, spawn, 1.0)
    grandchild = int(noted.read_text(encoding="utf-8"))
    for _ in range(100):
        if is_gone(grandchild) or "Z" in Path(f"/proc/{grandchild}/stat").read_text(encoding="utf-8").split()[2]:
            return
        time.sleep(0.05)
    pytest.fail("the grandchild is still there")


def test_one_that_does_not_leave_is_ended(tmp_path: Path) -> None:
    text = POLITE.format(on_apply="pass").replace("break", "time.sleep(1000)")
    child = target(tmp_path, text)
    child.reset(CONFIG)
    assert child._child is not None
    process_id = child._child.process_id
    child.close()
    assert is_gone(process_id)


def test_forgotten_children_are_reaped(tmp_path: Path) -> None:
    child = target(tmp_path, POLITE.format(on_apply="pass"))
    child.reset(CONFIG)
    assert child._child is not None
    process_id = child._child.process_id
    del child
    assert is_gone(process_id)


@pytest.mark.parametrize("command", ["", "   ", "'unclosed", "/no/such/program", "no-such-program-anywhere", "/"])
def test_a_command_that_cannot_be_run(command: str) -> None:
    child = ChildTarget(command, LRU, LRU.normative)
    with pytest.raises(InputError) as error:
        child.reset(CONFIG)
    assert len(str(error.value).splitlines()) == 1


def test_an_outcome_with_values(tmp_path: Path) -> None:
    child = target(tmp_path, POLITE.format(on_apply="say(answer='outcome', code='done', values=[1, 2])"))
    child.reset(CONFIG)
    assert child.apply(Touch(0)) == Outcome(FAILED.code.__class__("done"), (1, 2))
    child.close()


@pytest.mark.parametrize("component", SCOPED, ids=lambda component: component.name)
def test_the_oracle_is_a_child_that_agrees_with_the_specification(component: AnyComponent) -> None:
    """Both ends of the protocol, for every variant: what the specification says survives the way there and back."""
    for scope in scopes_of(component)[:1]:
        for tag in scope.variants:
            variant = component.variants[tag]
            child = ChildTarget(f"{sys.executable} -m cacheproof serve", component, variant)
            found = lockstep(component, variant, scope.config, child, steps=150, seed=1)
            child.close()
            assert found.finding is None
            assert found.tally.steps == 150

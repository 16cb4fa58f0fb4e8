"""A scope's parameters for the peers, what the models lack, and what is said where a peer is missing."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from cacheproof.bench import benchmarks, benchmarks_named
from cacheproof.bench.measure import Peers
from cacheproof.bench.peers.models import PeerScope, model_text
from cacheproof.bench.peers.ours import SMALLEST, explored, subject_of
from cacheproof.bench.peers.process import finished, succeeded
from cacheproof.bench.peers.spin import Spin
from cacheproof.command import bench
from cacheproof.command.frame import dispatch
from cacheproof.foundation.errors import ExitStatus, InconclusiveError, InputError
from cacheproof.search.worker import REFERENCE


def test_a_scope_of_the_mirror_is_written_for_both() -> None:
    given = PeerScope("mirror", "two-senders", (("sizes", (1, 2, 2)), ("channel", 3))).given()
    for line in (
        "#define CONTENTS 3",
        "#define SIZE(key) (key == 1 -> 1 : (key == 2 -> 2 : 2))",
        "#define SENDERS 2",
        "#define CHANNEL 3",
        "#define DUPLICATE 0",
        "#define OVER_SENDERS(op) op(0) + op(1)",
        "#define EACH_NEIGHBOUR(op, s) op(s, 0) op(s, 1)",
    ):
        assert line in given.header.splitlines()
    assert "ScopeSizes == <<1, 2, 2>>" in given.module
    assert "  Sizes <- ScopeSizes" in given.settings
    assert "  Restart = 1" in given.settings


def test_a_scope_of_the_encoder_cache_is_written_for_both() -> None:
    given = PeerScope("encoder_cache", "three-requests").given()
    for line in (
        "#define INPUTS 5",
        "#define COUNT byte",
        "#define CONTENT_SIZE(content) ((content) == 1 -> 1 : ((content) == 2 -> 1 : 2))",
        "#define FIRST_INPUT(request) ((request) == 1 -> 1 : ((request) == 2 -> 3 : 5))",
        "#define LAST_INPUT(request) ((request) == 1 -> 2 : ((request) == 2 -> 4 : 5))",
    ):
        assert line in given.header.splitlines()
    assert "ScopeRequests == <<<<1, 1>>, <<1, 2>>, <<3>>>>" in given.module
    assert (
        "#define COUNT byte" not in PeerScope("encoder_cache", "any-call-larger", (("capacity", 300),)).given().header
    )


@pytest.mark.parametrize(
    ("component", "scope", "name"),
    [("mirror", "calm", "items"), ("mirror", "rendering", "rendered"), ("encoder_cache", "budgets", "claims")],
)
def test_what_the_models_lack_is_refused(component: str, scope: str, name: str) -> None:
    with pytest.raises(InputError, match=f"the peer models of {component} have no {name} = "):
        PeerScope(component, scope).given()


def test_the_two_texts_of_a_model_name_the_same_invariant() -> None:
    for component, name in (("mirror", "MIR-1"), ("encoder_cache", "ENC-2")):
        assert all(f"{name}: " in model_text(component, suffix) for suffix in (".pml", ".tla"))


def test_properties_are_left_out_and_nothing_else() -> None:
    scope = PeerScope("encoder_cache", "billions")
    whole, bare = (
        explored(scope, REFERENCE, subject_of(scope.component, properties=properties)) for properties in (True, False)
    )
    assert (bare.states, bare.transitions, bare.digest) == (whole.states, whole.transitions, whole.digest)
    assert whole.witnessed
    assert not bare.witnessed


# Processes ------------------------------------------------------------------------------------------------------------


def test_time_and_memory_of_a_process_are_its_own(tmp_path: Path) -> None:
    code = "import time; held = b'x' * (200 << 20)\nwhile time.process_time() < 0.3: pass"
    done = succeeded((sys.executable, "-c", code), tmp_path, "a process")
    assert 0.3 <= done.seconds < 10
    assert 200 << 20 <= done.peak_bytes < 400 << 20


def test_a_process_that_fails_is_said_with_its_output(tmp_path: Path) -> None:
    command = (sys.executable, "-c", "import sys; print('no room'); sys.exit(3)")
    assert finished(command, tmp_path).status == 3
    with pytest.raises(InconclusiveError, match="a process failed with status 3: no room"):
        succeeded(command, tmp_path, "a process")


# The verb -------------------------------------------------------------------------------------------------------------


def test_a_missing_peer_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(shutil, "which", lambda name: "/bin/java" if name == "java" else None)
    assert dispatch(["bench", "explore", "--with", "spin"]) is ExitStatus.WRONG_INPUT
    assert "spin is not installed: apt-get install spin" in capsys.readouterr().err
    with pytest.raises(InputError, match="spin is not installed"):
        Spin(SMALLEST["mirror"], tmp_path)
    assert dispatch(["bench", "explore", "--with", f"tlc={tmp_path}/no.jar"]) is ExitStatus.WRONG_INPUT
    assert "no.jar: there is no such file" in capsys.readouterr().err
    monkeypatch.setattr(shutil, "which", lambda name: None)
    assert dispatch(["bench", "explore", "--with", f"tlc={tmp_path}/no.jar"]) is ExitStatus.WRONG_INPUT
    assert "java is not installed" in capsys.readouterr().err


def test_a_benchmark_that_no_peer_can_do_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(bench, "spin_is_missing", lambda: None)
    assert dispatch(["bench", "lru", "--with", "spin"]) is ExitStatus.WRONG_INPUT
    assert "no model checker can do lru: there are explore-mirror, " in capsys.readouterr().err


def test_without_peers_their_benchmarks_are_left_out() -> None:
    """Unless one is named: the reference engine takes minutes there."""
    peered = [one for one in benchmarks().values() if one.peers is not None]
    assert len(peered) == 4
    assert not set(bench._chosen(None, released_only=False, peers=Peers())) & set(peered)
    assert bench._chosen(["explore"], released_only=False, peers=Peers()) == benchmarks_named("explore")[:1]
    assert bench._chosen(["explore"], released_only=False, peers=Peers(spin=True)) == peered

"""Starts an engine so that it finds the recorder as one of its plugins, without anything being installed.

Entry points are looked for in every folder of the path of Python. So a folder with the plugin, and beside it the few
lines of metadata that an installed distribution has, is put on `PYTHONPATH` of the engine and all of its processes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from cacheproof.foundation.errors import InputError
from cacheproof.foundation.interruption import Terminated
from cacheproof.logs.record.events import SUFFIX

PLUGIN = Path(__file__).parent / "child" / "cacheproof_recorder.py"
BESIDE = (PLUGIN.with_name("cacheproof_steps.py"), PLUGIN.with_name("cacheproof_workers.py"))
"""Modules that the plugin imports."""
GROUP = "vllm.general_plugins"
NAME = "cacheproof_recorder"
PLUGIN_FOLDER = "plugin"
RESTRICTED = "VLLM_PLUGINS"
"""If the engine is told to load only some plugins, ours has to be among them."""


def prepared(folder: Path) -> Path:
    """The folder that is put on the path; `folder` is where events go, and must not have any."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.glob(f"*{SUFFIX}")):
            raise InputError(f"{folder} has recordings already: choose another folder, or remove them")
        plugin = folder / PLUGIN_FOLDER
        metadata = plugin / f"{NAME}-0.1.dist-info"
        metadata.mkdir(parents=True, exist_ok=True)
        for module in (PLUGIN, *BESIDE):
            shutil.copyfile(module, plugin / module.name)
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 0.1\n", encoding="utf-8")
        (metadata / "entry_points.txt").write_text(f"[{GROUP}]\n{NAME} = {NAME}:register\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror}") from None
    return plugin


def environment(folder: Path, every: int | None = None, base: Mapping[str, str] | None = None) -> dict[str, str]:
    """The variables of an engine that is recorded into the folder."""
    known = dict(os.environ if base is None else base)
    path = [str(prepared(folder).resolve()), *filter(None, [known.get("PYTHONPATH")])]
    known |= {"PYTHONPATH": os.pathsep.join(path), "CACHEPROOF_RECORD": str(folder.resolve())}
    if every is not None:
        known["CACHEPROOF_RECORD_EVERY"] = str(every)
    if known.get(RESTRICTED):
        known[RESTRICTED] = f"{known[RESTRICTED]},{NAME}"
    return known


def run_recorded(command: Sequence[str], folder: Path, every: int | None = None) -> int:
    """Run the command until it ends, Ctrl-C included, which it gets too; its status."""
    variables = environment(folder, every)
    try:
        process = subprocess.Popen(list(command), env=variables)  # noqa: S603  # what the user asked for
    except OSError as error:
        raise InputError(f"{command[0]}: cannot be started: {error.strerror}") from None
    while True:
        try:
            return process.wait()
        except Terminated:
            process.terminate()  # unlike Ctrl-C, the signal need not have reached the engine
        except KeyboardInterrupt:
            continue  # it is ending; what it has recorded is still wanted

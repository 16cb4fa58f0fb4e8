"""`python -m cacheimpl.mirror.example`: run it, and say what happened."""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from pathlib import Path

from cacheimpl.mirror.example.settings import Settings

CHOICES = {"seed": int, "frontends": int, "requests": int, "drop": float, "delay": float, "seconds": float}
CHOICES |= {"frontend_kills": int, "core_kills": int}


def parsed(arguments: list[str] | None = None) -> Settings:
    """The settings that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m cacheimpl.mirror.example", description=__doc__)
    parser.add_argument("--folder", help="a new or empty folder for the recording; by default, a temporary one")
    for name, kind in CHOICES.items():
        default = Settings._field_defaults[name]
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, default=default, help=f"{default} by default")
    given = vars(parser.parse_args(arguments))
    wanted = given.pop("folder")
    wrong = [name for name, value in given.items() if value < 0] + [n for n in ("frontends",) if given[n] < 1]
    if wrong or given["requests"] < 8:
        parser.error(f"too small: {', '.join(wrong) or 'requests (at least 8)'}")
    folder = Path(wanted or tempfile.mkdtemp(prefix="mirror-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        parser.error(f"{folder} is not empty")
    return Settings(str(folder.resolve()), **given)


def main(arguments: list[str] | None = None) -> int:
    """The exit status: 0 where each frontend that lived had every request confirmed, 1 otherwise, 2 for a bad call."""
    settings = parsed(arguments)
    if importlib.util.find_spec("zmq") is None:
        sys.stderr.write("the example needs the extra 'mirror': pip install 'cacheproof[mirror]'\n")
        return 2
    from cacheimpl.mirror.example.supervisor import run  # noqa: PLC0415  # ZeroMQ is an extra

    summary = run(settings)
    lines = {path.name: path.read_bytes().count(b"\n") for path in sorted(Path(settings.folder).glob("P*.ndjson"))}
    for name, count in lines.items():
        sys.stdout.write(f"{name}: {count} events\n")
    kills = f"killed: {summary.frontend_kills} frontends, the core {summary.core_kills} times"
    sys.stdout.write(f"{'settled' if summary.settled else summary.trouble}; {kills}; recorded in {settings.folder}\n")
    return 0 if summary.settled else 1


if __name__ == "__main__":
    sys.exit(main())

"""A target that speaks the line protocol: a script of the standard library, to be filled in or translated."""

from __future__ import annotations

from cacheproof.model.protocol import VERSION
from cacheproof.model.registry import AnyComponent
from cacheproof.skeleton.calls import Call, bracketed, called, calls_of
from cacheproof.skeleton.in_python import heading, observed

TARGET = '''\
"""{heading}

{command}

holds it to the specification. It speaks the line protocol, one JSON object a line, and imports the standard library
only: translate it, or fill it in. It runs at once, because the specification (`cacheproof serve`) stands in for your
implementation. Replace it in `Target.__init__`, then in one method after the other, and delete `StandIn` at the end.
Delete a method for which your implementation has nothing: its calls are left out. Each method says which codes it may
return, and when; another code is a difference. docs/reference/{component}.md has the fields of the configuration.
"""

import json
import subprocess
import sys


class StandIn:
    """The specification, in a process of its own; one process is enough for all runs."""

    process = None

    def __init__(self, config):
        if StandIn.process is None:
            command = [sys.executable, "-m", "cacheproof", "serve"]
            StandIn.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            self.ask("hello", protocol="{version}")
        self.shown = self.ask("init", component="{component}", **config)

    def call(self, op, **fields):
        self.shown = self.ask("apply", op=op, **fields)
        return self.shown.pop("code"), self.shown.pop("values", [])

    def ask(self, do, **fields):
        print(json.dumps({{"do": do, **fields}}), file=self.process.stdin, flush=True)
        answer = json.loads(self.process.stdout.readline())
        if answer.pop("answer") == "error":
            raise ValueError(answer["text"])
        return answer


class Target:
    """One instance, in one configuration: a dict with the fields of the configuration.

    A call returns a code and the integers that the operation documents.
    """

    def __init__(self, config):
        # Yours goes here: an instance of your implementation, for this configuration.
        self.yours = StandIn(config)

{methods}

    def observe(self):
{observed}
        return self.yours.shown


OPERATIONS = [name for name in {names} if hasattr(Target, name)]


def main():
    target, config = None, {{}}
    for line in sys.stdin:
        asked = json.loads(line)
        do = asked.pop("do")
        if do == "hello":
            features = ["{component}/operation/" + name for name in OPERATIONS]
            answer = {{"answer": "hello", "protocol": "{version}", "implementation": "{name} 0", "features": features}}
        elif do in ("init", "reset"):
            if do == "init":
                config = {{key: value for key, value in asked.items() if key not in ("component", "variant")}}
            target = Target(config)
            answer = {{"answer": "state", **target.observe()}}
        elif do == "apply":
            try:
                code, values = getattr(target, asked.pop("op"))(**asked)
            except AssertionError:  # your implementation noticed that something is wrong: an answer, too
                code, values = "failed", []
            answer = {{"answer": "outcome", "code": code, "values": values, **target.observe()}}
        elif do == "observe":
            answer = {{"answer": "state", **target.observe()}}
        else:
            answer = {{"answer": "bye"}}
        print(json.dumps(answer), flush=True)
        if do == "bye":
            break


if __name__ == "__main__":
    main()
'''


def target(component: AnyComponent) -> str:
    """The script."""
    calls = list(calls_of(component))
    name = called(component)
    return TARGET.format(
        component=component.name,
        name=name,
        heading=heading(component),
        command=f'    cacheproof fuzz {component.name} --target "exec:python {name}_target.py"',
        version=VERSION,
        methods="\n\n".join(_method(call) for call in calls),
        names=_names(calls),
        observed=observed(component),
    )


def _names(calls: list[Call]) -> str:
    inside = "".join(f'\n    "{call.name}",' for call in calls)
    return f"[{inside}\n]"


def _method(call: Call) -> str:
    names = [name for name, _ in call.fields]
    given = [f'"{call.name}"', *(f"{name}={name}" for name in names)]
    lines = [
        *bracketed(f"def {call.name}", ["self", *names], ":", "    "),
        *call.docstring("        "),
        *bracketed("return self.yours.call", given, "", "        "),
    ]
    return "\n".join(lines)

"""`python -m tests.attacks [NAME...] --seconds S`: hostile surroundings, files, networks and signals, by seed."""

from __future__ import annotations

import argparse
import sys

from tests.attacks import files, interruptions, kills, proxy, surroundings
from tests.attacks.attack import FellShortError, attacked, lines_of, repeated

from cacheproof.foundation.seeds import new_seed

ATTACKS = {module.ATTACK.name: module.ATTACK for module in (kills, proxy, files, surroundings, interruptions)}


def main() -> int:
    """1 if an attack falls short."""
    parser = argparse.ArgumentParser(prog="python -m tests.attacks", description=__doc__)
    parser.add_argument("names", nargs="*", help=f"attacks to make: {', '.join(ATTACKS)} (default: all)")
    parser.add_argument("--seconds", type=float, default=600.0, help="time for each attack (default: 600)")
    parser.add_argument("--seed", type=int, help="seed of the random choices (default: a new one)")
    parser.add_argument("--trial", help="repeat one trial of the named attack, such as 7/13")
    given = parser.parse_args()
    if strange := set(given.names) - set(ATTACKS):
        parser.error(f"there is no attack {', '.join(sorted(strange))}: there are {', '.join(ATTACKS)}")
    if given.trial is not None:
        return one_trial(given.names, given.trial)
    seed = new_seed() if given.seed is None else given.seed
    print(f"seed {seed}")
    return max([performed(name, seed, given.seconds) for name in given.names or ATTACKS])


def performed(name: str, seed: int, seconds: float) -> int:
    """One attack, and what it did."""
    attack = ATTACKS[name]
    if obstacle := attack.obstacle():
        print(f"{name}: not made here: {obstacle}", flush=True)
        return 1
    result = attacked(attack, seed, seconds)
    print(f"{name}, {attack.about}: {result.trials} trials, {len(result.failures)} fell short")
    print(*lines_of(result), sep="\n")
    for trial, reason in result.failures:
        print(f"  {reason}\n    repeat: python -m tests.attacks {name} --trial {trial}")
    sys.stdout.flush()
    return int(bool(result.failures))


def one_trial(names: list[str], trial: str) -> int:
    """The trial of each attack that is named."""
    status = 0
    for name in names or ATTACKS:
        try:
            print(f"{name}: {repeated(ATTACKS[name], trial)}")
        except FellShortError as error:
            print(f"{name}: {error}")
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main())

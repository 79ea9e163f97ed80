"""The long form of the model: as many steps as asked for, and what they did.

python -m tests.endurance.model --steps 100000 --seed 1
"""

import argparse
import sys
import time
import traceback

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.properties.model import tally
from tests.properties.model.databases import Databases, databases
from tests.properties.model.machine import model_on

STEPS_OF_AN_EXAMPLE = 100
EXAMPLES_AT_ONCE = 25


def main() -> int:
    """Run; return 1 if anything was found."""
    asked = read_arguments()
    started, number, found = time.monotonic(), asked.seed, False
    with databases(asked.database) as opened:
        while tally.steps() < asked.steps and not found:
            found = not run(opened, number, shrink=asked.shrink)
            number += 1
            say(f"{tally.steps()} steps, {time.monotonic() - started:.0f} s, seed {number - 1}")
    say(*tally.table())
    say(f"{tally.steps()} steps in {tally.examples()} examples, findings: {int(found)}")
    return int(found)


def run(opened: Databases, number: int, *, shrink: bool) -> bool:
    """Run some examples from this seed; print what was found, if anything."""
    phases = [Phase.generate, *([Phase.shrink] if shrink else [])]
    how = settings(
        max_examples=EXAMPLES_AT_ONCE,
        stateful_step_count=STEPS_OF_AN_EXAMPLE,
        deadline=None,
        database=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    try:
        run_state_machine_as_test(seed(number)(model_on(opened)), settings=how)
    except Exception:  # noqa: BLE001 - whatever it is, it is the finding
        say(f"found with seed {number}:", traceback.format_exc())
        return False
    return True


def read_arguments() -> argparse.Namespace:
    """Read how long to run, and from which seed."""
    parser = argparse.ArgumentParser(prog="python -m tests.endurance.model")
    parser.add_argument("--steps", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", choices=["sqlite", "postgres"], default="sqlite")
    parser.add_argument("--shrink", action="store_true", help="make a finding small; takes minutes")
    return parser.parse_args()


def say(*lines: str) -> None:
    """Print at once."""
    for line in lines:
        print(line, flush=True)  # noqa: T201 - what the command is for


if __name__ == "__main__":
    sys.exit(main())

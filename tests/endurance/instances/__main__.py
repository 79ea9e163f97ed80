"""`python -m tests.endurance.instances`: prove that several instances are as good as one."""

import argparse
import random
import signal
import sys
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.endurance.instances.namespaces import why_impossible
from tests.endurance.instances.proof import Plan, prove
from tests.endurance.instances.report import describe, make_json, make_table
from tests.support.servers import POSTGRES, RABBITMQ, found


def main() -> int:
    """Return 0 when every promise was kept, else 1."""
    asked = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    with ExitStack() as stack:
        plan = Plan(
            amqp_url=stack.enter_context(found(RABBITMQ)),
            postgres_url=stack.enter_context(found(POSTGRES)),
            messages=asked.messages,
            rounds=asked.rounds,
            kind=asked.broker,
            lease=asked.lease,
            window=asked.window,
            seed=asked.seed,
            namespaces=choose_namespaces(asked.hosts),
        )
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="retrier-instances-")))
        tell(f"seed {plan.seed}, lease {plan.lease} s, window {plan.window}, {plan.kind} queues")
        proof = prove(plan, folder, lambda misfortune: tell(describe(misfortune)))
    if asked.logs:
        write_logs(Path(asked.logs), proof.logs)
    tell(make_table(proof))
    tell(make_json(plan, proof))
    return 1 if proof.count.problems else 0


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.endurance.instances", description=__doc__
    )
    parser.add_argument("--messages", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=1, help="how often every blow falls")
    parser.add_argument("--broker", choices=("quorum", "classic"), default="quorum")
    parser.add_argument("--hosts", choices=("namespaces", "proxies"), help="what a host is")
    parser.add_argument("--lease", type=int, default=15, help="seconds")
    parser.add_argument("--window", type=int, default=200, help="retries.forwarding_window")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))  # noqa: S311 - no secret
    parser.add_argument("--logs", help="a folder for the logs of all instances")
    return parser.parse_args()


def choose_namespaces(hosts: str | None) -> bool:
    """Say aloud what the hosts are; namespaces where they are possible."""
    why = why_impossible() if hosts != "proxies" else "asked for"
    if why is None:
        tell("hosts: network namespaces, each with a host name and lines of its own")
        return True
    if hosts == "namespaces":
        sys.exit(f"no network namespaces here: {why}")
    tell(f"hosts: processes of one host behind proxies ({why}); a dead leader is replaced at once")
    return False


def write_logs(folder: Path, logs: dict[str, list[dict[str, object]]]) -> None:
    """Write each instance's log lines into a file."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, lines in logs.items():
        (folder / f"{name}.txt").write_text("\n".join(map(str, lines)))


def tell(text: str) -> None:
    """Print at once, also into a file."""
    print(text, flush=True)  # noqa: T201 - this is a command


if __name__ == "__main__":
    sys.exit(main())

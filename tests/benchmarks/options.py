"""What a run of the benchmark measures, and how much of it."""

import argparse
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

FIGURES = {
    "a": "ingestion from RabbitMQ into PostgreSQL",
    "b": "marking",
    "c": "staging",
    "d": "forwarding",
    "e": "end to end, from the request to the last message on its queue",
    "f": "latency of a single retry, on an idle and on a busy service",
    "g": "memory while many messages are ingested and retried",
    "h": "CPU when idle",
    "i": "restart with many messages and a half-forwarded batch",
    "j": "one process beside a process per role, while all of them have work",
    "k": "lists of a million messages, and the size of the database",
    "l": "what retention deletes, and ingestion beside it",
    "m": "what is sent to other destinations while a breaker is open",
    "n": "strict streams whose messages are confirmed at once",
    "o": "many messages that come due at once, and what a bulk and single retries keep",
}
BODIES = {"2KiB": 2048, "20KiB": 20 * 1024, "500KiB": 500 * 1024}
MOST_OF_BODY = {"2KiB": 10**9, "20KiB": 20_000, "500KiB": 1000}
"""So many messages of a size at most: more would only fill the disk."""
KINDS = ("classic", "quorum")
MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """One run, or several alike."""

    figures: frozenset[str]
    queues: tuple[str, ...]
    bodies: tuple[str, ...]
    messages: int
    many: int
    slow: int
    singles: int
    idle_seconds: float
    runs: int
    amqp_url: str | None = None
    postgres_url: str | None = None
    json: Path | None = None
    markdown: Path | None = None

    def as_json(self) -> dict[str, object]:
        """Return what decides about the figures."""
        return {
            "figures": sorted(self.figures),
            "messages": self.messages,
            "many": self.many,
            "slow": self.slow,
            "singles": self.singles,
            "idle_seconds": self.idle_seconds,
        }

    def count(self, body: str) -> int:
        """Return how many messages with such bodies are moved."""
        return min(self.messages, MOST_OF_BODY[body])


def read_options(words: Sequence[str] | None = None) -> Options:
    """Read the command line; ends the process when it is wrong."""
    given = make_parser().parse_args(words)
    quick = given.quick
    return Options(
        figures=frozenset(given.figures),
        queues=tuple(given.queues),
        bodies=tuple(given.bodies),
        messages=given.messages or (2_000 if quick else 100_000),
        many=given.many or (20_000 if quick else MILLION),
        slow=given.slow or (500 if quick else 10_000),
        singles=given.singles or (20 if quick else 100),
        idle_seconds=given.idle_seconds or (5 if quick else 60),
        runs=given.runs,
        amqp_url=given.amqp_url,
        postgres_url=given.postgres_url,
        json=given.json,
        markdown=given.markdown,
    )


def make_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.benchmarks",
        description="Measures Retrier beside other ways to do the same, on the same servers.",
        epilog="Figures: " + "; ".join(f"({key}) {what}" for key, what in FIGURES.items()),
    )
    add = parser.add_argument
    add("--figures", type=_some(FIGURES), default=tuple(FIGURES), help="a,b,c,...; all by default")
    add("--queues", type=_some(KINDS), default=KINDS, help="classic,quorum")
    add("--bodies", type=_some(BODIES), default=tuple(BODIES), help="2KiB,20KiB,500KiB")
    add(
        "--messages",
        type=int,
        help="for a, c, d, e, j, l, o, the bulk of f, at most for m and n; 100000",
    )
    add("--many", type=int, help="for b, g, i and k; 1000000")
    add("--slow", type=int, help="for the one-by-one scripts at most; 10000")
    add("--singles", type=int, help="retries for f and o; 100")
    add("--idle-seconds", type=float, help="for h; 60")
    add("--runs", type=int, default=1, help="repeat everything; medians are shown")
    add("--quick", action="store_true", help="far smaller numbers: to try the command")
    add("--amqp-url", help="a broker to use, without a shovel; else a node is started for the run")
    add("--postgres-url", help="a server to use; else the one of the tests")
    add("--json", type=Path, help="write every line and the machine's facts there")
    add("--markdown", type=Path, help="write the table there, between its marks if it has them")
    return parser


def _some(known: Collection[str]) -> Callable[[str], tuple[str, ...]]:
    def read(text: str) -> tuple[str, ...]:
        words = tuple(text.split(","))
        if unknown := [word for word in words if word not in known]:
            raise argparse.ArgumentTypeError(f"{unknown} not among {', '.join(known)}")
        return words

    return read

"""What must be true when all hosts are well again and all work is done."""

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.endurance.instances.database import DatabaseView
from tests.endurance.instances.hosts import Node
from tests.endurance.instances.misfortunes import Misfortune
from tests.endurance.instances.traffic import Tally
from tests.support.waiting import wait_until

BOOKS_WITHIN = 60.0
DELIVERED = ("resolved", "retry_issued")
ROWS = "SELECT message_id, status, last_retry_id::text, attempts FROM failed_messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class Count:
    """The figures, and what is wrong with them."""

    messages: int
    stored: int
    retries: int
    forwarded: int
    lost_in: int
    lost_out: int
    ingested_twice: int
    duplicates: int
    most_duplicates: int
    resolved: int
    requests: int
    unanswered: int
    ledger: dict[str, int]
    verify: int
    problems: list[str] = field(default_factory=list)


def count_up(
    tally: Tally, misfortunes: Sequence[Misfortune], view: DatabaseView, node: Node, window: int
) -> Count:
    """Compare what was produced, what is stored and what arrived."""
    rows = view.rows(ROWS)
    arrived = {each.retry_id for each in tally.arrived}
    lost_out = [row for row in rows if row[1] not in DELIVERED or row[2] not in arrived]
    twice = [row for row in rows if row[3] > 1 + tally.failures[row[0]]]
    books = read_books(node)
    doubled = [tally.doubled(each.begin, each.end) for each in misfortunes]
    count = Count(
        messages=len(tally.produced),
        stored=len(rows),
        retries=len(arrived),
        forwarded=view.count("SELECT sum(forwarded) FROM retry_operations"),
        lost_in=len(set(tally.produced) - {row[0] for row in rows}),
        lost_out=len(lost_out),
        ingested_twice=len(twice),
        duplicates=len(tally.arrived) - len(arrived),
        most_duplicates=max(map(len, doubled), default=0),
        resolved=Counter(row[1] for row in rows)["resolved"],
        requests=tally.asked,
        unanswered=tally.unanswered,
        ledger={part: books[part]["difference"] for part in ("deliveries", "messages")},
        verify=verify(node.config),
    )
    count.problems.extend(_problems(count))
    count.problems.extend(
        f"{status}, attempts {attempts}, last retry {retry_id}: "
        + ("it came" if retry_id in arrived else "it did not come")
        for _, status, retry_id, attempts in lost_out[:5]
    )
    doubt: set[str] = set()
    for misfortune, twice_sent in zip(misfortunes, doubled, strict=True):
        # What was sent at the end of one may be seen at the beginning of the next.
        earlier, doubt = doubt, misfortune.doubt
        count.problems.extend(judge(misfortune, twice_sent, window, earlier | doubt))
    outside = count.duplicates - sum(map(len, doubled))
    if outside:
        count.problems.append(f"{outside} copies arrived twice before anything had happened")
    return count


def read_books(node: Node) -> dict[str, dict[str, int]]:
    """Return its ledger. The first answer after a cut may say that a connection has broken."""
    answers: list[httpx.Response] = []

    def is_answered() -> bool:
        answers.append(node.ask("GET", "/api/ledger", timeout=30))
        return answers[-1].is_success

    try:
        wait_until(is_answered, BOOKS_WITHIN, "the ledger")
    except AssertionError as error:
        error.add_note(answers[-1].text)
        raise
    books: dict[str, dict[str, int]] = answers[-1].json()
    return books


def judge(
    misfortune: Misfortune, doubled: Sequence[str], window: int, doubt: AbstractSet[str]
) -> list[str]:
    """Return what is wrong with what came twice after a misfortune."""
    problems = [f"{misfortune.name}: {problem}" for problem in misfortune.problems]
    bound = window * len(misfortune.struck)
    if len(doubled) > bound:
        problems.append(f"{misfortune.name}: {len(doubled)} came twice, {bound} may")
    surprising = set(doubled) - doubt
    if surprising:
        problems.append(f"{misfortune.name}: {len(surprising)} came twice and were not in doubt")
    return problems


def verify(config: Path) -> int:
    """Run `retrier verify`; return its exit code."""
    command = [sys.executable, "-m", "retrier", "verify", "--config", str(config)]
    return subprocess.run(command, capture_output=True, check=False).returncode  # noqa: S603 - ourselves


def _problems(count: Count) -> list[str]:
    lost = {
        "failed messages are not in the database": count.lost_in,
        "retried messages were not delivered": count.lost_out,
        "attempts were stored twice": count.ingested_twice,
        "is the difference between recorded and delivered retries": abs(
            count.forwarded - count.retries
        ),
        "is the ledger's difference of deliveries": count.ledger["deliveries"],
        "is the ledger's difference of messages": count.ledger["messages"],
        "is what `retrier verify` ends with": count.verify,
    }
    return [f"{number} {what}" for what, number in lost.items() if number]

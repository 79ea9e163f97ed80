"""What an endurance run prints: a line for each kill that left something in doubt, and the sums."""

import json

from tests.endurance.account import Account


def tell(*lines: str) -> None:
    """Print lines at once, also into a file."""
    print(*lines, sep="\n", flush=True)  # noqa: T201 - a command that prints


def report(account: Account) -> list[str]:
    """Return the table, the sums as one line of JSON, and what is wrong."""
    head = "kill | after, s | stored | in doubt | duplicates"
    rows = [
        f"{kill.number:4} | {kill.after:8.2f} | {kill.stored:6} | {len(kill.in_doubt):8} | "
        f"{len(kill.doubled):10}"
        for kill in account.kills
        if kill.in_doubt
    ]
    return [head, *rows, json.dumps(sums(account)), *account.violations]


def sums(account: Account) -> dict[str, object]:
    """Return the figures of a run."""
    doubts = [len(kill.in_doubt) for kill in account.kills]
    return {
        "messages": account.messages,
        "retries": account.retries,
        "pending_retried_again": account.again,
        "kills": len(account.kills),
        "kills_with_doubt": sum(1 for doubt in doubts if doubt),
        "window": account.window,
        "most_in_doubt": max(doubts, default=0),
        "lost": len(account.lost),
        "duplicates": account.duplicates,
        "most_duplicates_of_one_kill": max((len(k.doubled) for k in account.kills), default=0),
        "duplicates_not_in_doubt": len(account.unexplained),
        "wrong_attempts": len(account.wrong_attempts),
        "verify": account.verified,
        "seconds": round(account.seconds),
    }

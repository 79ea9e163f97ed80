"""An audit in a file, or in a list that a test reads; and who asks for something."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from retrier.app.audit import AuditFile, AuditJournal, Place
from retrier.domain.access import Access, AccessRole, How
from retrier.domain.audit import AuditRecord, AuditType, AuditWalk
from retrier.events.event import Emit, ignore
from tests.support.frozen_clock import FrozenClock

ADMIN = Access(name="ann@example.org", how=How.OIDC, role=AccessRole.ADMIN, address="10.0.0.7")
READER = Access(name="deploy", how=How.TOKEN, role=AccessRole.READER, address="10.0.0.8")


class ListedLines:
    """Lines in a list. `broken` is raised in place of writing one."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.broken: OSError | None = None

    def open(self) -> Place:
        self.renew()
        return Place()

    def renew(self) -> None:
        if self.broken is not None:
            raise self.broken

    def append(self, line: bytes) -> None:
        self.renew()
        self.lines.append(line)

    def duplicate(self) -> int | None:
        return None

    def close(self) -> None:
        pass

    @property
    def told(self) -> list[Any]:
        """The lines without those about the audit itself."""
        return without_its_own(self.lines)


def journal_on(lines: Any, emit: Emit = ignore) -> AuditJournal:
    return AuditJournal(lines, "the audit", "test", FrozenClock(), emit)


def started(path: Path, emit: Emit = ignore) -> AuditJournal:
    """Return the journal of a process that has just started, in a file."""
    journal = journal_on(AuditFile(path), emit)
    journal.start()
    return journal


def record(action: str = "retry") -> AuditRecord:
    return AuditRecord(action=action, type=AuditType.START, access=ADMIN)


def filled(path: Path, lines: int) -> None:
    """Write so many lines, the first and the last of which are about the audit itself."""
    journal = started(path)
    for number in range(lines - 2):
        journal.write(record(f"act_{number}"))
    journal.stop()


def walked(*paths: Path, wanted: str | None = None, restarts: bool = False) -> AuditWalk:
    """Walk the lines of these files."""
    walk = AuditWalk(wanted=wanted, may_begin_anew=restarts)
    for path in paths:
        content = path.read_bytes()
        for number, line in enumerate(content.removesuffix(b"\n").split(b"\n"), start=1):
            walk.go(path.name, number, line)
    walk.end()
    return walk


def found_in(walk: AuditWalk) -> list[tuple[str, int]]:
    """Return what is broken, and in which lines that shows."""
    return [(str(each.what), each.line) for each in walk.breaks]


def read(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def without_its_own(lines: Sequence[bytes]) -> list[Any]:
    told = [json.loads(line) for line in lines]
    return [each for each in told if not each["event"]["action"].startswith("audit_")]


def actions(lines: Sequence[Any]) -> list[tuple[str, str, str]]:
    """Return action, type and outcome of each line."""
    return [
        (each["event"]["action"], each["event"]["type"][0], each["event"]["outcome"])
        for each in lines
    ]

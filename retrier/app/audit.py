"""The audit of this process: its file or standard output, its head for metrics, and for a queue.

One process has one file: a lock on it keeps others away. Whoever moves the file away rotates it: the next line
goes into a new one of the same name, and carries on the same chain.
"""

import fcntl
import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from pathlib import Path
from typing import Protocol

from retrier.audit import Audit
from retrier.clock import Clock
from retrier.domain.audit import (
    BEGUN,
    ENDED,
    RESUMED,
    AuditHead,
    AuditOutcome,
    AuditRecord,
    AuditType,
    describe_torn,
    head_after,
    make_audit_line,
    read_audit_link,
)
from retrier.domain.failed_imports import Sent
from retrier.domain.values import dataclass
from retrier.domain.wire import Edit, Outgoing
from retrier.errors import (
    AuditUnavailable,
    BrokerUnavailable,
    ConfigurationError,
    RetrierError,
)
from retrier.events.event import Emit
from retrier.events.service import (
    AuditFailed,
    AuditLineBegun,
    AuditLineSafe,
    AuditLineWritten,
    AuditRecovered,
    AuditTorn,
)
from retrier.imports import Sender
from retrier.store.engine.database import Database
from retrier.store.event_log import note_refusals

_BLOCK = 64 * 1024
_MOST_OWED = 1000
"""Lines that are kept for later while none can be written."""


class Lines(Protocol):
    """Where lines go. Called under a lock: one at a time."""

    def open(self) -> "Place":
        """Make it ready to be written to, and say where the chain stands. Raises OSError."""
        ...

    def renew(self) -> None:
        """Look whether what is written to was moved away. Raises OSError."""
        ...

    def append(self, line: bytes) -> None:
        """Write all of it. Raises OSError; then nothing of it, or the beginning, is there."""
        ...

    def duplicate(self) -> int | None:
        """Return a descriptor to be synced and closed; None if nothing can be synced."""
        ...

    def close(self) -> None:
        """Let go of it; never raises."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """The end of what was written before: its head, None if there is none; and what is behind it."""

    head: AuditHead | None = None
    stray: bytes | None = None


class StandardOutput:
    """Lines to standard output: each start of the process begins a chain."""

    def __init__(self, descriptor: int = 1) -> None:
        self._descriptor = descriptor

    def open(self) -> Place:
        """Begin a chain."""
        return Place()

    def renew(self) -> None:
        """Do nothing: it stays what it is."""

    def append(self, line: bytes) -> None:
        """Write a line. Raises OSError."""
        _write_all(self._descriptor, line + b"\n")

    def duplicate(self) -> int | None:
        """Return None: what becomes of it is for whoever reads it."""
        return None

    def close(self) -> None:
        """Leave it open."""


class AuditFile:
    """Lines in a file that only this process writes to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def open(self) -> Place:
        """Open it, and read where the chain stands: in it, or in the newest beside it."""
        self._open()
        place = _find_end(self._path)
        if place == Place():
            place = self._find_moved()
        return place

    def renew(self) -> None:
        """Open a new one if it was moved away or deleted."""
        mine = os.fstat(self._held)
        try:
            there = self._path.stat()
        except FileNotFoundError:
            there = None
        if there is None or (there.st_dev, there.st_ino) != (mine.st_dev, mine.st_ino):
            os.fdatasync(self._held)
            self._open()

    def append(self, line: bytes) -> None:
        """Write a line; what of it did not fit is taken out again. Raises OSError."""
        before = os.fstat(self._held).st_size
        try:
            _write_all(self._held, self._end_of_line(before) + line + b"\n")
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._held, before)
            raise

    def duplicate(self) -> int | None:
        """Return a descriptor of the file that is written to now."""
        return os.dup(self._held)

    def close(self) -> None:
        """Close it, which gives the lock back."""
        if self._descriptor is not None:
            with suppress(OSError):
                os.close(self._descriptor)
        self._descriptor = None

    @property
    def _held(self) -> int:
        if self._descriptor is None:
            raise OSError("it is not open")
        return self._descriptor

    def _open(self) -> None:
        flags = os.O_CREAT | os.O_RDWR | os.O_APPEND | os.O_CLOEXEC
        opened = os.open(self._path, flags, 0o600)
        try:
            fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(opened)
            raise OSError("another process writes to it: each needs a file of its own") from None
        self.close()
        self._descriptor = opened
        _sync_folder(self._path.parent)

    def _end_of_line(self, size: int) -> bytes:
        """Return what ends a line that somebody has left without an end."""
        return b"\n" if size and os.pread(self._held, 1, size - 1) != b"\n" else b""

    def _find_moved(self) -> Place:
        """Return the end of the newest file beside it whose name begins with its own."""
        beside = [
            each
            for each in self._path.parent.iterdir()
            if each.name.startswith((f"{self._path.name}.", f"{self._path.name}-"))
            and each.is_file()
        ]
        heads = [_find_end(each).head for each in beside]
        known = [each for each in heads if each is not None]
        return Place(max(known, key=lambda head: head.number, default=None))


def _write_all(descriptor: int, content: bytes) -> None:
    left = memoryview(content)
    while left:
        left = left[os.write(descriptor, left) :]


def _sync_folder(folder: Path) -> None:
    """Have a power cut leave the name of a new file there."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _find_end(path: Path) -> Place:
    """Read a file from its end to the last line of a chain. Raises OSError."""
    with path.open("rb") as file:
        start = file.seek(0, os.SEEK_END)
        content = b""
        while True:
            whole = content if start == 0 else content.partition(b"\n")[2]
            place = _end_of(whole)
            if place.head is not None or start == 0:
                return place
            begin = max(0, start - max(_BLOCK, len(content)))
            file.seek(begin)
            content, start = file.read(start - begin) + content, begin


def _end_of(content: bytes) -> Place:
    lines = content.removesuffix(b"\n").split(b"\n") if content else []
    stray: list[bytes] = []
    for line in reversed(lines):
        link = read_audit_link(line)
        if link is not None:
            return Place(head_after(line, link.number), _join(stray))
        stray.insert(0, line)
    return Place(None, _join(stray))


def _join(stray: Sequence[bytes]) -> bytes | None:
    return b"\n".join(stray) if stray else None


class AuditJournal:
    """Writes the lines of this process, each after the one before."""

    def __init__(self, lines: Lines, place: str, instance: str, clock: Clock, emit: Emit) -> None:
        self._lines = lines
        self._place = place
        self._instance = instance
        self._clock = clock
        self._emit = emit
        self._head: AuditHead | None = None
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._written = self._synced = 0
        self._owed: list[AuditRecord] = []
        self._lost = 0
        self._reason: str | None = None

    @property
    def head(self) -> AuditHead:
        """The end of the chain; number 0 before the first line."""
        return self._head or AuditHead()

    @property
    def written(self) -> int:
        """How many lines this process has written."""
        return self._written

    @property
    def is_well(self) -> bool:
        """Whether the last line could be written."""
        return self._reason is None

    def start(self) -> None:
        """Write the first line of this process. Raises ConfigurationError."""
        try:
            with self._lock:
                self._open()
        except OSError as error:
            reason = error.strerror or str(error)
            raise ConfigurationError([f"access.audit.file: {self._place}: {reason}"]) from None

    def stop(self) -> None:
        """Write the last line, and let go of the file."""
        record = AuditRecord(action=ENDED, type=AuditType.END, outcome=AuditOutcome.SUCCESS)
        with suppress(AuditUnavailable):
            self.write(record)
        with self._lock:
            self._lines.close()

    def write(self, record: AuditRecord, *, safely: bool = True) -> int:
        """Append a line and return its number. Raises AuditUnavailable."""
        with self._telling():
            with self._lock:
                self._make_ready()
                number = self._append(record)
                ticket = self._written
            self._emit(AuditLineWritten())
            if safely:
                self._sync(ticket)
                self._emit(AuditLineSafe())
        return number

    def owe(self, record: AuditRecord, *, safely: bool = True) -> None:
        """Write a line, or keep it until one can be written."""
        try:
            self.write(record, safely=safely)
        except AuditUnavailable:
            happened = self._clock.now().isoformat()
            with self._lock:
                if len(self._owed) < _MOST_OWED:
                    about = {**record.about, "happened_at": happened}
                    self._owed.append(replace(record, about=about))
                else:
                    self._lost += 1

    def settle(self) -> None:
        """Write what is owed, if it can be written by now. Raises nothing."""
        if self._reason is None and not self._owed:
            return
        with suppress(AuditUnavailable), self._telling(), self._lock:
            self._make_ready()

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Tell once that nothing can be written, and once that it can. Raises AuditUnavailable."""
        try:
            yield
        except OSError as error:
            reason = error.strerror or str(error)
            with self._lock:
                self._lines.close()
                self._head = None
                first, self._reason = self._reason is None, reason
            if first:
                self._emit(AuditFailed(reason=f"{self._place}: {reason}"))
            raise AuditUnavailable(reason) from None
        if self._reason is not None:
            self._reason = None
            self._emit(AuditRecovered())

    def _make_ready(self) -> None:
        if self._head is None:
            self._open()
        else:
            self._lines.renew()
        while self._owed:
            self._append(self._owed[0])
            del self._owed[0]
        if self._lost:
            lost = AuditRecord(
                action="audit_lines_lost", type=AuditType.INFO, about={"count": self._lost}
            )
            self._append(lost)
            self._lost = 0

    def _open(self) -> None:
        place = self._lines.open()
        self._head = place.head or AuditHead()
        about = {} if place.stray is None else describe_torn(place.stray)
        if place.stray is not None:
            self._emit(AuditTorn(place=self._place, size=len(place.stray)))
        action = BEGUN if place.head is None else RESUMED
        try:
            self._append(AuditRecord(action=action, type=AuditType.START, about=about))
        except OSError:
            self._lines.close()
            self._head = None
            raise

    def _append(self, record: AuditRecord) -> int:
        head = self.head
        line = make_audit_line(record, head, self._clock.now(), self._instance)
        self._emit(AuditLineBegun())
        self._lines.append(line)
        self._head = head_after(line, head.number + 1)
        self._written += 1
        return self._head.number

    def _sync(self, ticket: int) -> None:
        """Have the disk keep all lines up to this one; one call does it for several that wait."""
        with self._syncing:
            if self._synced >= ticket:
                return
            with self._lock:
                upto, descriptor = self._written, self._lines.duplicate()
            if descriptor is not None:
                try:
                    os.fdatasync(descriptor)
                finally:
                    os.close(descriptor)
            self._synced = upto


HEAD_SECONDS = 60
"""Seconds between two heads that are sent, at least."""
_STOP_SECONDS = 2.0
_PERSISTENT = 2


@dataclass(slots=True)
class HeadSender:
    """Sends the head of the chain to a queue if it has changed, so that it is kept elsewhere."""

    journal: AuditJournal
    sender: Sender
    queue: str
    instance: str
    clock: Clock
    _told: AuditHead = field(default_factory=AuditHead)

    def send(self) -> None:
        """Send it. Raises BrokerUnavailable."""
        head = self.journal.head
        if head == self._told or head.sha256 is None:
            return
        told = {
            "instance": self.instance,
            "number": head.number,
            "sha256": head.sha256,
            "at": self.clock.now().isoformat(),
        }
        codec = self.sender.codec
        fields: dict[str, int | str] = {
            "delivery_mode": _PERSISTENT,
            "content_type": "application/json",
            "type": "retrier.audit.head",
        }
        raw = codec.edit(codec.empty, Edit(set_fields=fields))
        message = Outgoing(queue=self.queue, raw=raw, body=json.dumps(told).encode())
        with self.sender.connected() as line:
            outcome = line.send(message)
        if not isinstance(outcome, Sent):
            why = getattr(outcome, "reason", "it was not taken")
            raise BrokerUnavailable(f"the head of the audit was not taken: {why}")
        self._told = head


@dataclass(slots=True, kw_only=True)
class RunningAudit:
    """The audit of a process, and the jobs about it."""

    audit: Audit
    journal: AuditJournal
    db: Database
    head: HeadSender | None = None

    def tell(self, *, everything: bool = False) -> None:
        """Write what was counted, and have the event log told. Raises DatabaseUnavailable."""
        self.journal.settle()
        self.audit.tell_guesses(everything=everything)
        due = self.audit.refusals.take_due(everything=everything)
        if not due:
            return
        try:
            note_refusals(self.db, due)
        except RetrierError:
            for each in due:
                self.audit.refusals.add(each.address, each.reason, each.who, each.count)
            raise

    def stop(self) -> None:
        """Write the last lines, and have the head kept elsewhere, if that takes no longer than 2 s."""
        ending = threading.Thread(target=self._end, name="audit", daemon=True)
        ending.start()
        ending.join(_STOP_SECONDS)

    def _end(self) -> None:
        with suppress(RetrierError):
            self.tell(everything=True)
        self.journal.stop()
        if self.head is not None:
            with suppress(RetrierError):
                self.head.send()

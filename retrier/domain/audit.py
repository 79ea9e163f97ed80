"""The audit: lines of a chain, in which each carries the hash of the line before; and who walks it.

A line is a JSON object in the words of the Elastic Common Schema. Its number and the hash of the line before it
are the chain. Whoever takes a line out, changes one or moves one breaks it at that place.
"""

import json
from collections.abc import Mapping
from dataclasses import field
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from ipaddress import ip_address

from retrier.domain.access import Access, How
from retrier.domain.values import dataclass

ECS_VERSION = "8.17.0"

BEGUN = "audit_begun"
RESUMED = "audit_resumed"
ENDED = "audit_ended"
"""Actions of the audit itself: a chain begins, a process goes on with one, a process stops."""


class AuditOutcome(StrEnum):
    """How it ended; UNKNOWN stands in a line that is written before that is known."""

    SUCCESS = "success"
    FAILURE = "failure"
    UNKNOWN = "unknown"


class AuditType(StrEnum):
    """What a line tells of an act; the words are those of the schema."""

    START = "start"
    END = "end"
    DENIED = "denied"
    INFO = "info"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRecord:
    """What a line is to say. `about` is what the act is about and what came of it, as JSON values."""

    action: str
    type: AuditType
    outcome: AuditOutcome = AuditOutcome.UNKNOWN
    access: Access | None = None
    address: str = ""
    allowed: bool | None = None
    reason: str | None = None
    about: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AuditHead:
    """The end of a chain: the number of its last line, and the hash of it. Number 0: no line yet."""

    number: int = 0
    sha256: str | None = None


def make_audit_line(record: AuditRecord, head: AuditHead, at: datetime, instance: str) -> bytes:
    """Return the line that follows a head, without a line break."""
    line = {
        "@timestamp": f"{at:%Y-%m-%dT%H:%M:%S}.{at.microsecond // 1000:03}Z",
        "message": _message(record),
        "ecs": {"version": ECS_VERSION},
        "event": _without_none(
            {
                "kind": "event",
                "category": ["api" if record.access is not None else _OF_NOBODY[record.type]],
                "type": [record.type],
                "action": record.action,
                "outcome": record.outcome,
                "reason": record.reason,
                "sequence": head.number + 1,
                "dataset": "retrier.audit",
            }
        ),
        "service": {"name": "retrier", "node": {"name": instance}},
        **_who(record.access),
        **_where(record.address if record.access is None else record.access.address),
        "retrier": _without_none(
            {
                **_rights(record.access),
                "allowed": record.allowed,
                **record.about,
                "chain": {"previous": head.sha256},
            }
        ),
    }
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


_OF_NOBODY = {
    AuditType.START: "process",
    AuditType.END: "process",
    AuditType.INFO: "process",
    AuditType.DENIED: "authentication",
}


def head_after(line: bytes, number: int) -> AuditHead:
    """Return the head that a line makes."""
    return AuditHead(number, sha256(line).hexdigest())


def _message(record: AuditRecord) -> str:
    who = "nobody" if record.access is None else record.access.shown
    said = {
        AuditType.START: "asks for",
        AuditType.DENIED: "is refused",
        AuditType.END: "has asked for",
        AuditType.INFO: "",
    }[record.type]
    words = record.action.replace("_", " ")
    if not said or (record.access is None and record.type is not AuditType.DENIED):
        return words
    why = "" if record.reason is None else f" ({record.reason})"
    ended = f": {record.outcome}" if record.type is AuditType.END else ""
    return f"{who} {said} {words}{ended}{why}"


def _who(access: Access | None) -> Mapping[str, object]:
    if access is None or not access.name:
        return {}
    return {"user": {"name": access.name, "roles": [access.role]}}


def _where(address: str) -> Mapping[str, object]:
    if not address:
        return {}
    try:
        return {"source": {"address": address, "ip": str(ip_address(address))}}
    except ValueError:
        return {"source": {"address": address}}


def _rights(access: Access | None) -> Mapping[str, object]:
    if access is None or access.how is How.OPEN:
        return {}
    queues = None if access.queues is None else list(access.queues)
    return {"how": access.how, "queues": queues}


def _without_none(fields: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in fields.items() if value is not None}


@dataclass(frozen=True, slots=True)
class AuditLink:
    """What a line says of its place in the chain.

    `torn` is the hash of what a crash left before this line, if the line names something torn.
    """

    number: int
    previous: str | None
    torn: str | None = None


def read_audit_link(line: bytes) -> AuditLink | None:
    """Return what a line says of its place; None if it is no line of an audit."""
    try:
        told = json.loads(line)
        number, chain = told["event"]["sequence"], told["retrier"]["chain"]
        previous, torn = chain["previous"], told["retrier"].get("torn")
        named = None if torn is None else torn["sha256"]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None
    texts = all(each is None or isinstance(each, str) for each in (previous, named))
    is_number = isinstance(number, int) and not isinstance(number, bool)
    return AuditLink(number, previous, named) if is_number and texts else None


def describe_torn(stray: bytes) -> Mapping[str, object]:
    """Return how a line names what a crash has left before it."""
    return {"torn": {"bytes": len(stray), "sha256": sha256(stray).hexdigest()}}


class AuditBreak(StrEnum):
    """How a chain may be broken."""

    REMOVED = "removed"
    CHANGED = "changed"
    MOVED = "moved"
    TORN = "torn"
    BEGUN_ANEW = "begun anew"
    HEAD_MISSING = "head missing"


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundBreak:
    """One break: what, where (the line in which it shows), and in words."""

    what: AuditBreak
    file: str
    line: int
    words: str


@dataclass(slots=True)
class AuditWalk:
    """Walks lines one by one, and keeps what it finds.

    `lines` are those of the chain, `begins` the number of the first; `torn` counts what crashes have
    left, and what a later line names. A chain that begins anew is a break, unless `may_begin_anew`:
    one on standard output does at each start. `wanted` is a head that was kept elsewhere.
    """

    wanted: str | None = None
    may_begin_anew: bool = False
    lines: int = 0
    chains: int = 0
    torn: int = 0
    begins: int | None = None
    head: AuditHead = AuditHead()
    breaks: list[FoundBreak] = field(default_factory=list)
    _gaps: list[tuple[int, range]] = field(default_factory=list)
    _late: set[int] = field(default_factory=set)
    _stray: list[bytes] = field(default_factory=list)
    _at: tuple[str, int] = ("", 0)
    _is_found: bool = False

    def go(self, file: str, number: int, line: bytes) -> None:
        """Take the next line; `number` is where it stands in its file."""
        self._at = file, number
        link = read_audit_link(line)
        if link is None:
            self._stray.append(line)
            return
        self._settle_stray(link)
        found = self._find(link)
        if found is not None:
            self._note(*found)
        if link.number <= self.head.number and found is not None and found[0] is AuditBreak.MOVED:
            # The lines around it are compared with each other, and not with one out of its place.
            self._count(line)
            return
        self.head = head_after(line, link.number)
        self._count(line)

    def end(self) -> None:
        """Say what only the end of all lines shows."""
        if self._stray:
            self._note(
                AuditBreak.TORN,
                "the last line is not whole: a crash or a full disk ended it; the service names it "
                "when it writes the next one",
            )
        for place, gap in self._gaps:
            if self._late.issuperset(gap):
                found = self.breaks[place]
                self.breaks[place] = FoundBreak(
                    what=AuditBreak.MOVED,
                    file=found.file,
                    line=found.line,
                    words=f"{_lines(gap)} not here, but further below",
                )
        if self.wanted is not None and not self._is_found:
            self._note(
                AuditBreak.HEAD_MISSING,
                "no line has the hash that was kept elsewhere: lines were cut off, or replaced",
            )

    def _count(self, line: bytes) -> None:
        self.lines += 1
        self._is_found = self._is_found or sha256(line).hexdigest() == self.wanted

    def _settle_stray(self, link: AuditLink) -> None:
        if not self._stray:
            return
        stray, self._stray = b"\n".join(self._stray), []
        if link.torn == sha256(stray).hexdigest():
            self.torn += 1
        else:
            self._note(AuditBreak.TORN, "before this line stands something that is no line")

    def _find(self, link: AuditLink) -> tuple[AuditBreak, str] | None:
        expected = self.head.number + 1
        if self.begins is None:
            self.begins, self.chains = link.number, 1
            return None
        if link.number == 1 and link.previous is None:
            self.chains += 1
            if self.may_begin_anew:
                return None
            return AuditBreak.BEGUN_ANEW, f"a chain begins anew after line {self.head.number}"
        if link.number > expected:
            gap = range(expected, link.number)
            self._gaps.append((len(self.breaks), gap))
            return AuditBreak.REMOVED, f"{_lines(gap)} missing before line {link.number}"
        if link.number < expected:
            self._late.add(link.number)
            return (
                AuditBreak.MOVED,
                f"line {link.number} stands after line {self.head.number}",
            )
        if link.previous != self.head.sha256:
            words = f"line {self.head.number} was changed after line {link.number} was written"
            return AuditBreak.CHANGED, words
        return None

    def _note(self, what: AuditBreak, words: str) -> None:
        file, line = self._at
        self.breaks.append(FoundBreak(what=what, file=file, line=line, words=words))


def _lines(gap: range) -> str:
    if len(gap) == 1:
        return f"line {gap[0]} is"
    return f"lines {gap[0]} to {gap[-1]} are"

"""The audit of a process: what stands in its file after a stop, a crash, a full disk, a rotation."""

import errno
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from retrier.app.audit import AuditFile, HeadSender, StandardOutput
from retrier.domain.audit import BEGUN, ENDED, RESUMED
from retrier.errors import AuditUnavailable, BrokerUnavailable, ConfigurationError
from retrier.events.event import Event
from retrier.events.service import AuditFailed, AuditRecovered, AuditTorn
from retrier.transport.sender import BrokerSender
from tests.support.auditing import (
    ListedLines,
    actions,
    filled,
    found_in,
    journal_on,
    read,
    record,
    started,
    walked,
)
from tests.support.frozen_clock import FrozenClock
from tests.support.scripted_transport import ScriptedTransport

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "audit.jsonl"


class TestAFile:
    def test_begins_and_ends_with_lines_of_its_own(self, path: Path) -> None:
        filled(path, 3)

        assert [each["event"]["action"] for each in read(path)] == [BEGUN, "act_0", ENDED]

    def test_goes_on_after_a_restart(self, path: Path) -> None:
        filled(path, 3)
        filled(path, 3)

        walk = walked(path)
        assert (walk.lines, walk.chains, walk.breaks) == (6, 1, [])
        assert read(path)[3]["event"]["action"] == RESUMED

    def test_is_private(self, path: Path) -> None:
        filled(path, 2)

        assert path.stat().st_mode & 0o777 == 0o600

    def test_is_written_to_by_one_process(self, path: Path) -> None:
        journal = started(path)

        with pytest.raises(ConfigurationError, match=r"access.audit.file: .*another process"):
            started(path)
        journal.stop()

    def test_that_cannot_be_made_is_a_problem_of_the_settings(self, path: Path) -> None:
        with pytest.raises(ConfigurationError, match=r"access.audit.file: .*No such file"):
            started(path / "below" / "audit.jsonl")

    def test_has_the_lines_of_threads_one_after_the_other(self, path: Path) -> None:
        journal = started(path)
        with ThreadPoolExecutor(8) as pool:
            numbers = list(pool.map(lambda _: journal.write(record()), range(200)))
        journal.stop()

        walk = walked(path)
        assert sorted(numbers) == list(range(2, 202))
        assert (walk.lines, walk.breaks) == (202, [])


class TestARotation:
    def test_is_a_move_and_the_chain_goes_on_in_a_new_file(self, path: Path) -> None:
        journal = started(path)
        journal.write(record())
        moved = path.rename(path.with_name("audit.jsonl.1"))
        journal.write(record())
        journal.stop()

        walk = walked(moved, path)
        assert (walk.lines, walk.chains, walk.breaks) == (4, 1, [])

    def test_just_before_a_restart_is_seen_by_the_next_process(self, path: Path) -> None:
        filled(path, 4)
        moved = path.rename(path.with_name("audit.jsonl-20260504"))
        filled(path, 2)

        walk = walked(moved, path)
        assert (walk.lines, walk.chains, walk.breaks) == (6, 1, [])

    def test_goes_on_from_the_newest_of_many(self, path: Path) -> None:
        filled(path, 4)
        oldest = path.rename(path.with_name("audit.jsonl.2"))
        filled(path, 4)
        older = path.rename(path.with_name("audit.jsonl.1"))
        filled(path, 2)

        assert walked(oldest, older, path).breaks == []

    def test_by_emptying_the_file_goes_on_too(self, path: Path) -> None:
        journal = started(path)
        journal.write(record())
        copy = path.with_name("copy")
        copy.write_bytes(path.read_bytes())
        path.write_bytes(b"")
        journal.write(record())
        journal.stop()

        assert walked(copy, path).breaks == []


class TestACrash:
    def test_at_any_byte_of_a_line_leaves_a_chain_that_names_it(self, path: Path) -> None:
        filled(path, 4)
        whole = path.read_bytes()
        begin = whole.rstrip(b"\n").rindex(b"\n") + 1
        wrong = []
        for cut in range(begin, len(whole)):
            path.write_bytes(whole[:cut])
            filled(path, 2)
            walk = walked(path)
            is_whole = cut in (begin, len(whole) - 1)
            if walk.breaks or walk.torn != (0 if is_whole else 1):
                wrong.append(cut)

        assert wrong == []

    def test_that_leaves_zeros_is_named(self, path: Path) -> None:
        filled(path, 4)
        path.write_bytes(path.read_bytes() + b"\0" * 5000)
        told: list[Event] = []
        started(path, told.append).stop()

        walk = walked(path)
        assert (walk.torn, walk.breaks) == (1, [])
        assert AuditTorn(place="the audit", size=5000) in told

    def test_that_leaves_an_empty_line_is_named(self, path: Path) -> None:
        filled(path, 4)
        path.write_bytes(path.read_bytes() + b"\n")
        filled(path, 2)

        walk = walked(path)
        assert (walk.torn, walk.breaks) == (1, [])

    def test_of_the_very_first_line_is_named(self, path: Path) -> None:
        path.write_bytes(b'{"@timestamp":')
        filled(path, 3)

        walk = walked(path)
        assert (walk.lines, walk.torn, walk.breaks) == (3, 1, [])

    def test_behind_a_very_long_line_is_named(self, path: Path) -> None:
        journal = started(path)
        journal.write(record("x" * 200_000))
        journal.stop()
        path.write_bytes(path.read_bytes() + b"y" * 300_000)
        filled(path, 2)

        walk = walked(path)
        assert (walk.torn, walk.breaks) == (1, [])

    def test_that_somebody_covers_up_is_found(self, path: Path) -> None:
        filled(path, 4)
        path.write_bytes(path.read_bytes()[:-10])
        filled(path, 2)
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([*lines[:3], b"another rest\n", *lines[4:]]))

        assert found_in(walked(path)) == [("torn", 5)]


class TestADiskThatIsFull:
    def test_refuses_the_line_and_says_so_once(self) -> None:
        lines, told = ListedLines(), list[Event]()
        journal = journal_on(lines, told.append)
        journal.start()
        lines.broken = FULL
        for _ in range(3):
            with pytest.raises(AuditUnavailable, match="No space left"):
                journal.write(record())

        assert not journal.is_well
        failed = [each for each in told if isinstance(each, AuditFailed)]
        assert failed == [AuditFailed(reason="the audit: No space left on device")]

    def test_keeps_what_has_happened_for_later(self) -> None:
        lines, told = ListedLines(), list[Event]()
        journal = journal_on(lines, told.append)
        journal.start()
        lines.broken = FULL
        journal.owe(record("done"))
        lines.broken = None
        journal.settle()

        assert actions(lines.told) == [("done", "start", "unknown")]
        assert lines.told[0]["retrier"]["happened_at"]
        assert AuditRecovered() in told

    def test_bounds_what_it_keeps_and_says_how_much_is_lost(self) -> None:
        lines = ListedLines()
        journal = journal_on(lines)
        journal.start()
        lines.broken = FULL
        for _ in range(1005):
            journal.owe(record("done"))
        lines.broken = None
        journal.settle()

        assert len(lines.told) == 1000
        assert b'"audit_lines_lost"' in lines.lines[-1]
        assert b'"count":5' in lines.lines[-1]

    def test_leaves_no_half_of_a_line(self, path: Path) -> None:
        class HalfFull(AuditFile):
            def append(self, line: bytes) -> None:
                with limited(path):
                    super().append(line)

        journal = journal_on(HalfFull(path))
        journal.start()
        with pytest.raises(AuditUnavailable):
            journal.write(record("x" * 3000))
        filled_after = path.read_bytes()
        journal.write(record())
        journal.stop()

        assert filled_after.endswith(b"}\n")
        assert walked(path).breaks == []


@contextmanager
def limited(path: Path) -> Iterator[None]:
    """Let no file of this process grow by more than 2,000 bytes, so that a write is cut short."""
    import resource  # noqa: PLC0415 - here only
    import signal  # noqa: PLC0415

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 2000, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


def test_standard_output_begins_a_chain_at_each_start(tmp_path: Path) -> None:
    path = tmp_path / "captured"
    with path.open("ab") as file:
        for _ in range(2):
            journal = journal_on(StandardOutput(file.fileno()))
            journal.start()
            journal.write(record())
            journal.stop()

    walk = walked(path, restarts=True)
    assert (walk.lines, walk.chains, walk.breaks) == (6, 2, [])


class TestTheHead:
    def sender(self, path: Path, transport: ScriptedTransport) -> HeadSender:
        transport.broker.declare("audit.heads")
        clock = FrozenClock()
        return HeadSender(
            started(path), BrokerSender(transport, clock), "audit.heads", "test", clock
        )

    def test_is_sent_to_the_queue(self, path: Path) -> None:
        transport = ScriptedTransport()
        head = self.sender(path, transport)
        head.send()

        assert head.journal.head.sha256 is not None
        (sent,) = transport.broker.ready("audit.heads")
        assert head.journal.head.sha256.encode() in sent.body

    def test_is_sent_again_only_if_it_has_changed(self, path: Path) -> None:
        transport = ScriptedTransport()
        head = self.sender(path, transport)
        head.send()
        head.send()
        head.journal.write(record())
        head.send()

        assert len(transport.broker.ready("audit.heads")) == 2

    def test_to_a_queue_that_does_not_exist_is_a_failure_that_is_told(self, path: Path) -> None:
        clock = FrozenClock()
        sender = BrokerSender(ScriptedTransport(), clock)
        head = HeadSender(started(path), sender, "nowhere", "test", clock)

        with pytest.raises(BrokerUnavailable, match="does not exist"):
            head.send()

"""Who guesses a thousand times a second makes one line and one event a minute."""

from retrier.audit import OTHERS, Audit, RefusalCounts
from tests.support.auditing import ADMIN, ListedLines, actions, journal_on
from tests.support.frozen_clock import FrozenClock

WRONG = "This token is not known here."


def test_the_first_is_told_at_once_and_the_others_a_minute_later() -> None:
    clock = FrozenClock()
    counts = RefusalCounts(clock)
    told = []
    for _second in range(120):
        for _each in range(1000):
            counts.add("10.0.0.7", WRONG)
        told.append([each.count for each in counts.take_due()])
        clock.advance(1)

    assert {second: found for second, found in enumerate(told) if found} == {
        0: [1000],
        60: [60_000],
    }


def test_what_is_quiet_for_a_minute_is_forgotten() -> None:
    clock = FrozenClock()
    counts = RefusalCounts(clock)
    counts.add("10.0.0.7", WRONG)
    counts.take_due()
    clock.advance(60)
    assert counts.take_due() == []

    counts.add("10.0.0.7", WRONG)
    assert [each.count for each in counts.take_due()] == [1]


def test_each_address_and_each_reason_is_told_alone() -> None:
    counts = RefusalCounts(FrozenClock())
    counts.add("10.0.0.7", WRONG)
    counts.add("10.0.0.7", "Too many wrong tokens came from this address.")
    counts.add("10.0.0.8", WRONG)

    assert [(each.address, each.count) for each in counts.take_due()] == [
        ("10.0.0.7", 1),
        ("10.0.0.7", 1),
        ("10.0.0.8", 1),
    ]


def test_who_has_a_million_addresses_does_not_fill_the_memory() -> None:
    counts = RefusalCounts(FrozenClock())
    for number in range(5000):
        counts.add(f"2001:db8::{number:x}", WRONG)

    told = counts.take_due()
    assert len(told) == 1001
    assert (told[-1].address, told[-1].count) == (OTHERS, 4000)


def test_what_could_not_be_told_is_counted_with_the_next() -> None:
    clock = FrozenClock()
    counts = RefusalCounts(clock)
    counts.add("10.0.0.7", WRONG, count=5)
    (untold,) = counts.take_due()
    counts.add(untold.address, untold.reason, untold.who, untold.count)
    clock.advance(60)

    assert [each.count for each in counts.take_due()] == [5]


def test_guesses_are_written_as_one_line_and_told_as_one_event() -> None:
    lines = ListedLines()
    journal = journal_on(lines)
    journal.start()
    audit = Audit(journal, FrozenClock())
    for _ in range(1000):
        audit.count("10.0.0.7", WRONG)
    assert lines.told == []
    audit.tell_guesses()

    (line,) = lines.told
    assert actions([line]) == [("authenticate", "denied", "failure")]
    assert (line["source"]["ip"], line["retrier"]["count"]) == ("10.0.0.7", 1000)
    assert line["event"]["category"] == ["authentication"]
    (refused,) = audit.refusals.take_due()
    assert (refused.address, refused.reason, refused.count) == ("10.0.0.7", WRONG, 1000)


def test_a_refusal_of_somebody_known_has_a_line_each_and_one_event() -> None:
    lines = ListedLines()
    journal = journal_on(lines)
    journal.start()
    audit = Audit(journal, FrozenClock())
    for _ in range(3):
        audit.refuse(ADMIN, "edit_message", "This takes another role.")

    assert len(lines.told) == 3
    (refused,) = audit.refusals.take_due()
    assert (refused.who, refused.count) == ("ann@example.org", 3)

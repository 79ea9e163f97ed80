"""How a worker counts the crashes of a message that came back."""

import pytest

from retrier.worker.starts import (
    FORGIVEN,
    MOST_UNSTARTED,
    Counts,
    Poison,
    Site,
    Startable,
    Trace,
    Uncounted,
    judge_delivery,
)

UNKNOWN, IN_HAND, STARTED = Trace
COUNTING = Site(alone=True, counted=True, limit=10)
"""One message in hand, on a queue that counts."""
NOT_COUNTING = Site(alone=True, counted=False, limit=10)
SEVERAL = Site(alone=False, counted=True, may_be_unseen=True, limit=10)
FAR_AWAY = Site(alone=False, counted=True, may_be_unseen=False, limit=10)
"""Several in hand, and no other process of this machine has ever handled the queue."""
BESIDE_SEVERAL = Site(alone=True, counted=True, may_be_unseen=True, limit=10)
"""One message in hand, beside processes of this machine that may have several."""


@pytest.mark.parametrize("site", [COUNTING, NOT_COUNTING, SEVERAL, FAR_AWAY])
def test_what_did_not_come_back_is_started_with_the_counts_it_has(site: Site) -> None:
    assert judge_delivery(Counts(7, 1), [], site) == (Counts(7, 1), Startable())
    assert judge_delivery(Counts(11), [], site) == (Counts(11), Poison())


def test_where_one_message_is_in_hand_a_queue_that_counts_is_believed() -> None:
    assert judge_delivery(Counts(), [UNKNOWN] * 10, COUNTING) == (Counts(10), Startable())
    assert judge_delivery(Counts(7), [UNKNOWN] * 4, COUNTING) == (Counts(11), Poison())


def test_but_not_for_what_is_known_to_be_unstarted() -> None:
    found = judge_delivery(Counts(), [IN_HAND, STARTED, IN_HAND, UNKNOWN], COUNTING)

    assert found == (Counts(2), Startable())


def test_elsewhere_the_count_is_written_down_before_it_is_started_again() -> None:
    assert judge_delivery(Counts(), [UNKNOWN], NOT_COUNTING) == (Counts(1), Uncounted())
    assert judge_delivery(Counts(9), [STARTED], NOT_COUNTING) == (Counts(10), Uncounted())
    assert judge_delivery(Counts(10), [STARTED], NOT_COUNTING) == (Counts(11), Poison())
    assert judge_delivery(Counts(9), [IN_HAND], NOT_COUNTING) == (Counts(9), Startable())


def test_where_several_are_in_hand_only_what_was_started_counts() -> None:
    assert judge_delivery(Counts(), [IN_HAND] * 3, SEVERAL) == (Counts(), Startable())
    assert judge_delivery(Counts(), [IN_HAND, STARTED], SEVERAL) == (Counts(1), Uncounted())
    assert judge_delivery(Counts(10), [STARTED], SEVERAL) == (Counts(11), Poison())


def test_what_nobody_knows_of_is_forgiven_some_times_only() -> None:
    found = judge_delivery(Counts(), [UNKNOWN] * FORGIVEN, SEVERAL)
    assert found == (Counts(0, FORGIVEN), Uncounted())

    assert judge_delivery(found[0], [UNKNOWN], SEVERAL) == (Counts(1, FORGIVEN), Uncounted())


def test_each_return_from_another_machine_is_a_start_as_one_copy_may_be_started_often_there() -> (
    None
):
    assert judge_delivery(Counts(), [UNKNOWN] * 4, FAR_AWAY) == (Counts(4), Uncounted())
    assert judge_delivery(Counts(10), [UNKNOWN], FAR_AWAY) == (Counts(11), Poison())


@pytest.mark.parametrize("site", [SEVERAL, FAR_AWAY])
def test_a_copy_that_others_started_several_times_in_its_place_counts_each_time(site: Site) -> None:
    assert judge_delivery(Counts(), [STARTED] * 4, site) == (Counts(4), Uncounted())
    assert judge_delivery(Counts(1), [STARTED] * 10, site) == (Counts(11), Poison())


def test_beside_who_has_several_in_hand_also_one_at_a_time_forgives_what_nobody_knows_of() -> None:
    found = judge_delivery(Counts(), [UNKNOWN, STARTED], BESIDE_SEVERAL)
    assert found == (Counts(1, 1), Startable())

    found = judge_delivery(Counts(3, 4), [UNKNOWN, UNKNOWN], BESIDE_SEVERAL)
    assert found == (Counts(4, FORGIVEN), Startable())


def test_what_comes_back_unstarted_again_and_again_gets_a_new_copy_before_the_broker_drops_it() -> (
    None
):
    traces = [IN_HAND] * (MOST_UNSTARTED + 1)

    assert judge_delivery(Counts(), traces, SEVERAL) == (Counts(), Uncounted())


@pytest.mark.parametrize("site", [COUNTING, NOT_COUNTING, SEVERAL, FAR_AWAY])
def test_a_handler_is_started_once_and_limit_times_more(site: Site) -> None:
    starts, counts, traces = 0, Counts(), list[Trace]()
    verdict = judge_delivery(counts, traces, site)[1]
    while verdict != Poison():
        if verdict == Startable():
            starts += 1
            traces = [*traces, STARTED] if site == COUNTING else [STARTED]
        else:
            traces = []
        found, verdict = judge_delivery(counts, traces, site)
        counts = counts if site == COUNTING else found

    assert starts == 11

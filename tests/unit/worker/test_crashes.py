"""How a worker counts the crashes of a message that came back."""

import pytest

from retrier.worker.starts import (
    FORGIVEN,
    MOST_UNSTARTED,
    Poison,
    Site,
    Startable,
    StartCounts,
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
    assert judge_delivery(StartCounts(7, 1), [], site) == (StartCounts(7, 1), Startable())
    assert judge_delivery(StartCounts(11), [], site) == (StartCounts(11), Poison())


def test_where_one_message_is_in_hand_a_queue_that_counts_is_believed() -> None:
    assert judge_delivery(StartCounts(), [UNKNOWN] * 10, COUNTING) == (StartCounts(10), Startable())
    assert judge_delivery(StartCounts(7), [UNKNOWN] * 4, COUNTING) == (StartCounts(11), Poison())


def test_but_not_for_what_is_known_to_be_unstarted() -> None:
    found = judge_delivery(StartCounts(), [IN_HAND, STARTED, IN_HAND, UNKNOWN], COUNTING)

    assert found == (StartCounts(2), Startable())


def test_elsewhere_the_count_is_written_down_before_it_is_started_again() -> None:
    assert judge_delivery(StartCounts(), [UNKNOWN], NOT_COUNTING) == (StartCounts(1), Uncounted())
    assert judge_delivery(StartCounts(9), [STARTED], NOT_COUNTING) == (StartCounts(10), Uncounted())
    assert judge_delivery(StartCounts(10), [STARTED], NOT_COUNTING) == (StartCounts(11), Poison())
    assert judge_delivery(StartCounts(9), [IN_HAND], NOT_COUNTING) == (StartCounts(9), Startable())


def test_where_several_are_in_hand_only_what_was_started_counts() -> None:
    assert judge_delivery(StartCounts(), [IN_HAND] * 3, SEVERAL) == (StartCounts(), Startable())
    assert judge_delivery(StartCounts(), [IN_HAND, STARTED], SEVERAL) == (
        StartCounts(1),
        Uncounted(),
    )
    assert judge_delivery(StartCounts(10), [STARTED], SEVERAL) == (StartCounts(11), Poison())


def test_what_nobody_knows_of_is_forgiven_some_times_only() -> None:
    found = judge_delivery(StartCounts(), [UNKNOWN] * FORGIVEN, SEVERAL)
    assert found == (StartCounts(0, FORGIVEN), Uncounted())

    assert judge_delivery(found[0], [UNKNOWN], SEVERAL) == (StartCounts(1, FORGIVEN), Uncounted())


def test_each_return_from_another_machine_is_a_start_as_one_copy_may_be_started_often_there() -> (
    None
):
    assert judge_delivery(StartCounts(), [UNKNOWN] * 4, FAR_AWAY) == (StartCounts(4), Uncounted())
    assert judge_delivery(StartCounts(10), [UNKNOWN], FAR_AWAY) == (StartCounts(11), Poison())


@pytest.mark.parametrize("site", [SEVERAL, FAR_AWAY])
def test_a_copy_that_others_started_several_times_in_its_place_counts_each_time(site: Site) -> None:
    assert judge_delivery(StartCounts(), [STARTED] * 4, site) == (StartCounts(4), Uncounted())
    assert judge_delivery(StartCounts(1), [STARTED] * 10, site) == (StartCounts(11), Poison())


def test_beside_who_has_several_in_hand_also_one_at_a_time_forgives_what_nobody_knows_of() -> None:
    found = judge_delivery(StartCounts(), [UNKNOWN, STARTED], BESIDE_SEVERAL)
    assert found == (StartCounts(1, 1), Startable())

    found = judge_delivery(StartCounts(3, 4), [UNKNOWN, UNKNOWN], BESIDE_SEVERAL)
    assert found == (StartCounts(4, FORGIVEN), Startable())


def test_what_comes_back_unstarted_again_and_again_gets_a_new_copy_before_the_broker_drops_it() -> (
    None
):
    traces = [IN_HAND] * (MOST_UNSTARTED + 1)

    assert judge_delivery(StartCounts(), traces, SEVERAL) == (StartCounts(), Uncounted())


@pytest.mark.parametrize("site", [COUNTING, NOT_COUNTING, SEVERAL, FAR_AWAY])
def test_a_handler_is_started_once_and_limit_times_more(site: Site) -> None:
    starts, counts, traces = 0, StartCounts(), list[Trace]()
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

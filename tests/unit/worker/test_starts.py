"""What processes of one machine note of the messages they have in hand."""

from pathlib import Path

from retrier.worker.starts import Keys, Starts, Trace

KEYS = Keys(["amqp://broker"])


def key(number: int) -> bytes:
    return KEYS.make("orders", f"m-{number}", b"{}", (0, 0, 0))


def test_what_a_process_had_started_is_known_to_others_however_it_ended(tmp_path: Path) -> None:
    died, other = Starts("site", 10, tmp_path), Starts("site", 10, tmp_path)
    places = [died.receive(key(number)) for number in range(3)]
    died.start(places[0])
    died.settle(places[1])

    found = other.look([key(number) for number in range(3)])

    assert found == [Trace.STARTED, Trace.UNKNOWN, Trace.IN_HAND]


def test_what_is_given_back_on_purpose_was_only_in_hand(tmp_path: Path) -> None:
    stopped = Starts("site", 10, tmp_path)
    place = stopped.receive(key(1))
    stopped.start(place)
    stopped.give_back(place)

    assert Starts("site", 10, tmp_path).look([key(1)]) == [Trace.IN_HAND]


def test_a_process_whose_connection_broke_knows_what_it_had(tmp_path: Path) -> None:
    starts = Starts("site", 10, tmp_path)
    starts.receive(key(1))

    starts.lose()

    assert starts.look([key(1)]) == [Trace.IN_HAND]
    assert starts.beside_others


def test_places_are_used_again_and_again(tmp_path: Path) -> None:
    starts = Starts("site", 2, tmp_path)
    kept = starts.receive(key(0))
    for number in range(1, 500):
        starts.settle(starts.receive(key(number)))

    assert starts.look([key(0), key(499)]) == [Trace.IN_HAND, Trace.UNKNOWN]
    starts.settle(kept)


def test_only_processes_with_the_same_queues_count(tmp_path: Path) -> None:
    starts = Starts(KEYS.of_site(["orders"]), 1, tmp_path)
    Starts(KEYS.of_site(["invoices"]), 1, tmp_path)
    assert not starts.beside_others

    Starts(KEYS.of_site(["orders"]), 1, tmp_path)
    assert starts.beside_others


def test_a_message_may_be_unseen_beside_a_process_that_may_have_several_in_hand(
    tmp_path: Path,
) -> None:
    beside = [Starts("one", 1, tmp_path), Starts("one", 1, tmp_path)]
    assert [each.may_be_unseen for each in beside] == [False, False]

    beside = [Starts("two", 1, tmp_path), Starts("two", 2, tmp_path)]
    assert [each.may_be_unseen for each in beside] == [True, False]


def test_a_message_may_be_unseen_by_who_lost_a_connection_with_several_in_hand(
    tmp_path: Path,
) -> None:
    each = [Starts("one", 1, tmp_path), Starts("two", 2, tmp_path)]
    for starts in each:
        starts.receive(key(1))
        starts.lose()

    assert [starts.may_be_unseen for starts in each] == [False, True]


def test_what_a_worker_with_other_queues_beside_it_has_started_is_known(tmp_path: Path) -> None:
    both = Starts(KEYS.of_site(["invoices", "orders"]), 2, tmp_path)
    both.start(both.receive(key(1)))

    assert Starts(KEYS.of_site(["orders"]), 1, tmp_path).look([key(1)]) == [Trace.STARTED]


def test_a_process_that_ends_well_leaves_nothing(tmp_path: Path) -> None:
    Starts("site", 1, tmp_path).close()

    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_open_to_others_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "open"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    starts = Starts("site", 1, folder)
    starts.start(starts.receive(key(1)))

    assert list(folder.iterdir()) == []
    assert starts.look([key(1)]) == [Trace.STARTED]
    starts.close()


def test_the_same_name_on_another_queue_or_broker_is_another_message() -> None:
    made = {
        KEYS.make("orders", "m-1", b"{}", (0, 0, 0)),
        KEYS.make("invoices", "m-1", b"{}", (0, 0, 0)),
        KEYS.make("orders", "m-1", b"[]", (0, 0, 0)),
        KEYS.make("orders", "m-1", b"{}", (1, 0, 0)),
        Keys(["amqp://other"]).make("orders", "m-1", b"{}", (0, 0, 0)),
    }

    assert len(made) == 5

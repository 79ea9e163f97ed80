"""The board that says whether the service is ready."""

from retrier.app.readiness import ReadinessBoard


def test_a_part_is_as_it_was_last_noted() -> None:
    board = ReadinessBoard()
    board.put("broker", ready=False, reason="refused")
    board.put("broker", ready=True, reason="reached")

    assert board.read() == {"broker": (True, "reached")}


def test_a_watched_part_is_asked_each_time() -> None:
    answers = iter([(False, "starting"), (True, "consuming")])
    board = ReadinessBoard()
    board.watch("ingestion", lambda: next(answers))

    assert [board.read()["ingestion"], board.read()["ingestion"]] == [
        (False, "starting"),
        (True, "consuming"),
    ]

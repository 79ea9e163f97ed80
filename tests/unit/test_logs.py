"""Logs: how an event becomes a line."""

import json
import logging
from io import StringIO
from uuid import uuid4

import pytest

from retrier.logs import EVENTS, Events, adopt_standard_logging, put_into_words


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class Full(StringIO):
    def write(self, _text: str, /) -> int:
        raise OSError(28, "No space left on device")


def test_an_event_is_a_json_line_where_no_terminal_is() -> None:
    stream = StringIO()

    Events(stream).say("ingestion.started", queue="error", prefetch=500)

    line = json.loads(stream.getvalue())
    del line["timestamp"]
    assert line == {
        "event": "ingestion.started",
        "level": "info",
        "message": "Takes failed messages off error",
        "queue": "error",
        "prefetch": 500,
    }


def test_an_event_is_a_sentence_on_a_terminal() -> None:
    stream = Terminal()

    Events(stream).say("ingestion.started", queue="error")

    assert "Takes failed messages off error" in stream.getvalue()


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(KeyError, match="stared"):
        Events(StringIO()).say("ingestion.stared", queue="error")


@pytest.mark.parametrize("event", EVENTS)
def test_a_field_that_is_missing_stops_nothing(event: str) -> None:
    stream = StringIO()

    Events(stream).say(event)

    assert json.loads(stream.getvalue())["event"] == event


@pytest.mark.parametrize("field", ["event", "message", "level", "timestamp"])
def test_a_field_cannot_take_the_place_of_the_event(field: str) -> None:
    stream = StringIO()

    Events(stream).say("service.started", **{field: "other"})

    line = json.loads(stream.getvalue())
    assert (line["event"], line["message"]) == ("service.started", "Retrier is up")


@pytest.mark.parametrize("stream", [StringIO(), Terminal()])
def test_a_field_cannot_begin_a_line_of_its_own(stream: StringIO) -> None:
    Events(stream).say("broker.unreachable", reason="refused\nRetrier is up\x1b[2J")

    assert len(stream.getvalue().splitlines()) == 1


def test_a_long_reason_is_cut() -> None:
    sentence = put_into_words("broker.unreachable", {"reason": "x" * 9999})

    assert len(sentence) < 600


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    stream = Full()

    Events(stream).say("service.started")

    assert stream.getvalue() == ""


def test_a_traceback_is_told_without_local_variables() -> None:
    stream, body = Terminal(), "card 4711"
    with pytest.raises(ZeroDivisionError) as caught:
        len(body) // 0

    Events(stream).say("processor.turn_failed", exc_info=caught.value)

    assert "ZeroDivisionError" in stream.getvalue()
    assert body not in stream.getvalue()


def test_a_warning_of_a_library_has_the_same_form() -> None:
    stream, logger = StringIO(), logging.getLogger(f"library.{uuid4()}")
    adopt_standard_logging(stream, logger)

    logger.warning("lost %s", "127.0.0.1")
    logger.info("fine")

    line = json.loads(stream.getvalue())
    assert (line["level"], line["logger"], line["message"]) == (
        "warning",
        logger.name,
        "lost 127.0.0.1",
    )

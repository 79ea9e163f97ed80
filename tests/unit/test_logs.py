"""Logs: how an event becomes a line."""

import json
import logging
import re
from io import StringIO
from uuid import uuid4

import pytest

from retrier.app.log import (
    LINES,
    LineWriter,
    LogLine,
    adopt_standard_logging,
    make_line,
    put_into_words,
)
from retrier.errors import LeaseLost


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


class Full(StringIO):
    def write(self, _text: str, /) -> int:
        raise OSError(28, "No space left on device")


def test_an_event_is_a_json_line_where_no_terminal_is() -> None:
    stream = StringIO()

    LineWriter(stream).write(make_line("ingestion.started", queue="error", prefetch=500))

    line = json.loads(stream.getvalue())
    del line["timestamp"]
    assert line == {
        "event": "ingestion.started",
        "level": "info",
        "message": "Ingestion from error started",
        "queue": "error",
        "prefetch": 500,
    }


def test_an_event_is_a_sentence_on_a_terminal() -> None:
    stream = Terminal()

    LineWriter(stream).write(make_line("ingestion.started", queue="error"))

    assert "Ingestion from error started" in stream.getvalue()


def test_an_unknown_event_is_refused() -> None:
    with pytest.raises(KeyError, match="stared"):
        make_line("ingestion.stared", queue="error")


@pytest.mark.parametrize("event", LINES)
def test_a_field_that_is_missing_stops_nothing(event: str) -> None:
    stream = StringIO()

    LineWriter(stream).write(make_line(event))

    assert json.loads(stream.getvalue())["event"] == event


@pytest.mark.parametrize("field", ["event", "message", "level", "timestamp"])
def test_a_field_cannot_take_the_place_of_the_event(field: str) -> None:
    stream = StringIO()

    LineWriter(stream).write(LogLine("service.started", {field: "other"}))

    line = json.loads(stream.getvalue())
    assert (line["event"], line["message"]) == ("service.started", "Retrier is up")


@pytest.mark.parametrize("stream", [StringIO(), Terminal()])
def test_a_field_cannot_begin_a_line_of_its_own(stream: StringIO) -> None:
    LineWriter(stream).write(
        make_line("broker.unreachable", reason="refused\nRetrier is up\x1b[2J")
    )

    assert len(stream.getvalue().splitlines()) == 1


def test_a_long_reason_is_cut() -> None:
    sentence = put_into_words(make_line("broker.unreachable", reason="x" * 9999))

    assert len(sentence) < 600


def test_a_log_that_cannot_be_written_stops_nothing() -> None:
    stream = Full()

    LineWriter(stream).write(make_line("service.started"))

    assert stream.getvalue() == ""


def test_a_traceback_is_told_without_local_variables() -> None:
    stream, body = Terminal(), "card 4711"
    with pytest.raises(ZeroDivisionError) as caught:
        len(body) // 0

    LineWriter(stream).write(make_line("processor.turn_failed", error=caught.value))

    assert "ZeroDivisionError" in stream.getvalue()
    assert body not in stream.getvalue()


@pytest.mark.parametrize("words", ["4711", "://u:secret-4711@h"])
def test_the_words_of_a_foreign_exception_are_not_told(words: str) -> None:
    stream = StringIO()
    error = RuntimeError("wrapped: 4711")
    error.__cause__ = ValueError(words)

    LineWriter(stream).write(make_line("processor.turn_failed", error=error))

    told = json.loads(stream.getvalue())["exception"]
    assert "RuntimeError" in told
    assert "ValueError" in told
    assert "4711" not in stream.getvalue()


def test_the_words_of_our_own_exception_are_told() -> None:
    stream = StringIO()

    LineWriter(stream).write(
        make_line("service.part_failed", part="processor", error=LeaseLost("frozen"))
    )

    assert "retrier.errors.LeaseLost: frozen" in json.loads(stream.getvalue())["exception"]


def test_an_exception_that_came_of_itself_is_told_once() -> None:
    stream, error = StringIO(), ValueError()
    error.__context__ = RuntimeError()
    error.__context__.__cause__ = error

    LineWriter(stream).write(make_line("service.part_failed", part="processor", error=error))

    assert json.loads(stream.getvalue())["exception"].count("ValueError") == 1


def test_the_exception_of_a_library_is_told_without_its_words() -> None:
    stream, logger = StringIO(), logging.getLogger(f"library.{uuid4()}")
    adopt_standard_logging(stream, logger)
    body = "card 4711"

    try:
        int(body)
    except ValueError:
        logger.exception("broken")

    assert json.loads(stream.getvalue())["exception"].endswith("ValueError")
    assert body not in stream.getvalue()


@pytest.mark.parametrize(
    "reason",
    [
        "cannot dial amqp://shop:pa@ss/word@rabbit.example/",
        "bad option in host=db user=shop password='pa@ss/word'",
        "bad option in host=db password=pa@ss/word dbname=shop",
        "postgresql://db.example/shop?user=shop&password=pa@ss/word",
        "postgresql://db.example/shop?user=shop&sslpassword=pa@ss/word",
        "bad option in host=db oauth_client_secret=pa@ss/word dbname=shop",
        "bad option in host=db scram_client_key=pa@ss/word dbname=shop",
    ],
)
def test_a_password_in_a_reason_is_masked(reason: str) -> None:
    stream = StringIO()

    LineWriter(stream).write(make_line("broker.unreachable", reason=reason))

    assert "***" in stream.getvalue()
    assert "ss/word" not in stream.getvalue()


def test_a_password_in_the_words_of_a_library_is_masked() -> None:
    stream, logger = StringIO(), logging.getLogger(f"library.{uuid4()}")
    adopt_standard_logging(stream, logger)

    logger.warning("lost %s", "amqp://shop:secret-4711@rabbit.example/")

    assert "amqp://shop:***@rabbit.example/" in stream.getvalue()


def test_a_terminal_gets_json_if_it_is_asked_for() -> None:
    stream = Terminal()

    LineWriter(stream, "json").write(make_line("service.started"))

    assert json.loads(stream.getvalue())["event"] == "service.started"


def test_a_file_gets_sentences_without_colours_if_they_are_asked_for() -> None:
    stream = StringIO()

    LineWriter(stream, "console").write(make_line("ingestion.started", queue="error"))

    assert "Ingestion from error started" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_a_person_reads_a_sentence_of_each_line_and_nothing_else() -> None:
    stream = StringIO()

    LineWriter(stream, "console").write(
        make_line("ingestion.paused", queue="error", reason="it is gone", error=ValueError())
    )

    first, *_ = stream.getvalue().splitlines()
    assert re.fullmatch(
        r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ \[warning *\] "
        r"Ingestion from error paused: it is gone *",
        first,
    )


def test_a_person_who_debugs_reads_the_fields_too() -> None:
    stream = StringIO()

    LineWriter(stream, "console", logging.DEBUG).write(
        make_line("ingestion.started", queue="error")
    )

    assert "Ingestion from error started" in stream.getvalue()
    assert "queue=error" in stream.getvalue()


def test_a_person_reads_where_an_unexpected_error_was_raised() -> None:
    stream, empty = StringIO(), ""
    with pytest.raises(ZeroDivisionError) as caught:
        1 / len(empty)

    LineWriter(stream, "console").write(make_line("processor.turn_failed", error=caught.value))

    assert "test_a_person_reads_where_an_unexpected_error_was_raised" in stream.getvalue()


def test_what_is_below_the_level_is_not_told() -> None:
    stream = StringIO()
    writer = LineWriter(stream, level=logging.ERROR)

    writer.write(make_line("processor.backing_off", reason="tired"))
    writer.write(make_line("broker.unreachable", reason="refused"))

    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == ["error"]


def test_libraries_are_quieter_at_a_higher_level() -> None:
    stream, logger = StringIO(), logging.getLogger(f"library.{uuid4()}")
    adopt_standard_logging(stream, logger, level=logging.ERROR)

    logger.warning("lost")

    assert stream.getvalue() == ""


def test_the_driver_of_postgresql_tells_errors_only() -> None:
    stream, logger = StringIO(), logging.getLogger(f"library.{uuid4()}")
    adopt_standard_logging(stream, logger)
    driver = logger.getChild("psycopg")

    driver.warning("error ignored terminating the pipeline: the connection is lost")
    driver.error("a connection was not closed")

    assert [json.loads(line)["level"] for line in stream.getvalue().splitlines()] == ["error"]


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

"""What a worker tells programs: a log of JSON, and metrics."""

import json
import logging
import re
from math import nan
from threading import Event
from urllib.request import urlopen

import pytest

from retrier.errors import ConfigurationError
from retrier.worker import JsonLines, Worker
from retrier.worker.worker import Measures


def line(*, failed: bool = False, **fields: object) -> dict[str, object]:
    """Return a line of the log, as a program reads it."""

    def refuse(word: str) -> None:
        raise ValueError(word)

    record = logging.makeLogRecord(
        {
            "msg": "the message %s",
            "args": ("m-1",),
            "name": "retrier.worker",
            "created": 0,
            **fields,
        }
    )
    if failed:
        error = ValueError("no")
        record.exc_info = (ValueError, error, None)
    found: dict[str, object] = json.loads(JsonLines().format(record), parse_constant=refuse)
    return found


def test_a_line_is_json_with_its_fields() -> None:
    assert line(event="message.handled", attempt=2) == {
        "time": "1970-01-01T00:00:00+00:00",
        "level": "level none",
        "logger": "retrier.worker",
        "message": "the message m-1",
        "event": "message.handled",
        "attempt": 2,
    }


def test_what_json_has_not_is_text() -> None:
    assert line(thing={1}, number=nan) | {"number": "nan", "thing": "{1}"} == line(
        thing={1}, number=nan
    )


def test_a_line_has_its_trace() -> None:
    assert "ValueError: no" in str(line(failed=True)["exception_trace"])


def read(measures: Measures) -> dict[str, float]:
    server = measures.serve("0")
    try:
        with urlopen(f"http://127.0.0.1:{server.port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    finally:
        server.close()
    found = re.findall(r"^(retrier_worker_\S+) (\S+)$", text, re.MULTILINE)
    return {name: float(value) for name, value in found if "_created" not in name}


def test_outcomes_are_counted_and_durations_measured() -> None:
    measures = Measures(lambda: True)
    told: list[str] = []
    note = measures.beside(lambda _queue, outcome, _seconds: told.append(outcome))
    note("orders", "success", 0.3)
    note("orders", "success", 7)
    note("orders", "poison_message", 0)  # not started

    found = read(measures)

    assert found['retrier_worker_messages_total{outcome="success",queue="orders"}'] == 2
    assert found['retrier_worker_messages_total{outcome="poison_message",queue="orders"}'] == 1
    assert found['retrier_worker_handler_seconds_count{queue="orders"}'] == 2
    assert found['retrier_worker_handler_seconds_bucket{le="0.5",queue="orders"}'] == 1
    assert found["retrier_worker_taking"] == 1
    assert told == ["success", "success", "poison_message"]


def test_a_worker_that_takes_nothing_says_so() -> None:
    assert read(Measures(lambda: False))["retrier_worker_taking"] == 0


def test_a_port_of_metrics_that_is_none_is_refused_when_it_begins() -> None:
    worker = Worker("memory://", metrics_port="http")
    worker.handler("orders")(lambda _body: None)

    with pytest.raises(ConfigurationError, match="the port of the metrics is no port: 'http'"):
        worker.run(Event())

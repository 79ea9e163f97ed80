"""How a message is published when the connection does not do as it should."""

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import pytest

from retrier.integrations.celery import TRUSTED, Publication, Publisher, PublishRefused, describe
from tests.support.frozen_clock import FrozenClock

FULL: Mapping[str, object] = {"trace": "long"}
SHORT: Mapping[str, object] = {"trace": "short"}
FAILURE = Publication(queue="error", headers=FULL, shorter=SHORT, body=b"[]")


class Broken(Exception):
    """What a client library raises."""


class App:
    """An app of Celery's whose publications end as the script says; None is well."""

    def __init__(self, *script: object, driver: str = "amqp") -> None:
        self._driver = driver
        self.probes = 0
        self.amqp = SimpleNamespace(Producer=self._make_producer)
        self.connections: list[Any] = []
        self.sent: list[Mapping[str, object]] = []
        self._script = list(script)

    def _close(self) -> None:
        """Raise, as Kombu does of a connection that the broker has closed."""
        raise AttributeError("close")

    def connection_for_write(self, transport_options: Mapping[str, object]) -> Any:
        closed: list[bool] = []
        connection = SimpleNamespace(
            transport_options=dict(transport_options),
            get_transport_cls=lambda: SimpleNamespace(driver_type=self._driver),
            connect=lambda: None,
            connection=SimpleNamespace(collect=lambda: closed.append(True)),
            channel=lambda: connection,
            closed=closed,
            close=self._close,
        )
        self.connections.append(connection)
        return connection

    def _make_producer(self, channel: Any, *, auto_declare: bool, on_return: Any = None) -> Any:
        assert not auto_declare
        assert (on_return is not None) == (self._driver == "amqp")

        def publish(_body: bytes, **given: Any) -> None:
            if not given["routing_key"]:  # the probe
                self.probes += 1
                return
            end = self._script.pop(0)
            if isinstance(end, Exception):
                raise end
            self.sent.append(given["headers"])
            if end == "returned":
                on_return(Broken(), "", given["routing_key"], None)

        del channel
        return SimpleNamespace(publish=publish)


def test_it_is_confirmed():
    app = App(None)

    Publisher(app).publish(FAILURE)

    assert app.connections[0].transport_options["confirm_publish"] is True
    assert app.sent == [FULL]


def test_on_redis_nothing_is_probed_and_no_wait_is_endless():
    app = App(None, driver="redis")

    Publisher(app, timeout=3).publish(FAILURE)

    assert app.connections[0].transport_options == {
        "socket_timeout": 3,
        "socket_connect_timeout": 3,
    }
    assert (app.sent, app.probes) == ([FULL], 0)


def test_one_connection_serves_all():
    app = App(None, None)
    publisher = Publisher(app)

    publisher.publish(FAILURE)
    publisher.publish(FAILURE)

    assert len(app.connections) == 1


def test_a_connection_that_broke_while_it_was_idle_is_opened_again():
    app = App(None, Broken(), None)
    publisher = Publisher(app)

    publisher.publish(FAILURE)
    publisher.publish(FAILURE)

    assert app.sent == [FULL, FULL]
    assert app.connections[0].closed


def test_a_connection_that_lay_idle_is_not_trusted():
    """What stands in between may have forgotten it, and then nobody would answer."""
    app, clock = App(None, None), FrozenClock()
    publisher = Publisher(app, clock)

    publisher.publish(FAILURE)
    clock.advance(TRUSTED)
    publisher.publish(FAILURE)

    assert len(app.connections) == 2
    assert app.connections[0].closed


def test_the_waits_for_a_silent_broker_end():
    app = App(None)

    Publisher(app, timeout=3).publish(FAILURE)

    options = app.connections[0].transport_options
    assert (options["read_timeout"], options["write_timeout"]) == (3, 3)


def test_what_breaks_every_connection_is_sent_in_short():
    app = App(Broken(), Broken(), None)

    Publisher(app).publish(FAILURE)

    assert app.sent == [SHORT]


def test_what_cannot_be_sent_at_all_is_said():
    with pytest.raises(Broken):
        Publisher(App(Broken(), Broken(), Broken())).publish(FAILURE)


def test_a_broker_that_does_not_answer_is_not_asked_again():
    app = App(TimeoutError())

    with pytest.raises(TimeoutError):
        Publisher(app).publish(FAILURE)

    assert len(app.connections) == 1


def test_a_missing_queue_is_noticed():
    with pytest.raises(PublishRefused, match="there is no queue error"):
        Publisher(App("returned")).publish(FAILURE)


def test_after_a_missing_queue_the_next_is_published():
    app = App("returned", None)
    publisher = Publisher(app)
    with pytest.raises(PublishRefused):
        publisher.publish(FAILURE)

    publisher.publish(FAILURE)

    assert app.sent == [FULL, FULL]


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (PublishRefused("there is no queue error"), "PublishRefused: there is no queue error"),
        (ConnectionRefusedError("refused"), "ConnectionRefusedError: refused"),
        (ValueError("a secret"), "ValueError"),
    ],
    ids=["not taken", "refused", "another"],
)
def test_only_texts_that_cannot_quote_the_message_are_told(error, said):
    assert describe(error) == said

"""How handlers are registered, and how one is called."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from math import inf, nan
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from retrier.errors import ConfigurationError
from retrier.worker import Failed, InvalidMessage, Message, Transient, Worker
from retrier.worker.handlers import make_handler
from retrier.worker.outcomes import Broken, Done, Ended, Postponed, Reason


class Order(BaseModel):
    """A model."""

    number: int
    at: datetime | None = None


def message(body: bytes = b'{"number": 7}') -> Message:
    return Message(id="m", queue="orders", headers={}, body=body, crashes=0, retry_id=None)


def handle(call: Callable[..., Any], model: Any = None, body: bytes = b'{"number": 7}') -> Ended:
    return make_handler("orders", call, model).handle(message(body), 1)


def test_without_a_model_a_handler_is_given_the_bytes() -> None:
    assert handle(lambda body: body.decode()) == Done(b'"{\\"number\\": 7}"')


def test_with_a_model_it_is_given_what_pydantic_reads() -> None:
    assert handle(lambda order: order.number, Order) == Done(b"7")


def test_a_second_argument_is_the_message() -> None:
    def handler(_body: bytes, message: Message) -> str | None:
        return message.id

    assert handle(handler) == Done(b'"m"')


def test_a_handler_knows_what_is_done_already() -> None:
    found = Message(
        id="m",
        queue="q",
        headers={"Retrier.CompletedSteps": "1"},
        body=b"",
        crashes=0,
        retry_id=None,
    )
    before = found.completed_steps
    found.complete(2, 4)

    assert (before, found.completed_steps) == ("1", "7")
    assert message().completed_steps is None


def test_an_argument_with_a_default_is_left_alone() -> None:
    def handler(_body: bytes, config: str = "mine") -> str:
        return config

    assert handle(handler) == Done(b'"mine"')


def test_a_class_is_made_and_then_called() -> None:
    class Handle:
        """A handler that refuses in its constructor."""

        def __init__(self, order: Order) -> None:
            if order.number > 9:
                raise InvalidMessage("too large")
            self.order = order

        def __call__(self) -> int:
            return self.order.number

    assert handle(Handle, Order) == Done(b"7")
    refused = handle(Handle, Order, b'{"number": 10}')
    assert isinstance(refused, Broken)
    assert (refused.problem.reason, refused.problem.message) == (Reason.INVALID, "too large")


@pytest.mark.parametrize(
    ("returned", "ended"),
    [
        (None, Done()),
        (Failed({"why": 1}), Done(b'{"why":1}', by_own_account=True)),
        (
            Order(number=1, at=datetime(2026, 5, 4, tzinfo=UTC)),
            Done(b'{"number":1,"at":"2026-05-04T00:00:00Z"}'),
        ),
    ],
    ids=["nothing", "Failed", "a model"],
)
def test_what_is_returned_becomes_json(returned: object, ended: Ended) -> None:
    assert handle(lambda _: returned) == ended


@pytest.mark.parametrize(
    ("returned", "written"),
    [
        (nan, b"null"),
        (Failed(-inf), b"null"),
        ({"a": [inf, 1.5]}, b'{"a":[null,1.5]}'),
        ({1: 2, None: nan}, b'{"1":2,"None":null}'),
        (Decimal("1.5"), b'"1.5"'),
        (Decimal("NaN"), b'"NaN"'),
        ("NaN or -Infinity", b'"NaN or -Infinity"'),
    ],
    ids=repr,
)
def test_a_number_that_json_has_not_is_null(returned: object, written: bytes) -> None:
    ended = handle(lambda _: returned)

    assert isinstance(ended, Done)
    assert ended.result == written


def test_a_model_that_insists_on_such_a_number_is_done_and_its_result_not_told() -> None:
    class Measured(BaseModel):
        """A model that writes what is no JSON."""

        model_config = ConfigDict(ser_json_inf_nan="constants")
        value: float

    ended = handle(lambda _: Measured(value=-inf))

    untold = "it is a Measured, which is no JSON (ValueError)"
    assert ended == Done(untold=untold)


class Row:
    """What an object mapper returns."""


@dataclass
class Packed:
    """A result with a part that cannot be told."""

    parcels: list[object]


@pytest.mark.parametrize(
    ("returned", "untold"),
    [
        (Row(), "it is a Row, which is no JSON"),
        ({"order": {"row": Row()}}, "its field order.row is a Row, which is no JSON"),
        (Packed([1, Row()]), "its field parcels.1 is a Row, which is no JSON"),
        (Failed({"row": Row()}), "its field row is a Row, which is no JSON"),
    ],
    ids=["itself", "in a dict", "in a list", "of a failure"],
)
def test_work_is_done_whose_result_cannot_be_told(returned: object, untold: str) -> None:
    calls: list[bytes] = []

    def work(body: bytes) -> object:
        calls.append(body)
        return returned

    ended = make_handler("orders", work, None).handle(message(b"{}"), 4)

    assert ended == Done(by_own_account=isinstance(returned, Failed), untold=untold)
    assert calls == [b"{}"]


def test_a_result_that_hangs_together_with_itself_cannot_be_told() -> None:
    circle: dict[str, object] = {}
    circle["again"] = circle

    ended = handle(lambda _: circle)

    assert isinstance(ended, Done)
    assert ended.untold is not None
    assert ended.untold.endswith("is a dict, which is no JSON")


def test_what_nobody_is_told_may_be_anything() -> None:
    ended = make_handler("orders", lambda _: Row(), None).handle(message(b"{}"), tells=False)

    assert ended == Done()


def test_what_is_away_is_named_by_the_cause() -> None:
    def handler(_body: bytes) -> None:
        raise Transient from ConnectionRefusedError("db")

    assert handle(handler) == Postponed("ConnectionRefusedError")


def test_who_runs_out_of_memory_is_not_kept_alive() -> None:
    def handler(_body: bytes) -> None:
        raise MemoryError

    with pytest.raises(MemoryError):
        handle(handler)


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"", "json_invalid"),
        (b"\xff", "json_invalid"),
        (b"[]", "model_type"),
        (b"{}", "number: missing"),
        (b'{"number": "4711x"}', "number: int_parsing"),
    ],
)
def test_what_a_model_refuses_is_told_by_field_and_rule(body: bytes, found: str) -> None:
    ended = handle(lambda _: None, Order, body)

    assert isinstance(ended, Broken)
    assert (ended.problem.reason, ended.problem.message) == (Reason.INVALID, found)
    assert "4711" not in ended.problem.stack_trace


def test_an_exception_that_cannot_be_told_is_a_failure_all_the_same() -> None:
    class Awkward(Exception):
        """Cannot be told."""

        def __str__(self) -> str:
            raise ValueError

    def handler(_body: bytes) -> None:
        raise Awkward

    ended = handle(handler)

    assert isinstance(ended, Broken)
    assert ended.problem.message == "(ValueError while it was told)"


def nothing() -> None:
    """Take no argument."""


def many(_a: object, _b: object, _c: object) -> None:
    """Take too many arguments."""


async def later(_body: bytes) -> None:
    """Be no plain function."""


class NotCalled:
    """Has no method that does the work."""

    def __init__(self, _order: object) -> None:
        """Take the order."""


@pytest.mark.parametrize(
    "call",
    [nothing, many, later, NotCalled, "text"],
    ids=["none", "many", "async", "not called", "text"],
)
def test_what_cannot_be_called_is_refused_at_once(call: Any) -> None:
    worker = Worker("amqp://broker")

    with pytest.raises(ConfigurationError):
        worker.handler("orders")(call)


def test_two_handlers_for_one_queue_are_refused() -> None:
    worker = Worker("amqp://broker")
    worker.handler("orders")(lambda _: None)

    with pytest.raises(ConfigurationError, match="the queue 'orders' has a handler already"):
        worker.handler("orders")(lambda _: None)


def test_the_error_queue_has_no_handler() -> None:
    with pytest.raises(
        ConfigurationError, match="'error' is a queue to which the worker publishes"
    ):
        Worker("amqp://broker").handler("error")(lambda _: None)


def test_a_worker_without_a_handler_does_not_begin() -> None:
    with pytest.raises(ConfigurationError, match="the worker has no handler"):
        Worker("amqp://broker").run()


def test_a_handler_that_is_registered_can_still_be_called() -> None:
    @Worker("amqp://broker").handler("orders")
    def double(body: bytes) -> bytes:
        return body * 2

    assert double(b"ab") == b"abab"

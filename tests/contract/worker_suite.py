"""The rules of a worker, as a plain client sees them. They hold on every kind of queue."""

import json
import socket
import sys
from time import time
from typing import Any

import pytest
from pydantic import BaseModel, Field

from retrier.worker import Breaker, Failed, InvalidMessage, Message, Transient
from tests.contract.worker_fixtures import Start, WorkerFixtures, retry_headers
from tests.support.frozen_clock import FrozenClock
from tests.support.waiting import wait_until
from tests.support.worker_outside import DEADLINE, Outside, take_all, take_within


class Order(BaseModel):
    """What the model of the tests asks for."""

    number: int
    items: list[int] = Field(min_length=1)


def put(
    outside: Outside, queue: str, name: str = "m-1", body: bytes = b"{}", **headers: Any
) -> None:
    outside.put(queue, body, headers, message_id=name)


def put_retry(outside: Outside, orders: str, **more: str) -> None:
    outside.put(orders, b"{}", retry_headers(orders, **more), message_id="m-1")


def result(outside: Outside, orders: str) -> dict[str, Any]:
    letter = take_within(outside, f"{orders}.results")
    found: dict[str, Any] = json.loads(letter.body)
    return found


def is_empty(outside: Outside, *queues: str) -> bool:
    return all(outside.count(queue) == 0 for queue in queues)


class WorkerSuite(WorkerFixtures):
    """Every test puts something on a queue, and looks at what becomes of it."""

    def test_what_a_handler_returns_is_the_result(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        put(outside, orders, "m-1")

        running = start(lambda _content, _message, _time: {"parcels": 2})

        letter = take_within(outside, f"{orders}.results")
        assert json.loads(letter.body) == {
            "taskStatus": "RESULT_SUCCESS",
            "taskId": "m-1",
            "worker": "shop",
            "error": None,
            "result": {"parcels": 2},
        }
        assert letter.properties["correlation_id"] == "m-1"
        assert letter.properties["content_type"] == "application/json"
        running.end()
        assert is_empty(outside, orders, f"{orders}.error")

    def test_a_failure_by_its_own_account_is_a_result_and_no_failed_message(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        put(outside, orders)

        running = start(lambda _content, _message, _time: Failed({"why": "sold out"}))

        found = result(outside, orders)
        assert (found["taskStatus"], found["result"]) == ("RESULT_FAILURE", {"why": "sold out"})
        running.end()
        assert is_empty(outside, orders, f"{orders}.error")

    def test_an_exception_sends_the_message_to_the_error_queue_as_it_came(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        headers = {**retry_headers(orders), "Tenant": "7", "Retrier.Stream": "order-7"}
        outside.put(orders, b'{"a": 1}', headers, message_id="m-1", expiration="600000")

        def fail(_content: object, _message: Message, _time: int) -> None:
            raise KeyError("wrapping")

        running = start(fail)

        letter = take_within(outside, f"{orders}.error")
        assert letter.body == b'{"a": 1}'
        assert headers.items() <= letter.headers.items()
        assert letter.properties["message_id"] == "m-1"
        assert "expiration" not in letter.properties
        assert letter.headers["Retrier.FailedQueue"] == orders
        assert letter.headers["Retrier.Endpoint"] == "shop"
        assert letter.headers["Retrier.Host"] == socket.gethostname()
        assert letter.headers["Retrier.Process"].isdecimal()
        assert "Retrier.Reason" not in letter.headers
        assert letter.headers["Retrier.Attempts"] == "1"
        assert letter.headers["Retrier.Exception.Type"] == "KeyError"
        assert letter.headers["Retrier.Exception.Message"] == "'wrapping'"
        assert 'raise KeyError("wrapping")' in letter.headers["Retrier.Exception.StackTrace"]
        assert "retrier/worker" not in letter.headers["Retrier.Exception.StackTrace"]
        found = result(outside, orders)
        assert (found["taskStatus"], found["error"]["type"]) == ("RESULT_EXCEPTION", "KeyError")
        running.end()
        assert running.handled.ids == ["m-1"]
        assert is_empty(outside, orders)

    def test_what_was_done_is_said_with_the_failure_and_with_what_was_said_before(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        # Given a message whose first attempts have done one step, and a handler that does others:
        # before something is away, by its exception, and by an immediate retry
        def work(_content: object, message: Message, time: int) -> None:
            message.complete("reserve", f"step {time}")
            if time == 1:
                raise Transient
            error = KeyError("wrapping")
            error.completed_steps = ["pay"]  # type: ignore[attr-defined]
            raise RuntimeError from error

        put(outside, orders, **{"Retrier.CompletedSteps": "order"})

        # When it fails
        start(work, transient_delay=0.05, immediate_retries=1)

        # Then the failure says all of them, each once
        headers = take_within(outside, f"{orders}.error").headers
        assert headers["Retrier.CompletedSteps"] == "order,reserve,step 1,step 2,pay,step 3"

    def test_each_message_is_a_line_with_fields_and_is_counted(
        self, outside: Outside, orders: str, start: Start, caplog: pytest.LogCaptureFixture
    ) -> None:
        # Given a handler that succeeds at its second try, and one message that fails
        def work(_content: object, message: Message, time: int) -> None:
            if time == 1 or message.id == "m-2":
                raise KeyError("secret-4711")

        put(outside, orders, "m-1")
        put(outside, orders, "m-2")
        counted: list[tuple[str, str]] = []

        # When both are handled
        start(
            work,
            immediate_retries=1,
            metrics=lambda queue, outcome, _seconds: counted.append((queue, outcome)),
        )
        take_within(outside, f"{orders}.error")
        wait_until(lambda: len(counted) == 2, DEADLINE)

        # Then each has a line with fields, and its outcome is counted
        lines = [vars(each) for each in caplog.records if hasattr(each, "duration_ms")]
        names = ("event", "message_id", "queue", "attempt", "outcome", "reason", "exception")
        assert [tuple(line.get(name) for name in names) for line in lines] == [
            ("message.handled", "m-1", orders, 2, "success", None, None),
            ("message.failed", "m-2", orders, 2, *("handler_exception",) * 2, "KeyError"),
        ]
        assert [line["levelname"] for line in lines] == ["INFO", "WARNING"]
        assert counted == [(orders, "success"), (orders, "handler_exception")]
        assert "secret-4711" not in caplog.text

    def test_what_an_earlier_failure_said_is_replaced(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        old = {"Retrier.Exception.StackTrace": "old", "Retrier.CompletedSteps": '["reserve"]'}
        outside.put(orders, b"x", old, message_id="m-1")

        start(model=Order)

        headers = take_within(outside, f"{orders}.error").headers
        assert headers["Retrier.CompletedSteps"] == '["reserve"]'
        assert "old" not in headers.get("Retrier.Exception.StackTrace", "")

    @pytest.mark.parametrize(
        ("error", "reason"),
        [
            (TimeoutError("gateway"), "timeout_exceeded"),
            (RecursionError("too deep"), None),
            (SystemExit(3), None),
        ],
        ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
    )
    def test_any_exception_has_its_reason_and_the_worker_lives(
        self, outside: Outside, orders: str, start: Start, error: BaseException, reason: str | None
    ) -> None:
        def fail(_content: object, message: Message, _time: int) -> None:
            if message.id == "m-1":
                raise error

        put(outside, orders, "m-1")
        put(outside, orders, "m-2")

        start(fail)

        assert take_within(outside, f"{orders}.error").headers.get("Retrier.Reason") == reason
        wait_until(lambda: outside.count(f"{orders}.results") == 2, DEADLINE)

    def test_a_message_that_the_model_refuses_names_fields_and_no_values(
        self,
        outside: Outside,
        orders: str,
        start: Start,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        put(outside, orders, body=b'{"number": "secret-4711", "items": []}')

        running = start(model=Order)

        letter = take_within(outside, f"{orders}.error")
        assert letter.headers["Retrier.Reason"] == "invalid_message"
        assert (
            letter.headers["Retrier.Exception.Message"] == "number: int_parsing; items: too_short"
        )
        assert letter.headers["Retrier.MessageType"] == "Order"
        assert result(outside, orders)["taskStatus"] == "INVALID_TASK"
        running.end()
        assert running.handled.ids == []
        assert "secret-4711" not in caplog.text

    def test_a_handler_says_that_a_message_is_invalid_and_is_not_asked_again(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        def refuse(_content: object, _message: Message, _time: int) -> None:
            raise InvalidMessage("no such customer")

        put(outside, orders)

        running = start(refuse, immediate_retries=3)

        assert (
            take_within(outside, f"{orders}.error").headers["Retrier.Reason"] == "invalid_message"
        )
        found = result(outside, orders)
        assert found["taskStatus"] == "INVALID_TASK"
        assert found["error"]["message"] == "no such customer"
        assert running.handled.ids == ["m-1"]

    def test_immediate_retries_are_made_and_counted(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        def fail_twice(_content: object, message: Message, time: int) -> None:
            if message.id == "never" or time < 3:
                raise ValueError("again")

        put(outside, orders, "third")
        put(outside, orders, "never")

        running = start(fail_twice, immediate_retries=2)

        assert take_within(outside, f"{orders}.error").headers["Retrier.Attempts"] == "3"
        assert running.handled.ids == ["third"] * 3 + ["never"] * 3
        assert result(outside, orders)["taskStatus"] == "RESULT_SUCCESS"

    def test_a_retry_that_succeeds_is_confirmed(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        outside.declare(f"{orders}.acks")
        put_retry(outside, orders)

        start()

        letter = take_within(outside, f"{orders}.acks")
        assert letter.body == b""
        assert letter.headers["ServiceControl.Retry.UniqueMessageId"] == "u-1"
        assert "T" in letter.headers["ServiceControl.Retry.Successful"]

    def test_a_message_that_is_no_retry_is_not_confirmed(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        outside.declare(f"{orders}.acks")
        header = {"ServiceControl.Retry.AcknowledgementQueue": f"{orders}.acks"}
        outside.put(orders, b"{}", header, message_id="m-1")

        running = start()

        result(outside, orders)
        running.end()
        assert is_empty(outside, orders, f"{orders}.acks")

    def test_without_the_queue_for_confirmations_the_work_is_done(
        self,
        outside: Outside,
        orders: str,
        start: Start,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        put_retry(outside, orders)

        running = start()

        result(outside, orders)
        running.end()
        assert is_empty(outside, orders)
        assert caplog.text.count("a confirmation was not sent") == 1

    @pytest.mark.parametrize("missing", ["", ".error", ".results"])
    def test_without_one_of_its_queues_it_waits_and_says_so_once(
        self,
        outside: Outside,
        orders: str,
        start: Start,
        caplog: pytest.LogCaptureFixture,
        missing: str,
    ) -> None:
        # Given a queue that is missing
        outside.delete(f"{orders}{missing}")
        if missing:
            put(outside, orders)
        running = start()
        running.wait_until_it_waits(f"there is no queue {orders}{missing}")

        # When it is made
        assert running.handled.ids == []
        outside.declare(f"{orders}{missing}")
        if not missing:
            put(outside, orders)

        # Then the worker goes on
        result(outside, orders)
        assert caplog.text.count("there is no queue") == 1

    def test_an_error_queue_that_is_deleted_holds_what_has_failed(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        # Given a failure, and no error queue any more
        def fail(_content: object, _message: Message, _time: int) -> None:
            outside_of_the_thread.append("")
            wait_until(lambda: len(outside_of_the_thread) > 1, DEADLINE)
            raise ValueError("broken")

        outside_of_the_thread: list[str] = []
        put(outside, orders, "m-1")
        put(outside, orders, "m-2")
        running = start(fail)
        wait_until(lambda: outside_of_the_thread, DEADLINE)
        outside.delete(f"{orders}.error")
        outside_of_the_thread.append("deleted")
        running.wait_until_it_waits(f"the queue {orders}.error is missing")
        assert running.handled.ids == ["m-1"]

        # When there is one again
        outside.declare(f"{orders}.error")

        # Then it goes there, and was handled once
        assert take_within(outside, f"{orders}.error").properties["message_id"] == "m-1"
        wait_until(lambda: running.handled.ids == ["m-1", "m-2"], DEADLINE)

    def test_a_failure_that_reaches_no_error_queue_before_a_stop_is_handled_again_uncounted(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        # Given a message that fails while there is no error queue
        def fail(_content: object, _message: Message, _time: int) -> None:
            outside_of_the_thread.append("")
            wait_until(lambda: len(outside_of_the_thread) > 1, DEADLINE)
            raise ValueError("broken")

        outside_of_the_thread: list[str] = []
        handled_again: list[str] = []
        put(outside, orders, "m-1")
        running = start(fail, crash_limit=0)
        wait_until(lambda: outside_of_the_thread, DEADLINE)
        outside.delete(f"{orders}.error")
        outside_of_the_thread.append("deleted")
        running.wait_until_it_waits(f"the queue {orders}.error is missing")

        # When the worker is stopped, and another one finds an error queue
        running.end()
        wait_until(lambda: outside.count(orders) == 1, DEADLINE)
        outside.declare(f"{orders}.error")
        start(lambda _content, _message, _time: handled_again.append(""), crash_limit=0)

        # Then it is handled again, though no crash is allowed
        wait_until(lambda: handled_again == [""], DEADLINE)
        assert is_empty(outside, f"{orders}.error")

    def test_a_message_that_took_too_long_waits_and_does_not_hold_its_queue(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        # Given a message that is to be tried again in some minutes, and one behind it
        late = {
            "x-caf-worker-timeouts": "1",
            "x-caf-worker-not-before": str(int(time()) + 900),
        }
        outside.put(orders, b"{}", late, message_id="late")
        put(outside, orders, "behind")

        running = start(timeout=1000)

        # Then the other one is handled, and that one stays as it is
        wait_until(lambda: running.handled.ids == ["behind"], DEADLINE)
        running.end()
        letter = take_within(outside, orders)
        assert letter.properties["message_id"] == "late"
        assert {name: letter.headers.get(name) for name in late} == late

    def test_what_is_postponed_goes_to_the_tail_and_is_never_counted(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        def wait_twice(_content: object, message: Message, time: int) -> None:
            if message.id == "m-1" and time < 3:
                raise Transient from ConnectionRefusedError("payments")

        outside.put(orders, b"{}", {"x-caf-worker-retry": "4"}, message_id="m-1")
        put(outside, orders, "m-2")

        running = start(wait_twice, transient_delay=0.05)

        wait_until(lambda: outside.count(f"{orders}.results") == 2, DEADLINE)
        running.end()
        assert running.handled.ids == ["m-1", "m-2", "m-1", "m-1"]
        assert is_empty(outside, orders, f"{orders}.error")

    def test_a_postponed_message_keeps_its_count_of_crashes_and_nothing_is_taken(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        def wait(_content: object, _message: Message, _time: int) -> None:
            raise Transient

        outside.put(orders, b"{}", {"x-caf-worker-retry": "4"}, message_id="m-1")

        running = start(wait, transient_delay=60)

        running.wait_until_it_waits("something is away: Transient")
        wait_until(lambda: outside.count(orders) == 1, DEADLINE)
        letter = take_within(outside, orders)
        assert letter.headers["x-caf-worker-retry"] == "4"
        put(outside, orders, "m-2")
        running.end()
        # A broker returns what it had on its way to a consumer that went in a moment of its own.
        wait_until(lambda: outside.count(orders) == 1, DEADLINE)
        assert running.handled.ids == ["m-1"]

    def test_the_health_check_says_when_it_begins_and_when_it_goes_on(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        # Given a health check that fails
        away = ["payments"]

        def health() -> None:
            if away:
                raise ConnectionRefusedError

        def charge(_content: object, message: Message, time: int) -> None:
            if message.id == "m-1" and time == 1:
                away.append("payments")
                raise Transient

        put(outside, orders)
        running = start(charge, health=health, transient_delay=0.05)
        running.wait_until_it_waits("the health check fails: ConnectionRefusedError")
        assert running.handled.ids == []

        # When it passes, and fails again
        away.clear()
        wait_until(lambda: running.handled.ids == ["m-1"], DEADLINE)
        running.wait_until_it_waits("the health check fails: ConnectionRefusedError")

        # Then the message waits until it passes
        assert running.handled.ids == ["m-1"]
        away.clear()
        assert result(outside, orders)["taskStatus"] == "RESULT_SUCCESS"

    def test_a_breaker_leaves_messages_in_the_queue_and_tries_one_after_its_time(
        self, outside: Outside, orders: str, start: Start, caplog: pytest.LogCaptureFixture
    ) -> None:
        # Given a handler that fails at first
        def work(_content: object, _message: Message, _time: int) -> None:
            if len(running.handled.ids) <= failing["first"]:
                raise ValueError("broken")

        failing = {"first": 5}
        clock = FrozenClock()
        breaker = Breaker(window=4, cooldown=30)
        running = start(work, breaker=breaker, threads=2, clock=clock)
        for number in range(9):
            put(outside, orders, f"m-{number}")

        # Then no more is taken after the last of its window, and what is not handled waits
        running.wait_until_it_waits("of the last 4 messages failed; one is tried after 30 s")
        wait_until(lambda: outside.count(orders) == 9 - len(running.handled.ids), DEADLINE)
        begun = len(running.handled.ids)
        assert begun in (4, 5)  # with two threads one more may have been started

        # When its time is over, and the one that is tried fails
        failing["first"] = begun + 1
        clock.advance(30)
        running.wait_until_it_waits("the message that was tried failed")
        wait_until(lambda: outside.count(orders) == 8 - begun, DEADLINE)
        assert len(running.handled.ids) == begun + 1

        # When it is over again, and the one that is tried succeeds, all others follow
        clock.advance(30)
        wait_until(lambda: len(running.handled.ids) == 9, DEADLINE)
        wait_until(lambda: outside.count(f"{orders}.error") == begun + 1, DEADLINE)
        states = [vars(each).get("breaker") for each in caplog.records]
        assert [each for each in dict.fromkeys(states) if each] == ["closed", "open"]
        assert "the breaker is closed" in caplog.text

    def test_what_says_nothing_about_the_work_opens_no_breaker(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        def refuse(_content: object, message: Message, _time: int) -> None:
            if message.id != "last":
                raise InvalidMessage("no such thing")

        running = start(refuse, breaker=Breaker(window=2, cooldown=1000))
        for number in range(5):
            put(outside, orders, f"m-{number}")
        put(outside, orders, "last")

        wait_until(lambda: "last" in running.handled.ids, DEADLINE)

    def test_a_message_of_a_stream_is_held_and_keeps_its_place(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        def wait_once(_content: object, message: Message, time: int) -> None:
            if message.id == "m-1" and time == 1:
                raise Transient

        for name in ("m-1", "m-2"):
            outside.put(orders, b"{}", {"Retrier.Stream": "s"}, message_id=name)

        running = start(wait_once, hold_streams=True)

        wait_until(lambda: outside.count(f"{orders}.results") == 2, DEADLINE)
        assert running.handled.ids == ["m-1", "m-1", "m-2"]

    def test_the_second_copy_of_a_retry_is_not_handled(
        self, outside: Outside, orders: str, start: Start, tmp_path: Any
    ) -> None:
        outside.declare(f"{orders}.acks")
        put_retry(outside, orders)
        put_retry(outside, orders)
        put_retry(outside, orders, **{"Retrier.RetryId": "r-2"})

        running = start(lambda *_: {"charged": True}, seen=str(tmp_path / "seen.db"), threads=2)

        wait_until(lambda: outside.count(f"{orders}.acks") == 3, DEADLINE)
        running.end()
        assert running.handled.ids == ["m-1", "m-1"]
        results = [json.loads(each.body) for each in take_all(outside, f"{orders}.results")]
        assert [each["result"] for each in results] == [{"charged": True}] * 3

    def test_a_retry_that_failed_is_not_remembered_as_handled(
        self, outside: Outside, orders: str, start: Start, tmp_path: Any
    ) -> None:
        def fail_once(_content: object, _message: Message, time: int) -> None:
            if time == 1:
                raise ValueError("broken")

        put_retry(outside, orders)
        put_retry(outside, orders)

        running = start(fail_once, seen=str(tmp_path / "seen.db"))

        wait_until(lambda: outside.count(f"{orders}.results") == 2, DEADLINE)
        assert running.handled.ids == ["m-1", "m-1"]
        assert outside.count(f"{orders}.error") == 1

    def test_a_trace_of_a_million_bytes_fits(
        self, outside: Outside, orders: str, start: Start
    ) -> None:
        def fail(_content: object, _message: Message, _time: int) -> None:
            raise ValueError("é" * 1_000_000)

        put(outside, orders)

        start(fail)

        headers = take_within(outside, f"{orders}.error").headers
        assert headers["Retrier.Exception.Type"] == "ValueError"
        assert sys.getsizeof(headers["Retrier.Exception.StackTrace"]) < 100_000

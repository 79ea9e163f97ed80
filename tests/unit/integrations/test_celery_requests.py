"""Which ends of a task are told, and that a failure to tell changes nothing."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest
from billiard.einfo import ExceptionInfo
from celery import Celery
from celery.exceptions import Ignore, Reject, Retry

from retrier.errors import ConfigurationError
from retrier.integrations.celery import find_ending, install, is_gone, make_step

CONSUMER: Any = SimpleNamespace(hostname="celery@box")


class Told:
    """A reporter that notes what it is told."""

    def __init__(self) -> None:
        self.deeds: list[str] = []

    def give_up(self, _request: Any, _consumer: Any, error: BaseException, _trace: object) -> None:
        self.deeds.append(f"given up: {type(error).__name__}")

    def confirm(self, _headers: Any, _name: str, task_id: str) -> None:
        self.deeds.append(f"confirmed: {task_id}")


class Request:
    """A request of Celery's, as far as an end needs it."""

    id = "b1"
    name = "shop.pack"
    type = "shop.pack"
    acknowledged = False
    task = SimpleNamespace(acks_late=False, acks_on_timeout=True)
    message = SimpleNamespace(headers={}, body=b"", properties={}, delivery_info={})

    def on_failure(self, _exc_info: Any, **named: Any) -> object:
        return find_ending("b1"), named

    def on_timeout(self, _soft: object, _timeout: float) -> object:
        return find_ending("b1")


def make_request(reporter: Any) -> Any:
    """Make a request of the class that a worker gives to a task."""
    task = SimpleNamespace(Request=Request)
    make_step(reporter)(SimpleNamespace(app=SimpleNamespace(tasks={"shop.pack": task})))
    return task.Request()


@pytest.fixture
def told() -> Told:
    """Give a reporter."""
    return Told()


def end(reporter: Any, error: BaseException, *, acknowledged: bool = False) -> object:
    request = make_request(reporter)
    request.acknowledged = acknowledged
    return request.on_failure(SimpleNamespace(exception=error, traceback=""), return_ok=True)


@pytest.mark.parametrize("error", [ValueError(), Reject(), Reject("no", requeue=False)], ids=repr)
def test_a_task_that_failed_for_good_is_given_up(told: Told, error: BaseException) -> None:
    end(told, error)

    assert told.deeds == [f"given up: {type(error).__name__}"]


@pytest.mark.parametrize("error", [Retry(), Reject(requeue=True), MemoryError()], ids=repr)
def test_a_task_that_comes_again_is_not(told: Told, error: BaseException) -> None:
    end(told, error)

    assert told.deeds == []


def test_exhausted_memory_is_the_end_of_a_task_that_is_acknowledged(told: Told) -> None:
    end(told, MemoryError(), acknowledged=True)

    assert told.deeds == ["given up: MemoryError"]


def test_a_task_that_hands_its_work_on_is_confirmed(told: Told) -> None:
    end(told, Ignore())

    assert told.deeds == ["confirmed: b1"]


def test_what_the_worker_finds_out_itself_is_left_to_its_signal(told: Told) -> None:
    make_request(told).on_failure(SimpleNamespace(exception=ValueError(), traceback=""))

    assert told.deeds == []


def test_the_signal_finds_the_request_that_is_ending(told: Told) -> None:
    request = make_request(told)

    assert request.on_timeout(None, 1) is request
    assert request.on_failure(SimpleNamespace(exception=ValueError()))[0] is request


def test_the_signal_of_a_time_limit_finds_no_request_that_is_given_back(told: Told) -> None:
    request = make_request(told)
    request.task = SimpleNamespace(acks_late=True, acks_on_timeout=False)

    assert request.on_timeout(None, 1) is None


def test_a_task_that_ends_its_thread_has_failed(told: Told) -> None:
    class Derived(type(make_request(told))):  # type: ignore[misc]
        """What Celery makes of the class of a task's requests."""

        def on_success(self, ended: object, **named: Any) -> object:
            return ended, named

    request = Derived()
    try:
        sys.exit(3)
    except SystemExit:
        lost = ExceptionInfo()

    assert request.on_success(lost)[0] is request
    assert request.on_success((0, None, 1.5), more=1) == ((0, None, 1.5), {"more": 1})


class Acknowledging(Request):
    """A request as Celery's, which acknowledges before it tells of a lost child."""

    def on_failure(self, _exc_info: Any, **_named: Any) -> None:
        self.acts: list[str] = []
        self.acknowledge()
        self.acts.append("told")
        self.retrier_hold.is_owed = self.is_owed

    def acknowledge(self) -> None:
        self.acts.append("acknowledged")

    def reject(self, *, requeue: bool = False) -> None:
        self.acts.append("put back" if requeue else "rejected")


def make_acknowledging(reporter: Any, *, is_owed: bool) -> Any:
    task = SimpleNamespace(Request=Acknowledging)
    make_step(reporter)(SimpleNamespace(app=SimpleNamespace(tasks={"shop.pack": task})))
    made = task.Request()
    made.is_owed = is_owed
    return made


def test_a_task_is_acknowledged_after_its_failure_is_told(told: Told) -> None:
    request = make_acknowledging(told, is_owed=False)

    request.on_failure(SimpleNamespace(exception=ValueError()))

    assert request.acts == ["told", "acknowledged"]


def test_a_task_whose_failure_is_owed_is_acknowledged_only_by_who_pays_it(told: Told) -> None:
    request = make_acknowledging(told, is_owed=True)

    request.on_failure(SimpleNamespace(exception=ValueError()))
    assert request.acts == ["told"]
    request.retrier_hold.let_go()

    assert request.acts == ["told", "acknowledged"]


def test_a_task_that_ended_before_is_settled_at_once(told: Told) -> None:
    request = make_acknowledging(told, is_owed=False)
    request.on_failure(SimpleNamespace(exception=ValueError()))

    request.reject(requeue=True)

    assert request.acts[-1] == "put back"


@pytest.mark.parametrize(
    ("channel", "gone"),
    [
        (None, False),
        (SimpleNamespace(connection=object()), False),
        (SimpleNamespace(connection=None), True),
    ],
    ids=["another kind of message", "connected", "ended"],
)
def test_what_came_over_a_connection_that_ended_comes_again(channel: Any, *, gone: bool) -> None:
    assert is_gone(SimpleNamespace(channel=channel)) is gone


def test_an_end_that_is_told_twice_is_published_once(app: Any) -> None:
    installation = install(app)
    request = make_request(installation)

    for _ in range(2):
        installation.give_up(request, CONSUMER, ValueError(), "")

    assert installation.counts == {"failure_not_published": 1}


def test_the_signal_finds_no_other_request(told: Told) -> None:
    make_request(told).on_timeout(None, 1)

    assert find_ending("b1") is None


def test_celery_is_called_as_without_us(told: Told) -> None:
    made = make_request(told).on_failure(SimpleNamespace(), send_failed_event=False)

    assert made[1] == {"send_failed_event": False}


@pytest.fixture
def app() -> Any:
    """Give an app whose broker is not there."""
    made = Celery("shop", broker="amqp://127.0.0.1:1//", set_as_current=False)
    made.conf.update(broker_connection_timeout=0.2)
    return made


def test_a_failure_that_cannot_be_published_changes_nothing(app: Any) -> None:
    installation = install(app)

    end(installation, ValueError("7"))

    assert installation.counts == {"failure_not_published": 1}


def test_a_message_that_nobody_foresaw_changes_nothing(app: Any) -> None:
    installation = install(app)
    request = make_request(installation)
    request.message = object()

    request.on_failure(SimpleNamespace(exception=ValueError(), traceback=""), return_ok=True)

    assert installation.counts == {"failure_not_published": 1}


def test_it_is_installed_once(app: Any) -> None:
    install(app)

    with pytest.raises(ConfigurationError, match="already"):
        install(app)


def test_an_error_queue_without_a_name_is_refused(app: Any) -> None:
    with pytest.raises(ConfigurationError, match="error_queue"):
        install(app, error_queue="")


def test_it_keeps_its_hands_off_other_apps(app: Any) -> None:
    installation = install(app)
    other = SimpleNamespace(app=object(), name="shop.pack", request=None)

    installation.on_success(other)
    installation.on_failure(other, "b1")
    installation.on_unknown(other, message=None, name="shop.pack")

    assert installation.counts == {}

"""The arguments of a worker, and the environment where one is not given."""

from typing import Any

import pytest

from retrier.errors import ConfigurationError
from retrier.worker.breaker import Breaker
from retrier.worker.options import Options, read_options

GIVEN: dict[str, Any] = {
    "url": "amqp://broker",
    "name": None,
    "error_queue": "error",
    "output_queue": None,
    "immediate_retries": 0,
    "crash_limit": None,
    "timeout": None,
    "timeout_limit": None,
    "stop_timeout": None,
    "threads": None,
    "prefetch": None,
    "health": None,
    "transient_delay": 5,
    "hold_streams": False,
    "seen": None,
    "health_port": None,
    "metrics": None,
    "metrics_port": None,
}
ENVIRONMENT = {
    "CAF_WORKER_FRIENDLY_NAME": "shop",
    "CAF_WORKER_RETRY_LIMIT": "3",
    "WORKER_CONCURRENCY": "4",
    "GATEWAY_TIMEOUT_MS": "1500",
    "WORKER_STOP_TIMEOUT_MS": "60000",
}


def read(environ: dict[str, str] | None = None, *argv: str, **given: Any) -> Options:
    return read_options({**GIVEN, **given}, environ or {}, argv)


def test_the_defaults_are_the_documented_ones() -> None:
    options = read()

    assert (options.crash_limit, options.threads, options.prefetch) == (10, 1, 1)
    assert (options.name, options.timeout, options.health_port) == (None, None, None)
    assert (options.stop_timeout, options.timeout_limit) == (20, 10)


def test_the_environment_stands_in_for_what_is_not_given() -> None:
    options = read(ENVIRONMENT)

    assert (options.name, options.crash_limit, options.threads) == ("shop", 3, 4)
    assert (options.prefetch, options.timeout, options.stop_timeout) == (4, 1.5, 60)
    assert options.timeout_limit == 3


def test_what_is_given_goes_before_the_environment() -> None:
    options = read(ENVIRONMENT, name="mine", crash_limit=0, threads=2, timeout=9, prefetch=8)

    assert (options.name, options.crash_limit, options.threads) == ("mine", 0, 2)
    assert (options.prefetch, options.timeout) == (8, 9)


@pytest.mark.parametrize("argv", [["--health-port", "8081"], ["-v", "--health-port=8081"]])
def test_the_port_of_the_health_check_may_follow_the_program(argv: list[str]) -> None:
    assert read({}, *argv).health_port == "8081"


def test_the_port_of_the_metrics_may_follow_the_program() -> None:
    assert read({}, "--metrics-port=host:9100", "--health-port", "8081").metrics_port == "host:9100"
    assert read(metrics_port=9100).metrics_port == "9100"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"url": ""}, "a worker needs the URL of a broker"),
        ({"error_queue": ""}, "error_queue must name a queue"),
        ({"output_queue": "error"}, "error_queue and output_queue are the same queue"),
        ({"threads": 0}, "threads must be at least 1, not 0"),
        ({"crash_limit": -1}, "crash_limit must be at least 0, not -1"),
        ({"immediate_retries": -1}, "immediate_retries must be at least 0, not -1"),
        ({"threads": 3, "prefetch": 2}, "prefetch must be at least 3, not 2"),
        ({"timeout": 0}, "timeout must be more than 0 seconds, not 0"),
        ({"timeout_limit": -1}, "timeout_limit must be at least 0, not -1"),
        ({"stop_timeout": -1}, "stop_timeout must be at least 0, not -1"),
        ({"breaker": Breaker(window=0)}, "the window of the breaker must be at least 1, not 0"),
        ({"transient_delay": 0}, "transient_delay must be more than 0 seconds, not 0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_is_said(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        read(**given)

    assert error.value.problems == (problem,)


def test_with_streams_held_no_more_is_in_hand_than_there_are_threads() -> None:
    assert read(prefetch=50).prefetch == 50
    assert read(prefetch=50, hold_streams=True).prefetch == 1
    assert read(prefetch=50, threads=4, hold_streams=True).prefetch == 4


@pytest.mark.parametrize("name", ["CAF_WORKER_RETRY_LIMIT", "WORKER_CONCURRENCY"])
def test_a_variable_that_is_no_number_is_named(name: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{name} must be a whole number, not 'many'"):
        read({name: "many"})

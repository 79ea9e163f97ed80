"""Real worker processes that die, are told to stop, or end themselves; plain clients see what is left."""

import json
import os
import signal
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from tests.contract.worker_fixtures import Processes, WorkerFixtures
from tests.support.waiting import let_pass, wait_until
from tests.support.worker_outside import Outside, take_all, take_within

DEADLINE = 30.0
SOONER_THAN_BY_ITSELF = 12.0
"""Less than the seconds after which a worker that was told to stop waits for no handler any more."""


def put(outside: Outside, queue: str, name: str, **order: Any) -> None:
    body = json.dumps({"id": name, **order}).encode()
    outside.put(queue, body, {}, message_id=name, delivery_mode=2)


class WorkerCrashSuite(WorkerFixtures):
    """A supervisor starts another process whenever one has ended."""

    def test_a_poison_message_is_started_eleven_times_and_its_neighbours_are_handled(
        self, outside: Outside, orders: str, processes: Processes
    ) -> None:
        # Given a message that kills its process, and neighbours that are slower than it
        put(outside, orders, "slow-1", do="slow", seconds=0.3)
        put(outside, orders, "poison", do="die")
        put(outside, orders, "slow-2", do="slow", seconds=0.3)
        workers = processes(threads=2, name="shop", output_queue=f"{orders}.results")

        # When a supervisor starts one process after the other
        workers.run_until(lambda: outside.count(f"{orders}.results") == 3, DEADLINE)

        # Then it was started eleven times, and is poison; the neighbours were handled
        assert workers.told("begun").count("poison") == 11
        letter = take_within(outside, f"{orders}.error")
        assert letter.properties["message_id"] == "poison"
        assert letter.headers["Retrier.Reason"] == "poison_message"
        assert letter.headers["Retrier.Attempts"] == "11"
        assert "shop was started 11 times" in letter.headers["Retrier.Exception.Message"]
        assert "x-caf-worker-retry" not in letter.headers
        results = [json.loads(each.body) for each in take_all(outside, f"{orders}.results")]
        statuses = {each["taskId"]: each["taskStatus"] for each in results}
        assert statuses == {
            "slow-1": "RESULT_SUCCESS",
            "slow-2": "RESULT_SUCCESS",
            "poison": "RESULT_EXCEPTION",
        }
        assert outside.count(f"{orders}.error") == 0

    def test_what_was_prefetched_only_is_handled_before_the_suspect_takes_it_along(
        self, outside: Outside, orders: str, processes: Processes
    ) -> None:
        names = [f"m-{number}" for number in range(8)]
        put(outside, orders, "poison", do="die")
        for name in names:
            put(outside, orders, name)
        workers = processes(prefetch=5, crash_limit=3)

        workers.run_until(lambda: outside.count(f"{orders}.error"), DEADLINE)
        workers.run_until(lambda: set(workers.told("done")) == set(names), DEADLINE)

        assert workers.told("begun").count("poison") == 4
        assert sorted(workers.told("done")) == names
        errors = take_all(outside, f"{orders}.error")
        assert [each.properties["message_id"] for each in errors] == ["poison"]

    def test_two_poisons_beside_each_other_are_each_started_as_often_as_allowed(
        self, outside: Outside, orders: str, processes: Processes
    ) -> None:
        for name in ("poison-1", "poison-2"):
            put(outside, orders, name, do="die")
        put(outside, orders, "innocent")
        workers = processes(prefetch=5, crash_limit=1)

        workers.run_until(lambda: outside.count(f"{orders}.error") == 2, DEADLINE)

        assert workers.told("begun").count("poison-1") == 2
        assert workers.told("begun").count("poison-2") == 2
        assert workers.told("begun").count("innocent") == 1
        letters = take_all(outside, f"{orders}.error")
        assert [each.headers["Retrier.Attempts"] for each in letters] == ["2", "2"]

    def test_workers_of_different_prefetch_start_a_poison_message_no_more_often(
        self, outside: Outside, orders: str, processes: Processes
    ) -> None:
        put(outside, orders, "poison", do="die")
        put(outside, orders, "innocent")
        one_at_a_time = processes(crash_limit=4)
        several = processes(crash_limit=4, threads=2, prefetch=4)

        one_at_a_time.run_until(lambda: one_at_a_time.told("begun").count("poison") == 3, DEADLINE)
        several.run_until(lambda: outside.count(f"{orders}.error"), DEADLINE)
        several.run_until(lambda: several.told("done") == ["innocent"], DEADLINE)

        assert several.told("begun").count("poison") == 5
        assert take_within(outside, f"{orders}.error").headers["Retrier.Attempts"] == "5"
        assert not [each for each in several.told("counted") if each.startswith("innocent")]

    def test_who_runs_out_of_memory_ends_itself_and_a_crash_is_counted(
        self, outside: Outside, orders: str, processes: Processes
    ) -> None:
        put(outside, orders, "hog", do="hog")
        workers = processes(crash_limit=0)
        first = workers.start()
        wait_until(lambda: not first.is_alive(), DEADLINE)
        assert first.exitcode == 70
        assert outside.count(f"{orders}.error") == 0

        workers.run_until(lambda: outside.count(f"{orders}.error"), DEADLINE)

        letter = take_within(outside, f"{orders}.error")
        assert letter.headers["Retrier.Reason"] == "poison_message"
        assert workers.told("begun") == ["hog"]
        assert "out of memory" in workers.logged

    @pytest.mark.parametrize("threads", [1, 2])
    def test_who_takes_too_long_ends_its_process_and_is_given_up_as_a_timeout(
        self, outside: Outside, orders: str, processes: Processes, threads: int
    ) -> None:
        # Given a handler that never ends, and a worker that allows one more try, but no crash
        put(outside, orders, "hang", do="hang")
        workers = processes(threads=threads, name="shop", timeout=1, timeout_limit=1, crash_limit=0)
        first = workers.start()
        wait_until(lambda: not first.is_alive(), DEADLINE)
        assert first.exitcode == 70
        put(outside, orders, "behind")

        workers.run_until(lambda: outside.count(f"{orders}.error"), DEADLINE)
        workers.run_until(lambda: workers.told("done"), DEADLINE)

        # Then it was started twice, no crash was counted, and its neighbour was handled
        letter = take_within(outside, f"{orders}.error")
        assert letter.properties["message_id"] == "hang"
        assert letter.headers["Retrier.Reason"] == "timeout_exceeded"
        assert letter.headers["Retrier.Exception.Type"] == "HandlerTimeout"
        assert letter.headers["Retrier.Exception.Message"] == (
            "shop took longer than 1 s with this message, each of 2 times"
        )
        assert letter.headers["Retrier.Attempts"] == "2"
        assert not [name for name in letter.headers if name.startswith("x-caf-worker")]
        assert workers.told("begun").count("hang") == 2
        assert workers.told("done") == ["behind"]
        assert "took longer than 1 s with the message hang" in workers.logged
        assert "crash" not in workers.logged

    def test_at_sigterm_it_finishes_what_it_has_begun_and_hands_the_rest_back(
        self, outside: Outside, orders: str, processes: Processes, tmp_path: Path
    ) -> None:
        # Given a handler that ends a second after the order to stop, and more messages in hand
        ordered = tmp_path / "ordered to stop"
        put(outside, orders, "slow", do="slow", after=str(ordered), seconds=1)
        for number in range(4):
            put(outside, orders, f"m-{number}")
        workers = processes(prefetch=3)
        process = workers.start()
        wait_until(lambda: workers.told("begun"), DEADLINE)

        # When it is told to stop
        told = monotonic()
        os.kill(process.pid or 0, signal.SIGTERM)
        ordered.touch()
        process.join(DEADLINE)

        # Then it ends well soon after the handler, and the rest waits, counted by nobody
        assert process.exitcode == 0
        assert monotonic() - told < SOONER_THAN_BY_ITSELF
        assert (workers.told("begun"), workers.told("done")) == (["slow"], ["slow"])
        wait_until(lambda: outside.count(orders) == 4, DEADLINE)
        rest = take_all(outside, orders)
        assert sorted(str(each.properties["message_id"]) for each in rest) == [
            "m-0",
            "m-1",
            "m-2",
            "m-3",
        ]
        assert not any(each.headers.get("x-caf-worker-retry") for each in rest)

    @pytest.mark.parametrize("threads", [1, 2])
    def test_a_stop_is_no_crash_for_a_handler_that_takes_longer(
        self, outside: Outside, orders: str, processes: Processes, tmp_path: Path, threads: int
    ) -> None:
        # Given a job that ends after the time for a stop, and with several threads others beside it
        goes_on = tmp_path / "goes on"
        put(outside, orders, "long", do="slow", after=str(goes_on), seconds=0)
        others = [f"m-{number}" for number in range(3 if threads > 1 else 0)]
        for name in others:
            put(outside, orders, name, do="slow", after=str(goes_on), seconds=0)
        workers = processes(
            threads=threads, prefetch=2 * threads - 1, stop_timeout=0.3, crash_limit=0
        )

        # When two deploys stop it
        for deploys in (1, 2):
            process = workers.start()
            wait_until(lambda n=deploys: len(workers.told("begun")) == threads * n, DEADLINE)
            os.kill(process.pid or 0, signal.SIGTERM)
            process.join(DEADLINE)
            assert process.exitcode == 0
            wait_until(lambda: outside.count(orders) == 1 + len(others), DEADLINE)

        # Then all are there once, are started again though no crash is allowed, and end well
        goes_on.touch()
        workers.run_until(lambda: len(workers.told("done")) == 1 + len(others), DEADLINE)
        assert sorted(workers.told("done")) == ["long", *others]
        assert outside.count(f"{orders}.error") == 0
        assert "crash" not in workers.logged

    def test_a_second_sigterm_ends_it_at_once(
        self, outside: Outside, orders: str, processes: Processes
    ) -> None:
        put(outside, orders, "hang", do="hang")
        workers = processes()
        process = workers.start()
        wait_until(lambda: workers.told("begun"), DEADLINE)

        os.kill(process.pid or 0, signal.SIGTERM)
        let_pass(0.5)
        assert process.is_alive()

        def stopped_by_another_sigterm() -> bool:
            # More than one: a process that has not met the first yet takes two for one.
            with suppress(ProcessLookupError):
                os.kill(process.pid or 0, signal.SIGTERM)
            process.join(0.2)
            return not process.is_alive()

        wait_until(stopped_by_another_sigterm, SOONER_THAN_BY_ITSELF)
        assert process.exitcode == 0
        wait_until(lambda: outside.count(orders) == 1, DEADLINE)

    def test_processes_that_are_killed_lose_nothing(
        self, outside: Outside, orders: str, processes: Processes
    ) -> None:
        names = {f"m-{number}" for number in range(60)}
        for name in names:
            put(outside, orders, name, do="slow", seconds=0.01)
        workers = processes(threads=2, crash_limit=100)

        for kill in range(6):
            process = workers.start()
            wait_until(lambda kill=kill: len(workers.told("begun")) > 5 * kill, DEADLINE)
            process.kill()
            process.join()
        workers.run_until(lambda: set(workers.told("done")) == names, DEADLINE)

        wait_until(lambda: outside.count(orders) == 0, DEADLINE)
        assert outside.count(f"{orders}.error") == 0

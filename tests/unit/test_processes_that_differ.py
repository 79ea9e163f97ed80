"""What is said of processes that should have the same."""

import pytest

from retrier import __version__
from retrier.domain.processes import find_differences, is_ingesting
from tests.support.processes import process


def test_processes_that_are_alike_differ_in_nothing() -> None:
    assert find_differences([process(), process(host="two"), process(roles=("api",))]) == ()


def test_no_process_and_one_process_differ_from_nobody() -> None:
    assert find_differences([]) == ()
    assert find_differences([process()]) == ()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (
            {"version": "0.2.0"},
            f"versions differ: 0.2.0 (process 7 on two); {__version__} (process 1 on one and 1 more)",
        ),
        (
            {"set_hash": "99352f53aa"},
            "policies differ: none (process 1 on one and 1 more); set 99352f53 (process 7 on two)",
        ),
        (
            {"error_queues": ("late",)},
            "error queues differ: error (process 1 on one and 1 more); late (process 7 on two)",
        ),
    ],
)
def test_the_one_that_differs_is_named(changes: dict[str, object], words: str) -> None:
    odd = process(host="two", pid=7, **changes)

    assert find_differences([process(), odd, process(host="three")]) == (words,)


def test_another_instance_may_have_other_policies_and_queues() -> None:
    other = process(instance="other", set_hash="99352f53aa", error_queues=("late",))

    assert find_differences([process(), other]) == ()


def test_another_instance_has_the_same_version() -> None:
    (found,) = find_differences([process(), process(instance="other", version="0.2.0")])

    assert found.startswith("versions differ")


def test_ingestion_is_a_role_that_any_of_them_may_have() -> None:
    assert is_ingesting([process(roles=("api",)), process(roles=("ingestion",))])
    assert not is_ingesting([process(roles=("api",)), process(roles=("processor",))])

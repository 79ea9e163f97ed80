"""Which failures look alike."""

from dataclasses import replace
from typing import Any

import pytest

from retrier.domain.classifiers import CLASSIFIERS, cause_of, cause_of_alike, classify
from retrier.domain.failed_message import FailureDetails
from retrier.domain.identity import md5_guid
from retrier.policy.patterns import Generated


def titles(**details: Any) -> dict[str, str]:
    made = FailureDetails(**({"queue": "orders", "destination": "orders"} | details))
    return {group.classifier: group.title for group in classify(made)}


def test_the_default_classifier_comes_first():
    assert CLASSIFIERS == (
        "Exception Type and Stack Trace",
        "Message Type",
        "Endpoint Address",
        "Endpoint Name",
    )


def test_a_failure_has_a_group_of_every_classifier_that_has_something_to_go_by():
    assert titles(
        endpoint="Sales",
        message_type="Shop.PlaceOrder",
        exception_type="System.TimeoutException",
        stack_trace="   at Shop.Db.Open()",
    ) == {
        "Exception Type and Stack Trace": "System.TimeoutException: Shop.Db.Open()",
        "Message Type": "Shop.PlaceOrder",
        "Endpoint Address": "orders",
        "Endpoint Name": "Sales",
    }


def test_a_failure_that_says_only_where_is_in_a_group_of_each_classifier():
    assert titles() == {
        "Exception Type and Stack Trace": "no reason given: orders",
        "Message Type": "no message type: orders",
        "Endpoint Address": "orders",
        "Endpoint Name": "no endpoint name: orders",
    }


@pytest.mark.parametrize("stack_trace", [None, "", "something other than a stack trace"])
def test_without_a_frame_the_exception_type_decides(stack_trace):
    found = titles(exception_type="ValueError", stack_trace=stack_trace)

    assert found["Exception Type and Stack Trace"] == "ValueError: No stacktrace"


def test_without_an_exception_reason_and_queue_decide():
    found = titles(failure_reason="expired")

    assert found["Exception Type and Stack Trace"] == "expired: orders"


def test_a_group_id_is_servicecontrols():
    details = FailureDetails(queue="orders", destination="orders")

    ids = {group.classifier: group.group_id for group in classify(details)}
    assert ids["Endpoint Address"] == md5_guid("Endpoint Addressorders")


@pytest.mark.parametrize(
    "trace",
    [
        "{type}: {message}\n   at Shop.Db.Open(String name) in /src/Db.cs:line {line}",
        '  File "/app/db.py", line {line}, in open\n{type}: {message}',
        "{type}: {message}\n\tat shop.Db.open(Db.java:{line})",
        "{type}: {message}\n    at open (/app/db.js:{line}:7)",
    ],
    ids=[".NET", "Python", "Java", "Node"],
)
def test_line_numbers_and_messages_do_not_split_groups(trace):
    kinds = {
        titles(
            exception_type="Timeout",
            exception_message=message,
            stack_trace=trace.format(type="Timeout", message=message, line=line),
        )["Exception Type and Stack Trace"]
        for message, line in (("order 1", 7), ("order 2\n   at Foo.Bar()", 1234), ("", 8))
    }

    assert len(kinds) == 1


def test_other_frames_split_groups():
    one = titles(exception_type="E", stack_trace="   at A.B()")
    other = titles(exception_type="E", stack_trace="   at A.C()")

    assert one != other


def test_titles_are_cut_to_what_an_index_holds():
    assert len(titles(message_type="x" * 5000)["Message Type"]) == 1024


SAME = FailureDetails(
    queue="orders",
    destination="orders",
    endpoint="Sales",
    message_type="Shop.PlaceOrder",
    exception_type="System.TimeoutException",
    exception_message="too late",
    stack_trace="System.TimeoutException: too late\n   at Shop.Db.Open()",
    failure_reason="rejected",
)
TRACE = "System.TimeoutException: too late\n   at Shop.Db.Open() in /src/Db.cs:line {}"


class TestACause:
    def test_says_what_its_failures_have_in_common(self):
        cause = cause_of(SAME)

        assert (cause.queue, cause.destination, cause.endpoint) == ("orders", "orders", "Sales")
        assert cause.message_type == "Shop.PlaceOrder"
        assert (cause.exception_type, cause.failure_reason) == (
            "System.TimeoutException",
            "rejected",
        )
        assert cause.groups == classify(SAME)

    def test_has_a_fingerprint_of_sixteen_bytes(self):
        assert len(bytes.fromhex(cause_of(SAME).fingerprint)) == 16

    @pytest.mark.parametrize(
        "other",
        [
            {"stack_trace": TRACE.format(8)},
            {"stack_trace": TRACE.format(8) + "\n   at Shop.Orders.Place()"},
            {"exception_message": "later than late"},
            {"stream_id": "order-7", "attempts_reported": 3},
        ],
        ids=["a line", "a frame further out", "the message", "the stream"],
    )
    def test_is_the_same_of_failures_that_differ_in_what_no_title_shows(self, other):
        assert cause_of(replace(SAME, **other)).fingerprint == cause_of(SAME).fingerprint

    @pytest.mark.parametrize(
        "other",
        [
            {"queue": "payments"},
            {"destination": "orders.v2"},
            {"endpoint": "Billing"},
            {"endpoint": None},
            {"message_type": "Shop.CancelOrder"},
            {"exception_type": "System.Exception"},
            {"failure_reason": "expired"},
            {"stack_trace": "   at Shop.Db.Close()"},
        ],
        ids=str,
    )
    def test_is_another_where_they_differ_in_what_a_cause_says(self, other):
        assert cause_of(replace(SAME, **other)).fingerprint != cause_of(SAME).fingerprint

    def test_keeps_what_it_is_made_of_apart(self):
        one = replace(SAME, exception_type=None, queue="a", destination="b\0c")
        other = replace(SAME, exception_type=None, queue="a\0b", destination="c")

        assert cause_of(one).fingerprint != cause_of(other).fingerprint

    def test_shows_a_kilobyte_of_the_exception_message(self):
        long = replace(SAME, exception_message="ä" * 5000)

        assert cause_of(long).exception_message == "ä" * 512

    def test_has_no_message_without_one(self):
        assert cause_of(replace(SAME, exception_message=None)).exception_message is None


class TestManyFailures:
    def test_have_the_cause_that_each_has_alone(self):
        cause_of_once = cause_of_alike()

        assert [cause_of_once(SAME) for _ in range(2)] == [cause_of(SAME)] * 2

    def test_that_are_alike_are_looked_at_once(self):
        cause_of_once = cause_of_alike()

        first, second = (cause_of_once(replace(SAME, stream_id=each)) for each in "ab")

        assert first is second

    @pytest.mark.parametrize(
        "other",
        [
            {"queue": "payments"},
            {"destination": "orders.v2"},
            {"endpoint": "Billing"},
            {"message_type": "Shop.CancelOrder"},
            {"exception_type": "System.Exception"},
            {"exception_message": "too late\n   at Shop.Db.Open()"},
            {"stack_trace": "   at Shop.Db.Close()"},
            {"exception_type": None, "failure_reason": "expired"},
        ],
        ids=str,
    )
    def test_that_differ_in_what_is_looked_at_are_looked_at_again(self, other):
        cause_of_once = cause_of_alike()
        cause_of_once(SAME)

        different = replace(SAME, **other)

        assert cause_of_once(different) == cause_of(different)


def test_generated_parts_of_types_and_frames_are_folded():
    fold = Generated(["`[0-9]+", "Proxy[0-9a-f]+"]).fold
    made = FailureDetails(
        queue="orders",
        destination="orders",
        exception_type="Gen.Exception`7",
        stack_trace="Gen.Exception`7: no\n   at Gen.Proxya9.Call(Order order) in x.cs:line 7",
    )
    other = replace(
        made,
        exception_type="Gen.Exception`8",
        stack_trace="Gen.Exception`8: no\n   at Gen.Proxyb1.Call(Order order) in x.cs:line 8",
    )

    assert cause_of(made, fold) == cause_of(other, fold)
    assert cause_of(made, fold).groups[0].title == "Gen.Exception*: Gen.*.Call(Order order)"
    assert cause_of(made) != cause_of(other)

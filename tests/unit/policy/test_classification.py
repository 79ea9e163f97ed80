"""Which reason a failure has."""

from time import process_time

import pytest

from retrier.policy.classification import ReasonRule, find_candidates, make_gateway_rules
from retrier.policy.facts import Facts
from retrier.policy.patterns import Patterns
from retrier.policy.reasons import BUILT_IN, GATEWAY_CODES, NUMBERS, why_not_a_reason
from tests.unit.policy import gateway_texts
from tests.unit.policy.exception_types import TYPES


def reason_of(*rules: ReasonRule, **facts: object) -> str:
    made = Facts(**{"queue": "orders", **facts})
    patterns = Patterns(each.message for each in rules if isinstance(each.message, str))
    return find_candidates(made, rules).reason_of(made.exception_message, patterns)


@pytest.mark.parametrize(
    ("exception_type", "reason"),
    [
        ("System.TimeoutException", "timeout_exceeded"),
        ("java.net.SocketTimeoutException", "timeout_exceeded"),
        ("builtins.TimeoutError", "timeout_exceeded"),
        ("java.net.ConnectException", "transport_unavailable"),
        ("ConnectionResetError", "transport_unavailable"),
        ("pika.exceptions.AMQPConnectionError", "transport_unavailable"),
        ("System.Net.Sockets.SocketException", "transport_unavailable"),
        ("Newtonsoft.Json.JsonReaderException", "serialization_error"),
        ("json.decoder.JSONDecodeError", "serialization_error"),
        ("System.Runtime.Serialization.SerializationException", "serialization_error"),
        ("UnicodeDecodeError", "serialization_error"),
        ("FluentValidation.ValidationException", "validation_failure"),
        ("System.ArgumentException", "validation_failure"),
        ("System.ArgumentNullException", "validation_failure"),
        ("java.lang.IllegalArgumentException", "validation_failure"),
        ("Retrier.InvalidMessage", "invalid_message"),
        ("com.hpe.caf.InvalidTaskException", "invalid_message"),
        ("PoisonMessageError", "poison_message"),
        ("System.Net.Http.HttpRequestException", "dependency_failure"),
        ("System.Data.SqlClient.SqlException", "dependency_failure"),
        ("psycopg.OperationalError", "dependency_failure"),
        ("Shop.Outer+TimeoutProblem", "timeout_exceeded"),
        ("timeouterror", "handler_exception"),
        ("Shop.Timeout.OutOfStock", "handler_exception"),
        ("", "handler_exception"),
    ],
)
def test_a_type_of_exception_has_a_reason(exception_type: str, reason: str) -> None:
    assert reason_of(exception_type=exception_type) == reason


@pytest.mark.parametrize(
    ("exception_type", "reason"),
    [
        pytest.param(each, reason, id=f"{language} {each}")
        for language, by_reason in TYPES.items()
        for reason, types in by_reason.items()
        for each in types
    ],
)
def test_a_type_that_people_meet_has_its_reason(exception_type: str, reason: str) -> None:
    assert reason_of(exception_type=exception_type) == reason


def test_the_table_of_types_has_150() -> None:
    assert sum(len(each) for of in TYPES.values() for each in of.values()) >= 150


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("rejected", "handler_exception"),
        ("expired", "timeout_exceeded"),
        ("maxlen", "dependency_failure"),
        ("delivery_limit", "poison_message"),
        ("something else", "handler_exception"),
        ("no failure headers", "unknown"),
        (None, "unknown"),
    ],
)
def test_without_an_exception_the_word_of_the_headers_decides(
    word: str | None, reason: str
) -> None:
    assert reason_of(failure_reason=word) == reason


@pytest.mark.parametrize("word", sorted(BUILT_IN - {"handler_exception"}))
def test_a_word_that_is_a_reason_is_that_reason(word: str) -> None:
    assert reason_of(failure_reason=word, exception_type="TimeoutError") == word


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("TransportUnavailable", "transport_unavailable"),
        ("transport-unavailable", "transport_unavailable"),
        ("TRANSPORT_UNAVAILABLE", "transport_unavailable"),
        ("ValidationFailure", "validation_failure"),
        ("TimeoutExceeded", "timeout_exceeded"),
        ("SerializationError", "serialization_error"),
        ("DependencyFailure", "dependency_failure"),
        ("PoisonMessage", "poison_message"),
        ("InvalidMessage", "invalid_message"),
        ("Unknown", "unknown"),
        ("1", "transport_unavailable"),
        ("3", "validation_failure"),
        ("4", "timeout_exceeded"),
        ("5", "serialization_error"),
        ("6", "dependency_failure"),
        ("7", "poison_message"),
        ("99", "unknown"),
        ("HandlerException", "handler_exception"),
        ("2", "handler_exception"),
        ("8", "handler_exception"),
        ("01", "handler_exception"),
        ("transport unavailable", "handler_exception"),
        ("out of stock", "handler_exception"),
    ],
)
def test_a_reason_is_understood_as_applications_write_it(word: str, reason: str) -> None:
    assert reason_of(failure_reason=word, exception_type="Shop.OutOfStock") == reason


@pytest.mark.parametrize("word", ["HandlerException", "HANDLER-EXCEPTION", "2"])
def test_handler_exception_in_other_letters_says_nothing_either(word: str) -> None:
    assert reason_of(failure_reason=word, exception_type="TimeoutError") == "timeout_exceeded"


@pytest.mark.parametrize(
    ("exception_type", "reason"),
    [
        ("ConnectionRefusedError", "transport_unavailable"),
        ("json.decoder.JSONDecodeError", "serialization_error"),
        ("pydantic_core.ValidationError", "validation_failure"),
        ("ReadTimeout", "timeout_exceeded"),
        ("Shop.OutOfStock", "handler_exception"),
        (None, "handler_exception"),
    ],
)
def test_the_word_handler_exception_says_nothing_beside_a_type(
    exception_type: str | None, reason: str
) -> None:
    assert reason_of(failure_reason="handler_exception", exception_type=exception_type) == reason


@pytest.mark.parametrize(("crashes", "reason"), [(10, "unknown"), (11, "poison_message")])
def test_more_crashes_than_allowed_are_poison(crashes: int, reason: str) -> None:
    assert reason_of(crashes=crashes) == reason


@pytest.mark.parametrize(
    ("rejected", "reason"),
    [
        ("RETRIES_EXCEEDED", "poison_message"),
        ("TASKMESSAGE_INVALID", "invalid_message"),
        ("OTHER", "timeout_exceeded"),
    ],
)
def test_what_a_worker_said_when_it_gave_up_decides(rejected: str, reason: str) -> None:
    assert reason_of(rejected=rejected, exception_type="TimeoutError") == reason


def test_what_could_not_be_sent_is_not_the_failure_of_before() -> None:
    rule = ReasonRule(reason="mine", exception=("*",))

    reason = reason_of(rule, exception_type="ValidationError", unsent=True)

    assert reason == "transport_unavailable"


def test_what_can_never_be_sent_has_a_reason_of_its_own() -> None:
    rule = ReasonRule(reason="mine", exception=("*",))

    reason = reason_of(rule, exception_type="ValidationError", unsent=True, unsendable=True)

    assert reason == "invalid_message"


def test_the_first_rule_of_the_operator_decides() -> None:
    rules = [ReasonRule(reason=name, exception=("Shop.*",)) for name in ("first", "second")]

    assert reason_of(*rules, exception_type="Shop.TimeoutError") == "first"


@pytest.mark.parametrize(
    "rule",
    [
        ReasonRule(reason="mine", queue=("bills",), exception=("Shop.*",)),
        ReasonRule(reason="mine", failure_reason=("expired",)),
        ReasonRule(reason="mine", message="absent"),
    ],
)
def test_all_conditions_of_a_rule_must_hold(rule: ReasonRule) -> None:
    facts = {"exception_type": "Shop.Full", "exception_message": "5 left"}

    assert reason_of(rule, **facts) == "handler_exception"


def test_a_pattern_is_searched_in_the_message() -> None:
    rule = ReasonRule(reason="GW_5XX", message=r"5\d\d")

    assert reason_of(rule, exception_message="status 503") == "GW_5XX"
    assert reason_of(rule, exception_message="status 404") == "unknown"
    assert reason_of(rule) == "unknown"


def test_only_the_first_4_kib_are_looked_at() -> None:
    rule = ReasonRule(reason="mine", message="end")

    assert reason_of(rule, exception_message="-" * 4093 + "end") == "mine"
    assert reason_of(rule, exception_message="-" * 4094 + "end") == "unknown"


def test_the_numbers_are_those_that_others_use() -> None:
    assert sorted(NUMBERS.values()) == [1, 2, 3, 4, 5, 6, 7, 99]
    assert NUMBERS["unknown"] == 99


@pytest.mark.parametrize("code", GATEWAY_CODES)
def test_a_code_of_the_gateway_is_its_own_reason(code: str) -> None:
    assert reason_of(*make_gateway_rules(), failure_reason=code) == code
    assert reason_of(*make_gateway_rules(), exception_type=code) == code


@pytest.mark.parametrize(
    ("facts", "code"),
    [
        ({"failure_reason": "GW_UNAVAILABLE"}, "GW_5XX"),
        ({"exception_type": "ConnectionRefusedError"}, "GW_5XX"),
        ({"failure_reason": "PARSE_ERROR"}, "GW_4XX"),
        ({"failure_reason": "VALIDATION_ERROR"}, "GW_4XX"),
        ({"failure_reason": "INVALID_MAPPING"}, "GW_4XX"),
        ({"failure_reason": "MEMORY_ERROR"}, "UNKNOWN"),
        ({"exception_type": "MemoryError"}, "UNKNOWN"),
        ({"exception_type": "Http.Error", "exception_message": "HTTP 400 Bad Request"}, "GW_4XX"),
        ({"exception_type": "Http.Error", "exception_message": "status code: 502"}, "GW_5XX"),
        ({"exception_type": "ReadTimeout"}, "GW_TIMEOUT"),
        ({"exception_type": "java.io.IOException"}, "IO_ERROR"),
        ({"exception_type": "json.JSONDecodeError"}, "GW_4XX"),
        ({"exception_type": "Shop.Full", "exception_message": "400 left"}, "UNKNOWN"),
        ({"failure_reason": "TransportUnavailable"}, "GW_5XX"),
        ({"failure_reason": "expired"}, "GW_TIMEOUT"),
        (
            {
                "failure_reason": "timeout_exceeded",
                "exception_type": "HandlerTimeout",
                "exception_message": "shop took longer than 500 s with this message, each of 3 times",
            },
            "GW_TIMEOUT",
        ),
        ({"failure_reason": "invalid_message"}, "GW_4XX"),
        ({"failure_reason": "out of stock"}, "UNKNOWN"),
        ({}, "UNKNOWN"),
        ({"crashes": 11}, "poison_message"),
    ],
)
def test_the_set_gateway_maps_the_codes_of_the_inside(facts: dict[str, object], code: str) -> None:
    assert reason_of(*make_gateway_rules(), **facts) == code


@pytest.mark.parametrize(
    ("code", "exception_type", "message"),
    [
        pytest.param(code, *each, id=f"{code} {each[0]} {each[1]}")
        for code in ("GW_4XX", "GW_5XX", "GW_TIMEOUT", "UNKNOWN")
        for each in getattr(gateway_texts, code)
    ],
)
def test_what_an_http_client_says_has_its_code(
    code: str, exception_type: str, message: str
) -> None:
    found = reason_of(
        *make_gateway_rules(), exception_type=exception_type, exception_message=message
    )

    assert found == code


@pytest.mark.parametrize(
    "piece",
    [
        "http ",
        "http error ",
        "status code ",
        "status",
        "returned ",
        "4",
        "404 ",
        " : ",
        "x",
        "E",
        "-",
    ],
)
def test_a_hostile_text_takes_the_set_no_time(piece: str) -> None:
    begin = process_time()

    reason_of(*make_gateway_rules(), exception_type="A", exception_message=piece * 4096)

    assert process_time() - begin < 0.5


def test_the_set_can_be_limited() -> None:
    rules = make_gateway_rules(queue=("convert",), message_type=("Pdf*",))
    refused = {"exception_type": "ConnectionRefusedError"}

    assert reason_of(*rules, **refused, message_type="PdfPage") == "transport_unavailable"
    assert reason_of(*rules, **refused, message_type="PdfPage", queue="convert") == "GW_5XX"
    assert reason_of(*rules, **refused, message_type="Order", queue="convert") == (
        "transport_unavailable"
    )


def test_what_is_behind_the_set_is_asked_before_what_is_left_has_a_code() -> None:
    rule = ReasonRule(reason="mine", exception=("Shop.Full",))

    assert reason_of(*make_gateway_rules(), rule, exception_type="Shop.Full") == "mine"


@pytest.mark.parametrize("word", ["poison_message", "PoisonMessage", "7"])
def test_a_person_gives_a_built_in_reason_by_any_of_its_names(word: str) -> None:
    assert why_not_a_reason(word) is None


@pytest.mark.parametrize(
    ("word", "nearest"),
    [
        ("posion", "; perhaps poison_message is meant."),
        ("Timeout", "; perhaps timeout_exceeded is meant."),
        ("GW_5XX", ", validation_failure."),
        ("", ", validation_failure."),
        ("x" * 100_000, ", validation_failure."),
    ],
)
def test_a_reason_that_there_is_not_is_told_with_the_nearest(word: str, nearest: str) -> None:
    why_not = why_not_a_reason(word)

    assert why_not is not None
    assert why_not.startswith("It is none of dependency_failure, handler_exception, ")
    assert why_not.endswith(nearest)

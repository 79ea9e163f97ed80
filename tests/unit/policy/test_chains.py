"""What is inside an exception that says nothing itself, as the stack traces of six languages tell it."""

from time import process_time

import pytest

from retrier.domain.failed_message import FailureDetails
from retrier.policy.classification import find_candidates
from retrier.policy.facts import WRAPPERS, facts_of, find_inner
from retrier.policy.patterns import Patterns

JAVA = """java.util.concurrent.ExecutionException: java.lang.RuntimeException: cannot pay
\tat java.base/java.util.concurrent.FutureTask.report(FutureTask.java:122)
\tat shop.Payments.charge(Payments.java:31)
Caused by: java.lang.RuntimeException: cannot pay
\tat shop.Gateway.call(Gateway.java:17)
\t... 5 more
Caused by: java.net.ConnectException: Connection refused
\tat java.base/sun.nio.ch.Net.pollConnect(Native Method)
\t... 7 more
Caused by: java.sql.SQLException: never looked at
"""
DOTNET = """System.AggregateException: One or more errors occurred. (no answer)
 ---> System.TimeoutException: no answer
   at Shop.Gateway.Call() in /src/Gateway.cs:line 20
   --- End of inner exception stack trace ---
   at System.Threading.Tasks.Task.Wait()
 ---> (Inner Exception #0) System.TimeoutException: no answer<---
"""
DOTNET_IN_ONE_LINE = (
    "System.Reflection.TargetInvocationException: Exception has been thrown by the target. "
    "---> System.Data.SqlClient.SqlException: Login failed\r\n   at Shop.Sales.Handle()"
)
DOTNET_NUMBERED = """System.AggregateException: 2 unhandled exceptions
 ---> (Inner Exception #0) Newtonsoft.Json.JsonReaderException: Unexpected character<---
"""
PYTHON_FROM = """Traceback (most recent call last):
  File "/app/shop.py", line 3, in pay
    connect()
ConnectionRefusedError: [Errno 111] Connection refused

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "/app/shop.py", line 5, in handle
    raise RuntimeError("cannot pay") from error
RuntimeError: cannot pay
"""
PYTHON_DURING = PYTHON_FROM.replace(
    "The above exception was the direct cause of the following exception:",
    "During handling of the above exception, another exception occurred:",
).replace(
    "ConnectionRefusedError: [Errno 111] Connection refused", "json.decoder.JSONDecodeError: x"
)
PYTHON_GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/app/shop.py", line 9, in <module>
  |     asyncio.run(main())
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/shop.py", line 5, in pay
    |     raise TimeoutError("no answer")
    | TimeoutError: no answer
    +------------------------------------
"""
NODE_CAUSE = """Error: cannot pay
    at pay (/app/shop.js:3:9) {
  [cause]: TimeoutError: no answer
      at call (/app/gateway.js:7:11)
}
"""
NODE_FETCH = """TypeError: fetch failed
    at node:internal/deps/undici/undici:12345:11 {
  [cause]: Error: connect ECONNREFUSED 127.0.0.1:1
      at TCPConnectWrap.afterConnect [as oncomplete] (node:net:1555:16) {
    errno: -111,
    code: 'ECONNREFUSED'
  }
}
"""
PHP = """PDOException: SQLSTATE[HY000] [2002] No such file in /app/Db.php:3
Stack trace:
#0 /app/Db.php(3): PDO->__construct()
#1 {main}

Next RuntimeException: cannot store in /app/Shop.php:9
Stack trace:
#0 {main}
"""
RUBY = """shop.rb:5:in `rescue in pay': cannot pay (RuntimeError)
\tfrom shop.rb:2:in `pay'
shop.rb:3:in `pay': Failed to open TCP connection (Errno::ECONNREFUSED)
\tfrom shop.rb:8:in `<main>'
"""


def reason_of(exception_type: str, message: str | None = None, trace: str | None = None) -> str:
    details = FailureDetails(
        queue="orders",
        destination="orders",
        exception_type=exception_type,
        exception_message=message,
        stack_trace=trace,
    )
    return find_candidates(facts_of(details), ()).reason_of(message, Patterns(()))


@pytest.mark.parametrize(
    ("exception_type", "trace", "reason"),
    [
        ("java.util.concurrent.ExecutionException", JAVA, "transport_unavailable"),
        ("java.util.concurrent.CompletionException", JAVA, "transport_unavailable"),
        ("java.lang.reflect.InvocationTargetException", JAVA, "transport_unavailable"),
        ("System.AggregateException", DOTNET, "timeout_exceeded"),
        ("System.Reflection.TargetInvocationException", DOTNET_IN_ONE_LINE, "dependency_failure"),
        ("System.AggregateException", DOTNET_NUMBERED, "serialization_error"),
        ("RuntimeError", PYTHON_FROM, "transport_unavailable"),
        ("RuntimeError", PYTHON_DURING, "serialization_error"),
        ("ExceptionGroup", PYTHON_GROUP, "timeout_exceeded"),
        ("Error", NODE_CAUSE, "timeout_exceeded"),
        ("RuntimeException", PHP, "dependency_failure"),
        ("RuntimeError", RUBY, "transport_unavailable"),
    ],
)
def test_the_first_type_inside_that_says_something_decides(
    exception_type: str, trace: str, reason: str
) -> None:
    assert reason_of(exception_type, "cannot pay", trace) == reason


@pytest.mark.parametrize("exception_type", ["shop.OutOfStock", "KeyError", "shop.Declined"])
@pytest.mark.parametrize("trace", [JAVA, DOTNET, PYTHON_FROM, NODE_CAUSE, PHP, RUBY])
def test_an_exception_that_says_something_is_not_looked_into(
    exception_type: str, trace: str
) -> None:
    assert reason_of(exception_type, "cannot pay", trace) == "handler_exception"


def test_a_type_inside_that_is_the_applications_own_is_not_looked_into() -> None:
    trace = JAVA.replace("java.lang.RuntimeException", "shop.Declined")

    assert reason_of("java.util.concurrent.ExecutionException", "no", trace) == "handler_exception"


@pytest.mark.parametrize(
    ("exception_type", "message", "reason"),
    [
        ("Error", "connect ECONNREFUSED 127.0.0.1:5432", "transport_unavailable"),
        ("Error", "getaddrinfo EAI_AGAIN gateway", "transport_unavailable"),
        ("Error", "read ETIMEDOUT", "timeout_exceeded"),
        ("java.io.IOException", "Connection reset by peer", "transport_unavailable"),
        ("OSError", "[Errno 113] No route to host", "transport_unavailable"),
        (
            "*fmt.wrapError",
            "pay: dial tcp 10.0.0.1:80: connect: connection refused",
            "transport_unavailable",
        ),
        ("*errors.errorString", "dial tcp: lookup x: no such host", "transport_unavailable"),
        ("*fmt.wrapError", "read tcp 10.0.0.1:80: i/o timeout", "timeout_exceeded"),
        ("*errors.errorString", "context deadline exceeded", "timeout_exceeded"),
        ("Error", "FILENOTFOUND, BadgeNotFound, thepipeline", "handler_exception"),
        ("Error", "cannot pay", "handler_exception"),
        ("shop.Declined", "connection refused", "handler_exception"),
    ],
)
def test_where_no_type_says_more_the_words_of_the_system_do(
    exception_type: str, message: str, reason: str
) -> None:
    assert reason_of(exception_type, message) == reason


def test_a_failed_fetch_of_node_is_looked_into() -> None:
    assert reason_of("TypeError", "fetch failed", NODE_FETCH) == "transport_unavailable"


def test_another_type_error_is_not() -> None:
    assert reason_of("TypeError", "x is no function", NODE_FETCH) == "handler_exception"


def test_without_an_exception_nothing_is_found() -> None:
    assert find_inner(None, "connection refused", JAVA) is None


@pytest.mark.parametrize("name", sorted(WRAPPERS))
def test_a_chain_of_such_types_alone_ends(name: str) -> None:
    assert find_inner(name, "no", f"{name}: no\nCaused by: {name}: no\n") is None


@pytest.mark.parametrize(
    "piece",
    [
        "Caused by: ",
        "---> ",
        "[cause]: ",
        "Next ",
        "a (",
        "(A::",
        "| ",
        "Traceback (most recent call last)\n x\n",
        "a.b:",
        "\n",
        " ",
        "timed ",
        "::",
        "*",
    ],
)
def test_a_hostile_trace_takes_no_time(piece: str) -> None:
    trace = piece * (4_000_000 // len(piece))
    begin = process_time()

    find_inner("Error", trace, trace)

    assert process_time() - begin < 1


def test_the_end_of_a_long_trace_is_looked_at() -> None:
    trace = "java.lang.RuntimeException: x\n" + "\tat shop.A.b(A.java:1)\n" * 50_000

    found = find_inner(
        "java.lang.RuntimeException", "x", trace + "Caused by: java.net.ConnectException: no"
    )

    assert found == "java.net.ConnectException"

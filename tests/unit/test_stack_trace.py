"""The frame that tells where an exception was thrown."""

import pytest

from retrier.domain.classifiers import first_frame

DOTNET = """System.InvalidOperationException: no stock
   at Shop.Stock.Reserve(Order order, Int32 count) in C:\\src\\Stock.cs:line 42
   at Shop.Handler.Handle(PlaceOrder message) in C:\\src\\Handler.cs:line 7"""

DOTNET_INNER = """System.Exception: outer ---> System.TimeoutException: inner
   at Shop.Db.Open()
   --- End of inner exception stack trace ---
   at Shop.Handler.Handle(PlaceOrder message)"""

JAVA = """java.lang.IllegalStateException: no stock
\tat shop.Stock.reserve(Stock.java:42)
\tat shop.Handler.handle(Handler.java:7)
Caused by: java.io.IOException: closed
\tat shop.Db.open(Db.java:3)"""

NODE = """Error: no stock
    at reserve (/srv/app/stock.js:42:11)
    at async handle (file:///srv/app/handler.mjs:7:3)"""

PYTHON = """Traceback (most recent call last):
  File "/app/main.py", line 3, in run
    handle(message)
  File "/app/stock.py", line 42, in reserve
    raise OutOfStock
shop.OutOfStock: no stock"""

PYTHON_GROUP = """  + Exception Group Traceback (most recent call last):
  |   File "/app/main.py", line 3, in run
  |     raise ExceptionGroup("several", errors)
  | ExceptionGroup: several (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/app/stock.py", line 9, in reserve
    | ValueError: 1"""


@pytest.mark.parametrize(
    ("stack_trace", "frame"),
    [
        pytest.param(DOTNET, "Shop.Stock.Reserve(Order order, Int32 count)", id=".NET"),
        pytest.param(DOTNET_INNER, "Shop.Db.Open()", id=".NET, the inner exception first"),
        pytest.param("at Sample.Main()", "Sample.Main()", id=".NET, not indented"),
        pytest.param(
            "   at A.B`1.<M>d__5.MoveNext() in /a/b.cs:line 1",
            "A.B`1.<M>d__5.MoveNext()",
            id=".NET, asynchronous and generic",
        ),
        pytest.param(JAVA, "shop.Stock.reserve", id="Java"),
        pytest.param("\tat a.B.c(Native Method)", "a.B.c", id="Java, native"),
        pytest.param("\tat a.B.c(Unknown Source)", "a.B.c", id="Java, no source"),
        pytest.param(
            "\tat java.base/a.B.<init>(B.java)", "java.base/a.B.<init>", id="Java, module"
        ),
        pytest.param(NODE, "reserve", id="Node"),
        pytest.param("    at async handle (/a/b.mjs:7:3)", "handle", id="Node, asynchronous"),
        pytest.param("    at /srv/app/stock.js:42:11", "stock.js", id="Node, no function"),
        pytest.param("    at async file:///a/b.mjs:7:3", "b.mjs", id="Node, module level"),
        pytest.param("    at new Stock (C:\\app\\stock.js:4:1)", "new Stock", id="Node, Windows"),
        pytest.param(
            "    at eval (eval at <anonymous> (a.js:1:1), <anonymous>:1:1)", "eval", id="Node, eval"
        ),
        pytest.param(PYTHON, "stock.py in reserve", id="Python, the innermost"),
        pytest.param(PYTHON_GROUP, "stock.py in reserve", id="Python, exception group"),
        pytest.param(
            '  File "C:\\app\\stock.py", line 42, in <lambda>', "stock.py in <lambda>", id="Windows"
        ),
        pytest.param('  File "stock.py", line 1', "stock.py in <module>", id="Python, no function"),
        pytest.param("    at <anonymous>\n    at f (a.js:1:1)", "f", id="the next that tells"),
        pytest.param("something else", None, id="no frame"),
        pytest.param("", None, id="nothing"),
    ],
)
def test_the_frame_that_tells_the_cause_is_found(stack_trace, frame):
    assert first_frame(stack_trace, None) == frame


def test_a_message_that_looks_like_a_frame_is_passed_over():
    message = "lost\n   at Somebody.Else()"

    frame = first_frame(f"Error: {message}\n   at Shop.Stock.Reserve()", message)

    assert frame == "Shop.Stock.Reserve()"


def test_a_short_message_takes_nothing_out_of_the_frames():
    assert first_frame("Error: S\n   at Shop.Stock.Reserve()", "S") == "Shop.Stock.Reserve()"


def test_an_endless_line_is_looked_at_in_part():
    assert first_frame("   at " + "(" * 1_000_000, None) is None


@pytest.mark.parametrize(
    ("trace", "frame"),
    [
        ("#0 /app/src/Packing.php(12): Shop\\Packing->pack(7)\n#1 {main}", "Shop\\Packing->pack"),
        ("#0 [internal function]: Shop\\Packing::pack()", "Shop\\Packing::pack"),
        ("Error: x in /a.php:3\nStack trace:\n#0 /app/a b.php(3): pack(Array)", "pack"),
        ("#0 {main}", None),
    ],
)
def test_of_php_the_first_call_is_the_frame(trace: str, frame: str | None) -> None:
    assert first_frame(trace, None) == frame

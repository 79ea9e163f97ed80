"""Stamps of a failure are cut out of a body of PHP exactly, or not at all."""

import math
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrier.domain.dialects import by_name, php, recognise, unwrap
from retrier.domain.dialects.dialect import LOST_NEXT
from retrier.domain.dialects.php import cut_stamps
from retrier.domain.dialects.symfony import OF_FAILURE
from retrier.domain.failed_message import FailureDetails
from tests.support.dialect_headers import properties
from tests.support.library_samples import ORDER, PHP_FAILED, PHP_SENT
from tests.support.php_bodies import (
    BUS,
    NAMESPACE,
    SENT,
    Case,
    PhpObject,
    Table,
    each,
    envelope,
    failed_with,
    private,
    read,
    sent,
    sent_text,
    serialise,
)

OWN_BUS = (BUS, each(private(BUS, busName="default")))


def cut(body: bytes) -> bytes | None:
    return cut_stamps(body, OF_FAILURE)


def details(body: bytes) -> FailureDetails:
    known = by_name("symfony")
    assert known
    found = known.read(properties(), body=body)
    assert isinstance(found, FailureDetails)
    return found


def holding(text: bytes) -> bytes:
    """Return a failed body whose message holds this serialised value."""
    whole = serialise(envelope(private("App\\OrderPlaced", it=None), *failed_with()))
    assert whole.count(b'\0it";N;') == 1
    return sent_text(whole.replace(b'\0it";N;', b'\0it";' + text))


def test_what_is_left_is_what_the_sender_sent() -> None:
    assert cut(PHP_FAILED) == PHP_SENT


def test_what_has_no_such_stamp_is_left_as_it_is() -> None:
    assert cut(PHP_SENT) == PHP_SENT


def test_an_envelope_that_had_no_stamps_has_none_again() -> None:
    assert cut(sent(envelope(ORDER, *failed_with()))) == sent(envelope(ORDER))


def test_what_is_no_utf8_goes_back_in_base64() -> None:
    order = private("App\\OrderPlaced", photo=b"\xff\xd8'\"\\\0")

    assert cut(sent(envelope(order, *failed_with()))) == sent(envelope(order))
    assert not sent(envelope(order)).endswith(b"}")


def test_it_goes_back_as_text_if_only_the_failure_was_no_utf8() -> None:
    known = private("App\\OrderPlaced", id=7)
    stamps = [(name, value) for name, value in failed_with() if name == SENT]
    broken = (OF_FAILURE[1], each(private(OF_FAILURE[1], exceptionMessage=b"\xff")))

    assert cut(sent(envelope(known, *stamps, broken))) == sent(envelope(known))


@pytest.mark.parametrize(
    "text",
    [
        b'C:3:"App":2:{xy}',
        b'S:1:"a";',
        b'o:1:{s:1:"a";N;}',
        b"x",
        b"",
        b"i:007;",
        b"b:2;",
        b"a:1:{N;N;}",
        b"a:1:{d:1.0;N;}",
        b'a:1:{E:5:"A\\B:C";N;}',
        b"a:1:{a:0:{}N;}",
        b"a:1:{i:1;}",
        b"a:2:{i:1;N;}",
        b's:2:"a";',
        b's:0:"a";',
        b's:-1:"";',
        b's:01:"a";',
        b"R:1;",
        b"r:1;",
        b"a:1:{i:0;r:2;}",
        b"a:1:{i:0;R:2;}",
        b'O:1:"A":1:{s:1:"a";r:1;}',
        b"a:999999999999:{",
    ],
    ids=repr,
)
def test_what_it_does_not_know_is_never_cut(text: bytes) -> None:
    body = holding(text)

    assert cut(body) is None
    assert unwrap("symfony", properties(), body) is None
    assert details(body).failure_reason == LOST_NEXT


def test_a_text_that_looks_like_the_end_of_an_envelope_is_a_text() -> None:
    trap = '";}}s:45:"\0Symfony\\Component\\Messenger\\Envelope\0message";O:1:"A":0:{}}r:3;'
    order = private("App\\OrderPlaced", note=trap)

    assert cut(sent(envelope(order, *failed_with(text=trap)))) == sent(envelope(order))


def test_a_stamp_of_that_name_inside_the_message_stays() -> None:
    order = private("App\\OrderPlaced", stamps=Table(tuple(failed_with())))

    assert cut(sent(envelope(order, *failed_with()))) == sent(envelope(order))


@pytest.mark.parametrize("change", [b"", b"x", b"}", b"\\", b"N;}"])
def test_what_stands_behind_the_envelope_is_never_passed_over(change: bytes) -> None:
    body = PHP_FAILED + change

    assert cut(body) == (PHP_SENT if not change else None)


@pytest.mark.parametrize(
    "body",
    [
        PHP_FAILED.replace(b'\\"', b'"', 1),
        PHP_FAILED.replace(b"\\0", b"\0", 1),
        PHP_FAILED.replace(b":2:{s:44", b":3:{s:44", 1),
        PHP_FAILED.replace(b"stamps", b"stampz", 1),
        PHP_FAILED.replace(b"s:14", b"s:15", 1),
        b"Tzoz" + PHP_FAILED[4:],
        b"",
        b"O:",
        b"\xff",
    ],
    ids=range(9),
)
def test_what_messenger_would_not_send_is_never_cut(body: bytes) -> None:
    assert cut(body) is None


def test_it_may_nest_deep() -> None:
    left = cut(holding(b"a:1:{i:0;" * 500 + b"N;" + b"}" * 500))

    assert left is not None
    assert b"SentToFailureTransportStamp" not in left


def test_beyond_a_depth_it_is_not_cut() -> None:
    assert cut(holding(b"a:1:{i:0;" * 5000 + b"N;" + b"}" * 5000)) is None


def test_a_body_of_many_mebibytes_is_not_cut() -> None:
    assert php.serialised(b"}" * (php.LARGEST + 1)) is None


def test_what_can_be_cut_is_not_lost_next_time() -> None:
    assert details(PHP_FAILED).failure_reason is None


@pytest.mark.parametrize(
    ("body", "reason", "queue"),
    [
        (PHP_SENT, "rejected", "orders"),
        (PHP_SENT, "delivery_limit", "orders"),
        (PHP_SENT, "expired", ""),
        (PHP_FAILED, "rejected", ""),
    ],
)
def test_what_its_own_queue_dead_lettered_goes_back_there(
    body: bytes, reason: str, queue: str
) -> None:
    known = by_name("symfony")
    assert known
    death = [{"queue": "orders", "reason": reason, "count": 1}]

    found = known.read(properties({"x-death": death}), body=body)

    assert isinstance(found, FailureDetails)
    assert found.destination == queue


def test_headers_and_properties_are_those_that_came() -> None:
    held = properties({"tenant": "north", "n": 3, "t": {"a": 1}}, type="x")

    inside = unwrap("symfony", held, PHP_FAILED)

    assert inside is not None
    assert (inside.body, inside.keeps_properties) == (PHP_SENT, True)
    assert (inside.headers, inside.fields) == (held.headers, held.fields)


def test_one_inside_another_is_taken_out_once() -> None:
    order = private("App\\Forwarded", body=sent(envelope(ORDER, *failed_with())))

    assert cut(sent(envelope(order, *failed_with()))) == sent(envelope(order))


TEXTS = st.text(max_size=12).map(str.encode) | st.binary(max_size=12)
NAMES = st.from_regex(r"\A[A-Z][a-z]{0,5}(\\[A-Z][a-z]{0,5}){0,2}\Z")
KEYS = st.integers(-(10**9), 10**9) | TEXTS
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**62), 2**62)
    | st.floats(allow_nan=False)
    | TEXTS
    | NAMES.map(lambda name: Case(f"{name}:One"))
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(st.tuples(KEYS, inner), max_size=4).map(lambda got: Table(tuple(got)))
        | st.tuples(NAMES, st.lists(st.tuples(KEYS, inner), max_size=4)).map(
            lambda got: PhpObject(got[0], tuple(got[1]))
        )
    ),
    max_leaves=12,
)
OBJECTS = st.tuples(NAMES, st.lists(st.tuples(KEYS, VALUES), max_size=4)).map(
    lambda got: PhpObject(got[0], tuple(got[1]))
)
STAMPS = st.lists(st.tuples(NAMES, VALUES.map(each)), max_size=3)


@given(message=OBJECTS, own=STAMPS, text=TEXTS, data=st.data())
def test_of_any_message_what_is_left_is_what_was_sent(
    message: PhpObject, own: list[tuple[str, Table]], text: bytes, data: Any
) -> None:
    failed = list(own)
    for stamp in failed_with(text=text):  # type: ignore[arg-type]
        failed.insert(data.draw(st.integers(0, len(failed))), stamp)

    assert cut(sent(envelope(message, *failed))) == sent(envelope(message, *own))


@given(message=OBJECTS, own=STAMPS, at=st.integers(0, 10**6), byte=st.integers(0, 255))
def test_of_any_damaged_body_nothing_is_left_or_all_but_the_stamps(
    message: PhpObject, own: list[tuple[str, Table]], at: int, byte: int
) -> None:
    body = bytearray(sent(envelope(message, *own, *failed_with())))
    body[at % len(body)] = byte

    left = cut(bytes(body))

    if left is not None:
        assert _without_stamps(read(bytes(body))) == _plain(read(left))


@given(st.binary(max_size=200).map(lambda tail: PHP_FAILED[:90] + tail))
def test_anything_is_taken(body: bytes) -> None:
    cut(body)
    recognise(properties(), body=body)
    details(body)


def _without_stamps(found: object) -> object:
    assert isinstance(found, PhpObject)
    (name, stamps), message = found.members
    assert isinstance(stamps, Table)
    kept = [pair for pair in stamps.pairs if pair[0] not in {n.encode() for n in OF_FAILURE}]
    return _plain(PhpObject(found.of, ((name, Table(tuple(kept))), message)))


def _plain(found: object) -> str:
    return repr(found).replace(repr(math.nan), "NaN")


_READ = """
class Made {}
$text = stripslashes(substr($in = stream_get_contents(STDIN), -1) === '}' ? $in : base64_decode($in));
$found = unserialize($text, ['allowed_classes' => false]);
exit($found !== false && serialize($found) === $text ? 0 : 1);
"""


@pytest.fixture(scope="module")
def read_by_php() -> Callable[[bytes], bool]:
    """Give what asks PHP whether it reads a body, and writes it again as it stands."""
    program = shutil.which("php")
    if program is None:
        pytest.skip("php is not installed")

    def asked(body: bytes) -> bool:
        return subprocess.run([program, "-r", _READ], input=body, check=False).returncode == 0

    return asked


@pytest.mark.parametrize(
    "message",
    [
        ORDER,
        private("App\\Photo", bytes=b"\xff\0'\"\\", ratio=0.1, tags=each(None, -3, b"")),
        PhpObject(NAMESPACE + "\\X", (("a", Table(((-7, 1), (b"\xfe", "x")))),)),
    ],
    ids=["order", "photo", "keys"],
)
def test_php_reads_what_is_left(message: PhpObject, read_by_php: Callable[[bytes], bool]) -> None:
    failed = sent(envelope(message, OWN_BUS, *failed_with()))
    left = cut(failed)

    assert left is not None
    assert read_by_php(failed)
    assert read_by_php(left)

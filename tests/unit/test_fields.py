"""Declared fields: what is read of a message, whatever that is, and conditions on it."""

import gzip
import json
import time
from collections.abc import Callable

import pytest

from retrier.domain.dialects.dialect import Original
from retrier.domain.dialects.own import Place, Source
from retrier.domain.fields import (
    LONGEST_VALUE,
    DeclaredField,
    FieldCondition,
    NoCondition,
    comparable,
    read_conditions,
    read_fields,
    read_xml_path,
    share_a_queue,
)
from retrier.domain.wire import Properties
from tests.support.dialect_headers import properties

HEADERS: dict[str, object] = {"Shop.OrderId": "4711", "Shop.Total": 12}


def of_header(name: str = "Shop.OrderId") -> Source:
    return Source(Place.HEADER, name)


def of_body(pointer: str) -> Source:
    return Source(Place.BODY, pointer)


def field(source: object, name: str = "order", queues: tuple[str, ...] | None = None):
    return DeclaredField(name=name, source=source, queues=queues)  # type: ignore[arg-type]


def of_xml(path: str, body: bytes) -> str | None:
    source = read_xml_path(path)
    return read_fields([field(source)], "orders", properties({}), body).get("order")


def of_json(pointer: str, body: bytes) -> str | None:
    return read_fields([field(of_body(pointer))], "orders", properties({}), body).get("order")


class TestAValueIsRead:
    def test_of_a_header(self) -> None:
        assert read_fields([field(of_header())], "orders", properties(HEADERS), b"") == {
            "order": "4711"
        }

    def test_of_a_header_that_is_a_number(self) -> None:
        found = read_fields([field(of_header("Shop.Total"))], "orders", properties(HEADERS), b"")

        assert found == {"order": "12"}

    def test_of_a_property(self) -> None:
        declared = field(Source(Place.PROPERTY, "correlation_id"))

        found = read_fields([declared], "orders", properties({}, correlation_id="c-1"), b"")

        assert found == {"order": "c-1"}

    def test_of_a_body_by_a_pointer(self) -> None:
        assert of_json("/customer/0/id", b'{"customer": [{"id": 4711}]}') == "4711"

    @pytest.mark.parametrize(
        ("written", "shown"), [("true", "true"), ("1.5", "1.5"), ('"a b"', "a b"), ("0", "0")]
    )
    def test_as_text(self, written: str, shown: str) -> None:
        assert of_json("/id", f'{{"id": {written}}}'.encode()) == shown

    def test_without_the_blanks_around_it(self) -> None:
        assert of_json("/id", b'{"id": "  x\\n"}') == "x"

    def test_cut_to_its_length(self) -> None:
        body = json.dumps({"id": "é" * LONGEST_VALUE}).encode()

        assert of_json("/id", body) == "é" * (LONGEST_VALUE // 2)

    @pytest.mark.parametrize(
        ("path", "shown"),
        [
            ("/order/customer/id", "4711"),
            ("/order/@no", "7"),
            ("/order/customer/@kind", "gold"),
            ("/order/note", "a & b"),
        ],
    )
    def test_of_xml_by_a_path(self, path: str, shown: str) -> None:
        body = (
            b'<?xml version="1.0"?><s:order xmlns:s="urn:s" no="7"><s:customer s:kind="gold">'
            b"<name/><id> 4711 </id></s:customer><customer><id>2</id></customer>"
            b"<note>a <![CDATA[&]]> b</note></s:order>"
        )
        assert of_xml(path, body) == shown

    def test_of_the_message_inside_an_envelope(self) -> None:
        inside = Original(body=b'{"id": 1}', headers={"Shop.OrderId": "inner"})
        declared = [field(of_header()), field(of_body("/id"), "number")]

        found = read_fields(declared, "orders", properties(HEADERS), b'{"id": 2}', inside)

        assert found == {"order": "inner", "number": "1"}

    def test_of_the_envelope_where_the_message_has_none(self) -> None:
        inside = Original(body=b"{}")

        found = read_fields([field(of_header())], "orders", properties(HEADERS), b"", inside)

        assert found == {"order": "4711"}

    def test_on_its_queues_only(self) -> None:
        declared = [field(of_header(), queues=("orders*",))]

        read = [
            read_fields(declared, each, properties(HEADERS), b"") for each in ("orders.eu", "b")
        ]

        assert read == [{"order": "4711"}, {}]


LARGE = b'{"id": "' + b"x" * 5_000_000 + b'"}'
DEEP = b'{"id": ' + b"[" * 60_000 + b"]" * 60_000 + b"}"
DEEP_XML = b"<id>" * 60_000 + b"x" + b"</id>" * 60_000
BOMB = b'<!DOCTYPE id [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><id>&b;</id>'
BAD: dict[str, bytes] = {
    "no JSON": b"id=4711",
    "nothing": b"",
    "bad UTF-8": b'{"id": "\xff\xfe"}',
    "5 MB": LARGE,
    "60,000 deep": DEEP,
    "gzip": gzip.compress(b'{"id": 4711}'),
    "another shape": b"[1, 2]",
    "an object": b'{"id": {"a": 1}}',
    "null": b'{"id": null}',
    "blanks": b'{"id": "  "}',
    "a huge number": b'{"id": ' + b"9" * 10_000 + b"}",
    "half a surrogate": b'{"id": "\\ud800"}',
    "NUL": b'{"id": "\\u0000"}',
    "a document type": BOMB,
    "half of XML": b"<id>1",
    "nothing in the element": b"<id/>",
    "5 MB of XML": b"<id>" + b"x" * 5_000_000 + b"</id>",
}


class TestABodyThatCannotBeReadYieldsNothing:
    @pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
    @pytest.mark.parametrize("read", [of_json, of_xml])
    def test_and_no_error(self, body: bytes, read: Callable[[str, bytes], str | None]) -> None:
        assert read("/id", body) is None

    @pytest.mark.parametrize("body", [LARGE, DEEP, DEEP_XML, BOMB])
    def test_and_takes_no_time(self, body: bytes) -> None:
        began = time.perf_counter()
        declared = [field(of_body("/id/0"), "a"), field(read_xml_path("/id/id/x"), "b")]

        read_fields(declared, "orders", properties({}), body)

        assert time.perf_counter() - began < 1

    def test_but_what_is_deep_elsewhere_is_read(self) -> None:
        assert of_xml("/id/id/@no", DEEP_XML.replace(b"<id><id>", b'<id><id no="7">', 1)) == "7"


def in_charset(text: str, charset: str, content_type: str = "text/xml") -> str | None:
    declared = [field(read_xml_path("/id"), "xml"), field(of_body("/id"), "json")]
    found = Properties(headers={}, fields={"content_type": content_type})
    values = read_fields(declared, "orders", found, text.encode(charset))
    return values.get("xml") or values.get("json")


class TestTheCharset:
    LATIN = '<?xml version="1.0" encoding="ISO-8859-1"?><id>ä</id>'

    def test_is_what_the_content_type_names(self) -> None:
        told = "text/xml; charset=utf-8"

        assert in_charset(self.LATIN, "utf-8", told) == "ä"
        assert in_charset('{"id":"ä"}', "latin-1", "application/json; charset=latin-1") == "ä"

    def test_is_else_what_the_xml_declares(self) -> None:
        assert in_charset(self.LATIN, "latin-1") == "ä"
        assert in_charset('<?xml version="1.0" encoding="Shift_JIS"?><id>灰</id>', "cp932") == "灰"

    @pytest.mark.parametrize("charset", ["utf-8-sig", "utf-16", "utf-32", "utf-16-le", "utf-16-be"])
    @pytest.mark.parametrize("text", ["<id>ä</id>", '{"id":"ä"}'])
    def test_is_else_what_the_first_bytes_say(self, text: str, charset: str) -> None:
        assert in_charset(text, charset) == "ä"

    @pytest.mark.parametrize("name", ["martian", "utf-16", "rot13"])
    def test_is_utf_8_where_none_is_told_that_can_be(self, name: str) -> None:
        assert in_charset(f'<?xml version="1.0" encoding="{name}"?><id>ä</id>', "utf-8") == "ä"

    def test_of_bytes_that_it_does_not_have_yields_nothing(self) -> None:
        assert in_charset(self.LATIN, "latin-1", "text/xml; charset=ascii") is None


class TestAPathIntoXml:
    @pytest.mark.parametrize("text", ["", "/", "order", "/a//b", "/a b", "/@a", "/a/@", "/a[1]"])
    def test_that_is_none_is_refused(self, text: str) -> None:
        assert read_xml_path(text) is None

    def test_has_an_end(self) -> None:
        assert read_xml_path("/a" * 21) is None


class TestAValueIsComparable:
    @pytest.mark.parametrize(
        ("text", "number"),
        [
            ("10", 10.0),
            ("-1.5", -1.5),
            ("1e3", 1000.0),
            ("1970-01-02", 86400.0),
            ("1970-01-01T01:00:00+01:00", 0.0),
            ("1970-01-01 00:00:01Z", 1.0),
            ("1970-01-01 00:00:02:000000 Z", 2.0),
        ],
    )
    def test_as_a_number_or_a_time(self, text: str, number: float) -> None:
        assert comparable(text) == number

    @pytest.mark.parametrize(
        "text",
        ["", "A10", "10 EUR", "nan", "inf", "1e999", "0x10", "20260504x", "2026-13-01", "1_0"],
    )
    def test_or_not_at_all(self, text: str) -> None:
        assert comparable(text) is None


class TestACondition:
    def test_is_a_text(self) -> None:
        condition = FieldCondition("order", " 4711 ")

        assert (condition.value, condition.bounds) == ("4711", None)

    @pytest.mark.parametrize(
        ("text", "bounds"),
        [
            ("10..20", (10.0, 20.0)),
            ("10..", (10.0, None)),
            ("..20", (None, 20.0)),
            ("-2 .. -1", (-2.0, -1.0)),
            ("1970-01-01..1970-01-01", (0.0, 86399.999999)),
        ],
    )
    def test_is_a_range(self, text: str, bounds: tuple[float | None, float | None]) -> None:
        assert FieldCondition("total", text).bounds == bounds

    @pytest.mark.parametrize("text", ["..", "a..b", "v1..v2"])
    def test_is_a_text_where_neither_end_is_a_number_or_a_time(self, text: str) -> None:
        assert FieldCondition("version", text).bounds is None

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("10..2O", "2O is neither"),
            ("20..10", "lies before its beginning"),
            ("10..2026-05-04", "two numbers or two times"),
            ("  ", "has a value"),
        ],
    )
    def test_that_cannot_be_meant_is_refused(self, text: str, words: str) -> None:
        with pytest.raises(NoCondition, match=words):
            read_conditions([("total", text)])

    def test_on_an_unknown_field_names_those_that_are_known(self) -> None:
        with pytest.raises(NoCondition, match=r"called oder\. Declared.*: customer, order\.$"):
            read_conditions([("oder", "1")], ("customer", "order"))

    def test_where_none_is_known_says_so(self) -> None:
        with pytest.raises(NoCondition, match="no field at all"):
            read_conditions([("order", "1")], ())

    def test_stands_in_the_order_of_names(self) -> None:
        found = read_conditions([("total", "1"), ("order", "2")])

        assert [each.key for each in found] == ["field.order", "field.total"]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (None, ("a",)),
        (("a",), ("a",)),
        (("orders*",), ("*eu",)),
        (("*",), ("",)),
        (("a", "b*"), ("c", "bc")),
        (("ab*cd",), ("abcd",)),
    ],
)
def test_patterns_may_share_a_queue(
    one: tuple[str, ...] | None, other: tuple[str, ...] | None
) -> None:
    assert share_a_queue(one, other)
    assert share_a_queue(other, one)


@pytest.mark.parametrize(
    ("one", "other"),
    [("a", "b"), ("orders*", "billing*"), ("a*b", "a*c"), ("ab*cd", "abcc")],
)
def test_patterns_may_share_none(one: str, other: str) -> None:
    assert not share_a_queue((one,), (other,))
    assert not share_a_queue((other,), (one,))

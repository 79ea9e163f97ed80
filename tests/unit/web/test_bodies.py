"""Bodies as people read them: set in lines, as text, as bytes; never changed, never long."""

import gzip
import json
import zlib
from xml.etree import ElementTree as ET

import pytest

from retrier.web.bodies import SHOWN, SHOWN_AS_BYTES, BodyKind, ShownBody, excerpt, show_body
from retrier.web.wording import visible


def shown(body: bytes, form: str = "", packed: str = "") -> ShownBody:
    return show_body(body[:SHOWN], len(body), form, packed)


def test_json_is_set_in_lines() -> None:
    found = shown(b'{"number":293,"items":[1,{"a":"b, c"}],"none":{},"empty":[ ]}')

    assert found.kind is BodyKind.JSON
    assert found.text == (
        '{\n  "number": 293,\n  "items": [\n    1,\n    {\n      "a": "b, c"\n    }\n  ],\n'
        '  "none": {},\n  "empty": []\n}'
    )


def test_json_keeps_its_digits_its_order_and_names_that_come_twice() -> None:
    found = shown(b'{"price":1.10,"price":12345678901234567890.50,"a":"\\u0041"}')

    assert '"price": 1.10,' in found.text
    assert '"price": 12345678901234567890.50' in found.text
    assert r'"\u0041"' in found.text


@pytest.mark.parametrize("body", ['{"a": "\\" {[,:"}', '[[], [[]], {"b": [true, null]}]', "[1.0]"])
def test_json_in_lines_says_the_same(body: str) -> None:
    assert json.loads(shown(body.encode()).text) == json.loads(body)


@pytest.mark.parametrize("body", [b'{"a": 1', b"{'a': 1}", b"17", b'{"a": 1} tail'])
def test_what_is_no_json_is_text(body: bytes) -> None:
    found = shown(body)

    assert (found.kind, found.text) == (BodyKind.TEXT, body.decode())


@pytest.mark.parametrize("body", [b"[" * 60_000, b"[" * 900 + b"1," * 20_000 + b"1" + b"]" * 900])
def test_deep_json_is_text_and_stays_short(body: bytes) -> None:
    found = shown(body)

    assert found.kind is BodyKind.TEXT
    assert len(found.text) == len(body)


def test_xml_is_set_in_lines() -> None:
    found = shown(
        b'<?xml version="1.0"?><order id="a>b"><item>gift &amp; card</item><none/></order>'
    )

    assert found.kind is BodyKind.XML
    assert found.text == (
        '<?xml version="1.0"?>\n<order id="a>b">\n  <item>gift &amp; card</item>\n  <none/>\n</order>'
    )


def test_xml_in_lines_has_the_same_elements() -> None:
    body = b"<a><b>text</b><!-- a note --><c><![CDATA[<x>]]></c><d></d></a>"

    names = [each.tag for each in ET.fromstring(shown(body).text).iter()]  # noqa: S314 - our own

    assert names == ["a", "b", "c", "d"]


def test_xml_that_defines_entities_is_text() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY b "bb">]><a>&b;</a>'

    assert shown(bomb).kind is BodyKind.TEXT


def test_what_is_no_xml_is_text() -> None:
    assert shown(b"<a><b></a>").kind is BodyKind.TEXT


def test_bytes_are_shown_by_their_digits() -> None:
    found = shown(b"\x00\xff\xfeABC")

    assert found.kind is BodyKind.BYTES
    assert found.text.startswith("00000000  00 ff fe 41 42 43")
    assert found.text.endswith("...ABC")


def test_text_full_of_controls_is_bytes() -> None:
    assert shown(b"\x00" * 100).kind is BodyKind.BYTES


def test_only_the_beginning_of_a_large_body_is_shown() -> None:
    large = shown(b"x" * (5 << 20))
    binary = shown(b"\xff" * (5 << 20))

    assert (large.kind, large.shown, large.is_cut) == (BodyKind.TEXT, SHOWN, True)
    assert (binary.kind, binary.shown, binary.is_cut) == (BodyKind.BYTES, SHOWN_AS_BYTES, True)


def test_a_character_that_is_cut_in_two_makes_no_bytes_of_a_text() -> None:
    assert shown("é".encode() * SHOWN + b"x").kind is BodyKind.TEXT
    assert shown(b"x" + "é".encode() * SHOWN).kind is BodyKind.TEXT


@pytest.mark.parametrize(("form", "kind"), [("text", BodyKind.TEXT), ("hex", BodyKind.BYTES)])
def test_a_body_is_shown_as_it_came_where_asked_for(form: str, kind: BodyKind) -> None:
    assert shown(b'{"a":1}', form).kind is kind


def test_an_empty_body_is_an_empty_text() -> None:
    assert shown(b"") == ShownBody(kind=BodyKind.TEXT, text="", size=0, shown=0)


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("a\u202eb", "a⟨U+202E⟩b"),
        ("a\0b", "a⟨U+0000⟩b"),
        ("\ud800", "⟨U+D800⟩"),
        ("a\tb\r\nc", "a\tb\r\nc"),
        ("שלום", "שלום"),
    ],
)
def test_what_is_hidden_in_a_text_is_seen(text: str, seen: str) -> None:
    assert visible(text) == seen


PACKED = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate without its frame": lambda body: (
        (packer := zlib.compressobj(wbits=-15)).compress(body) + packer.flush()
    ),
}


@pytest.mark.parametrize("packed", PACKED)
def test_a_packed_body_is_unpacked_and_set_in_lines(packed: str) -> None:
    found = shown(PACKED[packed](b'{"order":4711}'), packed=packed.split(maxsplit=1)[0])

    assert found.kind is BodyKind.JSON
    assert found.text == '{\n  "order": 4711\n}'
    assert found.note.startswith(f"Unpacked from {packed.split(maxsplit=1)[0]}: ")
    assert found.note.endswith("14 bytes unpacked.")


def test_a_packed_body_is_shown_as_it_came_to_who_asks_for_its_bytes() -> None:
    found = shown(gzip.compress(b"{}"), "hex", "gzip")

    assert found.text.startswith("00000000  1f 8b 08")
    assert not found.is_unpacked


def test_a_body_that_is_no_gzip_though_it_says_so_is_shown_as_bytes_with_the_reason() -> None:
    found = shown(b"order 4711", packed="gzip")

    assert found.kind is BodyKind.BYTES
    assert "says that it is gzip, but it cannot be unpacked: incorrect header check" in found.note


def test_a_packed_body_whose_end_is_missing_says_so() -> None:
    found = shown(gzip.compress(b"order 4711" * 20)[:-9], packed="gzip")

    assert found.kind is BodyKind.BYTES
    assert "its end is missing" in found.note


def test_of_a_body_that_unpacks_to_gigabytes_a_mebibyte_is_unpacked_at_most() -> None:
    found = shown(gzip.compress(bytes(50 * 1024 * 1024)), packed="gzip")

    assert "more than 1,048,576 bytes unpacked" in found.note
    assert found.is_cut
    assert len(found.text) < 100_000


def test_another_encoding_is_shown_as_it_came() -> None:
    assert shown(b"\x28\xb5\x2f\xfd", packed="zstd").kind is BodyKind.BYTES


def test_the_beginning_of_a_long_xml_is_set_in_lines_and_loses_nothing() -> None:
    body = b"<orders>" + b"<order><id>4711</id></order>" * 5000 + b"</orders>"

    found = shown(body)

    assert found.kind is BodyKind.XML
    assert found.is_cut
    assert found.text.startswith("<orders>\n  <order>\n    <id>4711</id>\n  </order>\n")
    assert "".join(found.text.split()) == "".join(body[:SHOWN].decode().split())


def test_the_beginning_of_a_long_json_is_set_in_lines_and_loses_nothing() -> None:
    body = json.dumps({"orders": [{"id": 4711, "name": "a b"}] * 5000}).encode()

    found = shown(body)

    assert found.kind is BodyKind.JSON
    assert found.is_cut
    assert "".join(found.text.split()) == "".join(body[:SHOWN].decode().split())


def test_the_sign_of_a_cut_follows_the_last_word_and_no_blank() -> None:
    assert excerpt(b"x" * 59 + b" more") == "x" * 59 + "…"

"""What a person may change of a message, and what goes out then."""

import gzip
import zlib
from dataclasses import replace
from typing import Any

import pytest

from retrier.domain import headers
from retrier.domain.edits import (
    LOCKED,
    Changes,
    EditedMessage,
    EditRefusal,
    EditRefused,
    compare_headers,
    edit_message,
    find_changes,
    show_editable,
)
from retrier.domain.retry_batch import StoredOriginal
from retrier.domain.wire import Properties
from retrier.transport.rabbitmq.properties import AmqpPropertyCodec
from retrier.transport.rabbitmq.transport import RabbitMQTransport
from retrier.transport.sqs.properties import SqsPropertyCodec
from tests.support import raw_messages

CODEC = AmqpPropertyCodec()
ID, NEW = "964345ea-2fd5-55f9-8c4b-7ff24e4bbd5a", "11111111-2222-4333-8444-555555555555"
JSON = b'{"order": 7}'


def original(
    body: bytes = JSON, dialect: str = "retrier", fields: Any = None, **values: Any
) -> StoredOriginal:
    own = {"Shop.Tenant": "north", **values}
    raw = raw_messages.raw_properties(own, **(fields or {"content_type": "application/json"}))
    return StoredOriginal(raw, body, dialect, "error", completed_steps=None)


def edit(found: StoredOriginal, **changes: Any) -> EditedMessage | EditRefused:
    return edit_message(CODEC, found, Changes(**changes), ID, NEW)


def edited(found: StoredOriginal, **changes: Any) -> EditedMessage:
    made = edit(found, **changes)
    assert isinstance(made, EditedMessage), made
    return made


def read(found: StoredOriginal, **changes: Any) -> Properties:
    return CODEC.read(edited(found, **changes).raw)


def refusal(found: StoredOriginal, **changes: Any) -> EditRefusal:
    made = edit(found, **changes)
    assert isinstance(made, EditRefused), made
    return made.why


class TestTheHeaders:
    def test_that_are_set_have_their_new_value(self) -> None:
        found = read(original(), set_headers={"Shop.Tenant": "south", "Shop.New": "1"})

        assert (found.headers["Shop.Tenant"], found.headers["Shop.New"]) == ("south", "1")

    def test_that_are_removed_are_gone(self) -> None:
        assert "Shop.Tenant" not in read(original(), remove=frozenset({"Shop.Tenant"})).headers

    @pytest.mark.parametrize("value", [{"a": [1, None]}, b"\xff\x00", 1.5, ["x"], True])
    def test_that_are_not_named_stay_as_they_are(self, value: object) -> None:
        found = original(**{"Shop.Other": value})

        changed = read(found, text='{"order": 8}')

        assert changed.headers["Shop.Other"] == CODEC.read(found.raw).headers["Shop.Other"]

    def test_that_hold_a_number_hold_one_again(self) -> None:
        found = read(original(**{"Shop.Count": 5}), set_headers={"Shop.Count": "6"})

        assert found.headers["Shop.Count"] == 6

    def test_that_hold_a_number_hold_no_text(self) -> None:
        found = original(**{"Shop.Count": 5})

        assert refusal(found, set_headers={"Shop.Count": "six"}) is EditRefusal.OTHER_TYPE

    def test_that_hold_a_table_are_not_set(self) -> None:
        found = original(**{"Shop.Table": {"a": 1}})

        assert refusal(found, set_headers={"Shop.Table": "x"}) is EditRefusal.NO_TEXT

    @pytest.mark.parametrize("name", LOCKED)
    def test_that_are_locked_are_not_set(self, name: str) -> None:
        assert refusal(original(), set_headers={name: "x"}) is EditRefusal.LOCKED

    @pytest.mark.parametrize("name", LOCKED)
    def test_that_are_locked_are_not_removed(self, name: str) -> None:
        assert refusal(original(**{name: "x"}), remove=frozenset({name})) is EditRefusal.LOCKED

    @pytest.mark.parametrize("name", ["nservicebus.sagaid", "NSERVICEBUS.MESSAGEID"])
    def test_that_are_locked_are_so_in_any_case(self, name: str) -> None:
        assert refusal(original(), set_headers={name: "x"}) is EditRefusal.LOCKED
        stored = original(**{name: "x"})
        assert refusal(stored, remove=frozenset({name})) is EditRefusal.LOCKED
        assert name in show_editable(CODEC, stored, 1).fixed

    def test_that_are_locked_may_be_named_as_they_are(self) -> None:
        found = original(**{"NServiceBus.SagaId": "7"})

        assert read(found, text="{}", set_headers={"NServiceBus.SagaId": "7"}).headers

    @pytest.mark.parametrize(
        "name",
        [
            headers.UNIQUE_MESSAGE_ID,
            headers.UNIQUE_MESSAGE_ID.lower(),
            headers.RETRY_ID,
            headers.STAGING_ID,
            "CC",
            "x-death",
            "X-Death",
            "retrier.failedqueue",
            "X-Delivery-Count",
        ],
    )
    def test_that_a_retry_writes_or_leaves_out_are_not_set(self, name: str) -> None:
        assert refusal(original(), set_headers={name: "x"}) is EditRefusal.LOCKED

    @pytest.mark.parametrize("name", ["", "x" * 256, "é" * 128, "a\0b"])
    def test_have_a_name_that_amqp_can_hold(self, name: str) -> None:
        assert refusal(original(), set_headers={name: "x"}) is EditRefusal.NO_NAME

    @pytest.mark.parametrize("value", ["a\0b", "\ud800"])
    def test_have_a_value_that_a_message_can_hold(self, value: str) -> None:
        assert refusal(original(), set_headers={"Shop.New": value}) is EditRefusal.WRONG_TEXT

    def test_fit_into_a_frame_of_the_broker(self) -> None:
        much = {"Shop.New": "x" * 100_000}

        assert read(original(), set_headers=much).headers["Shop.New"]
        refused = edit(original(), set_headers={"Shop.New": "x" * 131_000})
        assert isinstance(refused, EditRefused)
        assert (refused.why, "one frame holds 130,048" in refused.about) == (
            EditRefusal.DOES_NOT_FIT,
            True,
        )

    def test_fit_into_the_frame_that_an_address_names(self) -> None:
        url = "amqp://127.0.0.1/?frame_max=8192"
        codec = RabbitMQTransport(url, connection_name="frames").codec
        changes = Changes(set_headers={"Shop.New": "x" * 8000})

        refused = edit_message(codec, original(), changes, ID, NEW)

        assert "one frame holds 7,168" in str(refused)

    def test_fit_into_what_sqs_takes_together_with_the_body(self) -> None:
        found = replace(original(), raw=b"{}")
        much = Changes(body=b"x" * 1_100_000, broken=True)

        refused = edit_message(SqsPropertyCodec(), found, much, ID, NEW)

        assert "SQS takes 1,048,576" in str(refused)


class TestTheEditedMessage:
    def test_names_the_message_that_it_is_made_of(self) -> None:
        assert read(original(), text="{}").text(headers.EDIT_OF) == ID

    def test_has_an_id_of_its_own_where_its_library_looks(self) -> None:
        found = read(original(dialect="nservicebus", **{"NServiceBus.MessageId": "old"}), text="{}")

        assert found.headers["NServiceBus.MessageId"] == found.fields["message_id"] == NEW

    def test_keeps_the_id_of_a_task_for_who_waits_for_its_result(self) -> None:
        found = original(dialect="celery", id="task-1", task="shop.pay")

        assert read(found, text="{}").headers["id"] == "task-1"

    def test_does_not_carry_the_stamp_of_an_earlier_retry(self) -> None:
        stamps = {headers.UNIQUE_MESSAGE_ID: ID, headers.RETRY_ID.lower(): NEW}

        found = read(original(**stamps), text="{}")

        assert not stamps.keys() & found.headers.keys()

    def test_is_none_where_nothing_is_changed(self) -> None:
        found = original()

        assert refusal(found) is EditRefusal.NOTHING
        assert refusal(found, text=JSON.decode()) is EditRefusal.NOTHING
        assert refusal(found, set_headers={"Shop.Tenant": "north"}) is EditRefusal.NOTHING
        assert refusal(found, remove=frozenset({"Shop.None"})) is EditRefusal.NOTHING


class TestTheBody:
    def test_is_what_was_written(self) -> None:
        assert edited(original(), text='{"order": "ü"}').body == '{"order": "ü"}'.encode()

    def test_is_written_in_the_charset_of_the_message(self) -> None:
        found = original(
            "grün".encode("latin-1"), fields={"content_type": "text/plain; charset=latin-1"}
        )

        assert edited(found, text="blau, ü").body == "blau, ü".encode("latin-1")

    def test_is_refused_where_that_charset_has_no_such_letter(self) -> None:
        found = original(b"grey", fields={"content_type": "text/plain; charset=latin-1"})

        assert refusal(found, text="灰") is EditRefusal.NOT_IN_CHARSET

    @pytest.mark.parametrize("charset", ["no-such-charset", "base64", "rot13", "idna"])
    def test_is_taken_for_utf_8_where_nobody_knows_the_charset(self, charset: str) -> None:
        found = original(b"grey", fields={"content_type": f"text/plain; charset={charset}"})

        assert edited(found, text="grün").body == "grün".encode()

    def test_that_was_packed_with_gzip_is_so_again(self) -> None:
        found = original(gzip.compress(JSON), fields={"content_encoding": "gzip"})

        made = edited(found, text='{"order": 8}')

        assert gzip.decompress(made.body) == b'{"order": 8}'
        assert CODEC.read(made.raw).fields["content_encoding"] == "gzip"

    @pytest.mark.parametrize("window", [zlib.MAX_WBITS, -zlib.MAX_WBITS])
    def test_that_was_packed_with_deflate_is_so_again(self, window: int) -> None:
        packer = zlib.compressobj(wbits=window)
        packed = packer.compress(JSON) + packer.flush()

        made = edited(original(packed, fields={"content_encoding": "deflate"}), text="[]")

        assert zlib.decompress(made.body, window) == b"[]"

    def test_that_is_packed_and_not_changed_stays_byte_for_byte(self) -> None:
        packed = gzip.compress(JSON, 1, mtime=7)
        found = original(packed, fields={"content_encoding": "gzip"})

        assert edited(found, set_headers={"Shop.Tenant": "south"}).body == packed

    def test_that_is_no_text_is_not_edited_as_one(self) -> None:
        assert refusal(original(b"\xff\xfe\x00"), text="x") is EditRefusal.BODY_IS_NO_TEXT

    def test_that_is_no_text_is_replaced_by_bytes(self) -> None:
        assert edited(original(b"\xff\x00"), body=b"\xfe\x01").body == b"\xfe\x01"

    def test_that_is_no_text_stays_where_only_a_header_is_changed(self) -> None:
        found = original(b"\xff\x00")

        assert edited(found, set_headers={"Shop.Tenant": "south"}).body == b"\xff\x00"

    @pytest.mark.parametrize(
        "text", ['{"order": }', "", "{" * 60_000, '{"order": NaN}', "[-Infinity]"]
    )
    def test_that_was_json_is_json_again(self, text: str) -> None:
        assert refusal(original(), text=text) is EditRefusal.BROKEN

    @pytest.mark.parametrize("text", ["9" * 5000, "[" * 2000 + "]" * 2000])
    def test_that_was_json_may_be_any_json(self, text: str) -> None:
        assert edited(original(), text=text).body == text.encode()

    def test_that_was_json_of_many_levels_is_json_again(self) -> None:
        found = original(b"[" * 2000 + b"]" * 2000)

        assert refusal(found, text="[" * 2000) is EditRefusal.BROKEN

    @pytest.mark.parametrize("text", ["<order>", "<a></b>", "<!DOCTYPE a><a/>"])
    def test_that_was_xml_is_xml_again(self, text: str) -> None:
        assert refusal(original(b"<order/>"), text=text) is EditRefusal.BROKEN

    def test_says_where_it_is_broken(self) -> None:
        assert "line 1, column 11" in str(edit(original(), text='{"order": }'))

    def test_is_sent_broken_after_a_second_word(self) -> None:
        assert edited(original(), text='{"order": }', broken=True).body == b'{"order": }'

    def test_that_was_no_json_need_not_be_json(self) -> None:
        assert edited(original(b"{never"), text="{ever").body == b"{ever"

    def test_with_a_mark_of_utf_8_is_json_too(self) -> None:
        found = original(b"\xef\xbb\xbf" + JSON)

        assert refusal(found, text="\ufeff{") is EditRefusal.BROKEN
        assert edited(found, text="\ufeff{}").body == b"\xef\xbb\xbf{}"

    def test_that_unpacks_to_very_much_is_not_edited_as_text(self) -> None:
        found = original(gzip.compress(b"0" * 9_000_000), fields={"content_encoding": "gzip"})

        assert refusal(found, text="x") is EditRefusal.BODY_IS_NO_TEXT


def xml(charset: str, inside: str = "x") -> str:
    return f'<?xml version="1.0" encoding="{charset}"?><a>{inside}</a>'


class TestTheCharset:
    """Of a body whose content type names none."""

    LATIN = original(xml("ISO-8859-1", "é").encode("latin-1"), fields={"content_type": "text/xml"})

    def test_of_xml_is_the_one_that_it_declares(self) -> None:
        assert show_editable(CODEC, self.LATIN, 1).text == xml("ISO-8859-1", "é")
        changed = xml("ISO-8859-1", "ä")
        assert edited(self.LATIN, text=changed).body == changed.encode("latin-1")

    def test_of_xml_may_lack_a_character(self) -> None:
        assert refusal(self.LATIN, text=xml("ISO-8859-1", "灰")) is EditRefusal.NOT_IN_CHARSET

    @pytest.mark.parametrize("text", [xml("UTF-8", "灰"), "<a>灰</a>"])
    def test_of_xml_is_the_one_that_the_edit_declares(self, text: str) -> None:
        assert edited(self.LATIN, text=text).body == text.encode()

    @pytest.mark.parametrize("name", ["utf-16", "martian", "rot13"])
    def test_of_xml_is_none_in_which_it_is_not_written(self, name: str) -> None:
        refused = edit(self.LATIN, text=xml(name))

        assert f"declares {name}" in str(refused) or f"charset {name}" in str(refused)
        assert isinstance(refused, EditRefused)
        assert refused.why is EditRefusal.BROKEN

    def test_of_xml_that_is_sent_as_bytes_is_the_one_that_they_declare(self) -> None:
        given = xml("ISO-8859-1", "ä")

        assert edited(self.LATIN, body=given.encode("latin-1"))
        assert edited(self.LATIN, body=xml("utf-16").encode("utf-16"))
        assert refusal(self.LATIN, body=xml("utf-8", "ä").encode("latin-1")) is EditRefusal.BROKEN

    @pytest.mark.parametrize("charset", ["utf-8-sig", "utf-16", "utf-16-be", "utf-32"])
    @pytest.mark.parametrize("mark", ["\ufeff", ""])
    def test_that_a_mark_of_the_byte_order_tells_keeps_the_mark(
        self, charset: str, mark: str
    ) -> None:
        marked = "\ufeff" if charset.endswith("be") else ""
        found = original(f'{marked}{{"a": "é"}}'.encode(charset), fields={"content_type": "x"})

        assert edited(found, text=f'{mark}{{"a": "ä"}}').body == (
            f'{marked}{{"a": "ä"}}'.encode(charset)
        )

    @pytest.mark.parametrize("charset", ["utf-16-le", "utf-16-be"])
    def test_of_json_may_be_utf_16_without_a_mark(self, charset: str) -> None:
        found = original('{"a": "é"}'.encode(charset), fields={"content_type": "x"})

        assert edited(found, text='{"a": "ä"}').body == '{"a": "ä"}'.encode(charset)
        assert refusal(found, text='{"a": }') is EditRefusal.BROKEN

    def test_that_the_content_type_names_comes_first(self) -> None:
        told = {"content_type": "text/xml; charset=utf-8"}
        found = original(xml("ISO-8859-1", "é").encode(), fields=told)

        changed = xml("ISO-8859-1", "灰")

        assert edited(found, text=changed).body == changed.encode()


class TestWhatIsShown:
    def test_leaves_out_what_goes_without_saying(self) -> None:
        found = original(**{headers.UNIQUE_MESSAGE_ID: ID, "x-death": "x"})

        assert set(show_editable(CODEC, found, 1).headers) == {"Shop.Tenant"}

    def test_names_what_cannot_be_changed(self) -> None:
        found = show_editable(CODEC, original(**{"Shop.Table": {"a": 1}}), 1)

        assert {"Shop.Table", "NServiceBus.SagaId"} <= found.fixed
        assert "Shop.Tenant" not in found.fixed

    def test_has_the_body_unpacked(self) -> None:
        found = original(gzip.compress(JSON), fields={"content_encoding": "gzip"})

        assert show_editable(CODEC, found, 1).text == JSON.decode()

    def test_tells_the_headers_that_differ(self) -> None:
        before, after = (Properties(headers={"a": x, "b": "1"}, fields={}) for x in ("1", "2"))

        (found,) = compare_headers(before, after)

        assert (found.name, found.before, found.after) == ("a", "1", "2")

    def test_of_a_whole_list_only_what_differs_is_a_change(self) -> None:
        told = [("a", "1"), ("c", "3")]

        assert find_changes({"a": "1", "b": "2"}, told) == ({"c": "3"}, {"b"})

"""What SQS refuses, forgets and changes, and what Retrier makes of it."""

import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from subprocess import PIPE, Popen
from typing import Any

import pytest

from retrier.domain.wire import Confirmed, Edit, Outcome, Outgoing, Refused, Returned, Unknown
from retrier.errors import AccessRefused, BrokerUnavailable
from retrier.transport.seam import Delivery, Unsettled
from retrier.transport.sqs import SqsTransport
from tests.contract.sqs_fixtures import SqsFixtures, raw
from tests.contract.transport_fixtures import nothing
from tests.support.project import ROOT
from tests.support.receiving import SILENCE, bodies, receive
from tests.support.sqs_front import Fault, Front, opened_front
from tests.support.sqs_server import SqsServer
from tests.support.waiting import wait_until

TEXT = {"DataType": "String", "StringValue": "x"}
RETRY = "Retrier.RetryId"
BATCH = "SendMessageBatch"
RENEW = "ChangeMessageVisibilityBatch"


class TestSqs(SqsFixtures):
    @pytest.fixture
    def front(self, sqs_server: SqsServer) -> Iterator[Front]:
        with opened_front(sqs_server) as front:
            yield front

    @pytest.fixture
    def behind(self, front: Front) -> SqsTransport:
        """Give a transport that asks the front."""
        return front.server.transport()

    def send(self, transport: SqsTransport, *messages: Outgoing) -> tuple[Outcome, ...]:
        with closing(transport.publisher()) as publisher:
            return publisher.publish(messages, nothing)


@pytest.fixture
def hasty_threads() -> Iterator[None]:
    """Let threads take turns after a microsecond, so that they meet where they hardly ever do."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


class TestHolding(TestSqs):
    def test_what_is_in_hand_is_kept_for_longer_than_the_visibility_timeout(
        self, sqs_server: SqsServer, queue: str
    ) -> None:
        transport = sqs_server.transport(visibility=1)
        self.send(transport, self.message(queue))
        with closing(transport.consumer(queue, 10)) as holder:
            receive(holder, 1)

            with closing(transport.consumer(queue, 10)) as other:
                assert other.receive(1, 2.5) == []
            assert holder.surely_holds()

    def test_what_others_may_have_is_not_deleted_and_that_is_an_error(
        self, front: Front, queue: str
    ) -> None:
        transport = front.server.transport(visibility=1)
        self.send(transport, self.message(queue))
        front.fail(RENEW, Fault(code="InternalError", status=500))
        with (
            closing(transport.consumer(queue, 10)) as holder,
            closing(transport.consumer(queue, 10)) as other,
        ):
            held = receive(holder, 1)
            receive(other, 1)

            assert not holder.surely_holds()
            with pytest.raises(BrokerUnavailable, match="others may have"):
                holder.ack(held)
        assert front.count("DeleteMessageBatch") == 0

    def test_closing_gives_everything_back_at_once_and_marked(
        self, transport: SqsTransport, queue: str
    ) -> None:
        self.send(transport, *self.numbered(queue, 25))
        consumer = transport.consumer(queue, 25)
        receive(consumer, 15)

        consumer.close()

        again: list[Delivery] = []
        # Ten at most: of several that ask at once, this server gives one message to two.
        with closing(transport.consumer(queue, 10)) as other:
            for count in (10, 10, 5):
                came = receive(other, count)
                other.ack(came)
                again += came
        assert sorted(bodies(again)) == sorted(b"%d" % number for number in range(25))
        assert sum(each.redelivered for each in again) >= 15

    @pytest.mark.usefixtures("hasty_threads")
    def test_closing_gives_everything_back_however_its_threads_take_turns(
        self, transport: SqsTransport, queue: str
    ) -> None:
        self.send(transport, *self.numbered(queue, 20))

        for _ in range(12):
            with closing(transport.consumer(queue, 20)) as consumer:
                assert len(receive(consumer, 20)) == 20

    def test_what_a_killed_process_had_comes_back_when_its_time_is_over(
        self, sqs_server: SqsServer, queue: str
    ) -> None:
        transport = sqs_server.transport()
        self.send(transport, *self.numbered(queue, 5))
        factory = "tests.support.sqs_server:make_hasty"
        command = [sys.executable, "-m", "tests.support.holding_consumer", factory]
        with Popen(
            [*command, sqs_server.endpoint, queue, "5"], cwd=ROOT, stdin=PIPE, stdout=PIPE
        ) as child:
            assert child.stdout
            assert child.stdout.readline() == b"holding\n"

            child.kill()

        with closing(transport.consumer(queue, 100)) as other:
            assert len(receive(other, 5)) == 5

    def test_an_empty_queue_costs_one_request_while_it_is_waited_for(
        self, front: Front, queue: str
    ) -> None:
        transport = front.server.transport(wait=20)
        with closing(transport.consumer(queue, 10)) as consumer:
            for _ in range(5):
                assert consumer.receive(10, SILENCE) == []

        assert front.count("ReceiveMessage") == 1

    def test_a_delete_that_is_throttled_is_tried_again(
        self, front: Front, behind: SqsTransport, queue: str
    ) -> None:
        self.send(behind, *self.numbered(queue, 12))
        front.fail("DeleteMessageBatch", Fault(code="RequestThrottled"), times=2)
        with closing(behind.consumer(queue, 100)) as consumer:
            consumer.ack(receive(consumer, 12))

        with closing(behind.consumer(queue, 100)) as other:
            assert other.receive(1, SILENCE) == []

    def test_a_delete_of_which_one_failed_is_an_error(
        self, front: Front, behind: SqsTransport, queue: str
    ) -> None:
        def without_first(told: Any) -> Any:
            failed = {"Id": "0", "Code": "ReceiptHandleIsInvalid", "SenderFault": True}
            return {"Successful": told["Successful"][1:], "Failed": [failed]}

        self.send(behind, *self.numbered(queue, 3))
        front.changes["DeleteMessageBatch"] = without_first
        consumer = behind.consumer(queue, 100)

        with pytest.raises(BrokerUnavailable, match="1 message"):
            consumer.ack(receive(consumer, 3))


class TestSending(TestSqs):
    @pytest.mark.parametrize(
        ("code", "words"),
        [
            ("ThrottlingException", "SQS takes fewer messages than it is sent (throttled)"),
            ("OverLimit", "SQS has too much in hand (OverLimit)"),
            ("ServiceUnavailable", "SQS is not available (ServiceUnavailable)"),
            ("KmsThrottled", "KMS takes fewer requests than it is sent (KmsThrottled)"),
        ],
    )
    def test_what_is_not_taken_for_now_is_sent_again_and_why_is_told(
        self, front: Front, behind: SqsTransport, queue: str, code: str, words: str
    ) -> None:
        front.fail(BATCH, Fault(code=code), times=3)
        told: list[Unsettled] = []
        publisher = behind.publisher()

        outcomes = publisher.publish(
            self.numbered(queue, 3), lambda: told.append(publisher.awaited)
        )

        assert outcomes == (Confirmed(),) * 3
        assert {each.why for each in told if each.blocked} == {words}
        assert not publisher.awaited.blocked

    def test_of_a_request_only_what_was_throttled_is_sent_again(
        self, front: Front, behind: SqsTransport, queue: str
    ) -> None:
        def without_last(told: Any) -> Any:
            front.changes.clear()
            last = told["Successful"].pop()
            return {
                **told,
                "Failed": [{"Id": last["Id"], "Code": "OverLimit", "SenderFault": False}],
            }

        front.changes[BATCH] = without_last

        assert self.send(behind, *self.numbered(queue, 3)) == (Confirmed(),) * 3
        sizes = [len(told["Entries"]) for action, told in front.asked if action == BATCH]
        assert sizes == [3, 1]

    def test_what_is_stored_otherwise_than_it_was_sent_may_have_arrived(
        self, front: Front, behind: SqsTransport, queue: str
    ) -> None:
        def with_another_digest(told: Any) -> Any:
            told["Successful"][0]["MD5OfMessageBody"] = "0" * 32
            return told

        front.changes[BATCH] = with_another_digest

        (outcome,) = self.send(behind, self.message(queue))

        assert isinstance(outcome, Refused)
        assert outcome.may_have_arrived
        assert "MD5OfMessageBody" in outcome.reason

    def test_what_has_no_answer_is_in_doubt_and_not_sent_again(
        self, front: Front, behind: SqsTransport, queue: str
    ) -> None:
        front.fail(BATCH, Fault())

        (outcome,) = self.send(behind, self.message(queue))

        assert isinstance(outcome, Unknown)
        assert front.count(BATCH) == 1

    def test_what_fails_inside_of_sqs_is_in_doubt_and_not_sent_again(
        self, front: Front, behind: SqsTransport, queue: str
    ) -> None:
        def with_a_failure(told: Any) -> Any:
            last = told["Successful"].pop()
            return {
                **told,
                "Failed": [{"Id": last["Id"], "Code": "InternalError", "SenderFault": False}],
            }

        front.changes[BATCH] = with_a_failure

        first, last = self.send(behind, *self.numbered(queue, 2))

        assert (first, type(last)) == (Confirmed(), Unknown)
        assert front.count(BATCH) == 1

    def test_of_what_does_no_harm_twice_what_fails_inside_of_sqs_is_sent_again_alone(
        self, front: Front, behind: SqsTransport, queue: str
    ) -> None:
        def with_a_failure(told: Any) -> Any:
            front.changes.clear()
            last = told["Successful"].pop()
            return {
                **told,
                "Failed": [{"Id": last["Id"], "Code": "InternalError", "SenderFault": False}],
            }

        front.changes[BATCH] = with_a_failure
        copies = [replace(each, repeatable=True) for each in self.numbered(queue, 3)]
        publisher = behind.publisher()

        outcomes = publisher.publish(copies, nothing)

        assert outcomes == (Confirmed(),) * 3
        sizes = [len(told["Entries"]) for action, told in front.asked if action == BATCH]
        assert sizes == [3, 1]

    @pytest.mark.parametrize(
        "fault", [Fault(), Fault(code="InternalError", status=500)], ids=["no answer", "an error"]
    )
    def test_of_what_does_no_harm_twice_what_has_no_answer_is_sent_again_and_that_is_no_blockade(
        self, front: Front, behind: SqsTransport, queue: str, fault: Fault
    ) -> None:
        front.fail(BATCH, fault, times=1)
        told: list[bool] = []
        publisher = behind.publisher()

        outcomes = publisher.publish(
            [replace(self.message(queue), repeatable=True)],
            lambda: told.append(publisher.awaited.blocked),
        )

        assert outcomes == (Confirmed(),)
        assert not any(told)

    def test_what_does_no_harm_twice_is_in_doubt_after_a_few_tries(
        self, front: Front, behind: SqsTransport, queue: str
    ) -> None:
        front.fail(BATCH, Fault(code="InternalError", status=500))

        (outcome,) = self.send(behind, replace(self.message(queue), repeatable=True))

        assert isinstance(outcome, Unknown)
        assert front.count(BATCH) == 4

    def test_where_no_connection_can_be_made_nothing_was_sent(self) -> None:
        transport = SqsServer("http://127.0.0.1:1").transport()

        with pytest.raises(BrokerUnavailable, match="is the region right"):
            self.send(transport, self.message("orders"))

    def test_one_message_that_is_refused_does_not_hold_up_its_neighbours(
        self, front: Front, behind: SqsTransport, queue: str
    ) -> None:
        front.fail(BATCH, Fault(code="InvalidMessageContents"), times=1)

        assert self.send(behind, *self.numbered(queue, 3)) == (Confirmed(),) * 3

    @pytest.mark.parametrize(
        ("sent", "reason"),
        [
            ((b"{}", b"x" * (1024 * 1024 + 1)), "and SQS takes 1,048,576"),
            ((raw(**{f"a{n}": TEXT for n in range(11)}), b"x"), "11 attributes"),
            ((raw(**{f"a{n}": TEXT for n in range(10)}, **{RETRY: TEXT}), b"x"), "11 attributes"),
            ((raw(**{"AWS.a": TEXT}), b"x"), "AWS.a"),
            ((raw(a={"DataType": "String", "StringValue": "\0"}), b"x"), "a character"),
            ((b"no JSON", b"x"), "not JSON"),
        ],
        ids=["size", "attributes", "no room", "a name", "a character", "properties"],
    )
    def test_what_does_not_fit_is_refused_before_it_is_sent(
        self, front: Front, behind: SqsTransport, queue: str, sent: tuple[bytes, bytes], reason: str
    ) -> None:
        (outcome,) = self.send(behind, Outgoing(queue=queue, raw=sent[0], body=sent[1]))

        assert isinstance(outcome, Refused)
        assert reason in outcome.reason
        assert outcome.unsendable
        assert front.asked == []

    @pytest.mark.parametrize(
        ("code", "unsendable"),
        [("InvalidParameterValue", True), ("InvalidMessageContents", True), ("Other", False)],
    )
    def test_what_sqs_refuses_for_what_it_is_can_never_be_sent(
        self, front: Front, behind: SqsTransport, queue: str, code: str, *, unsendable: bool
    ) -> None:
        def with_a_refusal(told: Any) -> Any:
            entry = {"Id": "1", "Code": code, "SenderFault": True, "Message": "a group id"}
            return {"Successful": told["Successful"][:1], "Failed": [entry]}

        front.changes[BATCH] = with_a_refusal
        front.fail(BATCH, Fault(code=code), times=1)
        told = self.send(behind, self.message(queue, b"0"))

        front.faults.clear()
        told += self.send(behind, *self.numbered(queue, 2))[1:]

        assert [each.unsendable for each in told if isinstance(each, Refused)] == [unsendable] * 2

    @pytest.mark.parametrize(
        ("own", "names"), [(1, ["Retrier.RetryId", "a0"]), (2, ["Retrier.Headers", "a0", "a1"])]
    )
    def test_retry_headers_share_an_attribute_beside_two_of_the_senders(
        self, transport: SqsTransport, client: Any, queue: str, own: int, names: list[str]
    ) -> None:
        given = raw(**{f"a{n}": TEXT for n in range(own)})
        edited = transport.codec.edit(given, Edit(set_headers={RETRY: "r-1"}))

        self.send(transport, Outgoing(queue=queue, raw=edited, body=b"x"))

        url = client.get_queue_url(QueueName=queue)["QueueUrl"]
        (seen,) = client.receive_message(QueueUrl=url, MessageAttributeNames=["All"])["Messages"]
        assert sorted(seen["MessageAttributes"]) == names
        with closing(transport.consumer(queue, 1)) as consumer:
            client.change_message_visibility(
                QueueUrl=url, ReceiptHandle=seen["ReceiptHandle"], VisibilityTimeout=0
            )
            (delivery,) = receive(consumer, 1)
        assert transport.codec.read(delivery.raw).text(RETRY) == "r-1"


class TestFifo(TestSqs):
    @pytest.fixture
    def fifo(self, new_queue: Callable[..., str]) -> str:
        return new_queue(FifoQueue="true")

    def retry(self, queue: str, retry_id: str, group: str = "g") -> Outgoing:
        attribute = {"DataType": "String", "StringValue": retry_id}
        return Outgoing(queue=queue, raw=raw(group, **{RETRY: attribute}), body=retry_id.encode())

    def test_a_retry_that_is_sent_twice_arrives_once(
        self, transport: SqsTransport, queues: Any, fifo: str
    ) -> None:
        self.send(transport, self.retry(fifo, "r-1"))
        self.send(transport, self.retry(fifo, "r-1"), self.retry(fifo, "r-2"))

        assert queues.depth(fifo) == 2

    def test_a_message_has_its_group_again_and_groups_keep_their_order(
        self, transport: SqsTransport, client: Any, fifo: str
    ) -> None:
        sent = [self.retry(fifo, f"r-{n:02}", "ab"[n % 2]) for n in range(24)]
        self.send(transport, *sent)

        url = client.get_queue_url(QueueName=fifo)["QueueUrl"]
        seen: dict[str, list[str]] = {"a": [], "b": []}

        def all_seen() -> bool:
            told = client.receive_message(
                QueueUrl=url, MaxNumberOfMessages=10, AttributeNames=["MessageGroupId"]
            )
            for each in told.get("Messages", []):
                seen[each["Attributes"]["MessageGroupId"]].append(each["Body"])
                client.delete_message(QueueUrl=url, ReceiptHandle=each["ReceiptHandle"])
            return sum(map(len, seen.values())) == len(sent)

        wait_until(all_seen, 20)
        for n, group in enumerate("ab"):
            assert seen[group] == [each.body.decode() for each in sent[n::2]]

    def test_a_message_without_a_group_is_a_group_by_itself(
        self, transport: SqsTransport, fifo: str
    ) -> None:
        assert self.send(transport, self.message(fifo, b"x")) == (Confirmed(),)

    def test_a_message_of_a_group_may_go_to_a_standard_queue(
        self, transport: SqsTransport, queue: str
    ) -> None:
        assert self.send(transport, self.retry(queue, "r-1")) == (Confirmed(),)


class TestRefusals(TestSqs):
    @pytest.mark.parametrize(
        ("fault", "words"),
        [
            (
                Fault(code="AccessDeniedException", status=403),
                "the right sqs:GetQueueAttributes is missing",
            ),
            (Fault(code="KmsAccessDenied"), "its key in KMS cannot be used"),
            (Fault(code="InvalidClientTokenId", status=403), "the credentials are not taken"),
            (
                Fault(
                    code="InvalidSignatureException",
                    status=403,
                    message="Signature expired: 20000101T000000Z is now earlier than ...",
                    date="Sat, 01 Jan 2000 00:15:00 GMT",
                ),
                "s ahead of theirs",
            ),
        ],
        ids=["right", "key", "credentials", "clock"],
    )
    def test_what_is_refused_is_said_with_its_action_and_queue(
        self, front: Front, behind: SqsTransport, queue: str, fault: Fault, words: str
    ) -> None:
        front.fail("GetQueueAttributes", fault)
        with closing(behind.queues()) as queues, pytest.raises(AccessRefused) as refused:
            queues.depth(queue)

        told = str(refused.value)
        assert words in told
        arn = f"arn:aws:sqs:eu-west-1:123456789012:{queue}"
        assert f"GetQueueAttributes on {queue} ({arn})" in told

    def test_a_missing_right_to_send_reverts_and_names_the_right(
        self, front: Front, behind: SqsTransport, queue: str
    ) -> None:
        front.fail(BATCH, Fault(code="AccessDeniedException", status=403))

        (outcome,) = self.send(behind, self.message(queue))

        assert isinstance(outcome, Refused)
        assert "the right sqs:SendMessage is missing" in outcome.reason

    @pytest.mark.parametrize("action", ["ReceiveMessage", "DeleteMessage"])
    def test_an_error_queue_that_may_not_be_read_is_found_out_without_taking_a_message(
        self, front: Front, behind: SqsTransport, queue: str, action: str
    ) -> None:
        front.fail(action, Fault(code="AccessDeniedException", status=403))
        with closing(behind.queues()) as queues:
            assert f"the right sqs:{action} is missing" in str(queues.why_not_ingestible(queue))

    def test_a_name_that_no_queue_can_have_is_no_queue(
        self, front: Front, behind: SqsTransport
    ) -> None:
        (outcome,) = self.send(behind, self.message("no queue!"))

        assert isinstance(outcome, Returned)
        assert front.asked == []

    def test_a_region_is_part_of_the_name_of_a_queue_elsewhere(self, behind: SqsTransport) -> None:
        elsewhere = "arn:aws:sqs:us-east-1:123456789012:orders"

        (outcome,) = self.send(behind, self.message(elsewhere))

        assert isinstance(outcome, Returned)
        assert "is in the region us-east-1, and broker.url says eu-west-1" in outcome.reason

    def test_trying_it_out_leaves_nothing(
        self, transport: SqsTransport, client: Any, queue_name: Callable[..., str]
    ) -> None:
        name = queue_name("staging")

        assert transport.try_out(name).problems == ()

        prefix = name.removesuffix(".staging")
        assert client.list_queues(QueueNamePrefix=prefix).get("QueueUrls", []) == []

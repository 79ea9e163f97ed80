"""Redis that forgets, is full, is misused, or does not let us in."""

import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from subprocess import PIPE
from threading import Thread
from time import monotonic
from typing import Any

import pytest
from kombu import Connection, Exchange, Queue

from retrier.app.check import check
from retrier.domain.wire import Confirmed, Outgoing, Refused, Returned, Unknown
from retrier.errors import AccessRefused, BrokerUnavailable
from retrier.settings import Broker, Database, Settings
from retrier.transport.payloads import NO_ENVELOPE
from retrier.transport.redis import RedisTransport
from retrier.transport.redis.line import ANSWER_TIMEOUT, Address
from retrier.transport.seam import Queues
from retrier.transport.transports import Tls
from tests.contract.redis_fixtures import RedisFixtures, make_transport
from tests.contract.transport_fixtures import Consume, nothing
from tests.support.certificates import make_certificates
from tests.support.databases import sqlite_url
from tests.support.private_servers import find_free_ports
from tests.support.project import ROOT
from tests.support.receiving import SILENCE, bodies, receive
from tests.support.redis_servers import FORGETS, KEEPS, PrivateRedis, private_redis
from tests.support.waiting import wait_until

STRAY = b'{"body": "eA==", "properties": {"body_encoding": "base64"}, "headers": "x"}'
"""An envelope with headers that are none."""


class TestWhatOthersLeave(RedisFixtures):
    """What lies in a queue that Retrier did not write."""

    @pytest.mark.parametrize(
        "payload",
        [
            b"no JSON",
            b"\xff\x00",
            b"[1]",
            b'{"order": 1}',
            b'{"body": "x", "properties": 5}',
            b"",
            STRAY,
        ],
    )
    def test_a_payload_that_kombu_did_not_write_is_a_body_without_properties(
        self, client: Any, consume: Consume, queue: str, payload: bytes
    ) -> None:
        client.lpush(queue, payload)

        (delivery,) = receive(consume(queue), 1)

        assert (delivery.raw, delivery.body) == (NO_ENVELOPE, payload)

    def test_it_is_kept_until_it_is_acknowledged(
        self, client: Any, consume: Consume, queue: str
    ) -> None:
        client.lpush(queue, b"no JSON")
        consumer = consume(queue)
        receive(consumer, 1)

        consumer.close()

        assert client.lrange(queue, 0, -1) == [b"no JSON"]

    def test_it_goes_back_as_it_came(
        self, client: Any, transport: RedisTransport, queue: str
    ) -> None:
        with closing(transport.publisher()) as publisher:
            publisher.publish([Outgoing(queue=queue, raw=NO_ENVELOPE, body=b"no JSON")], nothing)

        assert client.lrange(queue, 0, -1) == [b"no JSON"]

    @pytest.mark.parametrize("headers", [[], None, {}])
    def test_headers_that_php_writes_as_an_empty_list_are_none(
        self, client: Any, transport: RedisTransport, consume: Consume, queue: str, headers: object
    ) -> None:
        properties = {"body_encoding": "base64", "delivery_tag": "t"}
        envelope = {"body": "eA==", "headers": headers, "properties": properties}
        client.lpush(queue, json.dumps(envelope))

        (delivery,) = receive(consume(queue), 1)

        assert (transport.codec.read(delivery.raw).headers, delivery.body) == ({}, b"x")

    @pytest.mark.parametrize(
        "headers",
        [[], "x", {"deep": json.loads(100 * "[" + 100 * "]")}],
        ids=["php", "text", "deep"],
    )
    def test_what_cannot_be_read_or_has_no_headers_goes_back_as_it_came(
        self, client: Any, transport: RedisTransport, consume: Consume, queue: str, headers: object
    ) -> None:
        envelope = {"body": "eA==", "headers": headers, "properties": {"body_encoding": "base64"}}
        client.lpush(queue, json.dumps(envelope))
        (delivery,) = receive(consumer := consume(queue), 1)
        consumer.ack([delivery])
        back = Outgoing(queue=queue, raw=delivery.raw, body=delivery.body)

        with closing(transport.publisher()) as publisher:
            assert publisher.publish([back], nothing) == (Confirmed(),)

        (lies_there,) = client.lrange(queue, 0, -1)
        found = json.loads(lies_there)
        assert (found["headers"], found["body"]) == (headers, "eA==")

    def test_a_header_that_looks_like_a_type_of_kombus_does_no_harm(
        self, client: Any, consume: Consume, queue: str
    ) -> None:
        envelope = {"body": "eA==", "headers": {"__type__": "datetime", "__value__": "never"}}
        envelope["properties"] = {"body_encoding": "base64", "delivery_tag": "t"}
        client.lpush(queue, json.dumps(envelope))

        (delivery,) = receive(consume(queue), 1)

        assert delivery.body == b"x"

    def test_what_kombu_has_put_back_is_the_same_message(
        self, url: str, consume: Consume, queue: str
    ) -> None:
        # Given a message that another consumer had in hand and put back: Kombu changes its headers
        with Connection(url) as connection:
            connection.Producer().publish(b"x", routing_key=queue, headers={"Tenant": "7"})
            (before,) = receive(consumer := consume(queue), 1)
            consumer.close()
            channel = connection.default_channel
            Queue(queue, Exchange(queue), queue, channel=channel).declare()
            message = Queue(queue, channel=channel).get()
            message.delivery_info["exchange"] = queue
            channel.qos.restore_by_tag(message.delivery_tag)

            # When it is taken
            (after,) = receive(consume(queue), 1)

        # Then it has the same properties, and is known to have come back
        assert (after.raw, after.body, after.redelivered) == (before.raw, before.body, True)

    def test_a_key_of_another_type_is_no_queue_and_loses_nothing(
        self, client: Any, consume: Consume, queue: str
    ) -> None:
        client.lpush(queue, b"kept")
        client.hset(f"{queue}\x06\x163", "a", "b")

        with pytest.raises(BrokerUnavailable, match="is a hash, and no list"):
            consume(queue).receive(1, 0)

        assert client.lrange(queue, 0, -1) == [b"kept"]

    def test_a_message_for_a_key_of_another_type_is_refused_and_the_others_go(
        self, client: Any, transport: RedisTransport, queue: str, new_queue: Callable[[], str]
    ) -> None:
        other = new_queue()
        client.set(queue, "x")

        with closing(transport.publisher()) as publisher:
            outcomes = publisher.publish([self.message(queue), self.message(other)], nothing)

        assert isinstance(outcomes[0], Refused)
        assert not outcomes[0].unsendable
        assert outcomes[1] == Confirmed()

    def test_a_message_of_which_no_payload_can_be_made_can_never_be_sent(
        self, transport: RedisTransport, queue: str
    ) -> None:
        with closing(transport.publisher()) as publisher:
            (outcome,) = publisher.publish([Outgoing(queue=queue, raw=b"[]", body=b"")], nothing)

        assert isinstance(outcome, Refused)
        assert outcome.unsendable


class TestWhatQueuesThereAre(RedisFixtures):
    """How a queue is known to exist although Redis keeps no empty list."""

    def test_a_queue_is_known_by_a_binding_to_any_exchange(
        self, url: str, transport: RedisTransport, queue_name: Callable[..., str]
    ) -> None:
        name = queue_name()
        with Connection(url) as connection:
            exchange = Exchange(queue_name("exchange"), type="topic")
            Queue(name, exchange, "orders.#", channel=connection.default_channel).declare()

        with closing(transport.publisher()) as publisher:
            assert publisher.publish([self.message(name)], nothing) == (Confirmed(),)

    def test_a_message_to_a_queue_that_nobody_made_lies_nowhere(
        self, client: Any, transport: RedisTransport, queue_name: Callable[..., str]
    ) -> None:
        name = queue_name()

        with closing(transport.publisher()) as publisher:
            (outcome,) = publisher.publish([self.message(name)], nothing)

        assert isinstance(outcome, Returned)
        assert client.keys(f"{name}*") == []

    def test_a_queue_whose_messages_are_all_in_hand_is_known(
        self, client: Any, queues: Queues, consume: Consume, queue_name: Callable[..., str]
    ) -> None:
        name = queue_name()
        client.lpush(name, b"x")

        receive(consume(name), 1)

        assert queues.depth(name) == 0

    def test_what_is_urgent_is_handed_out_first(
        self, transport: RedisTransport, consume: Consume, queue: str
    ) -> None:
        def sent(body: bytes, priority: int) -> Outgoing:
            raw = json.dumps({"properties": {"priority": priority}}).encode()
            return Outgoing(queue=queue, raw=raw, body=body)

        with closing(transport.publisher()) as publisher:
            publisher.publish([sent(b"later", 7), sent(b"soon", 4), sent(b"now", 0)], nothing)

        # On Redis Kombu hands out 0 first.
        assert bodies(receive(consume(queue), 3)) == [b"now", b"soon", b"later"]


class TestAPrefix(RedisFixtures):
    """`global_keyprefix`, as Celery's settings may have it."""

    @pytest.fixture
    def transport(self, url: str, queue_name: Callable[..., str]) -> RedisTransport:
        options = {"global_keyprefix": f"{queue_name('prefix')}[1]:"}
        return RedisTransport(Address(url=url, options=options))

    @pytest.fixture
    def kombu_programs(self, url: str, transport: RedisTransport) -> Iterator[Any]:
        """Give the connection of a program with the same prefix."""
        with Connection(url, transport_options=transport.address.options) as connection:
            yield connection

    def test_kombu_consumes_what_is_published_to_a_queue_that_it_has_declared(
        self, transport: RedisTransport, kombu_programs: Any, queue_name: Callable[..., str]
    ) -> None:
        name = queue_name()
        exchange = Exchange(queue_name("exchange"))
        Queue(name, exchange, "key", channel=kombu_programs.default_channel).declare()

        with closing(transport.publisher()) as publisher:
            assert publisher.publish([self.message(name, b"x")], nothing) == (Confirmed(),)

        taken: list[Any] = []
        consumer = kombu_programs.Consumer([Queue(name)], on_message=taken.append, no_ack=True)
        with consumer:
            kombu_programs.drain_events(timeout=5)
        assert [message.body for message in taken] == [b"x"]

    def test_what_kombu_publishes_is_consumed_and_every_key_has_the_prefix(
        self,
        transport: RedisTransport,
        kombu_programs: Any,
        client: Any,
        queues: Queues,
        consume: Consume,
        queue_name: Callable[..., str],
    ) -> None:
        name = queue_name()
        queues.declare_staging_queue(name)
        kombu_programs.Producer().publish(b"x", routing_key=name)

        assert bodies(receive(consume(name), 1)) == [b"x"]
        keys = [key.decode() for key in client.scan_iter(f"*{name}*")]
        prefix = transport.address.options["global_keyprefix"]
        assert keys
        assert [key for key in keys if not key.startswith(prefix)] == []


class TestLeases(RedisFixtures):
    """Who has a message in hand."""

    @pytest.fixture
    def transport(self, url: str) -> RedisTransport:
        return RedisTransport(Address(url=url, options={}), lease=0.6)

    def test_a_lease_is_renewed_however_long_a_message_is_in_hand(
        self, consume: Consume, transport: RedisTransport, queue: str
    ) -> None:
        with closing(transport.publisher()) as publisher:
            publisher.publish([self.message(queue)], nothing)
        holding, other = consume(queue), consume(queue)
        held = receive(holding, 1)

        assert other.receive(1, 1.5) == []
        holding.ack(held)

    def test_a_holder_whose_lease_has_run_out_loses_its_messages_and_learns_it(
        self, consume: Consume, transport: RedisTransport, client: Any, queue: str
    ) -> None:
        with closing(transport.publisher()) as publisher:
            publisher.publish([self.message(queue, b"x")], nothing)
        frozen = consume(queue)
        held = receive(frozen, 1)

        # What another process does with a lease that has run out.
        client.zadd(f"_retrier:leases:{queue}", dict.fromkeys(self._holders(client, queue), 1))
        other = consume(queue)

        (again,) = receive(other, 1)
        assert (again.body, again.redelivered) == (b"x", True)
        with pytest.raises(BrokerUnavailable, match="the hold on the messages is lost"):
            frozen.ack(held)

    def test_what_was_taken_while_the_answer_was_lost_comes_back(
        self, consume: Consume, transport: RedisTransport, client: Any, queue: str
    ) -> None:
        with closing(transport.publisher()) as publisher:
            publisher.publish([self.message(queue, b"x")], nothing)
        consumer = consume(queue)
        (holder,) = self._holders(client, queue)
        client.hset(f"_retrier:held:{queue}.{holder.decode()}", "7:0", client.rpop(queue))

        consumer.close()

        assert bodies(receive(consume(queue), 1)) == [b"x"]

    def _holders(self, client: Any, queue: str) -> list[bytes]:
        return list(client.zrange(f"_retrier:leases:{queue}", 0, -1))


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[PrivateRedis]:
    """Give a server that keeps nothing on disk, and drops keys when it is full."""
    options = (*FORGETS, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
    with private_redis(tmp_path / "redis", *options) as server:
        yield server


def find_risks(transport: RedisTransport) -> tuple[str, ...]:
    with closing(transport.queues()) as queues:
        return queues.find_risks()


def test_a_server_without_aof_or_with_eviction_is_named(forgetful: PrivateRedis) -> None:
    assert find_risks(make_transport(forgetful.url)) == (
        "AOF is off (appendonly no): a restart loses what was not saved",
        (
            "maxmemory-policy is allkeys-lru, and not noeviction: it drops messages when its memory "
            "is full"
        ),
    )


def test_the_check_says_by_name_why_the_server_may_lose_messages(
    forgetful: PrivateRedis, tmp_path: Path
) -> None:
    settings = Settings(
        broker=Broker(url=(forgetful.url,)), database=Database(url=sqlite_url(tmp_path))
    )

    texts = [each.text for each in check(settings) if each.name == "broker"]

    assert any(
        text.startswith("warning: the server itself may lose messages: AOF is off")
        for text in texts
    )


def test_a_restart_without_aof_and_an_eviction_are_noticed(forgetful: PrivateRedis) -> None:
    transport = make_transport(forgetful.url)
    find_risks(transport)

    forgetful.kill()
    forgetful.start()
    restarted = find_risks(transport)
    with closing(forgetful.client()) as client:
        client.config_set("maxmemory", "1")
        client.config_set("maxmemory-policy", "allkeys-random")
        client.config_set("maxmemory", client.info()["used_memory"] + 2_000_000)
        for number in range(100):
            client.set(f"other-{number}", "x" * 100_000)

    assert "it was started again without AOF: what it had not saved is gone" in restarted
    assert "it has evicted keys, and messages may be among them" in find_risks(transport)


class TestAFullServer(RedisFixtures):
    """`noeviction`, and no memory left."""

    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[PrivateRedis]:
        with private_redis(tmp_path / "redis", *KEEPS) as server:
            yield server

    @pytest.fixture
    def url(self, server: PrivateRedis) -> str:
        return server.url

    def test_a_server_that_keeps_everything_has_no_risks(self, transport: RedisTransport) -> None:
        assert find_risks(transport) == ()

    def test_the_trial_leaves_nothing(self, transport: RedisTransport, client: Any) -> None:
        assert transport.try_out("retrier.staging").problems == ()
        assert client.keys("*") == []

    def test_the_trial_does_not_wait_for_memory(
        self, transport: RedisTransport, client: Any
    ) -> None:
        client.config_set("maxmemory", 1)

        with pytest.raises(BrokerUnavailable, match="Redis takes no writes: its memory is full"):
            transport.try_out("retrier.staging")

    def test_what_it_does_not_take_is_waited_for_and_its_queues_can_be_emptied(
        self, transport: RedisTransport, consume: Consume, client: Any, queue: str
    ) -> None:
        # Given a server with messages, and no memory left
        publisher = transport.publisher()
        publisher.publish(self.numbered(queue, 3), nothing)
        client.config_set("maxmemory", 1)
        blocked: list[bool] = []
        outcomes: list[object] = []

        def publish() -> None:
            outcomes.extend(
                publisher.publish(
                    [self.message(queue, b"late")],
                    lambda: blocked.append(publisher.awaited.blocked),
                )
            )

        # When another one is published
        sending = Thread(target=publish)
        sending.start()
        wait_until(lambda: True in blocked, 30, "it waits")

        # Then what is there can be taken and acknowledged, and given back
        consumer = consume(queue)
        taken = receive(consumer, 3)
        consumer.ack(taken[:2])
        consumer.put_back(taken[2:])
        assert bodies(receive(consumer, 1)) == [b"2"]

        # and it arrives when there is memory again
        client.config_set("maxmemory", 0)
        sending.join(30)
        assert outcomes == [Confirmed()]
        publisher.close()

    def test_a_server_that_has_become_a_replica_refuses_no_message(
        self, transport: RedisTransport, client: Any, queue: str
    ) -> None:
        # Given a publisher, and a server that takes no writes since
        publisher = transport.publisher()
        (port,) = find_free_ports(1)
        client.replicaof("127.0.0.1", port)

        # When something is published, then it is in doubt, and not reverted
        (outcome,) = publisher.publish([self.message(queue)], nothing)
        assert isinstance(outcome, Unknown)

        # And it goes as soon as the server takes writes again
        client.replicaof("NO", "ONE")
        assert publisher.publish([self.message(queue)], nothing) == (Confirmed(),)
        publisher.close()

    def test_a_publisher_is_proved_only_when_writes_are_taken(
        self, transport: RedisTransport, client: Any
    ) -> None:
        told: list[str] = []
        publisher = transport.publisher()
        client.config_set("maxmemory", 1)

        def make_room() -> None:
            told.append(publisher.awaited.why)
            client.config_set("maxmemory", 0)

        assert publisher.publish((), make_room) == ()
        assert told == ["Redis takes no writes: its memory is full (maxmemory)"]
        assert client.keys("*") == []
        publisher.close()

    def test_it_is_said_why_no_writes_are_taken(
        self, transport: RedisTransport, client: Any
    ) -> None:
        client.config_set("maxmemory", 1)

        assert find_risks(transport) == ("Redis takes no writes: its memory is full (maxmemory)",)

    @pytest.mark.parametrize("what", ["password", "database"])
    def test_who_is_not_let_in_is_told_so(
        self, server: PrivateRedis, client: Any, what: str
    ) -> None:
        client.config_set("requirepass", "right")
        url = {
            "password": server.url.replace("//", "//:wrong@"),
            "database": server.url.replace("//", "//:right@").replace("/0", "/99"),
        }[what]

        with pytest.raises(AccessRefused, match=r"invalid username|DB index") as told:
            make_transport(url).queues()

        assert "right" not in str(told.value)
        assert "wrong" not in str(told.value)

    def test_a_server_that_is_gone_breaks_the_connection(
        self, server: PrivateRedis, consume: Consume, transport: RedisTransport, queue: str
    ) -> None:
        consumer = consume(queue)
        server.kill()

        with pytest.raises(BrokerUnavailable):
            consumer.receive(1, SILENCE)
        with pytest.raises(BrokerUnavailable):
            transport.publisher()
        server.start()  # for what is cleaned up


def test_a_server_without_tls_is_given_up_in_the_time_for_a_connection(
    forgetful: PrivateRedis,
) -> None:
    url = forgetful.url.replace("redis://", "rediss://")
    transport = RedisTransport(Address(url=url, options={"socket_connect_timeout": 0.2}))
    began = monotonic()

    with pytest.raises(BrokerUnavailable, match=r"within 0.2 s: the server may not speak TLS"):
        transport.queues()

    assert monotonic() - began < ANSWER_TIMEOUT


def test_a_name_that_the_sentinels_do_not_know_is_told_in_a_sentence() -> None:
    one, two = find_free_ports(2)
    url = f"sentinel://127.0.0.1:{one}/0;sentinel://127.0.0.1:{two}/0"
    options = {"master_name": "shop", "sentinel_kwargs": {"socket_timeout": 1}}

    with pytest.raises(BrokerUnavailable) as told:
        RedisTransport(Address(url=url, options=options)).queues()

    assert str(told.value).endswith(
        ": the sentinels name no server 'shop' that is up (master_name); 2 of them could not be reached"
    )


RIGHTS = re.findall(
    r"ACL SETUSER retrier on >PASSWORD ~\* (.*)", (ROOT / "docs/transports.md").read_text()
)
"""The rights that the page names: one line."""


class TestRights(RedisFixtures):
    """A user of an ACL."""

    @pytest.fixture
    def server(self, tmp_path: Path) -> Iterator[PrivateRedis]:
        with private_redis(tmp_path / "redis", *KEEPS) as server:
            yield server

    @pytest.fixture
    def admin(self, server: PrivateRedis) -> Iterator[Any]:
        with closing(server.client()) as client:
            yield client

    @pytest.fixture
    def url(self, server: PrivateRedis, admin: Any) -> str:
        self.allow(admin, *RIGHTS[0].split())
        return server.url.replace("//", "//retrier:secret@")

    def allow(self, admin: Any, *rights: str) -> None:
        admin.execute_command("ACL", "SETUSER", "retrier", "reset", "on", ">secret", "~*", *rights)

    def use(self, transport: RedisTransport) -> None:
        """Do all that a service does: look, take, give back, what a gone one had too, and send."""
        assert transport.try_out("own.staging").problems == ()
        with closing(transport.queues()) as queues, closing(transport.publisher()) as publisher:
            queues.declare_error_queue("error")
            queues.declare_staging_queue("own.staging")
            for queue in ("error", "own.staging"):
                assert publisher.publish([self.message(queue)], nothing) == (Confirmed(),)
                gone = transport.consumer(queue, 1)
                receive(gone, 1)
                gone._line.close()  # noqa: SLF001 - as a killed process leaves it
                with closing(transport.consumer(queue, 1)) as consumer:
                    consumer.put_back(receive(consumer, 1))
                    consumer.ack(receive(consumer, 1))
            assert isinstance(publisher.publish([self.message("no")], nothing)[0], Returned)
            queues.purge("error")
            queues.delete("error")

    def test_those_of_the_page_are_enough(
        self, url: str, transport: RedisTransport, admin: Any
    ) -> None:
        # Known to the server: the client library tells about itself, and does without.
        named = RedisTransport(Address(url=url, options={"client_name": "me"}))

        self.use(named)

        assert {each["object"] for each in admin.acl_log()} <= {"client|setinfo"}
        assert find_risks(transport) == ()

    def test_the_check_is_content_with_them(self, url: str, tmp_path: Path) -> None:
        settings = Settings(broker=Broker(url=(url,)), database=Database(url=sqlite_url(tmp_path)))

        texts = [each.text for each in check(settings) if each.name == "broker"]

        assert not any("warning" in text or "permission" in text for text in texts)

    @pytest.mark.parametrize("missing", ["time", "exists", "del", "ping", "scan", "eval"])
    def test_one_that_is_missing_is_named(
        self, transport: RedisTransport, admin: Any, missing: str
    ) -> None:
        self.allow(admin, *RIGHTS[0].split(), f"-{missing}", "+acl|log")

        with pytest.raises(AccessRefused, match=rf"{missing}.*see Rights in docs") as told:
            self.use(transport)

        assert "secret" not in str(told.value)

    def test_without_the_log_of_the_acl_the_page_is_named(
        self, transport: RedisTransport, admin: Any
    ) -> None:
        self.allow(admin, *RIGHTS[0].split(), "-time")

        with pytest.raises(AccessRefused, match=r"see Rights in docs/transports\.md"):
            self.use(transport)


def run_program(program: str) -> str:
    """Run a program in a process of its own; return what it says."""
    command = [sys.executable, "-c", program]
    return subprocess.run(command, cwd=ROOT, stdout=PIPE, text=True, check=True).stdout


def test_a_server_with_tls_is_reached_by_its_certificate(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    (port,) = find_free_ports(1)
    options = ("--tls-port", str(port), "--tls-auth-clients", "no", "--tls-ca-cert-file", made.ca)
    server_files = (str(tmp_path / "server.pem"), "--tls-key-file", str(tmp_path / "server.key"))
    url = f"rediss://localhost:{port}/0"

    with private_redis(tmp_path / "redis", *options, "--tls-cert-file", *server_files):
        trusting = RedisTransport(Address(url=url, options={}, tls=Tls(ca=made.ca)))
        assert find_risks(trusting)
        with pytest.raises(BrokerUnavailable, match="certificate verify failed"):
            RedisTransport(Address(url=url, options={}, tls=Tls(ca=made.other_ca))).queues()


def test_the_server_that_sentinels_name_is_used(tmp_path: Path) -> None:
    (port,) = find_free_ports(1)
    file = tmp_path / "sentinel.conf"
    with private_redis(tmp_path / "redis", *FORGETS) as server:
        file.write_text(f"sentinel monitor shop 127.0.0.1 {server.port} 1\n")
        with private_redis(tmp_path / "watch", str(file), "--sentinel", port=port):
            address = Address(url=f"sentinel://127.0.0.1:{port}/0", options={"master_name": "shop"})
            with closing(RedisTransport(address).queues()) as queues:
                queues.declare_error_queue("error")
        with closing(server.client()) as client:
            assert client.smembers("_retrier:queues") == {b"error"}


def test_without_the_library_it_is_said_what_to_install() -> None:
    program = """
import sys
sys.modules["redis"] = None
from random import Random
from retrier.errors import ConfigurationError
from retrier.transport.transports import TransportOptions, make_transport
try:
    make_transport(TransportOptions(
        urls=("redis://h",), staging_queue_type="quorum", connection_name="", dice=Random()))
except ConfigurationError as error:
    print(error)
"""
    assert "pip install 'retrier[redis]'" in run_program(program)

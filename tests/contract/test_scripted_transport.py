"""The scripted transport against the conformance suite: without a script it is like any other.

What it does on cue is in test_scripted_faults.py.
"""

from collections.abc import Callable, Mapping
from uuid import uuid4

import pytest

from tests.contract.rabbitmq_samples import samples_of
from tests.contract.transport_suite import TransportSuite
from tests.support.amqp_bytes import NO_PROPERTIES
from tests.support.scripted_transport import ScriptedTransport
from tests.support.waiting import let_pass


class TestScriptedTransport(TransportSuite):
    no_properties = NO_PROPERTIES

    @pytest.fixture
    def transport(self) -> ScriptedTransport:
        transport = ScriptedTransport()
        # The suite looks at the clock: an empty queue has to take as long as it was told to.
        transport.on_idle = let_pass
        return transport

    @pytest.fixture
    def samples(self, transport: ScriptedTransport) -> Mapping[str, tuple[bytes, bytes]]:
        return samples_of(transport.user or "")

    @pytest.fixture
    def queue_name(self) -> Callable[..., str]:
        return lambda prefix="queue": f"test.{prefix}.{uuid4().hex[:12]}"

    @pytest.fixture
    def new_queue(
        self, transport: ScriptedTransport, queue_name: Callable[..., str]
    ) -> Callable[[], str]:
        def declare() -> str:
            name = queue_name()
            transport.broker.declare(name)
            return name

        return declare

    # Its queues are in this process, and would die with one that is killed. What a lost connection
    # gives back is in test_scripted_faults.py.
    test_a_killed_process_gives_everything_back_in_front_in_order_and_marked = None

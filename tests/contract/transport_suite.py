"""The conformance suite of transports: subclass it, fill in the fixtures, and run it.

What a transport's capabilities deny is skipped, aloud.
"""

from tests.contract.consuming_suite import ConsumingSuite
from tests.contract.publishing_suite import PublishingSuite
from tests.contract.queues_suite import QueuesSuite


class TransportSuite(PublishingSuite, ConsumingSuite, QueuesSuite):
    """Everything the seam promises."""

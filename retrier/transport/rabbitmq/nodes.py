"""The nodes of the broker, and which of them a new connection goes to."""

from collections.abc import Iterable, Sequence
from random import Random
from time import monotonic

from retrier.errors import BrokerUnavailable
from retrier.transport.rabbitmq.address import Address
from retrier.transport.rabbitmq.connection import UNREACHABLE, BrokerConnection
from retrier.transport.rabbitmq.library import CONNECT_TIMEOUT

FIRST_LOOK = 1.5
"""Seconds that a node has to answer while there are others to try."""
AVOIDED = 60.0
"""Seconds for which a node that could not be reached is tried after all others."""

Failures = dict[Address, BrokerUnavailable]


class Nodes:
    """Connects to any of them; what one thread finds out about a node spares the others."""

    def __init__(self, addresses: Sequence[Address], dice: Random) -> None:
        """Connect to nothing yet. The dice choose the node that is tried first."""
        self._addresses = tuple(addresses)
        self._dice = dice
        self._failed_at: dict[Address, float] = {}
        """When a node could last not be reached, by the monotonic clock."""

    def __str__(self) -> str:
        return ", ".join(map(str, self._addresses))

    def dial(self, name: str, heartbeat: float) -> BrokerConnection:
        """Connect to the first node that answers. Raises BrokerUnavailable with every reason."""
        if len(self._addresses) == 1:
            return BrokerConnection(self._addresses[0], name, heartbeat, CONNECT_TIMEOUT)
        failures: Failures = {}
        # A host that is gone without a word must not keep us from one that lives: each has little
        # time at first. Only when none was that quick, those that said nothing have more.
        reached = self._try(self._order(), FIRST_LOOK, (name, heartbeat), failures)
        silent = [address for address, error in failures.items() if _said_nothing(error)]
        reached = reached or self._try(silent, CONNECT_TIMEOUT, (name, heartbeat), failures)
        if reached is None:
            raise BrokerUnavailable(_word(failures.values()))
        return reached

    def _try(
        self,
        addresses: Iterable[Address],
        patience: float,
        how: tuple[str, float],
        failures: Failures,
    ) -> BrokerConnection | None:
        for address in addresses:
            try:
                connection = BrokerConnection(address, *how, patience)
            except BrokerUnavailable as error:
                failures[address] = error
                self._failed_at[address] = monotonic()
            else:
                self._failed_at.pop(address, None)
                return connection
        return None

    def _order(self) -> list[Address]:
        """Return all nodes from a random one on, those that failed lately at the end."""
        first = self._dice.randrange(len(self._addresses))
        forgotten = monotonic() - AVOIDED
        return sorted(
            (*self._addresses[first:], *self._addresses[:first]),
            key=lambda address: max(self._failed_at.get(address, forgotten), forgotten),
        )


def _said_nothing(error: BrokerUnavailable) -> bool:
    return isinstance(error.__cause__, TimeoutError)


def _word(failures: Iterable[BrokerUnavailable]) -> str:
    return UNREACHABLE + "; ".join(str(each).removeprefix(UNREACHABLE) for each in failures)

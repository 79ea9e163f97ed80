"""The proof: instances, traffic and misfortunes together, then the count."""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any
from uuid import uuid4

from tests.endurance.instances.counting import Count, count_up
from tests.endurance.instances.database import OPEN, DatabaseView
from tests.endurance.instances.hosts import Node, opened_nodes
from tests.endurance.instances.misfortunes import BLOWS, Fate, Misfortune, shuffle_deck
from tests.endurance.instances.traffic import Traffic
from tests.support.databases import temporary_postgres
from tests.support.waiting import let_pass, wait_until

INSTANCES = 3
READY_WITHIN = 60.0
DRAINED_WITHIN = 300.0
ASK_EVERY = 2.0
QUIET_LOOKS = 2

Blows = Sequence[tuple[str, bool, bool]]
"""Name, whether the leader is struck, whether the one that takes over is struck, too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What is tried. `lease` in seconds; `blows` None: a whole deck as often as `rounds` says."""

    amqp_url: str
    postgres_url: str
    messages: int
    rounds: int = 1
    kind: str = "quorum"
    lease: int = 15
    window: int = 200
    seed: int = 0
    namespaces: bool = False
    blows: Blows | None = None


@dataclass(frozen=True, slots=True)
class Proof:
    """What happened, and the count."""

    misfortunes: list[Misfortune]
    count: Count
    seconds: float
    logs: dict[str, list[dict[str, Any]]]


def prove(plan: Plan, folder: Path, tell: Callable[[Misfortune], None]) -> Proof:
    """Run the plan; everything it made is removed afterwards, also when it is interrupted."""
    began = monotonic()
    with _opened(plan, folder) as (nodes, traffic, view):
        dice = random.Random(plan.seed)  # noqa: S311 - no secret
        misfortunes = _live(plan, nodes, traffic, view, dice, tell)
        _drain(nodes, traffic, view, dice)
        traffic.end()
        count = count_up(traffic.tally, misfortunes, view, nodes[0], plan.window)
        logs = {node.name: node.story() for node in nodes}
    return Proof(misfortunes, count, monotonic() - began, logs)


@contextmanager
def _opened(plan: Plan, folder: Path) -> Iterator[tuple[list[Node], Traffic, DatabaseView]]:
    instance = f"endurance.{uuid4().hex[:8]}"
    traffic = Traffic(plan.amqp_url, instance, plan.kind)
    with ExitStack() as stack:
        url = stack.enter_context(temporary_postgres(plan.postgres_url))
        stack.callback(traffic.delete_queues, f"{instance}.staging")
        settings = {
            "instance": instance,
            "broker": {"url": plan.amqp_url, "staging_queue_type": plan.kind},
            "database": {"url": url},
            "ingestion": {"error_queues": [traffic.error]},
            "retries": {"forwarding_window": plan.window},
            "processor": {"lease": f"{plan.lease}s"},
            "api": {"port": 0},
        }
        stack.callback(traffic.end)
        nodes = stack.enter_context(
            opened_nodes(folder, settings, INSTANCES, namespaces=plan.namespaces)
        )
        traffic.declare()
        # All at once, on an empty database.
        for node in nodes:
            node.start()
        wait_until(lambda: all(node.is_well() for node in nodes), READY_WITHIN, "all are ready")
        yield nodes, traffic, stack.enter_context(closing(DatabaseView(url)))


def _live(
    plan: Plan,
    nodes: Sequence[Node],
    traffic: Traffic,
    view: DatabaseView,
    dice: random.Random,
    tell: Callable[[Misfortune], None],
) -> list[Misfortune]:
    fate = Fate(nodes, traffic, view, plan.lease, dice)
    traffic.begin(nodes, random.Random(dice.random()))  # noqa: S311 - no secret
    decks = [shuffle_deck(dice) for _ in range(plan.rounds)]
    blows = plan.blows or [blow for deck in decks for blow in deck]
    misfortunes: list[Misfortune] = []
    share, rest = divmod(plan.messages, len(blows) + 1)
    traffic.order(share + rest)
    for name, leader, twice in blows:
        traffic.order(share)
        misfortunes.append(fate.strike(BLOWS[name], leader=leader, twice=twice))
        if len(misfortunes) > 1:
            misfortunes[-2].end = misfortunes[-1].begin
        tell(misfortunes[-1])
    return misfortunes


def _drain(
    nodes: Sequence[Node], traffic: Traffic, view: DatabaseView, dice: random.Random
) -> None:
    """Ask until nothing is unresolved any more, and nothing is on its way.

    Two looks in a row must find nothing: what a consumer is answering, or ingestion has in hand,
    no look sees.
    """
    end, quiet = monotonic() + DRAINED_WITHIN, 0
    while quiet < QUIET_LOOKS and monotonic() < end:
        is_busy = not traffic.is_done() or traffic.depth() or view.count(OPEN)
        quiet = 0 if is_busy else quiet + 1
        if is_busy:
            traffic.ask_for_all(nodes, dice)
        let_pass(ASK_EVERY)

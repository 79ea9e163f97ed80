"""What befalls the hosts, one blow after the other, and how long it takes until another leads."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from time import monotonic

from tests.endurance.instances.database import BATCHES, DatabaseView, Leader
from tests.endurance.instances.hosts import BROKER, DATABASE, Node
from tests.endurance.instances.traffic import Traffic
from tests.support.waiting import let_pass, wait_until

SLACK = 5.0
"""Seconds a takeover may take beyond the lease: the look of a standby, and a busy machine."""
NOTICED = 30.0
"""Seconds until a leader that is cut off from the broker alone has noticed, and looks again."""
FORWARDS_WITHIN = 60.0
READY_WITHIN = 90.0
AT_WORK_WITHIN = 20.0
SETTLE = 1.0
IN_DOUBT = 0.7
"""How often a blow waits until something is in doubt."""


@dataclass(frozen=True, slots=True)
class Blow:
    """What is done to a host, how it is undone, and how long it keeps the lease beyond its time."""

    name: str
    strike: Callable[[Node], None]
    undo: Callable[[Node], None]
    slack: float = SLACK


BLOWS = {
    blow.name: blow
    for blow in (
        Blow("kill", Node.kill, Node.start),
        Blow("freeze", Node.freeze, Node.wake),
        Blow("cut broker", lambda node: node.cut(BROKER), Node.heal, NOTICED),
        Blow("cut database", lambda node: node.cut(DATABASE), Node.heal),
        Blow("cut both", lambda node: node.cut(BROKER, DATABASE), Node.heal),
    )
}


@dataclass(slots=True)
class Struck:
    """One host struck; times in seconds from the blow."""

    blow: str
    leads: bool
    takeover: float | None = None
    forward: float | None = None


@dataclass(slots=True)
class Misfortune:
    """One or two blows in a row, and what arrived twice between this one and the next."""

    struck: list[Struck] = field(default_factory=list)
    begin: float = field(default_factory=monotonic)
    doubt: set[str] = field(default_factory=set)
    end: float = float("inf")
    problems: list[str] = field(default_factory=list)
    blockers: set[str] = field(default_factory=set)
    """Sessions of the database that others waited for while nothing was forwarded."""

    @property
    def name(self) -> str:
        """What happened to whom."""
        return ", then ".join(f"{each.blow} {_whom(leads=each.leads)}" for each in self.struck)


class Fate:
    """Strikes at random; the same seed strikes in the same order."""

    def __init__(
        self,
        nodes: Sequence[Node],
        traffic: Traffic,
        view: DatabaseView,
        lease: float,
        dice: random.Random,
    ) -> None:
        self._nodes, self._traffic, self._view = nodes, traffic, view
        self._lease, self._dice = lease, dice

    def strike(self, blow: Blow, *, leader: bool = True, twice: bool = False) -> Misfortune:
        """Strike a host in the middle of work, wait for a takeover, undo, wait until all is well.

        `twice` strikes the one that took over, too, while the first is still struck.
        """
        misfortune = Misfortune()
        victims = [(blow, self._hit(misfortune, blow, leader=leader))]
        if twice and misfortune.struck[-1].takeover is not None:
            again = self._dice.choice([BLOWS["kill"], BLOWS["freeze"]])
            victims.append((again, self._hit(misfortune, again, leader=True)))
        let_pass(self._dice.uniform(0, self._lease / 3))
        for how, node in victims:
            how.undo(node)
        self._wait_well(misfortune)
        return misfortune

    def _hit(self, misfortune: Misfortune, blow: Blow, *, leader: bool) -> Node:
        at_work = self._wait_for_work(misfortune)
        node = self._choose(at_work, leader=leader)
        struck = Struck(blow.name, leads=node.pid == at_work.pid)
        misfortune.struck.append(struck)
        before, began = self._view.leader(), monotonic()
        blow.strike(node)
        patience = self._lease + (
            blow.slack if struck.leads else self._dice.uniform(0, self._lease)
        )
        self._watch(misfortune, struck, before, (began, patience))
        return node

    def _wait_for_work(self, misfortune: Misfortune) -> Leader:
        """Ask for retries, and let the leader come to any place in its work.

        Mostly to one where something is in doubt: there it hurts most.
        """
        self._traffic.ask_for_all(self._nodes, self._dice)
        begin, hurt = monotonic(), self._dice.random() < IN_DOUBT
        try:
            wait_until(lambda: self._is_at_work(begin, hurt=hurt), AT_WORK_WITHIN)
        except AssertionError:
            misfortune.problems.append("nothing was forwarded before the blow")
        let_pass(self._dice.uniform(0, 0.03 if hurt else 0.3))
        return self._view.leader()

    def _is_at_work(self, begin: float, *, hurt: bool) -> bool:
        if hurt:
            return bool(self._view.in_doubt(self._view.leader().epoch))
        return self._traffic.tally.last_arrival > begin

    def _choose(self, at_work: Leader, *, leader: bool) -> Node:
        fit = [node for node in self._nodes if (node.pid == at_work.pid) is leader and node.pid]
        return self._dice.choice(fit)

    def _watch(
        self, misfortune: Misfortune, struck: Struck, before: Leader, time: tuple[float, float]
    ) -> None:
        """Wait for the takeover; what is in doubt until then may come twice, and nothing else."""
        began, patience = time
        while monotonic() - began < patience:
            misfortune.doubt |= self._view.in_doubt(before.epoch) if struck.leads else set()
            now = self._view.leader()
            if now.epoch != before.epoch and now.pid:
                struck.takeover = monotonic() - began
                break
            let_pass(0.03)
        if struck.leads and struck.takeover is None:
            misfortune.problems.append(f"nobody took over within {patience:.0f} s")
        if not struck.leads and struck.takeover is not None:
            misfortune.problems.append("the lease was taken from a leader that was well")
        if struck.takeover is not None:
            self._watch_forward(misfortune, struck, began)

    def _watch_forward(self, misfortune: Misfortune, struck: Struck, began: float) -> None:
        """Wait until the next one forwards, unless nothing was left to forward."""
        tally, taken = self._traffic.tally, monotonic()
        while tally.last_arrival <= taken and self._view.count(BATCHES):
            if monotonic() - taken > FORWARDS_WITHIN:
                misfortune.problems.append(f"nothing forwarded {FORWARDS_WITHIN:.0f} s after it")
                return
            if monotonic() - taken > SLACK:
                misfortune.blockers.update(self._view.blockers())
            let_pass(0.03)
        if tally.last_arrival > taken:
            struck.forward = tally.last_arrival - began

    def _wait_well(self, misfortune: Misfortune) -> None:
        try:
            wait_until(lambda: all(node.is_well() for node in self._nodes), READY_WITHIN)
        except AssertionError:
            ill = ", ".join(node.name for node in self._nodes if not node.is_well())
            misfortune.problems.append(f"not ready within {READY_WITHIN:.0f} s: {ill}")
        let_pass(SETTLE)


def shuffle_deck(dice: random.Random) -> list[tuple[str, bool, bool]]:
    """Return every blow to the leader, three of them double, and one to each kind of standby."""
    leaders = [(name, True, False) for name in chain(BLOWS, ("kill", "freeze"))]
    doubles = [(name, True, True) for name in ("kill", "freeze", "cut both")]
    standbys = [(name, False, False) for name in BLOWS]
    deck = [*leaders, *doubles, *dice.sample(standbys, 3)]
    dice.shuffle(deck)
    return deck


def _whom(*, leads: bool) -> str:
    return "leader" if leads else "standby"

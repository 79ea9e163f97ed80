"""One condition held against its meaning on all faces: list = count = preview = act = undone."""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tests.properties.selections.drawn_conditions import draw_conditions, draw_order
from tests.properties.selections.faces import (
    ACTS,
    API,
    FACES,
    ONLY_IN_LISTS,
    Face,
    Order,
)
from tests.properties.selections.meaning import (
    Conditions,
    Known,
    is_sorted,
    select,
    select_for,
)
from tests.properties.selections.stock import Rows, Stock, empty_queues

_COUNTED_ANEW = frozenset(("failure_seq", "changed_seq", "last_modified"))
"""What an act and its undo change for good: the number of the failure, and the time of the change."""

_ACTS = 0.35
"""How often the short form does what it has previewed: nothing takes longer."""
_STATUS_AFTER = {
    "archive": "archived",
    "unarchive": "unresolved",
    "resolve": "resolved",
    "retry": "retry_issued",
}


@dataclass(slots=True, kw_only=True)
class Oracle:
    """Asks about conditions, and keeps what was wrong.

    `thorough` asks all faces about each condition; else two of them take turns beside the API.
    """

    stock: Stock
    dice: random.Random
    thorough: bool = False
    problems: list[str] = field(default_factory=list)
    tried: Counter[str] = field(default_factory=Counter)

    def ask(self) -> None:
        """Draw a condition, and hold all that is said and done about it against its meaning."""
        wanted, order = draw_conditions(self.dice, self.stock.messages), draw_order(self.dice)
        self.tried["conditions"] += 1
        for face in self._some(face for face in FACES if face.can_list(wanted)):
            self._hold_list(face, wanted, order)
        if self.thorough or self.dice.random() < _ACTS:
            self._hold_count(wanted)
        if ONLY_IN_LISTS.isdisjoint(wanted):
            act = self.dice.choice(ACTS)
            for face in self._some(FACES):
                self._hold_preview(face, act, wanted)
            if self.thorough or self.dice.random() < _ACTS:
                self._hold_act(self.dice.choice(FACES), act, wanted)

    def _some(self, faces: Iterator[Face] | Sequence[Face]) -> Sequence[Face]:
        found = list(faces)
        if self.thorough or found == [API]:
            return found
        return [API, *self.dice.sample(found[1:], 1)] if self.dice.random() < 0.5 else [API]

    def _hold_list(self, face: Face, wanted: Conditions, order: Order) -> None:
        right = {each.unique_id: each for each in select(wanted, self.stock.messages)}
        listed = face.list(self.stock, wanted, order)
        where = f"{face.name} list {dict(wanted)} {order}"
        self.tried[f"{face.name}: lists"] += 1
        self._compare(where, right.keys(), listed.ids)
        if listed.totals != {len(right)}:
            self.problems.append(f"{where}: totals {sorted(listed.totals)}, not {len(right)}")
        known = [right[each] for each in listed.ids if each in right]
        if not is_sorted(known, order.sort, descending=order.descending):
            self.problems.append(f"{where}: not in this order")

    def _hold_count(self, wanted: Conditions) -> None:
        right, said = len(select(wanted, self.stock.messages)), API.count(self.stock, wanted)
        if said != right:
            self.problems.append(f"API count {dict(wanted)}: {said}, not {right}")

    def _hold_preview(self, face: Face, act: str, wanted: Conditions) -> None:
        right = len(select_for(act, wanted, self.stock.messages))
        said = face.preview(self.stock, act, wanted)
        self.tried[f"{face.name}: previews"] += 1
        if said != right:
            self.problems.append(
                f"{face.name} preview of {act} {dict(wanted)}: {said}, not {right}"
            )

    def _hold_act(self, face: Face, act: str, wanted: Conditions) -> None:
        right = select_for(act, wanted, self.stock.messages)
        before = self.stock.stored
        where = f"{face.name} {act} {dict(wanted)}"
        if not right and face.name == "page":
            return  # it offers no button then
        operation = face.act(self.stock, act, wanted)
        self.tried[f"{face.name}: acts"] += 1
        self.tried[f"messages of {act}"] += len(right)
        if act == "retry":
            self._hold_sent(where, right)
        after = self.stock.rows()
        taken = [key for key, row in after.items() if row["status"] != before[key]["status"]]
        self._compare(where, {each.unique_id for each in right}, taken)
        wrong = {str(after[key]["status"]) for key in taken} - {_STATUS_AFTER[act]}
        if wrong:
            self.problems.append(f"{where}: became {wrong}")
        if act == "archive":
            after = self._hold_undo(face, where, operation, before)
        self.stock.give_back(after)

    def _hold_sent(self, where: str, right: Sequence[Known]) -> None:
        """Let the retry be sent, and see what arrives."""
        bench = self.stock.cli.bench
        for each in right:
            bench.transport.broker.declare(each.sent.queue)
        bench.work()
        bodies = [each.body for each in empty_queues(self.stock)]
        if sorted(bodies) != sorted(each.sent.body for each in right):
            self.problems.append(f"{where}: sent {len(bodies)}, not these {len(right)}")

    def _hold_undo(self, face: Face, where: str, operation: str, before: Rows) -> Rows:
        archived = API.list(self.stock, {"archived_by": operation}, Order())
        right = {key for key, row in self.stock.rows().items() if row != before[key]}
        self._compare(f"{where}: archived_by", right, archived.ids)
        face.undo(self.stock, operation)
        after = self.stock.rows()
        for key, row in after.items():
            changed = {
                name: (value, row[name])
                for name, value in before[key].items()
                if row[name] != value and name not in _COUNTED_ANEW
            }
            if changed:
                self.problems.append(f"{where}: undone, {key} has {changed}")
        return after

    def _compare(self, where: str, right: Iterable[str], found: Sequence[str]) -> None:
        wanted = set(right)
        missing, extra = wanted - set(found), set(found) - wanted
        double = len(found) - len(set(found))
        if missing or extra or double:
            self.problems.append(
                f"{where}: {len(wanted)} match, {len(missing)} missing {self._some_of(missing)}, "
                f"{len(extra)} extra {self._some_of(extra)}, {double} twice"
            )

    def _some_of(self, ids: set[str]) -> list[str]:
        return [str(each.sent) for each in self.stock.messages if each.unique_id in ids][:2]

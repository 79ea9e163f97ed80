"""Messages by name: whole ids, beginnings of ids and message ids, alone and among each other."""

import json
import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID

from tests.properties.selections.meaning import SOURCES, Known, is_whole_id, name_ids
from tests.properties.selections.stock import Stock

_ACTS = ("archive", "unarchive")


@dataclass(slots=True, kw_only=True)
class Names:
    """Names messages on each face, and keeps what was wrong."""

    stock: Stock
    dice: random.Random
    problems: list[str] = field(default_factory=list)
    tried: Counter[str] = field(default_factory=Counter)

    def ask(self) -> None:
        """Draw texts that name messages, or none, or several; ask for an act on them."""
        act, texts = self.dice.choice(_ACTS), self._draw()
        self.tried["names"] += len(texts)
        self._ask_command(act, texts)
        self._ask_api(act, [each for each in texts if is_whole_id(each)])

    def _draw(self) -> Sequence[str]:
        drawn = (self._draw_one() for _ in range(self.dice.choice((1, 1, 2, 3, 6))))
        return list(dict.fromkeys(drawn))

    def _draw_one(self) -> str:
        message = self.dice.choice(self.stock.messages)
        key, name = message.unique_id, message.sent.message_id or message.unique_id
        unknown = str(UUID(int=self.dice.getrandbits(128)))
        names = (key, key.upper(), key[:8], key[:13], name, name, name, unknown, f"{name}?")
        return self.dice.choices(names, (4, 2, 4, 2, 4, 4, 4, 1, 1))[0]

    def _ask_command(self, act: str, texts: Sequence[str]) -> None:
        """Name them on the command line, or one a line on its standard input."""
        named = name_ids(texts, self.stock.messages)
        right = None if named is None else _fitting(act, named)
        where = f"CLI {act} {texts}"
        words, stdin = [act, *texts], None
        if self.dice.random() < 0.5:
            words, stdin = [act, "-"], "\n".join(texts) + "\n"
        for more in (["--dry-run"], []):
            result = self.stock.cli.run(*words, *more, "--json", stdin=stdin)
            self.tried["CLI: names"] += 1
            if right is None:
                if result.exit_code != 1 or result.stdout:
                    self.problems.append(f"{where}: not refused: {result.output}")
            elif json.loads(result.stdout or "{}").get("total" if more else _DONE[act]) != len(
                right
            ):
                self.problems.append(f"{where} {more}: {len(right)} fit: {result.output[:300]}")
        self._hold(where, right or [])

    def _ask_api(self, act: str, ids: Sequence[str]) -> None:
        """Name their whole ids; those of senders are no ids there."""
        if not ids:
            return
        known = {each.unique_id: each for each in self.stock.messages}
        right = _fitting(act, [known[each.lower()] for each in ids if each.lower() in known])
        body = {"act": act, "selection": {"ids": list(ids)}}
        http = self.stock.cli.api.http
        counted = http.post("/api/archive_operations/preview", json=body).json()["total"]
        if counted != len(right):
            self.problems.append(f"API preview of {act} {ids}: {counted}, not {len(right)}")
        self.tried["API: names"] += 1
        assert http.post("/api/archive_operations", json=body).status_code == 202
        self._hold(f"API {act} {ids}", right)

    def _hold(self, where: str, right: Sequence[Known]) -> None:
        after, before = self.stock.rows(), self.stock.stored
        taken = {key for key, row in after.items() if row["status"] != before[key]["status"]}
        wanted = {each.unique_id for each in right}
        if taken != wanted:
            self.problems.append(f"{where}: took {sorted(taken)}, not {sorted(wanted)}")
        self.stock.give_back(after)


_DONE = {"archive": "archived", "unarchive": "unarchived"}


def _fitting(act: str, messages: Sequence[Known]) -> list[Known]:
    """Return those that the act changes, each once."""
    found = {each.unique_id: each for each in messages if each.status == SOURCES[act]}
    return list(found.values())

"""What differs from run to run, under a name that does not: ids, times, places."""

import re
import socket
from collections.abc import Mapping

import retrier

_RANDOM = re.compile(
    r"(?<![0-9a-f])[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}(?![0-9a-f])"
)
_SHORT = re.compile(r"(?<![0-9a-f])[0-9a-f]{8}(?![0-9a-f])")
_HOST, _VERSION = re.escape(socket.gethostname()), re.escape(retrier.__version__)
_CHANGING = (
    (re.compile(rf"(?<![\d.]){_VERSION}(?![\d.])"), "<version>"),
    # Only where a host stands: its name may be any word.
    (re.compile(rf'("host": ?"|\bprocess \d+ on |golden@|processor  ){_HOST}\b'), r"\1<host>"),
    (re.compile(r"(connected from )[\da-f.:]+"), r"\1<address>"),
    (re.compile(r"rtr_[0-9a-f]{72}"), "<token>"),
    (re.compile(r'(sha256\\*": ?\\*")[0-9a-f]{64}'), r"\1<hash>"),
    (re.compile(r'("timestamp": ")[^"]+'), r"\1<time>"),
    # What is meant by yesterday depends on the day of the machine.
    (re.compile(r"('yesterday' is no time: .*did you mean )\d{4}-\d\d-\d\d"), r"\1<date>"),
    (re.compile(r'(etag: )"\w+"'), r'\1"<etag>"'),
    (re.compile(r"(?<![\w-])[0-9a-f]{8}(-\d{1,3})(?![\w-])"), r"<live>\1"),
    (re.compile(r'(data-seen=")[0-9a-f]+'), r"\1<hash>"),
    (re.compile(r'(transaction_seconds_(?:bucket\{le="[\d.]+"\}|sum) )[\d.e+-]+'), r"\1<time>"),
    (re.compile(r"(_created(?:\{[^}]*\})? )[\d.e+]+"), r"\1<time>"),
    (re.compile(r'("pid": ?|\bpid |\bprocess )\d+'), r"\1<pid>"),
)


class Names:
    """Gives names. `places` are texts that stand for the folder and the database of a run."""

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = dict(sorted(places.items(), key=lambda each: -len(each[0])))
        self._ids: set[str] = set()

    def learn(self, text: str) -> None:
        """Know the ids of a text: others may show their beginnings."""
        self._ids.update(each[:8] for each in _RANDOM.findall(text))

    def apply(self, text: str) -> str:
        """Return the text with names: those of ids are numbered as they appear in it."""
        self.learn(text)
        for found, name in self._places.items():
            text = text.replace(found, name)
        for pattern, name in _CHANGING:
            text = pattern.sub(name, text)
        given: dict[str, str] = {}

        def name_of(found: re.Match[str]) -> str:
            return given.setdefault(found[0][:8], f"<id {len(given) + 1}>")

        def short_of(found: re.Match[str]) -> str:
            return name_of(found) if found[0] in self._ids else found[0]

        return _SHORT.sub(short_of, _RANDOM.sub(name_of, text))

"""The names that users write down: routes, settings, commands, metrics, events and headers.

`python -m tests.support.public_names` records them. That is done once for each release, in the
commit that gives the version its number: what changes from there on has to be in the changelog.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from retrier import __version__
from retrier.app.log import LINES
from retrier.domain import headers
from retrier.domain.events import KINDS
from retrier.store.engine.database import Database, DatabaseOptions
from tests.support.api import Api
from tests.support.commands import COMMANDS, OPTIONS
from tests.support.metrics import Scrape, idle_metrics
from tests.support.project import ROOT
from tests.support.setting_keys import SETTING_KEYS

RECORD = ROOT / "tests" / "quality" / "public_names.json"

Names = Mapping[str, Sequence[str]]


def collect() -> Names:
    """Return the names as they are now, by kind."""
    found = {
        "routes": list_routes(),
        "settings": SETTING_KEYS,
        "commands": [" ".join(("retrier", *words)) for words in COMMANDS],
        "options": [
            " ".join(("retrier", *words, option)) for words in COMMANDS for option in OPTIONS[words]
        ],
        "metrics": [family.name for family in Scrape.of(idle_metrics()).families],
        "lines of the log": LINES,
        "kinds of events": KINDS,
        "headers": [
            value
            for name, value in vars(headers).items()
            if name.isupper() and isinstance(value, str)
        ],
    }
    return {kind: sorted(set(names)) for kind, names in found.items()}


def list_routes() -> Sequence[str]:
    """Return each route as METHOD path."""
    with TemporaryDirectory() as folder:
        database = Database(DatabaseOptions(url=f"sqlite:///{folder}/unused.db"))
        api = Api(database)
        paths = api.app.openapi()["paths"]
        api.http.close()
        database.dispose()
    return [f"{method.upper()} {path}" for path, each in paths.items() for method in each]


def find_untold(before: Names, now: Names, told: str) -> list[str]:
    """Return what came, went or was renamed between two, and is not told, in backticks."""
    return [
        f"{kind}: {name}"
        for kind in sorted({*before, *now})
        for name in sorted({*before.get(kind, ())} ^ {*now.get(kind, ())})
        if f"`{name}`" not in told
    ]


def main(record: Path = RECORD) -> None:
    """Write the record."""
    text = json.dumps({"version": __version__, "names": collect()}, indent=1)
    record.write_text(f"{text}\n")


if __name__ == "__main__":
    main()

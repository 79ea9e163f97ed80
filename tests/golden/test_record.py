"""What is seen from outside is what was recorded, byte for byte."""

from collections.abc import Iterator
from difflib import unified_diff
from itertools import islice
from types import ModuleType

import pytest

from tests.golden import api, cli, page
from tests.golden.record import COMMAND, KINDS, Sections, read, take
from tests.golden.world import World
from tests.support.databases import open_upgraded, sqlite_url

LINES = 40
RENEW = f"If it is meant, take the record anew: {COMMAND}"

ON_EACH = [
    pytest.param(kind, marks=pytest.mark.postgres) if kind == "postgres" else kind for kind in KINDS
]


@pytest.mark.parametrize("kind", ON_EACH)
def test_nothing_is_seen_from_outside_but_what_was_recorded(
    kind: str, request: pytest.FixtureRequest
) -> None:
    server = request.getfixturevalue("postgres_url") if kind == "postgres" else None

    told = first_difference(read(kind), take(kind, server))

    if told is not None:
        pytest.fail(told, pytrace=False)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("world")
    url = sqlite_url(folder)
    open_upgraded(url).dispose()
    made = World(url, folder)
    yield made
    made.close()


@pytest.mark.parametrize("face", [api, page], ids=["api", "page"])
def test_every_route_is_recorded(face: ModuleType, world: World) -> None:
    missing = sorted(face.routes(world) - face.recorded_routes())

    assert missing == [], f"ask for these in {face.__file__}, then: {COMMAND}"


def test_every_command_is_recorded() -> None:
    missing = sorted(cli.commands() - cli.recorded_commands())

    assert missing == [], f"run these in {cli.__file__}, then: {COMMAND}"


def first_difference(recorded: dict[str, Sections], found: dict[str, Sections]) -> str | None:
    """Say in a few lines what differs first; None if nothing does."""
    different = [
        (chapter, title)
        for chapter in {**recorded, **found}
        for title in {**recorded.get(chapter, {}), **found.get(chapter, {})}
        if recorded.get(chapter, {}).get(title) != found.get(chapter, {}).get(title)
    ]
    if not different:
        return None
    chapter, title = different[0]
    before, now = (of.get(chapter, {}).get(title) for of in (recorded, found))
    if before is None or now is None:
        lines = ["It is new." if before is None else "It is gone."]
    else:
        diff = unified_diff(
            before.split("\n"), now.split("\n"), "recorded", "now", n=2, lineterm=""
        )
        lines = list(islice(diff, LINES))
    others = [f"{name}: {of}" for name, of in different[1:]]
    rest = [f"{len(others)} more differ:", *others[:5]] if others else []
    return "\n".join([f"{chapter}: {title}", *lines, "", *rest, RENEW])

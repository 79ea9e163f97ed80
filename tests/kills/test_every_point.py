"""No crash point is left out."""

from tests.faults.test_when_a_queue_takes_no_more import KILLED_AT
from tests.kills.scenes import SCENES
from tests.kills.test_while_asking import REQUESTS
from tests.kills.test_while_auditing import AUDITING
from tests.kills.test_while_breaking import BREAKING
from tests.kills.test_while_copying import COPYING
from tests.kills.test_while_editing import EDITING, OF_EVERY_RETRY
from tests.kills.test_while_ingesting import ALONE, ONCE, OPENED
from tests.kills.test_while_patching import PATCHING
from tests.kills.test_while_presuming import PRESUMING
from tests.kills.test_while_sending_imports import SENDING
from tests.kills.test_while_stopping import STOPPING
from tests.support.effects import ALL_POINTS, ARCHIVE_POINTS, RETENTION_POINTS


def test_a_process_is_killed_at_every_crash_point() -> None:
    retrying = [scene.point for scene in SCENES]
    asking = [request.point for request in REQUESTS]

    auditing = [each.point for each in AUDITING]
    others = {
        *auditing,
        *OPENED,
        *ONCE,
        *ALONE,
        *RETENTION_POINTS,
        *PRESUMING,
        *COPYING,
        *ARCHIVE_POINTS,
    }
    assert {
        *(*retrying, *asking, *SENDING, *EDITING, *STOPPING, *BREAKING, *others, KILLED_AT)
    } == {*ALL_POINTS}


def test_what_other_tables_have_a_third_of_is_killed_while_retrying() -> None:
    patching = [scene.point for scene in PATCHING]

    assert {*patching, *OF_EVERY_RETRY} <= {scene.point for scene in SCENES}


def test_the_documentation_says_of_each_what_it_can_send_twice(admitted: dict[str, str]) -> None:
    assert sorted(admitted) == sorted(ALL_POINTS)

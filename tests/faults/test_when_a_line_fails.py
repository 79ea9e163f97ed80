"""The line to the broker or the database is cut, slow or half-open while there is work."""

import pytest

from tests.faults.conftest import Begin
from tests.faults.work import check
from tests.journeys.conftest import Site
from tests.support.waiting import let_pass

pytestmark = [pytest.mark.faults, pytest.mark.rabbitmq, pytest.mark.postgres]

LATE = 0.5
SLOW = 8_000
A_WHILE = 8
UNTIL_THE_HOST_IS_BACK = 12

in_staging = pytest.mark.parametrize("stage", ["staging"])
in_each_stage = pytest.mark.parametrize("stage", ["staging", "forwarding"])


@pytest.fixture
def stage() -> str:
    """Name the stage that the fault falls into."""
    return "forwarding"


class TestToTheBroker:
    @in_each_stage
    def test_that_is_cut_costs_a_window_at_most(self, work, line):
        with work.fault():
            line.throttle(None)
            line.cut()

        work.must_finish()
        check(work)

    @in_each_stage
    def test_whose_far_end_is_gone_without_a_word_costs_a_window_at_most(self, work, line):
        with work.fault():
            line.throttle(None)
            line.half_open()

        work.must_finish()
        check(work)

    @in_staging
    def test_that_is_slow_doubles_nothing(self, work, line):
        with work.fault():
            line.throttle(SLOW)
            let_pass(A_WHILE)
            line.throttle(None)

        work.must_finish()
        check(work, in_doubt=0)

    @in_staging
    def test_on_which_all_comes_late_doubles_nothing(self, work, line):
        with work.fault():
            line.throttle(None)
            line.delay(LATE)
            let_pass(A_WHILE)
            line.delay(0)

        work.must_finish()
        check(work, in_doubt=0)


class TestToTheDatabase:
    @pytest.fixture
    def work(self, site_by_database_line: Site, begin: Begin):
        work = begin(site_by_database_line)
        work.wait_for("forwarding")
        return work

    def test_that_is_cut_doubles_nothing(self, work, database_line):
        with work.fault():
            database_line.cut()

        work.must_finish()
        check(work, in_doubt=0)

    def test_whose_far_end_is_gone_without_a_word_doubles_nothing(self, work, database_line):
        with work.fault():
            database_line.half_open()
            let_pass(UNTIL_THE_HOST_IS_BACK)
            database_line.reset_vanished()

        work.must_finish()
        check(work, in_doubt=0)

    def test_on_which_all_comes_late_doubles_nothing(self, work, database_line):
        with work.fault():
            database_line.delay(LATE)
            let_pass(A_WHILE)
            database_line.delay(0)

        work.must_finish()
        check(work, in_doubt=0)

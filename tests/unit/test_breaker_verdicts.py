"""What a breaker does next, decided from values alone."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from retrier.domain.breakers import (
    DEFAULT_RULE,
    Breaker,
    BreakerEvidence,
    BreakerKey,
    BreakerRules,
    BreakerState,
    BreakerTerms,
    Close,
    EndHand,
    LookAt,
    ManualState,
    NoteConfirms,
    Open,
    Per,
    Trial,
    TrialEnd,
    TrialSeen,
    TryOne,
    Verdict,
    comes_back,
    follow,
    judge,
    parse_key,
    why_waiting,
)

NOW = datetime(2026, 7, 1, 12, 4, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
TERMS = BreakerTerms()
LAST_20 = BreakerTerms(window=20)
KEY = BreakerKey(per=Per.DESTINATION, name="orders")
CLOSED = Breaker(breaker_id=1, key=KEY, state=BreakerState.CLOSED, changed_at=NOW - MINUTE)
OPEN = follow(CLOSED, Open(sent=40, failed=31, cooldown=MINUTE), NOW)
HALF_OPEN = replace(
    follow(OPEN, TryOne(), NOW + MINUTE), trial=Trial(number=7, retry_id="the retry")
)


def judged(
    breaker: Breaker,
    evidence: BreakerEvidence = BreakerEvidence(),  # noqa: B008 - frozen
    *,
    terms: BreakerTerms | None = TERMS,
    trial: TrialSeen | None = None,
    after: timedelta = timedelta(0),
) -> Verdict | None:
    return judge(breaker, terms, evidence, trial, NOW + after)


class TestOneThatIsClosed:
    def test_opens_at_its_threshold(self) -> None:
        assert judged(CLOSED, BreakerEvidence(sent=40, failed=20)) == Open(
            sent=40, failed=20, cooldown=MINUTE
        )

    def test_stays_closed_below_it(self) -> None:
        assert judged(CLOSED, BreakerEvidence(sent=40, failed=19)) is None

    def test_stays_closed_while_too_few_were_sent(self) -> None:
        assert judged(CLOSED, BreakerEvidence(sent=9, failed=9)) is None

    def test_stays_closed_if_nothing_was_sent(self) -> None:
        assert judged(CLOSED, terms=BreakerTerms(least=0)) is None

    def test_stays_closed_for_a_consumer_that_confirms_nothing_and_fails_1_in_100(self) -> None:
        evidence = BreakerEvidence(sent=1000, failed=10, outcomes=(True,) * 10)

        assert judged(CLOSED, evidence, terms=LAST_20) is None

    def test_opens_by_its_last_outcomes_if_it_ever_confirmed(self) -> None:
        evidence = BreakerEvidence(sent=1000, failed=10, outcomes=(False,) * 30 + (True,) * 10)

        found = judged(replace(CLOSED, confirms=True), evidence, terms=LAST_20)

        assert found == Open(sent=20, failed=10, cooldown=MINUTE)

    def test_never_opens_without_terms(self) -> None:
        assert judged(CLOSED, BreakerEvidence(sent=40, failed=40), terms=None) is None

    def test_notes_the_first_confirmation(self) -> None:
        found = judged(CLOSED, BreakerEvidence(sent=1, confirmed=True))

        assert found == NoteConfirms()
        assert follow(CLOSED, NoteConfirms(), NOW).confirms


class TestWhetherMostComesBack:
    """The terms need 10 to decide; half of them is enough."""

    def test_is_said_by_the_outcomes_while_few_were_sent(self) -> None:
        assert comes_back(TERMS, sent=9, failed=1, confirmed=0)

    def test_is_not_so_where_as_many_are_confirmed(self) -> None:
        assert not comes_back(TERMS, sent=9, failed=2, confirmed=2)

    def test_is_not_so_of_many_that_confirm_nothing_and_fail_now_and_then(self) -> None:
        assert not comes_back(TERMS, sent=100, failed=49, confirmed=0)

    def test_is_so_of_many_that_mostly_fail(self) -> None:
        assert comes_back(TERMS, sent=100, failed=50, confirmed=0)

    def test_is_never_so_without_terms(self) -> None:
        assert not comes_back(None, sent=9, failed=9, confirmed=0)


class TestOneThatIsOpen:
    def test_waits_for_its_cooldown(self) -> None:
        assert judged(OPEN, after=MINUTE - timedelta(microseconds=1)) is None

    def test_then_tries_one(self) -> None:
        assert judged(OPEN, after=MINUTE) == TryOne()

    def test_tries_one_if_the_clock_was_set_back(self) -> None:
        assert judged(OPEN, after=-timedelta(hours=1)) == TryOne()

    def test_closes_if_it_is_not_configured_any_more(self) -> None:
        assert isinstance(judged(OPEN, terms=None), Close)

    def test_says_since_when_and_why(self) -> None:
        assert why_waiting(OPEN, NOW + MINUTE) == (
            "`orders` fails since 12:04 UTC (31 of 40 failed): its messages wait, others go on"
        )

    def test_says_that_nothing_is_answered_if_every_retry_failed(self) -> None:
        said = why_waiting(replace(OPEN, sent=40, failed=40), NOW + MINUTE)

        assert said is not None
        assert said.startswith("`orders` answers nothing since 12:04 UTC (40 of 40 failed)")


class TestOneThatIsHalfOpen:
    def test_waits_until_a_message_is_found(self) -> None:
        assert judged(replace(HALF_OPEN, trial=None), after=timedelta(hours=1)) is None

    @pytest.mark.parametrize(
        ("end", "follows"),
        [
            (TrialEnd.UNDERWAY, None),
            (TrialEnd.NEVER_SENT, TryOne()),
            (TrialEnd.FAILED, Open(sent=1, failed=1, cooldown=2 * MINUTE)),
        ],
    )
    def test_follows_its_trial(self, end: TrialEnd, follows: Verdict | None) -> None:
        assert judged(HALF_OPEN, trial=TrialSeen(end=end)) == follows

    def test_closes_when_the_trial_is_confirmed(self) -> None:
        assert isinstance(judged(HALF_OPEN, trial=TrialSeen(end=TrialEnd.CONFIRMED)), Close)

    def test_looks_again_one_cooldown_after_the_trial_was_sent(self) -> None:
        sent = TrialSeen(end=TrialEnd.SENT, sent_at=NOW)

        assert judged(HALF_OPEN, trial=sent) == LookAt(due=NOW + MINUTE)

    def test_closes_if_the_trial_is_not_back_by_then(self) -> None:
        sent = TrialSeen(end=TrialEnd.SENT, sent_at=NOW)

        assert isinstance(judged(HALF_OPEN, trial=sent, after=MINUTE), Close)

    def test_says_that_one_tries_it(self) -> None:
        assert why_waiting(HALF_OPEN, NOW) == (
            "`orders` fails since 12:04 UTC (31 of 40 failed): one message tries it, the "
            "others wait"
        )


class TestOneThatOpensAgain:
    def test_has_its_cooldown_doubled_up_to_15_minutes(self) -> None:
        breaker, cooldowns = HALF_OPEN, []
        for _ in range(6):
            failed = judged(breaker, trial=TrialSeen(end=TrialEnd.FAILED))
            assert isinstance(failed, Open)
            cooldowns.append(failed.cooldown / MINUTE)
            breaker = replace(follow(breaker, failed, NOW), state=BreakerState.HALF_OPEN)

        assert cooldowns == [2, 4, 8, 15, 15, 15]

    def test_keeps_a_longer_one_that_was_configured(self) -> None:
        day = timedelta(days=1)
        breaker = replace(HALF_OPEN, cooldown=day)

        found = judged(
            breaker, terms=BreakerTerms(cooldown=day), trial=TrialSeen(end=TrialEnd.FAILED)
        )

        assert found == Open(sent=1, failed=1, cooldown=day)

    def test_keeps_since_when_and_why(self) -> None:
        again = follow(HALF_OPEN, Open(sent=1, failed=1, cooldown=2 * MINUTE), NOW + 2 * MINUTE)

        assert (again.opened_at, again.failed, again.sent) == (NOW, 31, 40)


class TestAPersonsWord:
    HELD = replace(
        CLOSED,
        hand=ManualState(state=BreakerState.OPEN, until=NOW + MINUTE, who="ada", why="maintenance"),
    )

    def test_wins_over_what_was_counted(self) -> None:
        closed = ManualState(state=BreakerState.CLOSED, until=NOW + MINUTE, who="ada")
        allowed = replace(CLOSED, hand=closed)

        assert judged(allowed, BreakerEvidence(sent=40, failed=40)) is None
        assert allowed.state_at(NOW) is BreakerState.CLOSED

    def test_holds_without_terms(self) -> None:
        assert judged(self.HELD, terms=None) is None
        assert self.HELD.state_at(NOW) is BreakerState.OPEN

    def test_ends_at_its_time(self) -> None:
        assert judged(self.HELD, after=MINUTE) == EndHand()
        assert self.HELD.state_at(NOW + MINUTE) is BreakerState.CLOSED

    def test_is_said_with_who_and_why(self) -> None:
        assert why_waiting(self.HELD, NOW) == (
            '`orders` is held by ada until 12:05 UTC ("maintenance"): its messages wait, others go on'
        )


class TestWhichTermsCount:
    RULES = BreakerRules(default=TERMS, rules={"payments": LAST_20})

    def test_those_of_the_rule_that_decided(self) -> None:
        assert self.RULES.rule_of("payments@12345678") == "payments"

    @pytest.mark.parametrize("policy", [None, "rest@12345678", "default@12345678"])
    def test_else_those_of_everything_else(self, policy: str | None) -> None:
        assert self.RULES.rule_of(policy) == DEFAULT_RULE

    def test_none_if_neither_has_any(self) -> None:
        rules = BreakerRules(rules={"payments": LAST_20})

        assert rules.rule_of("rest@12345678") is None

    @pytest.mark.parametrize("one", ["payments", DEFAULT_RULE, "gone", None])
    def test_the_first_of_two_decides_about_one_destination(self, one: str | None) -> None:
        assert self.RULES.first(one, "payments") == "payments"


keys = st.builds(BreakerKey, per=st.sampled_from(Per), name=st.text(min_size=1, max_size=30))


@given(
    keys | st.sampled_from(Per).map(lambda per: BreakerKey(per=Per.DESTINATION, name=f"{per}:x"))
)
def test_a_key_is_read_as_it_is_written(key: BreakerKey) -> None:
    assert parse_key(str(key)) == key


counts = st.integers(0, 500).flatmap(
    lambda sent: st.builds(
        BreakerEvidence, sent=st.just(sent), failed=st.integers(0, sent), confirmed=st.booleans()
    )
)
terms = st.builds(
    BreakerTerms,
    threshold=st.integers(1, 100),
    least=st.integers(1, 100),
    cooldown=st.timedeltas(timedelta(seconds=1), timedelta(hours=1)),
)
ends = st.builds(
    TrialSeen,
    end=st.sampled_from(TrialEnd),
    sent_at=st.timedeltas(-timedelta(hours=1), timedelta(hours=1)).map(NOW.__add__),
)


@given(
    st.lists(st.tuples(counts, ends, st.timedeltas(timedelta(0), timedelta(hours=1))), max_size=30),
    terms,
)
def test_whatever_happens_each_state_has_what_belongs_to_it(
    steps: list[tuple[BreakerEvidence, TrialSeen, timedelta]], configured: BreakerTerms
) -> None:
    breaker, now = CLOSED, NOW
    for evidence, trial, pause in steps:
        now += pause
        seen = trial if breaker.trial is not None else None
        verdict = judge(breaker, configured, evidence, seen, now)
        if verdict is None:
            continue
        assert not (isinstance(verdict, Open) and breaker.state is BreakerState.OPEN)
        breaker = follow(breaker, verdict, now)
        if breaker.state is BreakerState.HALF_OPEN and breaker.trial is None:
            breaker = replace(breaker, trial=Trial(number=1, retry_id="r"))

        is_open = breaker.state is BreakerState.OPEN
        assert (breaker.opened_at is None) == (breaker.state is BreakerState.CLOSED)
        assert not is_open or breaker.due_at == now + breaker.cooldown
        assert breaker.trial is None or breaker.state is BreakerState.HALF_OPEN
        assert breaker.cooldown <= max(timedelta(minutes=15), configured.cooldown)


@given(counts, terms)
def test_it_opens_exactly_when_the_share_is_reached(
    evidence: BreakerEvidence, configured: BreakerTerms
) -> None:
    reached = (
        evidence.sent >= configured.least
        and 100 * evidence.failed >= configured.threshold * evidence.sent
    )

    found = judged(replace(CLOSED, confirms=True), evidence, terms=configured)

    assert isinstance(found, Open) == reached

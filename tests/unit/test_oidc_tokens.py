"""Bearer tokens of a provider: which are read, and that each forged one is refused."""

from collections.abc import Iterator
from itertools import count

import pytest
from starlette.exceptions import HTTPException

from retrier.domain.access import AccessRole, How
from retrier.domain.oidc import OidcRules
from retrier.http.access import Refused
from retrier.http.oidc import Provider
from tests.support.frozen_clock import FrozenClock
from tests.support.provider import (
    ADA,
    CLIENT,
    FakeProvider,
    kept_key,
    running_provider,
    signed_with_public_key,
    unsigned,
)

ROLES = ((AccessRole.OPERATOR, ("retrier-ops",)), (AccessRole.ADMIN, ("retrier-admins",)))


@pytest.fixture(scope="module")
def running() -> Iterator[FakeProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def fake(running: FakeProvider, clock: FrozenClock) -> FakeProvider:
    fresh = FakeProvider(issuer=running.issuer, now=clock.now().timestamp())
    for name in FakeProvider.__slots__:
        setattr(running, name, getattr(fresh, name))
    return running


@pytest.fixture
def clock() -> FrozenClock:
    return FrozenClock()


@pytest.fixture
def provider(fake: FakeProvider, clock: FrozenClock) -> Provider:
    return Provider(rules_of(fake), clock)


def rules_of(fake: FakeProvider, **more: str) -> OidcRules:
    return OidcRules(issuer=fake.issuer, client_id=CLIENT, roles=ROLES, **more)  # type: ignore[arg-type]


def refusal_of(provider: Provider, token: str) -> str:
    with pytest.raises(Refused) as refused:
        provider.read(token)
    return str(refused.value)


def test_a_token_of_the_provider_says_who_it_is(fake: FakeProvider, provider: Provider) -> None:
    found = provider.read(fake.sign())

    assert (found.name, found.how, found.role) == ("ada@example.com", How.OIDC, AccessRole.ADMIN)


@pytest.mark.filterwarnings("ignore:EdDSA is deprecated")
@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "Ed25519", "EdDSA"])
def test_each_kind_of_key_is_read(fake: FakeProvider, provider: Provider, algorithm: str) -> None:
    fake.algorithm = algorithm
    fake.rotate()

    assert provider.read(fake.sign()).name == "ada@example.com"


def test_an_audience_of_its_own_may_be_set(fake: FakeProvider, clock: FrozenClock) -> None:
    provider = Provider(rules_of(fake, audience="api://retrier"), clock)

    assert provider.read(fake.sign(aud=["other", "api://retrier"])).role is AccessRole.ADMIN
    assert "aud" in refusal_of(provider, fake.sign(aud=CLIENT))


def test_who_has_no_role_may_nothing(fake: FakeProvider, provider: Provider) -> None:
    with pytest.raises(HTTPException) as refused:
        provider.read(fake.sign(roles=["guests"]))

    assert refused.value.status_code == 403
    assert "the claim roles" in refused.value.detail


def test_a_token_that_nobody_signed_is_refused(fake: FakeProvider, provider: Provider) -> None:
    claims = {**ADA, "iss": fake.issuer, "aud": CLIENT, "iat": 1, "exp": 4e9}

    assert "not allowed here" in refusal_of(provider, unsigned(claims, str(fake.key.kid)))


def test_a_public_key_is_no_secret(fake: FakeProvider, provider: Provider) -> None:
    claims = {**ADA, "iss": fake.issuer, "aud": CLIENT, "iat": 1, "exp": 4e9}

    assert "not allowed here" in refusal_of(provider, signed_with_public_key(claims, fake.key))


def test_a_key_of_the_token_itself_is_not_taken(fake: FakeProvider, provider: Provider) -> None:
    own = kept_key("RS256", 7)

    assert "does not publish" in refusal_of(provider, fake.sign(key=own))


def test_the_id_of_a_key_does_not_make_it_that_key(fake: FakeProvider, provider: Provider) -> None:
    own = kept_key("RS256", 7).as_dict(private=True) | {"kid": fake.key.kid}
    forged = type(fake.key).import_key(own)

    assert "does not hold" in refusal_of(provider, fake.sign(key=forged))


def test_a_secret_that_the_provider_publishes_is_no_key(
    fake: FakeProvider, provider: Provider
) -> None:
    fake.published = [fake.key.as_dict(private=False), {"kty": "oct", "k": "c2VjcmV0", "kid": "s"}]

    assert provider.read(fake.sign()).name == "ada@example.com"


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"aud": "another"}, "aud"),
        ({"aud": None}, "aud"),
        ({"aud": []}, "aud"),
        ({"iss": "https://evil.example"}, "iss"),
        ({"iss": None}, "iss"),
        ({"exp": None}, "exp"),
        ({"exp": "tomorrow"}, "exp"),
        ({"iat": None}, "iat"),
    ],
)
def test_a_claim_that_is_wrong_or_missing_is_refused(
    fake: FakeProvider, provider: Provider, wrong: dict[str, object], said: str
) -> None:
    assert said in refusal_of(provider, fake.sign(**wrong))


def test_the_issuer_is_compared_exactly(fake: FakeProvider, provider: Provider) -> None:
    assert "iss" in refusal_of(provider, fake.sign(iss=f"{fake.issuer}/"))


@pytest.mark.parametrize(("late", "holds"), [(300, True), (359, True), (361, False), (900, False)])
def test_clocks_may_differ_by_a_minute_at_the_end(
    fake: FakeProvider, provider: Provider, clock: FrozenClock, late: int, *, holds: bool
) -> None:
    token = fake.sign()
    provider.read(token)
    clock.advance(late)

    if holds:
        provider.read(token)
    else:
        assert "expired" in refusal_of(provider, token)


@pytest.mark.parametrize("claim", ["iat", "nbf"])
def test_a_token_from_ten_minutes_ahead_is_refused(
    fake: FakeProvider, provider: Provider, clock: FrozenClock, claim: str
) -> None:
    now = int(clock.now().timestamp())

    provider.read(fake.sign(**{claim: now + 59}))
    assert "does not hold" in refusal_of(provider, fake.sign(**{claim: now + 600}))


def test_an_id_token_lets_nobody_in(fake: FakeProvider, provider: Provider) -> None:
    assert "ID token" in refusal_of(provider, fake.sign(at_hash="x"))
    assert "ID token" in refusal_of(provider, fake.sign(typ="ID"))


@pytest.mark.parametrize("token", ["a.b.c", "..", "e30.e30.e30", "W10.W10.", "ÿ.ÿ.ÿ"])
def test_what_is_no_token_is_refused(provider: Provider, token: str) -> None:
    refusal_of(provider, token)


def test_keys_are_asked_for_once(fake: FakeProvider, provider: Provider) -> None:
    for _ in range(3):
        provider.read(fake.sign())

    assert fake.pages == {"/.well-known/openid-configuration": 1, "/keys": 1}


def test_a_new_key_is_fetched_and_an_old_one_is_forgotten(
    fake: FakeProvider, provider: Provider, clock: FrozenClock
) -> None:
    old = fake.sign()
    provider.read(old)
    clock.advance(31)
    fake.now = clock.now().timestamp()
    fake.rotate()

    assert provider.read(fake.sign()).name == "ada@example.com"
    assert "does not publish" in refusal_of(provider, old)


def test_unknown_keys_are_looked_for_once_in_half_a_minute(
    fake: FakeProvider, provider: Provider, clock: FrozenClock
) -> None:
    provider.read(fake.sign())
    numbers = count(10)
    for _ in range(5):
        clock.advance(10)
        refusal_of(provider, fake.sign(key=kept_key("ES256", next(numbers)), algorithm="ES256"))

    assert fake.pages["/keys"] == 2


def test_while_the_provider_is_away_keys_that_are_known_go_on(
    fake: FakeProvider, provider: Provider, clock: FrozenClock
) -> None:
    provider.read(fake.sign())
    fake.is_broken = True
    clock.advance(3700)
    fake.now = clock.now().timestamp()
    provider.look()

    assert provider.read(fake.sign()).name == "ada@example.com"
    assert provider.describe() == (True, f"{provider.host} answered with status 500.")


def test_without_a_key_nobody_can_tell_and_the_client_comes_again(
    fake: FakeProvider, provider: Provider
) -> None:
    fake.is_broken = True

    with pytest.raises(HTTPException) as refused:
        provider.read(fake.sign())

    assert refused.value.status_code == 503
    assert "answered with status 500" in refused.value.detail


def test_a_provider_that_came_back_is_noticed(
    fake: FakeProvider, provider: Provider, clock: FrozenClock
) -> None:
    fake.is_broken = True
    provider.look()
    fake.is_broken = False
    provider.look()
    assert provider.trouble is not None, "it is not asked again at once"
    clock.advance(6)
    provider.look()

    assert provider.describe() == (True, f"{provider.host} is reached")


@pytest.mark.parametrize(
    ("says", "said"),
    [
        ({"issuer": "https://another.example"}, "calls itself https://another.example"),
        ({"token_endpoint": "http://id.example/token"}, "names no token_endpoint"),
        ({"jwks_uri": "file:///etc/passwd"}, "names no jwks_uri"),
        ({"authorization_endpoint": None}, "names no authorization_endpoint"),
    ],
)
def test_a_provider_that_says_something_else_is_not_believed(
    fake: FakeProvider, provider: Provider, says: dict[str, object], said: str
) -> None:
    fake.says = says
    provider.look()

    assert said in str(provider.trouble)


def test_nobody_listens_at_the_issuer(clock: FrozenClock) -> None:
    rules = OidcRules(issuer="http://127.0.0.1:9", client_id=CLIENT, roles=ROLES)
    provider = Provider(rules, clock)
    provider.look()

    assert "127.0.0.1:9 cannot be reached" in str(provider.trouble)

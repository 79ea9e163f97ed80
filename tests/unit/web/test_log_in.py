"""Log in with a provider: the way there and back, and each attack on it."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256
from urllib.parse import parse_qs, urlsplit

import pytest
from sqlalchemy import func, select, update

from retrier.domain.access import AccessRole, AccessRules, AccessToken, ProxyRules, make_token
from retrier.domain.hosts import Proxies, parse_network
from retrier.http.access import SESSION_COOKIE
from retrier.store.schema import browser_sessions, login_attempts
from retrier.store.tokens import create_token, revoke_token
from tests.support.log_in import FORM, ROLES, Door, rules_for
from tests.support.provider import FakeProvider, running_provider
from tests.support.waiting import wait_until
from tests.support.web import Web, forms_of


@pytest.fixture(scope="module")
def running() -> Iterator[FakeProvider]:
    with running_provider() as provider:
        yield provider


@pytest.fixture
def fake(running: FakeProvider) -> FakeProvider:
    fresh = FakeProvider(issuer=running.issuer)
    for name in FakeProvider.__slots__:
        setattr(running, name, getattr(fresh, name))
    return running


@pytest.fixture
def door(web: Web, fake: FakeProvider) -> Door:
    return Door(web, rules_for(fake))


def test_who_is_not_known_is_shown_where_to_log_in(door: Door, fake: FakeProvider) -> None:
    answer = door.http.get("/messages?status=unresolved")

    assert answer.status_code == 401
    assert f"Log in with {fake.issuer.removeprefix('http://')}" in answer.text
    assert 'href="/login/begin?next=%2Fmessages%3Fstatus%3Dunresolved"' in answer.text


def test_a_stranger_is_shown_nothing_of_what_is_kept(door: Door) -> None:
    for path in ("/", "/login", "/no-such-page", "/?done=retry:1"):
        text = door.http.get(path).text

        assert "data-live" not in text
        assert 'href="/groups"' not in text
        assert "1.2.3" not in text


def test_after_log_in_a_page_leads_back_to_what_was_asked_for(door: Door) -> None:
    answer = door.log_in(back="/messages?status=unresolved")

    assert answer.status_code == 200
    assert 'content="0; url=/messages?status=unresolved"' in answer.text
    assert door.http.get("/messages?status=unresolved").status_code == 200


def test_the_page_says_who_is_logged_in(door: Door) -> None:
    door.log_in()
    text = door.http.get("/").text

    assert "ada@example.com" in text
    assert "Role <b>admin</b>, all queues" in text


def test_the_way_to_the_provider_is_proved_by_pkce_state_and_nonce(door: Door) -> None:
    begun = door.http.get("/login/begin")
    asked = parse_qs(urlsplit(begun.headers["location"]).query)

    assert asked["code_challenge_method"] == ["S256"]
    assert all(len(asked[each][0]) >= 43 for each in ("state", "nonce", "code_challenge"))
    assert asked["redirect_uri"] == ["http://localhost/login/return"]


def test_the_state_is_kept_hashed(door: Door, web: Web) -> None:
    address = door.way_back()
    state = parse_qs(urlsplit(address).query)["state"][0]
    with web.api.db.engine.begin() as conn:
        (row,) = conn.execute(select(login_attempts)).all()

    assert state not in str(row)


def test_a_session_is_kept_in_a_cookie_that_no_script_and_no_other_site_sends(door: Door) -> None:
    (cookie,) = [
        each
        for each in door.log_in().headers.get_list("set-cookie")
        if each.startswith(f"{SESSION_COOKIE}=")
    ]

    assert "; HttpOnly" in cookie
    assert "; SameSite=strict" in cookie
    assert "; Max-Age=43200" in cookie
    assert "Secure" not in cookie


def test_behind_tls_the_cookie_is_of_this_very_host_and_encrypted(
    web: Web, fake: FakeProvider
) -> None:
    door = Door(web, rules_for(fake))
    browser = door.another("https://retrier.example")
    cookies = door.log_in(browser).headers.get_list("set-cookie")

    assert any(
        re.match(r"__Host-retrier_session=.*; Path=/; SameSite=strict; Secure", each)
        for each in cookies
    )
    assert door.is_in(browser)


def test_who_has_no_role_is_not_let_in_and_told_which_claim_was_looked_for(
    door: Door, fake: FakeProvider
) -> None:
    fake.person = {"sub": "bob-1", "email": "bob@example.com", "roles": ["guests"]}
    answer = door.log_in()

    assert answer.status_code == 403
    assert "the claim roles; it holds guests" in answer.text
    assert not door.is_in()


def test_a_role_that_only_the_userinfo_tells_counts(door: Door, fake: FakeProvider) -> None:
    fake.person = {"sub": "ada-1", "email": "ada@example.com"}
    fake.userinfo = {"roles": ["retrier-readers"]}
    door.log_in()

    assert "Role <b>reader</b>" in door.http.get("/").text


def test_a_role_that_was_changed_counts_from_the_next_log_in(
    door: Door, fake: FakeProvider
) -> None:
    door.log_in()
    fake.person = {**fake.person, "roles": ["retrier-readers"]}
    door.log_in()

    assert "Role <b>reader</b>" in door.http.get("/").text


def test_a_reader_may_not_act(door: Door, fake: FakeProvider) -> None:
    fake.person = {**fake.person, "roles": ["retrier-readers"]}
    door.log_in()

    answer = door.http.post("/retry", data={"key": "1"}, headers=FORM)
    assert answer.status_code == 403
    assert "This takes the role operator" in answer.text


def test_settings_that_give_other_roles_end_all_sessions(
    web: Web, door: Door, fake: FakeProvider
) -> None:
    door.log_in()
    later = Door(
        web, rules_for(fake).__class__(issuer=fake.issuer, client_id="retrier", roles=ROLES[:2])
    )
    later.http.cookies = door.http.cookies

    assert not later.is_in()


def test_a_key_that_was_rotated_is_found_when_somebody_logs_in(
    door: Door, fake: FakeProvider
) -> None:
    fake.rotate()
    door.log_in()

    assert door.is_in()


@pytest.mark.parametrize("state", ["", "state=made-up", "state="])
def test_a_way_back_without_our_state_is_refused(door: Door, state: str) -> None:
    door.way_back()

    assert door.http.get(f"/login/return?code=abc&{state}").status_code == 400
    assert not door.is_in()


def test_a_way_back_that_another_browser_began_is_refused(door: Door) -> None:
    of_attacker = door.way_back()
    victim = door.another()
    door.way_back(victim)

    assert door.come_back(of_attacker, victim).status_code == 400
    assert not door.is_in(victim)


def test_a_code_and_a_state_are_used_once(door: Door, fake: FakeProvider) -> None:
    address = door.way_back()
    door.come_back(address)
    door.http.cookies.delete(SESSION_COOKIE)
    again = door.come_back(address)

    assert again.status_code == 400
    assert not door.is_in()
    assert fake.pages["/token"] == 1


def test_a_code_of_another_log_in_is_refused_by_its_proof(door: Door) -> None:
    stolen = parse_qs(urlsplit(door.way_back(door.another())).query)["code"][0]
    own = door.way_back()
    code = parse_qs(urlsplit(own).query)["code"][0]

    answer = door.come_back(own.replace(code, stolen))
    assert answer.status_code == 400
    assert "The provider refuses this log-in" in answer.text
    assert not door.is_in()


def test_an_answer_of_another_provider_is_refused(door: Door) -> None:
    address = door.way_back().replace("iss=http%3A%2F%2F127", "iss=http%3A%2F%2F128")

    assert door.come_back(address).status_code == 400
    assert not door.is_in()


def test_an_id_token_of_another_log_in_is_refused(door: Door, fake: FakeProvider) -> None:
    fake.lies = {"id_token": fake.sign(nonce="of another log-in")}
    answer = door.log_in()

    assert "belongs to another log-in" in answer.text
    assert not door.is_in()


def test_an_id_token_for_another_client_is_refused(door: Door, fake: FakeProvider) -> None:
    fake.person = {**fake.person, "azp": "another"}
    answer = door.log_in()

    assert "made for another client" in answer.text
    assert not door.is_in()


def test_what_the_provider_says_is_shown_only_to_who_began(door: Door) -> None:
    state = urlsplit(door.way_back()).query.partition("state=")[2].partition("&")[0]
    words = "error=access_denied&error_description=You+said+no"

    assert "You said no" not in door.http.get(f"/login/return?{words}&state=x").text
    assert "You said no" in door.http.get(f"/login/return?{words}&state={state}").text


@pytest.mark.parametrize(
    "back",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "/login",
        "x",
    ],
)
def test_after_log_in_nobody_is_led_to_another_site(door: Door, back: str) -> None:
    text = door.log_in(back=back).text

    assert 'content="0; url=/"' in text
    assert "evil" not in text


def test_a_session_that_was_known_before_log_in_is_worth_nothing(door: Door) -> None:
    door.http.cookies.set(SESSION_COOKIE, "fixed-by-somebody", domain="localhost.local")
    thief = door.another()
    thief.cookies.set(SESSION_COOKIE, "fixed-by-somebody", domain="localhost.local")
    door.log_in()

    assert not door.is_in(thief)


def test_a_session_is_renewed_when_somebody_logs_in_again(door: Door) -> None:
    door.log_in()
    thief = door.another()
    thief.cookies = door.http.cookies.__class__(door.http.cookies)
    assert door.is_in(thief)
    door.log_in()

    assert door.is_in()
    wait_until(lambda: not door.is_in(thief), 2, "the old session is over")


def test_a_session_that_was_stolen_ends_with_log_out(door: Door) -> None:
    door.log_in()
    thief = door.another()
    thief.cookies = door.http.cookies.__class__(door.http.cookies)
    answer = door.http.post("/logout", headers=FORM)

    assert answer.headers["location"] == "/login?done=logged-out"
    assert "You are logged out" in door.http.get("/login?done=logged-out").text
    assert not door.is_in(thief)


def test_log_out_everywhere_ends_all_sessions_of_a_person(door: Door, fake: FakeProvider) -> None:
    phone, bob = door.another(), door.another()
    door.log_in()
    door.log_in(phone)
    fake.person = {**fake.person, "sub": "bob-1"}
    door.log_in(bob)

    door.http.post("/logout", data={"everywhere": "yes"}, headers=FORM)

    wait_until(lambda: not door.is_in(phone), 2, "the other session is over")
    assert not door.is_in()
    assert door.is_in(bob)


def test_who_logs_out_at_one_instance_is_out_at_the_other(
    door: Door, web: Web, fake: FakeProvider
) -> None:
    door.log_in()
    beside = Door(web, rules_for(fake))
    beside.http.cookies = door.http.cookies.__class__(door.http.cookies)
    assert beside.is_in()
    door.http.post("/logout", headers=FORM)

    wait_until(lambda: not beside.is_in(), 1, "the session is over there, too")


def test_what_is_open_ends_with_log_out(door: Door) -> None:
    door.log_in()
    assert not door.is_over()
    cookies = door.http.cookies.__class__(door.http.cookies)
    door.http.post("/logout", headers=FORM)
    door.http.cookies = cookies

    wait_until(door.is_over, 1, "it ends")


def test_an_open_page_does_not_keep_a_session_alive(door: Door, web: Web) -> None:
    door.log_in()
    with web.api.db.engine.begin() as conn:
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        conn.execute(update(browser_sessions).values(seen_at=long_ago))

    assert door.is_over()


def test_another_site_logs_nobody_out_or_in(door: Door) -> None:
    door.log_in()
    foreign = {"Origin": "https://evil.example"}

    assert door.http.post("/logout", headers=foreign).status_code == 403
    assert door.http.post("/login/token", data={"token": "x"}, headers=foreign).status_code == 403
    assert door.is_in()


def test_a_link_of_another_site_finds_the_session_all_the_same(door: Door) -> None:
    linked = {"Sec-Fetch-Site": "cross-site"}
    answer = door.http.get("/messages", headers=linked)
    assert 'content="0; url=/login?next=%2Fmessages"' in answer.text

    door.log_in()
    on = door.http.get("/login", params={"next": "/messages"})
    assert (on.status_code, on.headers["location"]) == (303, "/messages")


def test_a_page_that_is_open_is_loaded_anew_when_the_session_is_over(door: Door) -> None:
    answer = door.http.get("/messages", headers={"HX-Request": "true"})

    assert answer.headers["hx-refresh"] == "true"


def test_while_the_provider_is_away_the_page_says_so(door: Door, fake: FakeProvider) -> None:
    fake.is_broken = True
    answer = door.http.get("/login/begin?next=/messages")

    assert answer.status_code == 503
    assert "answered with status 500" in answer.text
    assert "answered with status 500" in door.http.get("/").text
    assert "Log in with a token" in answer.text


def test_an_address_begins_ten_log_ins_a_second_at_most(door: Door, web: Web) -> None:
    statuses = [door.http.get("/login/begin").status_code for _ in range(25)]

    assert 429 in statuses
    with web.api.db.engine.begin() as conn:
        kept = conn.execute(select(func.count()).select_from(login_attempts)).scalar_one()
    assert kept == statuses.count(303)


def test_headers_of_a_proxy_that_is_not_listed_count_for_nothing(
    web: Web, fake: FakeProvider
) -> None:
    network = parse_network("10.0.0.0/8")
    assert network is not None
    proxy = ProxyRules(
        proxies=Proxies(frozenset([network])),
        user_header="X-Forwarded-Email",
        groups_header="X-Forwarded-Groups",
        roles=ROLES,
    )
    door = Door(web, rules_for(fake), AccessRules(proxy=proxy))
    forged = {
        "X-Forwarded-Email": "root@example.com",
        "X-Forwarded-Groups": "retrier-admins",
        "X-Forwarded-For": "10.0.0.1",
        "X-Forwarded-Proto": "https",
        "X-Forwarded-Host": "evil.example",
    }
    stranger = door.another(peer="192.0.2.7")

    assert stranger.get("/", headers=forged).status_code == 401
    to = parse_qs(urlsplit(stranger.get("/login/begin", headers=forged).headers["location"]).query)
    assert to["redirect_uri"] == ["http://localhost/login/return"]
    assert door.another(peer="10.0.0.1").get("/", headers=forged).status_code == 200


class TestWithATokenInsteadOfAProvider:
    @pytest.fixture
    def token(self, web: Web) -> str:
        made = make_token(lambda size: b"\x01" * size)
        kept = AccessToken(
            name="night", sha256=sha256(made.encode()).hexdigest(), role=AccessRole.OPERATOR
        )
        assert create_token(web.api.db, kept, None, "ada") is None
        return made

    @pytest.fixture
    def door(self, web: Web) -> Door:
        return Door(web, None)

    def log_in(self, door: Door, token: str, back: str = "/groups") -> str:
        answer = door.http.post("/login/token", data={"token": token, "next": back}, headers=FORM)
        return answer.headers.get("location", answer.text)

    def test_the_page_asks_for_a_token(self, door: Door) -> None:
        html = door.http.get("/groups").text

        assert forms_of(html)["/login/token"] == {"next": "/groups", "token": ""}
        assert "Log in with a token" not in html
        assert door.http.get("/login/begin").status_code == 404

    def test_it_begins_a_session_with_the_rights_of_the_token(self, door: Door, token: str) -> None:
        assert self.log_in(door, token) == "/groups"
        assert "Role <b>operator</b>, all queues" in door.http.get("/").text

    def test_the_session_ends_when_the_token_is_revoked(
        self, door: Door, token: str, web: Web
    ) -> None:
        self.log_in(door, token)
        assert door.is_in()
        revoke_token(web.api.db, "night", "ada")

        wait_until(lambda: not door.is_in(), 2, "the session is over")

    def test_the_token_itself_is_nowhere_in_the_database(
        self, door: Door, token: str, web: Web
    ) -> None:
        self.log_in(door, token)
        with web.api.db.engine.begin() as conn:
            (row,) = conn.execute(select(browser_sessions)).all()

        assert token not in str(row)

    def test_a_token_that_nobody_knows_is_refused(self, door: Door) -> None:
        unknown = make_token(lambda size: b"\x02" * size)

        assert "This token is not known here" in self.log_in(door, unknown)
        assert not door.is_in()

    def test_a_token_as_a_cookie_is_no_session(self, door: Door, token: str) -> None:
        assert door.http.get("/", headers={"Authorization": f"Bearer {token}"}).status_code == 200
        door.http.cookies.set(SESSION_COOKIE, token, domain="localhost.local")

        assert not door.is_in()

    def test_nobody_is_led_to_another_site(self, door: Door, token: str) -> None:
        assert self.log_in(door, token, "//evil.example") == "/"


def test_without_access_there_is_nothing_to_log_in_to(web: Web) -> None:
    assert web.http.get("/login").status_code == 404
    assert 'id="me"' not in web.get("/")

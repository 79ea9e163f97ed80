"""The section `access`: who is let in, what they may, and what is kept of it."""

import os
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from retrier.domain.access import (
    NO_PATTERN,
    NO_TOKEN_NAME,
    AccessRole,
    AccessRules,
    AccessToken,
    ProxyRules,
    QueuePatterns,
    is_pattern,
    is_token,
    is_token_name,
)
from retrier.domain.approval import ApprovalRules, ApprovedAct
from retrier.domain.hosts import Network, Proxies, is_loopback, parse_host, parse_network
from retrier.domain.oidc import OidcRules
from retrier.settings.fields import (
    Count,
    Duration,
    HeaderName,
    OptionalQueue,
    Section,
    TrustedProxy,
    between,
)

SettingPath = tuple[int | str, ...]
Clash = tuple[SettingPath, str]

_SHA256 = re.compile(r"[0-9a-f]{64}")


def check_token_name(name: str) -> str:
    """Return the name if a token can have it. Raises ValueError."""
    if not is_token_name(name):
        raise ValueError(f"must be another one: {NO_TOKEN_NAME}")
    return name


def _check_sha256(text: str) -> str:
    if is_token(text):
        raise ValueError(
            "is a token itself: anybody who reads this file could use it. Revoke it, and write what "
            "`retrier token create --for-file` prints"
        )
    if not _SHA256.fullmatch(text):
        raise ValueError("must be the SHA-256 of a token: 64 digits from 0 to 9 and a to f")
    return text


def _check_pattern(pattern: str) -> str:
    if not is_pattern(pattern):
        raise ValueError(f"must be another one: {NO_PATTERN}")
    return pattern


def _read_time(value: object) -> object:
    # YAML reads 2027-01-31 as a date; a time without an offset is one of UTC.
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    if isinstance(value, date):
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value


def _check_offset(value: datetime) -> datetime:
    return value if value.tzinfo else value.replace(tzinfo=UTC)


TokenName = Annotated[str, AfterValidator(check_token_name)]
TokenHash = Annotated[str, AfterValidator(_check_sha256), Field(repr=False)]
QueuePattern = Annotated[str, AfterValidator(_check_pattern)]
OneTime = Annotated[datetime, BeforeValidator(_read_time), AfterValidator(_check_offset)]


class TokenSection(Section):
    """A token for programs: its hash, never the token itself. Without queues it may act on all."""

    name: TokenName
    sha256: TokenHash
    role: AccessRole
    queues: tuple[QueuePattern, ...] | None = None
    expires: OneTime | None = None

    @property
    def token(self) -> AccessToken:
        """The token."""
        return AccessToken(
            name=self.name,
            sha256=self.sha256,
            role=self.role,
            queues=self.queues,
            expires=self.expires,
        )


class RolesSection(Section):
    """Which groups of a claim or a header have which role: exactly these names, no patterns."""

    reader: tuple[str, ...] = ()
    reader_content: Annotated[tuple[str, ...], Field(alias="reader+content")] = ()
    operator: tuple[str, ...] = ()
    admin: tuple[str, ...] = ()

    @property
    def roles(self) -> tuple[tuple[AccessRole, tuple[str, ...]], ...]:
        """The groups of each role."""
        return (
            (AccessRole.READER, self.reader),
            (AccessRole.CONTENT, self.reader_content),
            (AccessRole.OPERATOR, self.operator),
            (AccessRole.ADMIN, self.admin),
        )


class ProxySection(Section):
    """A proxy that has logged people in. Its headers count from its own addresses only."""

    addresses: Annotated[tuple[TrustedProxy, ...], Field(min_length=1)]
    user_header: HeaderName = "X-Forwarded-Email"
    groups_header: HeaderName = "X-Forwarded-Groups"
    roles: RolesSection

    @property
    def rules(self) -> ProxyRules:
        """What is to be known of it for each request."""
        return ProxyRules(
            proxies=Proxies(frozenset(_networks(self.addresses))),
            user_header=self.user_header,
            groups_header=self.groups_header,
            roles=self.roles.roles,
        )


def _networks(addresses: Sequence[str]) -> Iterator[Network]:
    for each in addresses:
        network = parse_network(each)
        if network is not None:
            yield network


def _check_issuer(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise ValueError("must be an address that begins with https://") from None
    if parts.scheme == "https" and host:
        return url
    if parts.scheme == "http" and is_loopback(host):
        return url
    raise ValueError(
        "must begin with https://: over http:// anybody between could log in as anybody"
    )


def _check_scopes(scopes: tuple[str, ...]) -> tuple[str, ...]:
    if "openid" not in scopes:
        raise ValueError("must contain openid: without it no provider says who has logged in")
    return scopes


class OidcSection(Section):
    """A provider of log-ins by OpenID Connect, and which of its claims says who may what."""

    issuer: Annotated[str, AfterValidator(_check_issuer)]
    client_id: Annotated[str, Field(min_length=1)]
    client_secret: Annotated[str, Field(repr=False)] = ""
    client_secret_file: str = ""
    audience: str = ""
    """Whom a bearer token has to be meant for; empty: the client id."""
    name_claim: Annotated[str, Field(min_length=1)] = "email"
    roles_claim: Annotated[str, Field(min_length=1)] = "roles"
    roles: RolesSection
    queues_claim: str = ""
    """The claim with patterns of queues; empty: all queues."""
    scopes: Annotated[tuple[str, ...], AfterValidator(_check_scopes)] = (
        "openid",
        "profile",
        "email",
    )

    def read_rules(self) -> OidcRules:
        """Return what is to be known of it, with its secret. Raises OSError."""
        return OidcRules(
            issuer=self.issuer,
            client_id=self.client_id,
            client_secret=self.read_secret(),
            audience=self.audience,
            name_claim=self.name_claim,
            roles_claim=self.roles_claim,
            roles=self.roles.roles,
            queues_claim=self.queues_claim,
            scopes=self.scopes,
        )

    def read_secret(self) -> str:
        """Return the secret, from its file if one is named. Raises OSError."""
        if not self.client_secret_file:
            return self.client_secret
        with open(self.client_secret_file, encoding="utf-8") as file:  # noqa: PTH123 - one line
            return file.read().strip()


def _check_approved(word: object) -> object:
    if word not in list(ApprovedAct):
        known = ", ".join(ApprovedAct)
        raise ValueError(
            f"must be one of: {known} (nothing else waits for approval, however few messages it is)"
        )
    return word


ApprovedWord = Annotated[ApprovedAct, BeforeValidator(_check_approved)]


class ApprovalSection(Section):
    """What waits for a second person: more messages than `over`, or what `acts` names."""

    over: Annotated[Count, between(0, 1_000_000_000)] | None = None
    acts: Annotated[tuple[ApprovedWord, ...], Field(alias="for")] = ()
    lapses_after: Duration = timedelta(hours=24)

    @property
    def rules(self) -> ApprovalRules:
        """What is to be known of it for each retry."""
        return ApprovalRules(
            over=self.over, acts=frozenset(self.acts), lapses_after=self.lapses_after
        )


class AuditSection(Section):
    """Where the audit goes: a file, or standard output if none is named."""

    file: str = ""
    head_to: OptionalQueue = None
    """The queue that is told the newest hash, so that it can be kept elsewhere."""


class AccessSection(Section):
    """Who is let in. With this section, even an empty one, nobody is let in without showing who."""

    tokens: tuple[TokenSection, ...] = ()
    oidc: OidcSection | None = None
    proxy: ProxySection | None = None
    read_own_queues_only: bool = False
    approval: ApprovalSection | None = None
    audit: AuditSection = AuditSection()

    @property
    def rules(self) -> AccessRules:
        """What is to be known of it for each request."""
        return AccessRules(
            tokens=tuple(each.token for each in self.tokens),
            proxy=None if self.proxy is None else self.proxy.rules,
            reads_own_only=self.read_own_queues_only,
        )


_OPEN_TO_ALL = (
    "must be a loopback address (127.0.0.0/8, ::1, localhost) as long as nobody has to log in: "
    "write a section `access`, see docs/access.md"
)


def _is_elsewhere(host: str) -> bool:
    """Say whether it is an address, and not one of this machine alone."""
    is_address = parse_host(f"[{host}]" if ":" in host else host) is not None
    return is_address and not is_loopback(host)


def find_access_clashes(tree: Mapping[str, object]) -> Iterator[Clash]:
    """Find what does not go together; reads values that are not checked yet."""
    access = tree.get("access")
    match tree:
        case {"api": {"host": str(host)}} if _is_elsewhere(host) and access is None:
            yield (
                ("api", "host"),
                _OPEN_TO_ALL,
            )
        case _:
            pass
    match tree:
        case {"api": {"port": int(port), "health_port": int(apart)}} if port == apart != 0:
            yield ("api", "health_port"), "must be another port than api.port"
        case _:
            pass
    if not isinstance(access, dict):
        return
    tokens = access.get("tokens")
    yield from _find_twice(tokens if isinstance(tokens, list) else [])
    for part in ("oidc", "proxy"):
        section = access.get(part)
        roles = section.get("roles") if isinstance(section, dict) else None
        if isinstance(roles, dict) and not any(roles.values()):
            yield ("access", part, "roles"), "gives nobody a role: name groups of one at least"
    approval = access.get("approval")
    if isinstance(approval, dict) and approval.get("over") is None and not approval.get("for"):
        yield (
            ("access", "approval"),
            "lets nothing wait: say `over` how many messages, or what in `for: [all, edit]`",
        )
    oidc = access.get("oidc")
    if isinstance(oidc, dict):
        yield from _find_wrong_secret(oidc)


def _find_twice(tokens: Sequence[object]) -> Iterator[Clash]:
    known = [each for each in tokens if isinstance(each, dict)]
    for key in ("name", "sha256"):
        counted = Counter(str(each.get(key)) for each in known if each.get(key))
        seen: set[str] = set()
        for index, each in enumerate(known):
            value = str(each.get(key))
            if counted[value] > 1 and value in seen:
                yield ("access", "tokens", index, key), "stands at another token, too"
            seen.add(value)


def _find_wrong_secret(oidc: Mapping[str, object]) -> Iterator[Clash]:
    file = oidc.get("client_secret_file")
    if file and oidc.get("client_secret"):
        yield ("access", "oidc", "client_secret"), "is given twice: here, and as client_secret_file"
    if isinstance(file, str) and file and not os.access(file, os.R_OK):
        yield ("access", "oidc", "client_secret_file"), "must name a file that can be read"


def list_access_fields(rest: Sequence[object]) -> list[str]:
    """Return the keys that are known at a place of the section."""
    sections: dict[tuple[object, ...], type[Section]] = {
        (): AccessSection,
        ("tokens",): TokenSection,
        ("oidc",): OidcSection,
        ("oidc", "roles"): RolesSection,
        ("proxy",): ProxySection,
        ("proxy", "roles"): RolesSection,
        ("approval",): ApprovalSection,
        ("audit",): AuditSection,
    }
    place = tuple(each for each in rest if not isinstance(each, int))
    found = sections.get(place, AccessSection)
    return [field.alias or name for name, field in found.model_fields.items()]


__all__ = ["AccessSection", "QueuePatterns", "find_access_clashes", "list_access_fields"]

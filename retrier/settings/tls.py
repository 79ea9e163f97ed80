"""TLS to the broker: a section of the settings, and what does not go together in it."""

import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict

from retrier.key_files import NOT_ASKED, is_encrypted

Problem = tuple[tuple[str, ...], str]

_FILES = ("ca", "certificate", "key")


def _check_file(name: str) -> str:
    if name and not Path(name).is_file():
        raise ValueError("must name a file that exists")
    return name


def _check_authorities(name: str) -> str:
    if name:
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(name)
        except OSError as error:  # an SSLError is one, too
            raise ValueError(f"must hold a certificate in PEM form ({_first(error)})") from None
    return name


File = Annotated[str, AfterValidator(_check_file)]
Authorities = Annotated[str, AfterValidator(_check_file), AfterValidator(_check_authorities)]


class BrokerTls(BaseModel):
    """How a connection with amqps:// is secured; an empty name is no file."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    ca: Authorities = ""
    certificate: File = ""
    key: File = ""
    verify: bool = True


def find_tls_clashes(tree: Mapping[str, object]) -> Iterator[Problem]:
    """Find what does not go together in `broker.tls`; reads values that are not checked yet."""
    match tree:
        case {"broker": {"tls": dict(tls), **broker}}:
            yield from _find_clashes(tls, broker.get("url"))
        case _:
            return


def _find_clashes(tls: Mapping[Any, Any], url: object) -> Iterator[Problem]:
    urls = [url] if isinstance(url, str) else url if isinstance(url, list | tuple) else [""]
    # A file that does not exist is a problem of its own.
    files = {name: str(tls[name]) for name in _FILES if Path(str(tls.get(name) or "")).is_file()}
    unverified = str(tls.get("verify")).lower() == "false"
    if (files or unverified) and not all(str(each).lower().startswith("amqps://") for each in urls):
        yield ("broker", "tls"), "is for a broker.url that begins with amqps://"
    certificate, key = files.get("certificate"), files.get("key")
    if key and not tls.get("certificate"):
        yield ("broker", "tls", "key"), "needs the certificate that it belongs to"
    holder = key or certificate
    if holder and is_encrypted(holder):
        yield (
            ("broker", "tls", "key" if key else "certificate"),
            f"{NOT_ASKED}: name a file with the key as it is (openssl pkey -in FILE)",
        )
    elif certificate:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.load_cert_chain(certificate, key)
        except OSError as error:
            yield (
                ("broker", "tls", "certificate"),
                f"cannot be used with its key ({_first(error)}): both in PEM form, not encrypted",
            )


def _first(error: OSError) -> str:
    return str(getattr(error, "reason", None) or error.strerror or error)

"""Why the broker does not let us in: user, password, virtual host and TLS, in words for people."""

import ssl

from amqp.exceptions import AMQPError

from retrier.errors import AccessRefused, BrokerUnavailable, ConnectionLimit
from retrier.transport.rabbitmq.address import Address
from retrier.transport.rabbitmq.breaks import translate, words_of


def translate_refused_entry(error: Exception, address: Address) -> BrokerUnavailable:
    """Return the error to raise for one that came while connecting."""
    if is_limit(error):
        return ConnectionLimit(f"the broker at {address} takes no more: {words_of(error)}")
    reason = why_refused(error)
    if reason is not None:
        return AccessRefused(f"the broker at {address} {reason}")
    return translate(error, address)


def why_refused(error: Exception) -> str | None:
    """Return why a connection was not allowed, for a person to change; None if it is not that."""
    match error:
        case AMQPError(reply_code=403):
            return f"refuses user and password: {words_of(error)}"
        case AMQPError(reply_code=530) if is_limit(error):
            return None
        case AMQPError(reply_code=530):
            return f"refuses the virtual host: {words_of(error)}"
        case ssl.SSLError():
            return why_insecure(error)
        case _:
            return None


def is_limit(error: Exception) -> bool:
    """Say whether it is a limit of connections or channels: of the user, the host or the node."""
    limited = isinstance(error, AMQPError) and error.reply_code == NOT_ALLOWED
    return limited and "limit" in words_of(error)


NOT_ALLOWED = 530
_PLAIN = ("WRONG_VERSION_NUMBER", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE")
_OTHER_NAME = "shows a certificate for another name ({}): name the broker in broker.url as its certificate does"
_CERTIFICATES = {
    9: "shows a certificate that is not valid yet: compare the clocks of both machines",
    10: "shows a certificate that has expired: renew it there, or the one of its authority",
    62: _OTHER_NAME,
    64: _OTHER_NAME,
}
"""What is wrong with the broker's certificate, by OpenSSL's codes."""
_UNTRUSTED = (
    "shows a certificate that is not trusted here ({}): name the file of the authority that signed "
    "it as broker.tls.ca"
)
_ALERTS = {
    "CERTIFICATE_EXPIRED": (
        "refuses our certificate, which has expired: renew broker.tls.certificate"
    ),
    "UNKNOWN_CA": (
        "does not trust the authority that signed our certificate: name one that it trusts as "
        "broker.tls.certificate, or make the authority known there"
    ),
}
"""What the broker says of our certificate, by the end of OpenSSL's name for it."""


def why_insecure(error: ssl.SSLError) -> str:
    """Return what is wrong with TLS, and what to do."""
    reason = getattr(error, "reason", None) or ""
    if isinstance(error, ssl.SSLCertVerificationError):
        return _CERTIFICATES.get(error.verify_code, _UNTRUSTED).format(error.verify_message)
    if reason in _PLAIN:
        return (
            "does not speak TLS on this port: write amqp:// in broker.url, or name the port for "
            "TLS, mostly 5671"
        )
    _, is_alert, alert = reason.partition("ALERT_")
    if alert in _ALERTS:
        return _ALERTS[alert]
    if is_alert or isinstance(error, ssl.SSLEOFError):
        # With TLS 1.3 a broker that misses our certificate says so, or only hangs up.
        return (
            f"has ended the TLS handshake ({reason or words_of(error)}): if it asks for a "
            "certificate, name one that it trusts as broker.tls.certificate, with broker.tls.key"
        )
    return f"cannot be reached with TLS: {words_of(error)}"

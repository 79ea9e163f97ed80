"""Why the broker does not let us in: user, password, virtual host and TLS, in words for people."""

import ssl

from amqp.exceptions import AMQPError

from retrier.errors import AccessRefused, BrokerUnavailable
from retrier.transport.rabbitmq.address import Address
from retrier.transport.rabbitmq.breaks import translate, words_of


def translate_refused_entry(error: Exception, address: Address) -> BrokerUnavailable:
    """Return the error to raise for one that came while connecting."""
    reason = why_refused(error)
    if reason is not None:
        return AccessRefused(f"the broker at {address} {reason}")
    return translate(error, address)


def why_refused(error: Exception) -> str | None:
    """Return why a connection was not allowed, for a person to change; None if it is not that."""
    match error:
        case AMQPError(reply_code=403):
            return f"refuses user and password: {words_of(error)}"
        case AMQPError(reply_code=530):
            return f"refuses the virtual host: {words_of(error)}"
        case ssl.SSLError():
            return why_insecure(error)
        case _:
            return None


_OTHER_NAME = (62, 64)
"""OpenSSL's codes for a certificate of another host name or address."""
_PLAIN = ("WRONG_VERSION_NUMBER", "UNEXPECTED_MESSAGE", "RECORD_LAYER_FAILURE")


def why_insecure(error: ssl.SSLError) -> str:
    """Return what is wrong with TLS, and what to do."""
    reason = error.reason or ""
    match error:
        case ssl.SSLCertVerificationError(verify_code=code, verify_message=said) if (
            code in _OTHER_NAME
        ):
            return (
                f"shows a certificate for another name ({said}): name the broker in broker.url as "
                "its certificate does"
            )
        case ssl.SSLCertVerificationError(verify_message=said):
            return (
                f"shows a certificate that is not trusted here ({said}): name the file of the "
                "authority that signed it as broker.tls.ca"
            )
        case _ if reason in _PLAIN:
            return (
                "does not speak TLS on this port: write amqp:// in broker.url, or name the port "
                "for TLS, mostly 5671"
            )
        case _ if "ALERT" in reason or isinstance(error, ssl.SSLEOFError):
            # With TLS 1.3 a broker that misses our certificate says so, or only hangs up.
            return (
                f"has ended the TLS handshake ({reason or words_of(error)}): if it asks for a "
                "certificate, name one that it trusts as broker.tls.certificate, with broker.tls.key"
            )
        case _:
            return f"cannot be reached with TLS: {words_of(error)}"

"""Takes the record anew: `python -m tests.golden`."""

from tests.golden.record import KINDS, take, write
from tests.support.servers import POSTGRES, found

if __name__ == "__main__":
    with found(POSTGRES) as server:
        write({kind: take(kind, server) for kind in KINDS})

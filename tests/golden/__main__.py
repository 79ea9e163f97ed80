"""Takes the golden record anew: everything in tests/golden/record is written again."""

from argparse import ArgumentParser

from tests.golden.record import KINDS, take, write
from tests.support.servers import POSTGRES, found

if __name__ == "__main__":
    ArgumentParser("python -m tests.golden", description=__doc__).parse_args()
    with found(POSTGRES) as server:
        write({kind: take(kind, server) for kind in KINDS})

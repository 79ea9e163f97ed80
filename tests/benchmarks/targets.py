"""What is to be reached on two cores with everything on one machine, as ratios of one run."""

from tests.benchmarks.results import Target

ONE_BY_ONE = "one-by-one script"
ONE_BY_ONE_STORING = "one-by-one script into PostgreSQL"
PIPELINED = "raw loop, window {window}"
TWO_PASSES = "raw loop in two passes, no database"
RAW_STORING = "raw consume + raw upsert"
SHOVEL = "RabbitMQ's shovel"
TARGET_BODY = "2KiB"
"""The ratios to reach are those with bodies of this size."""

END_TO_END = {ONE_BY_ONE: Target(at_least=4), TWO_PASSES: Target(at_least=0.6)}
END_TO_END_SHOVEL = {"classic": Target(at_least=1 / 2), "quorum": Target(at_least=1 / 3)}
FORWARDING = Target(at_least=0.9)
INGESTION = {ONE_BY_ONE: Target(at_least=4), RAW_STORING: Target(at_least=0.75)}
TWO_INGESTING = Target(at_least=1.3)
MARKING_SECONDS = Target(at_most=18)
MARKING_GROWTH = Target(at_most=1.4)
SINGLE_IDLE_P50 = Target(at_most=25)
SINGLE_IDLE_P99 = Target(at_most=100)
LIST_P95 = Target(at_most=100)
OVERVIEW_P95 = Target(at_most=300)
PAGE_P95 = Target(at_most=200)
MESSAGE_PAGE_P95 = Target(at_most=100)
GROUPS = Target(at_most=500)
PREVIEW_P95 = Target(at_most=2000)
ASKING_P95 = Target(at_most=2000)
INGESTION_STOPS = Target(at_most=200)
DEEP_PAGE_P95 = Target(at_most=1000)
BYTES_A_MESSAGE = Target(at_most=6)
RETENTION = Target(at_least=2000)
RETENTION_BESIDE = Target(at_least=0.9)
BESIDE_BREAKER = Target(at_least=0.9)
STREAM_RATE = Target(at_least=5)
DUE = Target(at_least=0.8)
BULK_BESIDE_DUE = Target(at_least=0.3)
SINGLE_BUSY_P99 = Target(at_most=2000)
MEMORY_GROWTH = Target(at_most=50)
MEMORY_LARGE_BODIES = Target(at_most=300)
LARGE_BODY = "500KiB"
IDLE = {"RabbitMQ + PostgreSQL": Target(at_most=1), "embedded + SQLite": Target(at_most=3)}

"""Failed messages, retry batches and retry operations. Pure: no I/O, no clock, no randomness."""

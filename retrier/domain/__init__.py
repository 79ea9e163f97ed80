"""What a failed message, a retry batch and a retry operation are. Pure: no I/O, no clock, no dice."""

"""The processor: one thread that moves retry batches through Marking, Staging and Forwarding."""

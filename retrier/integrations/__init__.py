"""For task queues that people already have: failed tasks go to Retrier, retries are confirmed."""

"""A process that takes messages, acknowledges none, and waits to be killed.

Arguments: a transport's factory as `module:function`, its URL, the queue, how many messages.
"""

import sys
from importlib import import_module

from tests.support.receiving import receive

if __name__ == "__main__":
    factory, url, queue, count = sys.argv[1:]
    module, _, function = factory.partition(":")
    consumer = getattr(import_module(module), function)(url).consumer(queue, int(count))
    receive(consumer, int(count))
    sys.stdout.write("holding\n")
    sys.stdout.flush()
    sys.stdin.read()

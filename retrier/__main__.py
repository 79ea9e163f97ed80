"""`python -m retrier`: the same as the console script."""

from retrier.cli import main

if __name__ == "__main__":
    main()

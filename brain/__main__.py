"""``python -m brain``: the command line."""

from brain.cli import main

if __name__ == "__main__":
    main()

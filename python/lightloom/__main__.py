"""``python -m lightloom``: the ``lightloom`` command."""

from lightloom.cli import main

if __name__ == "__main__":
    main()

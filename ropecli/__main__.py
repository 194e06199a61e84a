"""Run the command line: python -m ropecli."""

from ropecli.cli import main

if __name__ == "__main__":
    main()

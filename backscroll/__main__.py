"""`python -m backscroll`: the command line without its script."""

from backscroll.cli import run

if __name__ == "__main__":
    run()

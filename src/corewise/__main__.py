"""The command line, as ``python -m corewise``."""

from corewise.cli.main import main

main()

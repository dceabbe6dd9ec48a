"""Command line: one file or folder per verb, each options, a call of the library, and output."""

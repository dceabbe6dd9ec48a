"""Tests: a package, or the `tests` that a peer of `make bench` installs would stand before it."""

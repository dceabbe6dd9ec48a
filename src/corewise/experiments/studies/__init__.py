"""The loop, and estimation, many times over: beside the Cramér–Rao bound and where curves change."""

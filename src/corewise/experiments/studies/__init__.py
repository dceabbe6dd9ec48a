"""Studies behind the experiments: many loops, beside the Cramér–Rao bound and under changing curves."""

"""A demonstration: the same jobs on two real pools at once, one shared equally and one steered."""

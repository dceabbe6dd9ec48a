"""Strata of attained work: what is kept of single jobs, so that estimates hold for sizes of any law."""

"""Strata of attained work: statistics of single jobs, for estimates with sizes of any distribution."""

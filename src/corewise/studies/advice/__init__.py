"""Advice: from the log of a pool to what sharing its cores otherwise would be worth, and how sure that is."""

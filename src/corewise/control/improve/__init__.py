"""Fitted policy improvement: a policy near the optimum for any number of classes."""

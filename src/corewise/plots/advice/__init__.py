"""Advice as a page: HTML that stands by itself, with figures drawn into it."""

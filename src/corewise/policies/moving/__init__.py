"""Whole cores of single jobs: who holds how many, and which moves are worth what they cost."""

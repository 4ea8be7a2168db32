"""Candidates by seeds on one corpus: their runs, what the scores say together, the verdict."""

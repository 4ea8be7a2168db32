"""Pure functions of numbers: correlations, gains and their errors, choices, verdicts."""

"""Pure functions of numbers: correlation, bootstrap, gains, decisions."""

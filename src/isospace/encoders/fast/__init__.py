"""Faster arithmetic for families of encoders, a file each; values equal the modules' own."""

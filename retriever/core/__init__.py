"""Modules that every layer may use: types, errors, prompts, arithmetic. Standard library and NumPy only."""

"""Measure how good an encoder is: data, metrics, and one file per suite of tasks."""

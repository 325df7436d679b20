"""Share encoders, open indexes and background work among everything that serves indexes to several clients at once."""

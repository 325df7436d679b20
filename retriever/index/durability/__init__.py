"""An index checked, mended, and carried to another machine."""

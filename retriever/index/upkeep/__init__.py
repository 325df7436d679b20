"""An index kept in order: filled, checked, repaired, embedded anew, carried away."""

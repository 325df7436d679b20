"""Documents in clusters that answer an instruction: found, named, saved, compared and drawn."""

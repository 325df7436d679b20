"""Whether a view's question is followed: what is read for it, the arithmetic, and the verdict as it is stored."""

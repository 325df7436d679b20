"""A language model as the reader: it answers a question for every text, and answers are what is embedded."""

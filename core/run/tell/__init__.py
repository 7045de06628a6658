"""What a run has done and how far it is, as values, words and documents, from its journal alone."""

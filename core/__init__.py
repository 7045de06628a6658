"""Everything trimtab knows and does, without a screen: no Textual in here."""

"""What should change? Plans, what they cost and what speaks against them: pure values."""

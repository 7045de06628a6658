"""How a connection logs in: by password, by token, by AWS credentials."""

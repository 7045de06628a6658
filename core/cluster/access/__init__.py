"""What a user may do and see of a cluster: the rights that it takes, and topics it may not see."""

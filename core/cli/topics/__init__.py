"""`trimtab topics`: list, describe, create, alter and delete them."""

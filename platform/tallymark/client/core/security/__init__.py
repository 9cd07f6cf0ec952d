"""How a client logs in and whom it trusts."""

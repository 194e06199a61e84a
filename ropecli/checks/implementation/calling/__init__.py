"""How an implementation is called, whatever its convention, and where its code runs."""

"""What continuous integration needs before it can deploy: federation, accounts, and the bucket and key of the state."""

"""`gpujob checkpoints`: look at checkpoint lines, verify, export, fork and prune them."""

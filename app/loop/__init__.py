"""What `session` does: the training thread meets boundaries and gates, the saver thread writes."""

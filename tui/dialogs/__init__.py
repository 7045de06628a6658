"""What all dialogs share, and the dialogs that belong to no screen."""

"""What is shown of runs, from their journals alone: progress, events, reports, notices."""

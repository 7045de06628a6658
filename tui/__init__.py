"""The dashboard: what a person sees and does; everything it knows comes from core."""

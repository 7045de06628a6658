"""The Map: who carries what, and editing the plan by dragging replicas."""

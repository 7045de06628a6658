"""Published snapshots of load: their format, manifest, reader and writer."""

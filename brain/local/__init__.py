"""What ``daapu up`` runs on one machine without any service: the embedded database and the bundled models."""
